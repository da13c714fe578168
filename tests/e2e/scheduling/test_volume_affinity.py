"""Node affinity of volumes: which nodes a pod can run on, and how a node rejects a pod with an inaccessible volume.

Nodes get labels with arbitrary keys. Each case has a volume that exactly one node can use, or none, so that a pod's
node shows the meaning of the affinity.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest

from support.builders import Body, claim_body, class_body, pod_body, volume_body
from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace
from support.scenarios.placements import NO_VOLUMES

LABELS: Final = {
    "node-1": ("rack=r1", "disks=2", "retired=soon"),
    "node-2": ("rack=r2", "disks=8", "foo=bar"),
    "node-3": ("rack=r3", "disks=16", "retired=later"),
}
ELSEWHERE: Final = "node(s) didn't match PersistentVolume's node affinity"


def expression(key: str, operator: str, *values: str) -> Body:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


class Case(NamedTuple):
    name: str
    #: ORed terms of ANDed expressions.
    terms: tuple[tuple[Body, ...], ...]
    #: The only node the volume can be used from; empty for none.
    node: str


CASES: Final = (
    Case("in", ((expression("rack", "In", "r2", "r9"),),), "node-2"),
    Case("notin", ((expression("rack", "NotIn", "r1", "r2"),),), "node-3"),
    Case("notin-absent", ((expression("retired", "NotIn", "soon", "later"),),), "node-2"),
    Case("exists", ((expression("foo", "Exists"),),), "node-2"),
    Case("doesnotexist", ((expression("retired", "DoesNotExist"),),), "node-2"),
    Case("gt", ((expression("disks", "Gt", "8"),),), "node-3"),
    Case("lt", ((expression("disks", "Lt", "8"),),), "node-1"),
    Case("zone", ((expression("topology.kubernetes.io/zone", "In", "zone-a"),),), "node-1"),
    Case("anded", ((expression("disks", "Gt", "2"), expression("retired", "Exists")),), "node-3"),
    Case("ored", ((expression("rack", "In", "r9"),), (expression("disks", "Lt", "3"),)), "node-1"),
    Case("nowhere", ((expression("rack", "In", "r1"), expression("foo", "Exists")),), ""),
)
EARLY: Final = "early"
LATE: Final = "late"


def volume(name: str, storage_class: str, terms: tuple[tuple[Body, ...], ...], case: str) -> Body:
    affinity = {"nodeSelectorTerms": [{"matchExpressions": list(term)} for term in terms]}
    return volume_body(name=name, storage_class=storage_class, affinity=affinity, labels={"case": case})


def everything(workspace: Workspace) -> Iterator[Body]:
    """Every case twice: with a claim that is bound before scheduling, and with one that is bound by it."""
    for when, mode in ((EARLY, "Immediate"), (LATE, "WaitForFirstConsumer")):
        own = f"{workspace.name}-{when}"
        yield class_body(name=own, binding_mode=mode)
        for case in CASES:
            name = f"{when}-{case.name}"
            chosen = {"matchLabels": {"case": case.name}}
            yield volume(f"{own}-{case.name}", own, case.terms, case.name)
            yield claim_body(name=name, namespace="", storage_class=own, selector=chosen)
            yield pod_body(name=name, namespace="", claims=[name])


@pytest.fixture(scope="module")
def labelled(cluster: Cluster) -> Cluster:
    for node, labels in LABELS.items():
        cluster("label", "node", node, *labels)
    return cluster


@pytest.fixture(scope="module")
def pods(labelled: Cluster) -> dict[str, dict[str, Any]]:
    """All pods of all cases, once each has been scheduled or rejected."""
    own = Workspace(labelled, "operators")
    own.cluster("create", "namespace", own.name)
    own.apply(*everything(own))
    own.wait_ready(*(f"{when}-{case.name}" for when in (EARLY, LATE) for case in CASES if case.node))
    own.wait_unscheduled("early-nowhere", f"0/3 nodes are available: 3 {ELSEWHERE}")
    own.wait_unscheduled("late-nowhere", f"0/3 nodes are available: 3 {NO_VOLUMES}")
    return {pod["metadata"]["name"]: pod for pod in own.items("pods")}


@pytest.mark.req("T1.terms")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("when", [EARLY, LATE])
def test_pod_runs_where_its_volume_is_accessible(pods: dict[str, dict[str, Any]], when: str, case: Case) -> None:
    assert pods[f"{when}-{case.name}"]["spec"].get("nodeName", "") == case.node


@pytest.mark.req("T1.validated")
@pytest.mark.parametrize(
    ("operator", "values", "why"),
    [
        pytest.param("In", [], "must be specified when `operator` is 'In' or 'NotIn'", id="In without values"),
        pytest.param("Exists", ["r1"], "may not be specified when `operator` is 'Exists'", id="Exists with a value"),
        pytest.param("Gt", ["1", "2"], "must be specified single value", id="Gt with two values"),
        pytest.param("Near", ["r1"], "not a valid selector operator", id="unknown operator"),
    ],
)
def test_invalid_node_affinity_is_rejected(workspace: Workspace, operator: str, values: list[str], why: str) -> None:
    bad = volume("meaningless", "local", ((expression("rack", operator, *values),),), "meaningless")
    output = workspace.refused(bad)
    assert "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0]" in output
    assert why in output


@pytest.fixture
def bound_to_node_2(workspace: Workspace) -> Workspace:
    """A claim `data` that is bound to a volume of node-2 before any pod exists."""
    own = workspace.name
    workspace.apply(
        class_body(name=own, binding_mode="Immediate"),
        volume_body(name=own, storage_class=own, node="node-2"),
        claim_body(name="data", namespace="", storage_class=own),
    )
    workspace.wait_bound("data")
    return workspace


@pytest.mark.req("T7.filter")
def test_bound_claim_limits_the_nodes(bound_to_node_2: Workspace) -> None:
    bound_to_node_2.apply(*(pod_body(name=f"web-{n}", namespace="", claims=["data"]) for n in range(3)))
    bound_to_node_2.wait_ready("web-0", "web-1", "web-2")
    assert {bound_to_node_2.node_of(f"web-{n}") for n in range(3)} == {"node-2"}


@pytest.mark.req("T7.waits")
def test_pod_waits_while_node_of_its_volume_is_cordoned(bound_to_node_2: Workspace) -> None:
    bound_to_node_2("cordon", "node-2")
    bound_to_node_2.apply(pod_body(name="web", namespace="", claims=["data"]))
    bound_to_node_2.wait_unscheduled("web", "1 node(s) were unschedulable", f"2 {ELSEWHERE}")
    output = bound_to_node_2("describe", "pod", "web")
    assert "Warning  FailedScheduling" in output
    assert f"0/3 nodes are available: 1 node(s) were unschedulable, 2 {ELSEWHERE}" in output

    bound_to_node_2("uncordon", "node-2")
    bound_to_node_2.wait_ready("web")
    assert bound_to_node_2.node_of("web") == "node-2"


@pytest.mark.req("T7.waits")
def test_pod_waits_while_node_of_its_volume_is_full(bound_to_node_2: Workspace) -> None:
    bound_to_node_2.apply(pod_body(name="busy", namespace="", node="node-2", requests={"cpu": "7"}))
    bound_to_node_2.wait_ready("busy")
    bound_to_node_2.apply(pod_body(name="web", namespace="", claims=["data"], requests={"cpu": "2"}))
    bound_to_node_2.wait_unscheduled("web", f"0/3 nodes are available: 1 Insufficient cpu, 2 {ELSEWHERE}")

    bound_to_node_2("delete", "pod", "busy")
    bound_to_node_2.wait_ready("web")
    assert bound_to_node_2.node_of("web") == "node-2"


@pytest.mark.req("T8.refused")
def test_node_rejects_pod_with_inaccessible_volume(bound_to_node_2: Workspace) -> None:
    volume_name = bound_to_node_2.name
    bound_to_node_2.apply(pod_body(name="forced", namespace="", node="node-1", claims=["data"]))
    why = f'MountVolume.NodeAffinity check failed for volume "{volume_name}" : no matching NodeSelectorTerms'
    bound_to_node_2.wait_event("pod/forced", "FailedMount", why)
    assert bound_to_node_2.item("pod", "forced")["status"]["phase"] == "Pending"
    output = bound_to_node_2("describe", "pod", "forced")
    assert "Node:             node-1/" in output
    assert "FailedMount" in output

    bound_to_node_2.apply(pod_body(name="right", namespace="", node="node-2", claims=["data"]))
    bound_to_node_2.wait_ready("right")
    assert bound_to_node_2.item("pod", "forced")["status"]["phase"] == "Pending"


@pytest.mark.req("T8.own-node")
def test_node_checks_its_current_labels(labelled: Cluster, workspace: Workspace) -> None:
    own = workspace.name
    workspace.apply(
        class_body(name=own, binding_mode="Immediate"),
        volume(own, own, ((expression("rack", "In", "r7"),),), own),
        claim_body(name="data", namespace="", storage_class=own),
        pod_body(name="forced", namespace="", node="node-1", claims=["data"]),
    )
    workspace.wait_event("pod/forced", "FailedMount", "no matching NodeSelectorTerms")
    workspace("label", "node", "node-1", "rack=r7", "--overwrite")
    workspace.wait_ready("forced")
    workspace("label", "node", "node-1", "rack=r1", "--overwrite")
