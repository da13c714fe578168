"""Random small clusters scheduled by kube-scheduler and by ours: equal decisions, messages and, by its scoring, nodes.

Except for the differences in `docs/differences.md`. `MOORING_DIFFERENTIAL_SEEDS=FIRST-LAST` runs more.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import yaml

from mooring.api.errors import AlreadyExists
from mooring.api.kinds import NAMESPACE, NODE, POD, PRIORITY_CLASS
from mooring.api.well_known import HOSTNAME
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from support.builders import Body, node_body, pod_body
from support.conformance.control_plane import ControlPlane
from support.conformance.random_clusters import RandomCluster, draw, draw_volumes, priority_classes
from support.conformance.scheduler_pair import (
    KUBE,
    MOORING,
    POLL_INTERVAL_SECONDS,
    TIMEOUT_SECONDS,
    Stage,
    our_scheduler,
)

SEEDS: Final = os.environ.get("MOORING_DIFFERENTIAL_SEEDS", "")


def seeds(usual: str) -> Iterator[int]:
    first, _, last = (SEEDS or usual).partition("-")
    return iter(range(int(first), int(last or first) + 1))


def configuration(kube: ControlPlane, folder: Path) -> Path:
    """kube-scheduler's defaults, without device allocation, which ours lacks, and without client rate limits."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kube.kubeconfig), "qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}}],
    }
    file = folder / "scheduler.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


async def create_priority_classes(client: HttpClient) -> None:
    for body in priority_classes():
        with suppress(AlreadyExists):
            await client.create(PRIORITY_CLASS, body)


async def test_scheduling_results_are_equal(kube: ControlPlane, client: HttpClient, tmp_path: Path) -> None:
    await create_priority_classes(client)
    different: list[str] = []
    pods = 0
    with kube.scheduler(f"--config={configuration(kube, tmp_path)}"):
        async with our_scheduler(client) as informers:
            for seed in seeds("1-16"):
                cluster = draw(seed)
                stage = Stage(client, informers, cluster)
                await stage.set_up()
                try:
                    different += [f"seed {seed}: {one}" for one in await stage.differences()]
                finally:
                    await stage.clear()
                pods += len(cluster.waiting)
    assert pods
    assert not different, "\n".join([f"{len(different)} of {pods} pods differ", *different])


@pytest.mark.parametrize(
    ("clusters", "usual"),
    [
        pytest.param(partial(draw, nodes=5, waiting=12), "1001-1003", id="all plugins"),
        pytest.param(draw_volumes, "1-2", id="volumes only"),
    ],
)
async def test_chosen_nodes_have_the_best_score(
    clusters: Callable[[int], RandomCluster], usual: str, kube: ControlPlane, client: HttpClient, tmp_path: Path
) -> None:
    """With `--scoring kube-scheduler`, ours draws among the same nodes as kube-scheduler."""
    await create_priority_classes(client)
    misplaced: list[str] = []
    pods = 0
    with kube.scheduler(f"--config={configuration(kube, tmp_path)}"):
        async with our_scheduler(client) as informers:
            for seed in seeds(usual):
                stage = Stage(client, informers, clusters(seed))
                await stage.set_up()
                try:
                    compared, found = await stage.misplacements()
                finally:
                    await stage.clear()
                pods += compared
                misplaced += [f"seed {seed}: {one}" for one in found]
    assert pods
    assert not misplaced, "\n".join([f"{len(misplaced)} of {pods} pods differ", *misplaced])


def excluding_team_a(name: str, scheduler: str) -> Body:
    selector = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "db"}}, "namespaceSelector": selector}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod_body(name=name, scheduler=scheduler, affinity=affinity)


async def placed(client: HttpClient, name: str) -> str:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            if node := (await client.get(POD, name, namespace="default")).spec.node_name:
                return node
            await asyncio.sleep(POLL_INTERVAL_SECONDS)


async def condition_text(client: HttpClient, name: str, text: str) -> str:
    """The message of the pod's condition PodScheduled, once it contains the text."""
    while True:
        conditions = (await client.get(POD, name, namespace="default")).status.conditions
        for condition in conditions:
            if condition.type == "PodScheduled" and text in condition.message:
                return condition.message
        await asyncio.sleep(POLL_INTERVAL_SECONDS)


async def test_namespaces_are_selected_by_their_labels(start_kube: Callable[[], ControlPlane]) -> None:
    """Pods of three namespaces, one each on a node: only that of the excluded namespace does not repel."""
    kube = start_kube()
    client = HttpClient(kube.access, component="tester", clock=SystemClock())
    for name, labels in {"a": {"team": "a"}, "b": {"team": "b"}, "c": {}}.items():
        await client.create(NODE, node_body(name=f"n-{name}"))
        await client.create(NAMESPACE, {"metadata": {"name": name, "labels": labels}})
        await client.create(POD, pod_body(namespace=name, labels={"app": "db"}, node=f"n-{name}"), namespace=name)
    with kube.scheduler():
        async with our_scheduler(client):
            for scheduler in (KUBE, MOORING):
                await client.create(POD, excluding_team_a(f"by-{scheduler}", scheduler), namespace="default")
                assert await placed(client, f"by-{scheduler}") == "n-a"
    await client.close()


async def test_successful_preemption_names_the_node(start_kube: Callable[[], ControlPlane]) -> None:
    kube = start_kube()
    client = HttpClient(kube.access, component="tester", clock=SystemClock())
    await create_priority_classes(client)
    await client.create(NODE, node_body(name="n1"))
    messages: list[str] = []
    with kube.scheduler():
        async with our_scheduler(client):
            for scheduler in (KUBE, MOORING):
                # The victim stays, being deleted: no kubelet ends it.
                victim, preemptor = f"victim-of-{scheduler}", f"by-{scheduler}"
                await client.create(POD, pod_body(name=victim, node="n1", requests={"cpu": "3"}), namespace="default")
                body = pod_body(name=preemptor, scheduler=scheduler, requests={"cpu": "3"})
                body["spec"]["priorityClassName"] = "priority-20"
                await client.create(POD, body, namespace="default")
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    messages.append(await condition_text(client, preemptor, "found a potential placement"))
                for name in (preemptor, victim):
                    await client.delete(POD, name, namespace="default", grace_seconds=0)
    await client.close()
    assert messages[0] == messages[1]
    assert messages[0].endswith("preemption: found a potential placement for pod on node n1, preempting 1 victims")
