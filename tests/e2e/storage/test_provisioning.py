"""Volumes of the stand-in provisioners of a cloud, with kubectl: their topology, and failures.

Six nodes in three zones, with two racks in each.
"""

from typing import Any, Final

import pytest

from mooring.api import well_known
from support.builders import Body, claim_body, class_body, pod_body, volume_body
from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace

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


def pod(name: str, *claims: str, node: str = "", zone: str = "", affinity: Body | None = None) -> Body:
    where = ({well_known.HOSTNAME: node} if node else {}) | ({well_known.ZONE: zone} if zone else {})
    return pod_body(name=name, namespace="", claims=list(claims), node_selector=where or None, affinity=affinity)


def places(own: Workspace, name: str) -> list[dict[str, list[str]]]:
    """The accessible topology of a claim's volume: labels and values of each term."""
    volume = own.cluster.item("pv", own.item("pvc", name)["spec"]["volumeName"])
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return [{one["key"]: one["values"] for one in term["matchExpressions"]} for term in terms]


@pytest.mark.req("T18.selected-node", "T18.one-zone")
@pytest.mark.parametrize(
    ("provisioner", "node", "labels"),
    [
        pytest.param(ZONAL, "node-5", [well_known.ZONE], id="in the node's zone"),
        pytest.param(LOCAL, "node-6", [well_known.HOSTNAME], id="on the node"),
        pytest.param(RACK, "node-4", [well_known.ZONE, well_known.RACK], id="in the node's rack"),
    ],
)
def test_volume_is_provisioned_on_the_selected_node(
    workspace: Workspace, provisioner: str, node: str, labels: list[str]
) -> None:
    name = workspace.name
    workspace.apply(class_body(name=name, provisioner=provisioner), claim("data", name), pod("web", "data", node=node))
    workspace.wait_ready("web")
    there = workspace.cluster.item("node", node)["metadata"]["labels"]
    assert places(workspace, "data") == [{label: [there[label]] for label in labels}]
    assert workspace.node_of("web") == node
    workspace.wait_event("pvc/data", "ProvisioningSucceeded", "Successfully provisioned volume pvc-")


@pytest.mark.req("T18.regional")
def test_regional_disk_is_in_two_allowed_zones(workspace: Workspace) -> None:
    name = workspace.name
    allowed = [{well_known.ZONE: ["zone-a", "zone-c"]}]
    workspace.apply(
        class_body(name=name, provisioner=REGIONAL, allowed_topologies=allowed),
        claim("data", name),
        pod("web", "data", zone="zone-c"),
    )
    workspace.wait_ready("web")
    assert places(workspace, "data") == [{well_known.ZONE: ["zone-a", "zone-c"]}]


@pytest.mark.req("T18.too-few-zones")
def test_regional_disk_with_one_zone_fails(workspace: Workspace) -> None:
    name = workspace.name
    allowed = [{well_known.ZONE: ["zone-a"]}]
    workspace.apply(
        class_body(name=name, provisioner=REGIONAL, binding_mode="Immediate", allowed_topologies=allowed),
        claim("data", name),
    )
    text = "a regional disk needs 2 zones in one region, and only zone-a remains of what the class allows"
    workspace.wait_event("pvc/data", "ProvisioningFailed", text)
    assert workspace.item("pvc", "data")["status"]["phase"] == "Pending"


@pytest.mark.req("T4.immediate", "T5.provisioned", "T5.allowed-topologies")
def test_immediate_claims_are_provisioned_in_allowed_topologies(workspace: Workspace) -> None:
    """Zonal and multi-label classes; without a pod, the scheduler is not involved."""
    name = workspace.name
    racks = [
        {well_known.ZONE: ["zone-a"], well_known.RACK: ["rack-1"]},
        {well_known.ZONE: ["zone-b"], well_known.RACK: ["rack-1", "rack-2"]},
    ]
    given = {"binding_mode": "Immediate"}
    workspace.apply(
        class_body(
            name=f"{name}-z", provisioner=ZONAL, allowed_topologies=[{well_known.ZONE: ["zone-a", "zone-b"]}], **given
        ),
        class_body(
            name=f"{name}-r", provisioner=RACK, allowed_topologies=_own_racks(workspace.cluster, racks), **given
        ),
        *(claim(f"disk-db-{number}", f"{name}-z") for number in range(4)),
        *(claim(f"rack-db-{number}", f"{name}-r") for number in range(6)),
    )
    names = [*(f"disk-db-{n}" for n in range(4)), *(f"rack-db-{n}" for n in range(6))]
    workspace.wait_bound(*names)
    zones = {place[well_known.ZONE][0] for n in range(4) for place in places(workspace, f"disk-db-{n}")}
    assert zones == {"zone-a", "zone-b"}
    made = {
        (place[well_known.ZONE][0], place[well_known.RACK][0])
        for n in range(6)
        for place in places(workspace, f"rack-db-{n}")
    }
    allowed = {
        (zone, rack)
        for term in _own_racks(workspace.cluster, racks)
        for zone in term[well_known.ZONE]
        for rack in term[well_known.RACK]
    }
    assert made == allowed


