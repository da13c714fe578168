"""`mooring extender` beside kube-scheduler, kube-apiserver and kube-controller-manager, in both modes.

Nodes are simulated by our node agent, and the volumes of one case are provisioned by our stand-ins; all other
components are Kubernetes' own. The extender runs as a process with its own service account.
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

from mooring.api import well_known
from mooring.api.kinds import CLAIM, NODE, POD, VOLUME, Kind
from mooring.api.views.meta import ApiObject
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.nodeagent.component import NodeAgent
from mooring.provisioner.standins.component import StandInProvisioner
from support.builders import Body, claim_body, class_body, pod_body, volume_body
from support.conformance.components import identity_manifests
from support.conformance.control_plane import ControlPlane
from support.conformance.extended_scheduler import Extended, extended_scheduler
from support.conformance.gang_cluster import GATES, gang_cluster
from support.conformance.random_clusters import priority_class
from support.conformance.releases import Release
from support.conformance.running import running
from support.conformance.waiting import TIMEOUT_SECONDS
from support.scenarios import design_list
from support.scenarios.placements import NO_VOLUMES, Objects

CONTROLLERS = ("persistentvolume-binder-controller", "statefulset-controller")


POLL_INTERVAL_SECONDS = 0.1


class Cluster:
    """kube-apiserver and kube-controller-manager, with simulated nodes."""

    def __init__(self, kube: ControlPlane, client: HttpClient) -> None:
        self.kube = kube
        self._client = client

    def apply(self, *bodies: Body) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": bodies}
        self.kube.kubectl("apply", "-f", "-", stdin=json.dumps(listed))

    async def items(self, kind: Kind[ApiObject]) -> Objects:
        """As plain objects with the fields used here."""
        plain: Objects = msgspec.json.decode(msgspec.json.encode((await self._client.list(kind)).items))
        return plain

    async def running_on(self) -> dict[str, str]:
        pods = (await self._client.list(POD)).items
        return {pod.name: pod.spec.node_name for pod in pods if pod.status.phase == "Running"}

    async def refused(self, pod: str, why: str) -> bool:
        """Whether the scheduler has reported this."""
        conditions = (await self._client.get(POD, pod, namespace="default")).status.conditions
        return any(one.type == "PodScheduled" and one.status == "False" and why in one.message for one in conditions)

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not await holds():
                await SystemClock().sleep(POLL_INTERVAL_SECONDS)


def counted(extended: Extended) -> dict[str, float]:
    """Metrics by name and labels, as exposed."""
    with urlopen(f"{extended.monitoring}/metrics", timeout=10) as response:
        lines = response.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


@asynccontextmanager
async def a_cluster(start_kube: Callable[[], ControlPlane]) -> AsyncIterator[Cluster]:
    kube = start_kube()
    client = HttpClient(kube.access, component="test", clock=SystemClock())
    cluster = Cluster(kube, client)
    cluster.apply(*identity_manifests())
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
    """Pods of a set in order: kube-controller-manager creates them in parallel, and the last one must be the pending
    one.
    """
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


async def evicts_no_pod_without_need(cluster: Cluster) -> None:
    """All nodes are full. If we bind volumes, kube-scheduler has not called us for any node before preemption."""
    most = {"cpu": "5"}
    fillers = {f"filler-{node}": node for node in design_list.NODES}
    bodies = [
        pod_body(name=name, namespace="", requests=most, node_selector={well_known.HOSTNAME: node})
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
    """Without the extender, kube-scheduler continues where it binds volumes itself, and waits otherwise."""

    async def runs() -> bool:
        return "late" in await cluster.running_on()

    extended.extender.stop(signal.SIGKILL)
    cluster.apply(pod_body(name="late", namespace=""))
    if not goes_on:
        await cluster.until(lambda: cluster.refused("late", "connection refused"))
        assert not await runs()
        await asyncio.to_thread(extended.start)
    await cluster.until(runs)


@pytest.mark.req("T33.beside", "T43.extender", "T22.extender")
@pytest.mark.version_matrix("kube-apiserver", "extender", "beside VolumeBinding of kube-scheduler")
async def test_extender_beside_volume_binding_plugin(start_kube: Callable[[], ControlPlane], tmp_path: Path) -> None:
    """Over plain HTTP, with nodes as whole objects."""
    async with a_cluster(start_kube) as cluster:
        with extended_scheduler(cluster.kube, tmp_path, "filter", nodeCacheCapable=False) as extended:
            await finishes_the_list(cluster, refused_by_us=3)
            await evicts_no_pod_without_need(cluster)
            metrics = counted(extended)
            await without_the_extender(cluster, extended, goes_on=True)
    assert metrics['mooring_extender_calls_total{result="answered",verb="filter"}'] > 0
    assert metrics['mooring_extender_calls_total{result="answered",verb="prioritize"}'] > 0
    assert metrics["mooring_extender_unasked_pods"] == 0
    assert [word for word in ("forbidden", "Traceback") if word in extended.log_text()] == []


@pytest.mark.req("T33.instead", "T43.extender", "T22.extender")
@pytest.mark.version_matrix("kube-apiserver", "extender", "instead of VolumeBinding of kube-scheduler")
async def test_extender_instead_of_volume_binding_plugin(
    start_kube: Callable[[], ControlPlane], tmp_path: Path
) -> None:
    """Behind mutual TLS, with nodes by name."""
    async with a_cluster(start_kube) as cluster:
        with extended_scheduler(cluster.kube, tmp_path, "bind", mutual_tls=True) as extended:
            # The extender is not called for nodes that anti-affinity excludes.
            await finishes_the_list(cluster, refused_by_us=1)
            await evicts_no_pod_without_need(cluster)
            metrics = counted(extended)
            await without_the_extender(cluster, extended, goes_on=False)
    bound = sum(len(case.runs) for case in design_list.CASES) + len(design_list.NODES) + 1
    assert metrics['mooring_extender_calls_total{result="answered",verb="bind"}'] == bound
    assert metrics['mooring_extender_calls_total{result="answered",verb="preempt"}'] > 0
    assert metrics["mooring_extender_unasked_pods"] == 0
    assert [word for word in ("forbidden", "Traceback") if word in extended.log_text()] == []


@pytest.mark.version_matrix("kube-apiserver", "extender", "gang decided jointly, kube-scheduler")
async def test_g67_gang_is_decided_jointly_beside_volume_binding_plugin(
    start_kube: Callable[[], ControlPlane], tmp_path: Path, release: Release
) -> None:
    """Each pool has capacity for one member, and kube-scheduler alone would send all three to n1: here every member
    gets a node of its own, at the first attempt."""
    if release.minor < 37:
        pytest.skip("this release has no PodGroups")
    async with gang_cluster(start_kube()) as gang:
        Cluster(gang.kube, gang.client).apply(*identity_manifests())
        await gang.add_nodes({"n1": "r1", "n2": "r1", "n3": "r1"})
        await gang.add_pools({"n1": "150Gi", "n2": "110Gi", "n3": "110Gi"})
        with extended_scheduler(gang.kube, tmp_path, "filter", options=[GATES]) as extended:
            await gang.add_gang(["100Gi"] * 3)

            async def is_complete() -> bool:
                return len(await gang.bound()) == 3

            await gang.until(is_complete)
            assert sorted((await gang.bound()).values()) == ["n1", "n2", "n3"]
            assert {len(nodes) for nodes in gang.selected.values()} == {1}
            assert [word for word in ("forbidden", "Traceback") if word in extended.log_text()] == []
