"""A pod's other constraints together with its volumes: each alone would allow a node that the other does not.

Every case has delayed-binding volumes on two nodes, and a constraint that excludes one of them and allows the third
node, which has no volume. One node satisfies both, and the pod must run there.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest

from mooring.api import well_known
from support.builders import Body, claim_body, class_body, pod_body, volume_body
from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace
from support.scenarios.placements import ANTI_AFFINITY, NO_VOLUMES

SPACE: Final = "constraints"
#: Other pods, with node names, for affinity and anti-affinity.
NEIGHBOURS: Final = (
    pod_body(name="busy", namespace="", node="node-1", requests={"cpu": "4"}),
    pod_body(name="friend", namespace="", node="node-3", labels={"app": "friend"}),
    pod_body(name="foe", namespace="", node="node-1", labels={"app": "foe"}),
    pod_body(name="twin", namespace="", node="node-1", labels={"app": "even"}),
)


class Case(NamedTuple):
    name: str
    pod: Body
    #: The nodes that have a volume for it. The first has the smaller one, which would be preferred.
    volumes: tuple[str, str] = ("node-1", "node-2")


def near(app: str, topology_key: str) -> list[Body]:
    return [{"topologyKey": topology_key, "labelSelector": {"matchLabels": {"app": app}}}]


def required(kind: str, rule: Body | list[Body]) -> Body:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": rule}}


NOT_NODE_1: Final = {
    "nodeSelectorTerms": [
        {"matchExpressions": [{"key": well_known.HOSTNAME, "operator": "NotIn", "values": ["node-1"]}]}
    ]
}
EVENLY: Final = {
    "maxSkew": 1,
    "topologyKey": well_known.HOSTNAME,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "even"}},
}
CASES: Final = (
    Case("resources", {"requests": {"cpu": "5"}}),
    Case("node-selector", {"node_selector": {"pool": "blue"}}),
    Case("node-affinity", {"affinity": required("nodeAffinity", NOT_NODE_1)}),
    Case("taints", {}, volumes=("node-3", "node-2")),
    Case("pod-affinity", {"affinity": required("podAffinity", near("friend", "room"))}),
    Case("pod-anti-affinity", {"affinity": required("podAntiAffinity", near("foe", well_known.HOSTNAME))}),
    Case("topology-spread", {"labels": {"app": "even"}, "topology_spread": [EVENLY]}),
)


def manifest(case: Case) -> Iterator[Body]:
    own = f"{SPACE}-{case.name}"
    yield class_body(name=own)
    for node, size in zip(case.volumes, ("10Gi", "20Gi"), strict=True):
        yield volume_body(name=f"{own}-{node}", storage_class=own, node=node, size=size)
    yield claim_body(name=case.name, namespace="", storage_class=own)
    yield pod_body(name=case.name, namespace="", claims=[case.name], **case.pod)


@pytest.fixture(scope="module")
def pods(cluster: Cluster) -> dict[str, dict[str, Any]]:
    cluster("label", "node", "node-2", "node-3", "pool=blue", "room=east")
    cluster("label", "node", "node-1", "pool=red", "room=west")
    cluster("taint", "node", "node-3", "dedicated=others:NoSchedule")
    cluster("create", "namespace", SPACE)
    own = Workspace(cluster, SPACE)
    own.apply(*NEIGHBOURS)
    own.wait_ready("busy", "friend", "foe", "twin")
    own.apply(*(body for case in CASES for body in manifest(case)))
    own.wait_ready(*(case.name for case in CASES))
    return {pod["metadata"]["name"]: pod for pod in own.items("pods")}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("resources", marks=pytest.mark.req("T21.resources")),
        pytest.param("node-selector", marks=pytest.mark.req("T21.node-selector")),
        pytest.param("node-affinity", marks=pytest.mark.req("T21.node-affinity")),
        pytest.param("taints", marks=pytest.mark.req("T21.taints")),
        pytest.param("pod-affinity", marks=pytest.mark.req("T21.pod-affinity")),
        pytest.param("pod-anti-affinity", marks=pytest.mark.req("T21.pod-anti-affinity")),
        pytest.param("topology-spread", marks=pytest.mark.req("T21.topology-spread")),
    ],
)
def test_pod_runs_where_volumes_and_constraint_match(pods: dict[str, dict[str, Any]], name: str) -> None:
    assert pods[name]["spec"]["nodeName"] == "node-2"


@pytest.mark.req("T21.taints")
def test_toleration_allows_the_tainted_node_with_the_volume(
    pods: dict[str, dict[str, Any]], workspace: Workspace
) -> None:
    own = workspace.name
    tolerated = [{"key": "dedicated", "operator": "Exists"}]
    workspace.apply(
        class_body(name=own),
        volume_body(name=own, storage_class=own, node="node-3"),
        claim_body(name="data", namespace="", storage_class=own),
        pod_body(name="tolerant", namespace="", claims=["data"], tolerations=tolerated),
    )
    workspace.wait_ready("tolerant")
    assert workspace.node_of("tolerant") == "node-3"


@pytest.mark.req("T21.texts")
def test_unschedulable_event_counts_nodes_by_reason(pods: dict[str, dict[str, Any]], workspace: Workspace) -> None:
    own = workspace.name
    shy = required("podAntiAffinity", near("shy", well_known.HOSTNAME))
    workspace.apply(
        class_body(name=own),
        volume_body(name=f"{own}-1", storage_class=own, node="node-2"),
        volume_body(name=f"{own}-2", storage_class=own, node="node-2"),
        pod_body(name="shy-1", namespace="", node="node-2", labels={"app": "shy"}),
        claim_body(name="data", namespace="", storage_class=own),
        pod_body(name="shy-2", namespace="", claims=["data"], labels={"app": "shy"}, affinity=shy),
    )
    taint = "node(s) had untolerated taint(s)"
    workspace.wait_unscheduled(
        "shy-2", "0/3 nodes are available:", f"1 {taint}", f"1 {NO_VOLUMES}", f"1 {ANTI_AFFINITY}"
    )
    assert workspace.item("pvc", "data")["status"]["phase"] == "Pending"
