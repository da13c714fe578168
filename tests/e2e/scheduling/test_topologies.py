"""The topologies of the design's examples, each checked against every node.

Six nodes in three zones, with two racks in each zone. A pod selects every node by its hostname; it is scheduled if and
only if the topology allows that node.
"""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest

from mooring.api import well_known
from support.builders import Body, claim_body, class_body, pod_body, volume_body
from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace
from support.scenarios.placements import NO_VOLUMES

#: zone-a has node-1 and node-4, zone-b node-2 and node-5, zone-c node-3 and node-6.
NODES: Final = tuple(f"node-{number}" for number in range(1, 7))
RACKS: Final = {"rack-1": NODES[:3], "rack-2": NODES[3:]}
RACK: Final = "example.com/rack"
DISK: Final = {"csi": {"driver": "disks.example.com", "volumeHandle": "disk"}}
MADE_BY: Final = "disks.example.com"

#: Terms are ORed; within one, keys are ANDed and the values of a key ORed.
Terms = tuple[dict[str, tuple[str, ...]], ...]


class Topology(NamedTuple):
    name: str
    terms: Terms
    nodes: tuple[str, ...]


VOLUMES: Final = (
    Topology("local", ({well_known.HOSTNAME: ("node-1",)},), ("node-1",)),
    Topology("zonal", ({well_known.ZONE: ("zone-a",)},), ("node-1", "node-4")),
    Topology("multi-zonal", ({well_known.ZONE: ("zone-a", "zone-b")},), ("node-1", "node-2", "node-4", "node-5")),
    Topology("multi-label", ({well_known.ZONE: ("zone-a",), RACK: ("rack-1",)},), ("node-1",)),
)
CLASSES: Final = (
    Topology("anywhere", (), NODES),
    Topology("zonal", ({well_known.ZONE: ("zone-a",)},), ("node-1", "node-4")),
    Topology("multi-zonal", ({well_known.ZONE: ("zone-a", "zone-b")},), ("node-1", "node-2", "node-4", "node-5")),
    Topology(
        "zones-apart",
        ({well_known.ZONE: ("zone-a",)}, {well_known.ZONE: ("zone-c",)}),
        ("node-1", "node-3", "node-4", "node-6"),
    ),
    Topology(
        "multi-label",
        ({well_known.ZONE: ("zone-a",), RACK: ("rack-1",)}, {well_known.ZONE: ("zone-b",), RACK: ("rack-1", "rack-2")}),
        ("node-1", "node-2", "node-5"),
    ),
)


@pytest.fixture(scope="module")
def cluster_options() -> tuple[str, ...]:
    return ("--nodes", "6", "--zones", "3", "--local-pvs", "0")


@pytest.fixture(scope="module")
def racked(cluster: Cluster) -> Cluster:
    for rack, nodes in RACKS.items():
        cluster("label", "node", *nodes, f"{RACK}={rack}")
    return cluster


def visitor(node: str, claim: str, name: str) -> Body:
    return pod_body(name=name, namespace="", claims=[claim], node_selector={well_known.HOSTNAME: node})


def affinity(terms: Terms) -> Body:
    return {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": k, "operator": "In", "values": list(v)} for k, v in term.items()]}
            for term in terms
        ]
    }


def volumes_and_visitors(space: str) -> Iterator[Body]:
    yield class_body(name=space, binding_mode="Immediate")
    for topology in VOLUMES:
        yield volume_body(
            name=f"{space}-{topology.name}",
            storage_class=space,
            affinity=affinity(topology.terms),
            access_modes=["ReadWriteMany"],
            source=DISK,
        )
        yield claim_body(
            name=topology.name,
            namespace="",
            storage_class=space,
            access_modes=["ReadWriteMany"],
            volume=f"{space}-{topology.name}",
        )
        yield from (visitor(node, topology.name, f"{topology.name}-{node}") for node in NODES)


