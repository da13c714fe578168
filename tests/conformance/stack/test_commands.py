"""`mooring scheduler` and `mooring explain` beside Kubernetes' own components."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from mooring.api.kinds import CLAIM, LEASE, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.views.pods import Pod
from mooring.client.contract import Client, WatchEventType
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from support.builders import claim_body, class_body, node_body, pod_body, volume_body
from support.conformance.control_plane import ControlPlane
from support.conformance.waiting import TIMEOUT_SECONDS

#: Resources that explain reads, as kubectl names them.
DECISIVE: Final = "nodes,pods,pvc,pv,sc,csinodes,csidrivers,csistoragecapacities,volumeattachments,namespaces"


async def seen(client: Client, name: str, holds: Callable[[Pod], bool]) -> Pod:
    """The pod of this name, once the condition holds for it."""
    watching = client.watch(POD, after=None, namespace="default", fields=f"metadata.name={name}")
    async with asyncio.timeout(TIMEOUT_SECONDS), aclosing(watching) as events:
        async for event in events:
            if event.change is not WatchEventType.BOOKMARK and holds(event.object):
                return event.object
    raise AssertionError(f"the server ended the watch of {name}")


def unschedulable(pod: Pod) -> str:
    return next((one.message for one in pod.status.conditions if one.reason == "Unschedulable"), "")


def explain(folder: Path, kube: ControlPlane, pod: str) -> tuple[int, dict[str, Any]]:
    dump = folder / "dump.yaml"
    dump.write_text(kube.kubectl("get", DECISIVE, "-A", "-o", "yaml"))
    command = [sys.executable, "-m", "mooring", "explain", f"pod/{pod}", "-f", str(dump), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def as_documented(kube: ControlPlane, folder: Path) -> Path:
    """A kubeconfig with only the permissions that the page documents."""
    page = (Path(__file__).parents[3] / "docs" / "scheduler.md").read_text()
    [manifest] = re.findall(r"^## Permissions$.*?^```yaml$(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    kube.kubectl("apply", "-f", "-", stdin=manifest)
    config = yaml.safe_load(kube.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = "system:serviceaccount:kube-system:mooring-scheduler"
    file = folder / "as-scheduler"
    file.write_text(yaml.safe_dump(config))
    return file


async def create_objects(client: Client) -> None:
    await client.create(NODE, node_body(name="n1"))
    await client.create(NODE, node_body(name="n2", unschedulable=True))
    await client.create(NODE, node_body(name="n3"))
    await client.create(STORAGE_CLASS, class_body())
    await client.create(VOLUME, volume_body(name="v1", node="n1"))
    await client.create(VOLUME, volume_body(name="v2", node="n2", size="1Gi"))
    for name, size in (("data", "5Gi"), ("huge", "1Ti")):
        await client.create(CLAIM, claim_body(name=name, size=size), namespace="default")


@pytest.mark.level("k")
@pytest.mark.version_matrix("kube-apiserver", "scheduler", "second scheduler beside kube-scheduler")
async def test_second_scheduler_beside_kube_scheduler(start_kube: Callable[[], ControlPlane], tmp_path: Path) -> None:
    kube = start_kube()
    client = HttpClient(kube.access, component="tester", clock=SystemClock())
    await create_objects(client)
    with kube.controllers("persistentvolume-binder-controller"), kube.scheduler():
        options = ("--scheduler-name", "second", "--kubeconfig", str(as_documented(kube, tmp_path)), "--http-port", "0")
        command = (sys.executable, "-m", "mooring", "scheduler", *options)
        ours = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        try:
            for name, scheduler in (("theirs", "default-scheduler"), ("ours", "second")):
                body = pod_body(name=f"waits-for-{name}", claims=["huge"], scheduler=scheduler)
                await client.create(POD, body, namespace="default")
            theirs = await seen(client, "waits-for-theirs", lambda pod: bool(unschedulable(pod)))
            mine = await seen(client, "waits-for-ours", lambda pod: bool(unschedulable(pod)))
            assert unschedulable(theirs) == unschedulable(mine)

            code, explanation = await asyncio.to_thread(explain, tmp_path, kube, "waits-for-theirs")
            assert code == 1
            why, _, _ = unschedulable(mine).partition(" preemption: ")
            assert explanation["verdict"] == f"default/waits-for-theirs would not fit: {why}"

            await client.create(POD, pod_body(name="goes", claims=["data"], scheduler="second"), namespace="default")
            placed = await seen(client, "goes", lambda pod: bool(pod.spec.node_name))
            assert placed.spec.node_name == "n1"
            code, explanation = await asyncio.to_thread(explain, tmp_path, kube, "goes")
            assert (code, explanation["verdict"]) == (0, "default/goes is on n1, and its volumes can be used there.")
        finally:
            ours.send_signal(signal.SIGTERM)
            async with asyncio.timeout(TIMEOUT_SECONDS):
                _, errors = await ours.communicate()
    assert ours.returncode == 0, errors.decode()
    assert "forbidden" not in errors.decode().lower()
    lease = await client.get(LEASE, "mooring-scheduler", namespace="kube-system")
    assert lease.spec.holder_identity == ""
    await client.close()
