"""Volumes made for claims by the stand-ins of a cloud, as kubectl shows them: where they are, and why one is not made.

Six nodes in three zones, with two racks in each.
"""

from typing import Any, Final

import pytest

from builders import Body, claim_body, class_body, pod_body, volume_body
from e2e.cluster import Cluster
from e2e.workspace import Workspace
from mooring.api import keys

ZONAL: Final = "zonal.standins.mooring.dev"
REGIONAL: Final = "regional.standins.mooring.dev"
LOCAL: Final = "local.standins.mooring.dev"
RACK: Final = "rack.standins.mooring.dev"
#: zone-a has node-1 and node-4, zone-b node-2 and node-5, zone-c node-3 and node-6.
NODES: Final = tuple(f"node-{number}" for number in range(1, 7))


@pytest.fixture(scope="module")
def cluster_options() -> tuple[str, ...]:
    return ("--nodes", "6", "--zones", "3", "--racks", "2", "--local-pvs", "0")


def claim(name: str, storage_class: str, **given: Any) -> Body:  # noqa: ANN401  # the builder's arguments
    return claim_body(name=name, namespace="", storage_class=storage_class, **given)


def pod(name: str, *claims: str, node: str = "", zone: str = "") -> Body:
    where = ({keys.HOSTNAME: node} if node else {}) | ({keys.ZONE: zone} if zone else {})
    return pod_body(name=name, namespace="", claims=list(claims), node_selector=where or None)


def places(own: Workspace, name: str) -> list[dict[str, list[str]]]:
    """Where a claim's volume can be used: the labels of each term with their values."""
    volume = own.cluster.item("pv", own.item("pvc", name)["spec"]["volumeName"])
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return [{one["key"]: one["values"] for one in term["matchExpressions"]} for term in terms]


@pytest.mark.req("T18")
@pytest.mark.parametrize(
    ("provisioner", "node", "labels"),
    [
        pytest.param(ZONAL, "node-5", [keys.ZONE], id="in the node's zone"),
        pytest.param(LOCAL, "node-6", [keys.HOSTNAME], id="on the node"),
        pytest.param(RACK, "node-4", [keys.ZONE, keys.RACK], id="in the node's rack"),
    ],
)
def test_volume_is_made_where_the_pod_goes(
    workspace: Workspace, provisioner: str, node: str, labels: list[str]
) -> None:
    name = workspace.name
    workspace.apply(class_body(name=name, provisioner=provisioner), claim("data", name), pod("web", "data", node=node))
    workspace.wait_ready("web")
    there = workspace.cluster.item("node", node)["metadata"]["labels"]
    assert places(workspace, "data") == [{label: [there[label]] for label in labels}]
    assert workspace.node_of("web") == node
    workspace.wait_event("pvc/data", "ProvisioningSucceeded", "Successfully provisioned volume pvc-")


@pytest.mark.req("T18")
def test_regional_disk_is_in_the_nodes_zone_and_another_that_the_class_allows(workspace: Workspace) -> None:
    name = workspace.name
    allowed = [{keys.ZONE: ["zone-a", "zone-c"]}]
    workspace.apply(
        class_body(name=name, provisioner=REGIONAL, allowed_topologies=allowed),
        claim("data", name),
        pod("web", "data", zone="zone-c"),
    )
    workspace.wait_ready("web")
    assert places(workspace, "data") == [{keys.ZONE: ["zone-a", "zone-c"]}]


@pytest.mark.req("T18")
def test_regional_disk_with_one_zone_left_fails_clearly(workspace: Workspace) -> None:
    name = workspace.name
    allowed = [{keys.ZONE: ["zone-a"]}]
    workspace.apply(
        class_body(name=name, provisioner=REGIONAL, binding_mode="Immediate", allowed_topologies=allowed),
        claim("data", name),
    )
    text = "a regional disk needs 2 zones in one region, and only zone-a remains of what the class allows"
    workspace.wait_event("pvc/data", "ProvisioningFailed", text)
    assert workspace.item("pvc", "data")["status"]["phase"] == "Pending"


@pytest.mark.req("T4", "T5")
def test_immediate_claims_are_made_at_once_within_the_allowed_topologies(workspace: Workspace) -> None:
    """Zonal and multi-label classes; no pod, so no scheduler had a say."""
    name = workspace.name
    racks = [{keys.ZONE: ["zone-a"], keys.RACK: ["rack-1"]}, {keys.ZONE: ["zone-b"], keys.RACK: ["rack-1", "rack-2"]}]
    given = {"binding_mode": "Immediate"}
    workspace.apply(
        class_body(
            name=f"{name}-z", provisioner=ZONAL, allowed_topologies=[{keys.ZONE: ["zone-a", "zone-b"]}], **given
        ),
        class_body(
            name=f"{name}-r", provisioner=RACK, allowed_topologies=_own_racks(workspace.cluster, racks), **given
        ),
        *(claim(f"disk-db-{number}", f"{name}-z") for number in range(4)),
        *(claim(f"rack-db-{number}", f"{name}-r") for number in range(6)),
    )
    names = [*(f"disk-db-{n}" for n in range(4)), *(f"rack-db-{n}" for n in range(6))]
    workspace.wait_bound(*names)
    zones = {place[keys.ZONE][0] for n in range(4) for place in places(workspace, f"disk-db-{n}")}
    assert zones == {"zone-a", "zone-b"}
    made = {(place[keys.ZONE][0], place[keys.RACK][0]) for n in range(6) for place in places(workspace, f"rack-db-{n}")}
    allowed = {
        (zone, rack)
        for term in _own_racks(workspace.cluster, racks)
        for zone in term[keys.ZONE]
        for rack in term[keys.RACK]
    }
    assert made == allowed


