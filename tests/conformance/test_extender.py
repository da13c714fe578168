"""`mooring extender` beside the real kube-scheduler, API server and controllers, in both of its modes.

Nodes are played by our node agent, and the volumes of one case are made by our stand-ins; everything else is
Kubernetes' own. The extender runs as a process, under its own account.
"""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import msgspec
import pytest

from builders import Body, claim_body, class_body, pod_body, volume_body
from conformance.control_plane import ControlPlane
from conformance.extended_scheduler import Extended, extended_scheduler
from conformance.random_clusters import priority_class
from conformance.running import running
from conformance.waiting import PATIENCE
from mooring.api import keys
from mooring.api.kinds import CLAIM, NODE, POD, VOLUME, Kind
from mooring.api.views.meta import ApiObject
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.cluster import identities
from mooring.cluster.bootstrap import Layout
from mooring.nodeagent.component import NodeAgent
from mooring.provisioner.standins.component import StandInProvisioner
from scenarios import design_list
from scenarios.placements import NO_VOLUMES, Objects

CONTROLLERS = ("persistentvolume-binder-controller", "statefulset-controller")


GLANCE = 0.1


class Cluster:
    """The real API server and controllers, with nodes that are played."""

    def __init__(self, kube: ControlPlane, client: HttpClient) -> None:
        self.kube = kube
        self._client = client

    def apply(self, *bodies: Body) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": bodies}
        self.kube.kubectl("apply", "-f", "-", stdin=json.dumps(listed))

    async def items(self, kind: Kind[ApiObject]) -> Objects:
        """As plain objects, as far as anybody here looks at them."""
        plain: Objects = msgspec.json.decode(msgspec.json.encode((await self._client.list(kind)).items))
        return plain

    async def running_on(self) -> dict[str, str]:
        pods = (await self._client.list(POD)).items
        return {pod.name: pod.spec.node_name for pod in pods if pod.status.phase == "Running"}

    async def refused(self, pod: str, why: str) -> bool:
        """Whether the scheduler says so."""
        conditions = (await self._client.get(POD, pod, namespace="default")).status.conditions
        return any(one.type == "PodScheduled" and one.status == "False" and why in one.message for one in conditions)

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not await holds():
                await SystemClock().sleep(GLANCE)