def _own_racks(cluster: Cluster, terms: list[dict[str, list[str]]]) -> list[dict[str, list[str]]]:
    """The terms with the racks as named by the nodes of each zone: the first and the second of the zone."""
    racks: dict[str, set[str]] = {}
    for node in cluster.items("nodes"):
        labels = node["metadata"]["labels"]
        racks.setdefault(labels[well_known.ZONE], set()).add(labels[well_known.RACK])
    numbered = {zone: dict(zip(("rack-1", "rack-2"), sorted(names), strict=True)) for zone, names in racks.items()}
    return [
        {**term, well_known.RACK: [numbered[term[well_known.ZONE][0]][rack] for rack in term[well_known.RACK]]}
        for term in terms
    ]


@pytest.mark.req("T17.elsewhere", "T17.free-choice")
def test_another_zone_is_selected_after_failure(workspace: Workspace) -> None:
    """The pod prefers the zone without storage; all nodes are open all the time."""
    name = workspace.name
    terms = [{"key": well_known.ZONE, "operator": "In", "values": ["zone-a"]}]
    preferred = [{"weight": 100, "preference": {"matchExpressions": terms}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    workspace.apply(
        class_body(name=name, provisioner=ZONAL, parameters={"unavailableIn": "zone-a"}),
        claim("data", name),
        pod("web", "data", affinity=affinity),
    )
    workspace.wait_event("pvc/data", "ProvisioningFailed", "storage in zone-a is not available")
    workspace.wait_ready("web")
    assert places(workspace, "data")[0][well_known.ZONE][0] in ("zone-b", "zone-c")


@pytest.mark.req("T17.vanished-node", "T17.draft-key")
@pytest.mark.parametrize("key", [well_known.SELECTED_NODE, well_known.SELECTED_NODE_DRAFT])
def test_deleted_selected_node_is_cleared(workspace: Workspace, key: str) -> None:
    name = workspace.name
    workspace.apply(class_body(name=name, provisioner=ZONAL), claim("data", name, annotations={key: "node-99"}))

    def is_returned_to_scheduler() -> bool:
        return key not in workspace.item("pvc", "data")["metadata"].get("annotations", {})

    workspace.wait_for(is_returned_to_scheduler)
    workspace.wait_event("pvc/data", "ProvisioningFailed", 'node "node-99" not found')
    workspace.apply(pod("web", "data"))
    workspace.wait_ready("web")


@pytest.mark.req("T20.existing-first", "T20.provisioned")
def test_volume_is_provisioned_only_without_existing_match(workspace: Workspace) -> None:
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


@pytest.mark.req("T36.admission")
def test_volumes_with_zone_labels_get_node_affinity(workspace: Workspace) -> None:
    """At creation, and when the labels are added later, as on old volumes."""
    name = workspace.name
    disk = {"gcePersistentDisk": {"pdName": "disk", "fsType": "ext4"}}
    labels = {well_known.ZONE: "zone-a__zone-b", well_known.REGION: "region-1"}
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

    expected = [{well_known.ZONE: ["zone-a", "zone-b"], well_known.REGION: ["region-1"]}]
    assert affinity(f"{name}-new") == expected
    workspace.wait_for(lambda: affinity(f"{name}-old") == expected)
    assert workspace.cluster.item("pv", f"{name}-old")["metadata"]["labels"] == labels


@pytest.mark.req("T37.both-rejected")
def test_zone_parameter_excludes_allowed_topologies(workspace: Workspace) -> None:
    name = workspace.name
    given = {"provisioner": "kubernetes.io/gce-pd", "parameters": {"zones": "zone-b, zone-c"}}
    said_twice = class_body(name=f"{name}-x", allowed_topologies=[{well_known.ZONE: ["zone-a"]}], **given)
    assert "use allowedTopologies alone" in workspace.refused(said_twice)
    workspace.apply(class_body(name=name, **given), claim("data", name), pod("web", "data"))
    workspace.wait_ready("web")
    assert places(workspace, "data")[0][well_known.ZONE][0] in ("zone-b", "zone-c")
    refused = claim("other", name), pod("stuck", "other", zone="zone-a")
    workspace.apply(*refused)
    workspace.wait_unscheduled("stuck", "node(s) didn't find available persistent volumes to bind")