@pytest.fixture(scope="module")
def visitors(racked: Cluster) -> dict[str, dict[str, Any]]:
    """A pod for every volume and node, once each runs or is unschedulable."""
    racked("create", "namespace", "volumes")
    own = Workspace(racked, "volumes")
    own.apply(*volumes_and_visitors(own.name))
    welcome = [f"{topology.name}-{node}" for topology in VOLUMES for node in topology.nodes]
    own.wait_ready(*welcome)
    own.wait_refused(
        len(VOLUMES) * len(NODES) - len(welcome),
        "1 node(s) didn't match PersistentVolume's node affinity, 5 node(s) didn't match Pod's node affinity/selector",
    )
    return {pod["metadata"]["name"]: pod for pod in own.items("pods")}


@pytest.mark.req("T2.nodes")
@pytest.mark.parametrize("topology", VOLUMES, ids=lambda topology: topology.name)
def test_volume_is_used_on_exactly_its_nodes(visitors: dict[str, dict[str, Any]], topology: Topology) -> None:
    reached = [node for node in NODES if visitors[f"{topology.name}-{node}"]["status"]["phase"] == "Running"]
    assert tuple(reached) == topology.nodes


def classes_and_visitors(space: str) -> Iterator[Body]:
    for topology in CLASSES:
        own = f"{space}-{topology.name}"
        yield class_body(name=own, provisioner=MADE_BY, allowed_topologies=topology.terms)
        for node in NODES:
            name = f"{topology.name}-{node}"
            yield claim_body(name=name, namespace="", storage_class=own)
            yield visitor(node, name, name)


@pytest.fixture(scope="module")
def claims(racked: Cluster) -> dict[str, dict[str, Any]]:
    """A claim for every class and node, once it has a selected node or its pod is unschedulable."""
    racked("create", "namespace", "classes")
    own = Workspace(racked, "classes")
    own.apply(*classes_and_visitors(own.name))
    welcome = [f"{topology.name}-{node}" for topology in CLASSES for node in topology.nodes]
    for name in welcome:
        own.wait_event(f"pvc/{name}", "ExternalProvisioning", f"the external provisioner '{MADE_BY}'")
    own.wait_refused(
        len(CLASSES) * len(NODES) - len(welcome),
        f"1 {NO_VOLUMES}, 5 node(s) didn't match Pod's node affinity/selector",
    )
    return {claim["metadata"]["name"]: claim for claim in own.items("pvc")}


@pytest.mark.req("T4.scheduling")
@pytest.mark.parametrize("topology", CLASSES, ids=lambda topology: topology.name)
def test_selected_nodes_are_exactly_the_allowed_topologies(
    claims: dict[str, dict[str, Any]], topology: Topology
) -> None:
    chosen = {
        node: claims[f"{topology.name}-{node}"]["metadata"].get("annotations", {}).get(well_known.SELECTED_NODE)
        for node in NODES
    }
    assert chosen == {node: node if node in topology.nodes else None for node in NODES}


@pytest.mark.req("T50.told")
def test_pod_without_a_common_zone_with_its_class_gets_an_event(workspace: Workspace) -> None:
    own, zone = workspace.name, "topology.kubernetes.io/zone"
    allowed = [{zone: ["zone-a", "zone-b"]}]
    workspace.apply(
        class_body(name=own, provisioner="zonal.standins.mooring.dev", allowed_topologies=allowed),
        claim_body(name="data", namespace="", storage_class=own),
        pod_body(name="apart", namespace="", claims=["data"], node_selector={zone: "zone-c"}),
    )
    why = f"claim {own}/data: class {own} allows zones zone-a, zone-b, but the pod can only run in zone zone-c"
    workspace.wait_event("pod/apart", "NoCommonZone", why)

    def explained(pod: str) -> str:
        command = [sys.executable, "-m", "mooring", "explain", f"pod/{pod}", "-n", own]
        access = ["--kubeconfig", str(workspace.cluster.kubeconfig)]
        return subprocess.run([*command, *access], capture_output=True, text=True, check=False).stdout

    assert "they have no common zone" in explained("apart")
    workspace.apply(
        claim_body(name="more", namespace="", storage_class=own),
        pod_body(name="huge", namespace="", claims=["more"], node_selector={zone: "zone-b"}, requests={"cpu": "1000"}),
    )
    workspace.wait_unscheduled("huge", "Insufficient cpu")
    assert "the pod cannot run in zone zone-a: when zone zone-b fails" in explained("huge")