def counted(extended: Extended) -> dict[str, float]:
    """Its metrics, by name and labels as they are written."""
    with urlopen(f"{extended.monitoring}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


@asynccontextmanager
async def a_cluster(start_kube: Callable[[], ControlPlane]) -> AsyncIterator[Cluster]:
    kube = start_kube()
    client = HttpClient(kube.access, component="test", clock=SystemClock())
    cluster = Cluster(kube, client)
    cluster.apply(*identities.manifests())
    rows = Layout().rows()

    async def furnished() -> bool:
        return len(await cluster.items(NODE)) == len(rows)

    try:
        async with running(client, [lambda context: NodeAgent(context, rows), StandInProvisioner]):
            with kube.controllers(*CONTROLLERS):
                await cluster.until(furnished)
                yield cluster
    finally:
        await client.close()


def in_order(body: Body) -> Body:
    """Members of a set one after the other: kube-controller-manager makes all at once in any order, and whoever comes
    last is the one that waits."""
    return (
        body | {"spec": body["spec"] | {"podManagementPolicy": "OrderedReady"}}
        if body["kind"] == "StatefulSet"
        else body
    )


async def finishes_the_list(cluster: Cluster, *, refused_by_us: int) -> None:
    cluster.apply(*map(in_order, design_list.bodies()))

    async def settled() -> bool:
        waits = (("apart-on-two-2", refused_by_us), ("several-one-each", 3))
        if not design_list.settled(await cluster.items(POD)):
            return False
        return all([await cluster.refused(pod, f"{nodes} {NO_VOLUMES}") for pod, nodes in waits])

    await cluster.until(settled)
    design_list.assert_as_designed(*[await cluster.items(kind) for kind in (POD, CLAIM, VOLUME)])


async def evicts_nobody_in_vain(cluster: Cluster) -> None:
    """All nodes are full. Where we bind, kube-scheduler has asked about none of them when it looks for victims."""
    most = {"cpu": "5"}
    fillers = {f"filler-{node}": node for node in design_list.NODES}
    bodies = [
        pod_body(name=name, namespace="", requests=most, node_selector={keys.HOSTNAME: node})
        for name, node in fillers.items()
    ]

    async def full() -> bool:
        return fillers.items() <= (await cluster.running_on()).items()

    async def won() -> bool:
        return (await cluster.running_on()).get("winner") == "node-2"

    cluster.apply(priority_class(1000), class_body(), volume_body(name="prize", node="node-2"), *bodies)
    await cluster.until(full)
    winner = pod_body(name="winner", namespace="", requests=most, claims=["prize"])
    winner["spec"] |= {"priorityClassName": "priority-1000"}
    cluster.apply(claim_body(name="prize", namespace=""), winner)
    await cluster.until(won)
    assert fillers.keys() - (await cluster.running_on()).keys() == {"filler-node-2"}


async def without_the_extender(cluster: Cluster, extended: Extended, *, goes_on: bool) -> None:
    """Killed: kube-scheduler goes on where it binds volumes itself, and waits for us where it does not."""

    async def runs() -> bool:
        return "late" in await cluster.running_on()

    extended.extender.stop(signal.SIGKILL)
    cluster.apply(pod_body(name="late", namespace=""))
    if not goes_on:
        await cluster.until(lambda: cluster.refused("late", "connection refused"))
        assert not await runs()
        await asyncio.to_thread(extended.start)
    await cluster.until(runs)


@pytest.mark.req("T33", "T43.extender", "T22.extender")
async def test_beside_kube_schedulers_own_volume_binding(
    start_kube: Callable[[], ControlPlane], tmp_path: Path
) -> None:
    """Over plain HTTP, with nodes as whole objects."""
    async with a_cluster(start_kube) as cluster:
        with extended_scheduler(cluster.kube, tmp_path, "filter", nodeCacheCapable=False) as extended:
            await finishes_the_list(cluster, refused_by_us=3)
            await evicts_nobody_in_vain(cluster)
            metrics = counted(extended)
            await without_the_extender(cluster, extended, goes_on=True)
    assert metrics['mooring_extender_calls_total{result="answered",verb="filter"}'] > 0
    assert metrics['mooring_extender_calls_total{result="answered",verb="prioritize"}'] > 0
    assert metrics["mooring_extender_unasked_pods"] == 0
    assert [word for word in ("forbidden", "Traceback") if word in extended.said()] == []


@pytest.mark.req("T33", "T43.extender", "T22.extender")
async def test_in_the_place_of_it(start_kube: Callable[[], ControlPlane], tmp_path: Path) -> None:
    """Behind mutual TLS, with nodes by name."""
    async with a_cluster(start_kube) as cluster:
        with extended_scheduler(cluster.kube, tmp_path, "bind", mutual_tls=True) as extended:
            # Nodes that other members of the set keep away from are not even asked about.
            await finishes_the_list(cluster, refused_by_us=1)
            await evicts_nobody_in_vain(cluster)
            metrics = counted(extended)
            await without_the_extender(cluster, extended, goes_on=False)
    bound = sum(len(case.runs) for case in design_list.CASES) + len(design_list.NODES) + 1
    assert metrics['mooring_extender_calls_total{result="answered",verb="bind"}'] == bound
    assert metrics['mooring_extender_calls_total{result="answered",verb="preempt"}'] > 0
    assert metrics["mooring_extender_unasked_pods"] == 0
    assert [word for word in ("forbidden", "Traceback") if word in extended.said()] == []
