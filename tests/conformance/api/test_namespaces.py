"""Mooring's namespace controller on kube-apiserver, and Kubernetes' own on Mooring's API server.

Only kinds that Mooring serves are used: on a real cluster its controller does not replace Kubernetes' own.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, CONFIG_MAP, NAMESPACE, POD, SECRET, STORED
from mooring.api.patches.contract import MergePatch
from mooring.client import kubeconfig
from mooring.client.http import HttpClient
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.embedded import Settings, serving
from mooring.control.component import Context
from mooring.controllers.namespace_controller import NamespaceController
from support.builders import claim_body, pod_body
from support.client_conformance import new_name
from support.conformance.process import Process
from support.conformance.waiting import TIMEOUT_SECONDS

POLL_INTERVAL_SECONDS: Final = 0.05
NO_NODES: Final = Layout(nodes=0)
WITHOUT_FINALIZERS: Final = MergePatch({"metadata": {"finalizers": None}})


@asynccontextmanager
async def controller(client: HttpClient) -> AsyncIterator[None]:
    clock, rng = SystemClock(), random.Random(0)
    informers = Informers(client, clock, rng)
    recorder = EventRecorder(client, clock, NamespaceController.name, rng)
    component = NamespaceController(Context(client, informers, recorder, clock, rng))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(informers.run()), group.create_task(component.run())]
        yield
        for task in tasks:
            task.cancel()


async def comes_true(holds: Callable[[], Awaitable[bool]]) -> None:
    clock = SystemClock()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not await holds():
            await clock.sleep(POLL_INTERVAL_SECONDS)


async def is_gone(client: HttpClient, name: str) -> bool:
    try:
        await client.get(NAMESPACE, name)
    except NotFound:
        return True
    return False


async def waits_for_finalizers(client: HttpClient, name: str) -> bool:
    observed = (await client.get(NAMESPACE, name)).status.conditions
    return any(one.status == "True" and one.type == "NamespaceFinalizersRemaining" for one in observed)


async def left(client: HttpClient, name: str) -> list[str]:
    namespaced = [kind for kind in STORED if kind.namespaced]
    return [item.key for kind in namespaced for item in (await client.list(kind, namespace=name)).items]


async def fill(client: HttpClient) -> str:
    name = new_name()
    await client.create(NAMESPACE, {"metadata": {"name": name, "labels": {"team": "x"}}})
    for kind in (CONFIG_MAP, SECRET):
        await client.create(kind, {"metadata": {"name": "a"}}, namespace=name)
    await client.create(POD, pod_body(name="a", namespace=name, claims=["data"]), namespace=name)
    await client.create(CLAIM, claim_body(name="data", namespace=name), namespace=name)
    return name


async def test_our_controller_empties_upstream_namespace(client: HttpClient) -> None:
    name = await fill(client)
    async with controller(client):
        await client.delete(NAMESPACE, name)
        await comes_true(lambda: waits_for_finalizers(client, name))
        assert await left(client, name) == [f"{name}/data"]
        # No controller that would lift the protection of claims runs here.
        await client.patch(CLAIM, "data", WITHOUT_FINALIZERS, namespace=name)
        await comes_true(lambda: is_gone(client, name))
    assert await left(client, name) == []


async def test_upstream_controller_empties_our_namespace(binaries: Path, tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    settings = Settings(NO_NODES, port=0, data_dir=None, kubeconfig=config, left_out=(NamespaceController.name,))
    async with serving(settings, clock=SystemClock(), rng=random.Random(1)):
        client = HttpClient(kubeconfig.from_files([config]), component="conformance", clock=SystemClock())
        name = await fill(client)
        await client.delete(NAMESPACE, name)
        real = Process(
            [
                binaries / "kube-controller-manager",
                f"--kubeconfig={config}",
                "--leader-elect=false",
                "--controllers=namespace-controller",
                "--secure-port=0",
            ],
            tmp_path / "kube-controller-manager.log",
        )
        try:
            await comes_true(lambda: is_gone(client, name))
        finally:
            real.stop()
        assert await left(client, name) == []
        await client.close()
