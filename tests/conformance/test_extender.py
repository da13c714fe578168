"""`mooring extender` beside the real kube-scheduler, API server and controllers, in both of its modes.

Nodes are played by our node agent, and the volumes of one case are made by our stand-ins; everything else is
Kubernetes' own. The extender runs as a process, under its own account.
"""

import json
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from builders import Body, claim_body, class_body, pod_body, volume_body
from conformance.control_plane import ControlPlane
from conformance.extended_scheduler import Extended, extended_scheduler
from conformance.random_clusters import priority_class
from conformance.running import running
from conformance.waiting import eventually
from mooring.api import keys
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.cluster import identities
from mooring.cluster.bootstrap import Layout
from mooring.nodeagent.component import NodeAgent
from mooring.provisioner.standins.component import StandInProvisioner
from scenarios import design_list
from scenarios.placements import NO_VOLUMES, Objects

CONTROLLERS = ("persistentvolume-binder-controller", "statefulset-controller")


def items(kube: ControlPlane, kind: str) -> Objects:
    return list(kube.kubectl_json("get", kind)["items"])


def refusal(kube: ControlPlane, pod: str) -> str:
    conditions = kube.kubectl_json("get", "pod", pod)["status"].get("conditions", [])
    return next(
        (one["message"] for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"), ""
    )


def counted(extended: Extended) -> dict[str, float]:
    """Its metrics, by name and labels as they are written."""
    with urlopen(f"{extended.monitoring}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


@asynccontextmanager
async def a_cluster(start_kube: Callable[[], ControlPlane]) -> AsyncIterator[ControlPlane]:
    kube = start_kube()
    listed = {"apiVersion": "v1", "kind": "List", "items": identities.manifests()}
    kube.kubectl("apply", "-f", "-", stdin=json.dumps(listed))
    client = HttpClient(kube.access, component="test", clock=SystemClock())
    rows = Layout().rows()
    try:
        async with running(client, [lambda context: NodeAgent(context, rows), StandInProvisioner]):
            with kube.controllers(*CONTROLLERS):
                await eventually(lambda: len(items(kube, "nodes")) == len(rows))
                yield kube
    finally:
        await client.close()


def apply(kube: ControlPlane, *bodies: Body) -> None:
    kube.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies}))


def in_order(body: Body) -> Body:
    """Members of a set one after the other: kube-controller-manager makes all at once in any order, and whoever comes
    last is the one that waits."""
    return (
        body | {"spec": body["spec"] | {"podManagementPolicy": "OrderedReady"}}
        if body["kind"] == "StatefulSet"
        else body
    )


async def finishes_the_list(kube: ControlPlane, *, refused_by_us: int) -> None:
    apply(kube, *map(in_order, design_list.bodies()))
    await eventually(lambda: design_list.settled(items(kube, "pods")))
    await eventually(lambda: f"{refused_by_us} {NO_VOLUMES}" in refusal(kube, "apart-on-two-2"))
    await eventually(lambda: f"3 {NO_VOLUMES}" in refusal(kube, "several-one-each"))
    design_list.assert_as_designed(items(kube, "pods"), items(kube, "pvc"), items(kube, "pv"))


async def evicts_nobody_in_vain(kube: ControlPlane) -> None:
    """All nodes are full. Where we bind, kube-scheduler has asked about none of them when it looks for victims."""
    most = {"cpu": "5"}
    fillers = {f"filler-{node}": node for node in design_list.NODES}
    bodies = [
        pod_body(name=name, namespace="", requests=most, node_selector={keys.HOSTNAME: node})
        for name, node in fillers.items()
    ]
    apply(kube, priority_class(1000), class_body(), volume_body(name="prize", node="node-2"), *bodies)
    await eventually(lambda: fillers.items() <= running_on(kube).items())
    winner = pod_body(name="winner", namespace="", requests=most, claims=["prize"])
    winner["spec"] |= {"priorityClassName": "priority-1000"}
    apply(kube, claim_body(name="prize", namespace=""), winner)
    await eventually(lambda: running_on(kube).get("winner") == "node-2")
    assert {name for name in fillers if name not in running_on(kube)} == {"filler-node-2"}


async def without_the_extender(kube: ControlPlane, extended: Extended, *, goes_on: bool) -> None:
    """Killed: kube-scheduler goes on where it binds volumes itself, and waits for us where it does not."""
    extended.extender.stop(signal.SIGKILL)
    apply(kube, pod_body(name="late", namespace=""))
    if not goes_on:
        await eventually(lambda: "connection refused" in refusal(kube, "late"))
        assert "late" not in running_on(kube)
        extended.start()
    await eventually(lambda: "late" in running_on(kube))


@pytest.mark.req("T33", "T43.extender", "T22.extender")
async def test_beside_kube_schedulers_own_volume_binding(
    start_kube: Callable[[], ControlPlane], tmp_path: Path
) -> None:
    """Over plain HTTP, with nodes as whole objects."""
    async with a_cluster(start_kube) as kube:
        with extended_scheduler(kube, tmp_path, "filter", nodeCacheCapable=False) as extended:
            await finishes_the_list(kube, refused_by_us=3)
            await evicts_nobody_in_vain(kube)
            metrics = counted(extended)
            await without_the_extender(kube, extended, goes_on=True)
    assert metrics['mooring_extender_calls_total{result="answered",verb="filter"}'] > 0
    assert metrics['mooring_extender_calls_total{result="answered",verb="prioritize"}'] > 0
    assert metrics["mooring_extender_unasked_pods"] == 0
    assert [word for word in ("forbidden", "Traceback") if word in extended.said()] == []


@pytest.mark.req("T33", "T43.extender", "T22.extender")
async def test_in_the_place_of_it(start_kube: Callable[[], ControlPlane], tmp_path: Path) -> None:
    """Behind mutual TLS, with nodes by name."""
    async with a_cluster(start_kube) as kube:
        with extended_scheduler(kube, tmp_path, "bind", mutual_tls=True) as extended:
            # Nodes that other members of the set keep away from are not even asked about.
            await finishes_the_list(kube, refused_by_us=1)
            await evicts_nobody_in_vain(kube)
            metrics = counted(extended)
            await without_the_extender(kube, extended, goes_on=False)
    bound = sum(len(case.runs) for case in design_list.CASES) + len(design_list.NODES) + 1
    assert metrics['mooring_extender_calls_total{result="answered",verb="bind"}'] == bound
    assert metrics['mooring_extender_calls_total{result="answered",verb="preempt"}'] > 0
    assert metrics["mooring_extender_unasked_pods"] == 0
    assert [word for word in ("forbidden", "Traceback") if word in extended.said()] == []


def running_on(kube: ControlPlane) -> dict[str, str]:
    pods = items(kube, "pods")
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if pod["status"]["phase"] == "Running"}
