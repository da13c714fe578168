"""`mooring extender` beside the real kube-scheduler, API server and controllers, in both of its modes.

Nodes are played by our node agent, and the volumes of one case are made by our stand-ins; everything else is
Kubernetes' own. The extender runs as a process, under its own account.
"""

import json
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


@pytest.mark.req("T33", "T43.extender")
@pytest.mark.parametrize(
    ("mode", "mutual_tls", "knows_nodes"),
    [
        pytest.param("filter", False, False, id="filter and score, nodes as whole objects"),
        pytest.param("bind", True, True, id="bind, behind mutual TLS"),
    ],
)
async def test_the_whole_design_list(
    start_kube: Callable[[], ControlPlane], tmp_path: Path, mode: str, mutual_tls: bool, knows_nodes: bool
) -> None:
    async with a_cluster(start_kube) as kube:
        await eventually(lambda: len(items(kube, "nodes")) == 3)
        with extended_scheduler(kube, tmp_path, mode, mutual_tls=mutual_tls, nodeCacheCapable=knows_nodes) as extended:
            apply(kube, *map(in_order, design_list.bodies()))
            await eventually(lambda: design_list.settled(items(kube, "pods")))
            # Where we bind, nodes that other members keep away from are not even asked about.
            nodes = 1 if mode == "bind" else 3
            await eventually(lambda: f"{nodes} {NO_VOLUMES}" in refusal(kube, "apart-on-two-2"))
            await eventually(lambda: f"3 {NO_VOLUMES}" in refusal(kube, "several-one-each"))
            design_list.assert_as_designed(items(kube, "pods"), items(kube, "pvc"), items(kube, "pv"))
            metrics = counted(extended)
        assert metrics['mooring_extender_calls_total{result="answered",verb="filter"}'] > 0
        bound = metrics['mooring_extender_calls_total{result="answered",verb="bind"}']
        assert bound == (sum(len(case.runs) for case in design_list.CASES) if mode == "bind" else 0)
        assert metrics["mooring_extender_unasked_pods"] == 0
        log = (tmp_path / "extender.log").read_text()
        assert "forbidden" not in log.lower()
        assert "Traceback" not in log


@pytest.mark.req("T22.extender")
async def test_nobody_is_evicted_where_there_is_no_volume(
    start_kube: Callable[[], ControlPlane], tmp_path: Path
) -> None:
    """All nodes are full, so kube-scheduler asks us about none of them before it looks for victims everywhere."""
    nodes = [row.name for row in Layout().rows()]
    most = {"cpu": "5"}
    fillers = [
        pod_body(name=f"filler-{node}", namespace="", requests=most, node_selector={keys.HOSTNAME: node})
        for node in nodes
    ]
    async with a_cluster(start_kube) as kube:
        with extended_scheduler(kube, tmp_path, "bind") as extended:
            apply(kube, priority_class(1000), class_body(), volume_body(name="prize", node="node-2"), *fillers)
            await eventually(lambda: running_on(kube) == {f"filler-{node}": node for node in nodes})
            winner = pod_body(name="winner", namespace="", requests=most, claims=["prize"])
            winner["spec"] |= {"priorityClassName": "priority-1000"}
            apply(kube, claim_body(name="prize", namespace=""), winner)
            left = {f"filler-{node}": node for node in nodes if node != "node-2"}
            await eventually(lambda: running_on(kube) == left | {"winner": "node-2"})
            assert counted(extended)['mooring_extender_calls_total{result="answered",verb="preempt"}'] >= 1


def running_on(kube: ControlPlane) -> dict[str, str]:
    pods = items(kube, "pods")
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if pod["status"]["phase"] == "Running"}