def _own_racks(cluster: Cluster, terms: list[dict[str, list[str]]]) -> list[dict[str, list[str]]]:
    """The terms with the racks as the nodes of each zone call them: the first and the second of the zone."""
    racks: dict[str, set[str]] = {}
    for node in cluster.items("nodes"):
        labels = node["metadata"]["labels"]
        racks.setdefault(labels[keys.ZONE], set()).add(labels[keys.RACK])
    numbered = {zone: dict(zip(("rack-1", "rack-2"), sorted(names), strict=True)) for zone, names in racks.items()}
    return [{**term, keys.RACK: [numbered[term[keys.ZONE][0]][rack] for rack in term[keys.RACK]]} for term in terms]


@pytest.mark.req("T17")
def test_failure_in_a_zone_lets_another_be_chosen(workspace: Workspace) -> None:
    name = workspace.name
    elsewhere = [node for node in NODES if node not in ("node-1", "node-4")]
    workspace.cluster("cordon", *elsewhere)
    try:
        workspace.apply(
            class_body(name=name, provisioner=ZONAL, parameters={"unavailableIn": "zone-a"}),
            claim("data", name),
            pod("web", "data"),
        )
        workspace.wait_event("pvc/data", "ProvisioningFailed", "storage in zone-a is not available")
    finally:
        workspace.cluster("uncordon", *elsewhere)
    workspace.cluster("cordon", "node-1", "node-4")
    try:
        workspace.wait_ready("web")
    finally:
        workspace.cluster("uncordon", "node-1", "node-4")
    assert places(workspace, "data")[0][keys.ZONE][0] in ("zone-b", "zone-c")


@pytest.mark.req("T17")
@pytest.mark.parametrize("key", [keys.SELECTED_NODE, keys.SELECTED_NODE_DRAFT])
def test_node_that_is_gone_is_not_waited_for(workspace: Workspace, key: str) -> None:
    name = workspace.name
    workspace.apply(class_body(name=name, provisioner=ZONAL), claim("data", name, annotations={key: "node-99"}))

    def given_back() -> bool:
        return key not in workspace.item("pvc", "data")["metadata"].get("annotations", {})

    workspace.wait_for(given_back)
    workspace.wait_event("pvc/data", "ProvisioningFailed", 'node "node-99" not found')
    workspace.apply(pod("web", "data"))
    workspace.wait_ready("web")


@pytest.mark.req("T20")
def test_volume_is_made_only_where_no_existing_one_suits(workspace: Workspace) -> None:
    name = workspace.name
    disk = {"csi": {"driver": "disks.example.com", "volumeHandle": "disk"}}
    workspace.apply(
        class_body(name=name, provisioner=ZONAL),
        volume_body(name=f"{name}-small", size="5Gi", storage_class=name, source=disk),
        claim("fits", name, size="5Gi"),
        pod("first", "fits"),
    )
    workspace.wait_ready("first")
    assert workspace.item("pvc", "fits")["spec"]["volumeName"] == f"{name}-small"
    workspace.apply(claim("more", name, size="50Gi"), pod("second", "more"))
    workspace.wait_ready("second")
    assert workspace.item("pvc", "more")["spec"]["volumeName"].startswith("pvc-")


@pytest.mark.req("T36")
def test_volumes_that_say_by_labels_where_they_are_get_node_affinity(workspace: Workspace) -> None:
    """At creation, and when the labels come later, as on volumes of old."""
    name = workspace.name
    disk = {"gcePersistentDisk": {"pdName": "disk", "fsType": "ext4"}}
    labels = {keys.ZONE: "zone-a__zone-b", keys.REGION: "region-1"}
    workspace.apply(
        volume_body(name=f"{name}-new", storage_class=name, source=disk, labels=labels),
        volume_body(name=f"{name}-old", storage_class=name, source=disk),
    )
    workspace.cluster("label", "pv", f"{name}-old", *(f"{key}={value}" for key, value in labels.items()))

    def affinity(volume: str) -> list[Any]:
        required = workspace.cluster.item("pv", volume)["spec"].get("nodeAffinity", {}).get("required", {})
        return [
            {one["key"]: one["values"] for one in term["matchExpressions"]}
            for term in required.get("nodeSelectorTerms", ())
        ]

    wanted = [{keys.ZONE: ["zone-a", "zone-b"], keys.REGION: ["region-1"]}]
    assert affinity(f"{name}-new") == wanted
    workspace.wait_for(lambda: affinity(f"{name}-old") == wanted)
    assert workspace.cluster.item("pv", f"{name}-old")["metadata"]["labels"] == labels


@pytest.mark.req("T37")
def test_zones_of_a_class_count_as_topology_and_cannot_be_said_twice(workspace: Workspace) -> None:
    name = workspace.name
    given = {"provisioner": "kubernetes.io/gce-pd", "parameters": {"zones": "zone-b, zone-c"}}
    said_twice = class_body(name=f"{name}-x", allowed_topologies=[{keys.ZONE: ["zone-a"]}], **given)
    assert "use allowedTopologies alone" in workspace.refused(said_twice)
    workspace.apply(class_body(name=name, **given), claim("data", name), pod("web", "data"))
    workspace.wait_ready("web")
    assert places(workspace, "data")[0][keys.ZONE][0] in ("zone-b", "zone-c")
    refused = claim("other", name), pod("stuck", "other", zone="zone-a")
    workspace.apply(*refused)
    workspace.wait_unscheduled("stuck", "node(s) didn't find available persistent volumes to bind")
