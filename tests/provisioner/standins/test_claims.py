"""Which claims a stand-in serves, and the volume it makes for one."""

import msgspec
import pytest

from builders import Body, a_claim, a_class, a_node, claim_ref
from mooring.api import keys
from mooring.api.kinds import VOLUME
from mooring.api.views.claim import Claim
from mooring.api.views.storage import StorageClass
from mooring.provisioner.standins.claims import Plan, decide, task
from mooring.provisioner.standins.contract import Refused
from mooring.provisioner.standins.pools import Pools, places_of

ZONAL = "zonal.standins.mooring.dev"
ASKED = {keys.STORAGE_PROVISIONER: ZONAL}
NODE = a_node(labels={keys.ZONE: "a", keys.ZONE_BETA: "a"})

DELAYED = a_class(name="disks", provisioner=ZONAL)
IMMEDIATE = a_class(name="disks", provisioner=ZONAL, binding_mode="Immediate")


@pytest.mark.req("T17.trigger")
@pytest.mark.parametrize(
    ("claim", "storage_class", "served"),
    [
        pytest.param(a_claim(annotations=ASKED, selected_node="node-1"), DELAYED, True, id="asked, with a node"),
        pytest.param(a_claim(annotations=ASKED), DELAYED, False, id="delayed without a node"),
        pytest.param(a_claim(annotations=ASKED, selected_node=""), DELAYED, False, id="delayed with an empty node"),
        pytest.param(a_claim(annotations=ASKED), IMMEDIATE, True, id="immediate"),
        pytest.param(a_claim(selected_node="node-1"), DELAYED, False, id="nobody asked yet"),
        pytest.param(
            a_claim(annotations={keys.STORAGE_PROVISIONER_BETA: ZONAL}), IMMEDIATE, True, id="asked by the old key"
        ),
        pytest.param(
            a_claim(annotations={keys.STORAGE_PROVISIONER: "disks.example.com"}), IMMEDIATE, False, id="somebody else"
        ),
        pytest.param(a_claim(annotations=ASKED, volume="v"), IMMEDIATE, False, id="has a volume"),
        pytest.param(a_claim(annotations=ASKED), None, False, id="class unknown"),
        pytest.param(a_claim(annotations=ASKED), a_class(provisioner="x.io"), False, id="class was replaced"),
        pytest.param(
            a_claim(annotations=ASKED | {keys.SELECTED_NODE_DRAFT: "node-1"}), DELAYED, True, id="node by the draft key"
        ),
    ],
)
def test_claims_served(claim: Claim, storage_class: StorageClass | None, served: bool) -> None:
    assert (task(claim, storage_class) is not None) == served


def made(provisioner: str, handed_to: str, **parameters: str) -> Body:
    storage_class = a_class(name="disks", provisioner=provisioner, parameters=parameters, reclaim="Delete")
    claim = a_claim(
        uid="u1",
        storage_class="disks",
        size="7Gi",
        annotations={keys.STORAGE_PROVISIONER: handed_to},
        selected_node="node-1",
    )
    wanted = task(claim, storage_class)
    assert wanted is not None
    others = [a_node(name=f"node-{zone}", labels={keys.ZONE: zone}) for zone in "bc"]
    plan = decide(wanted, NODE, [NODE, *others], Pools())
    assert isinstance(plan, Plan)
    return plan.body


@pytest.mark.req("T18", "T42.PC30")
def test_volume_is_reserved_for_its_claim_and_says_where_it_is() -> None:
    body = made(ZONAL, ZONAL)
    assert body["metadata"] == {
        "name": "pvc-u1",
        "annotations": {keys.PROVISIONED_BY: ZONAL},
        "finalizers": [keys.EXTERNAL_PROVISIONER],
    }
    spec = body["spec"]
    assert spec["claimRef"] == claim_ref(uid="u1") | {"resourceVersion": "1"}
    assert (spec["capacity"], spec["storageClassName"]) == ({"storage": "7Gi"}, "disks")
    assert spec["persistentVolumeReclaimPolicy"] == "Delete"
    assert spec["csi"] == {"driver": ZONAL, "volumeHandle": "pvc-u1"}
    here = {"key": keys.ZONE, "operator": "In", "values": ["a"]}
    assert spec["nodeAffinity"] == {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}


def test_class_of_an_in_tree_plugin_gets_the_volume_that_plugin_made() -> None:
    body = made("kubernetes.io/gce-pd", "pd.csi.storage.gke.io")
    assert body["spec"]["gcePersistentDisk"]["pdName"] == "pvc-u1"
    assert body["metadata"]["annotations"] == {keys.PROVISIONED_BY: "kubernetes.io/gce-pd"}


def test_regional_disks_of_gce_are_a_parameter() -> None:
    parameters = {"replication-type": "regional-pd"}
    body = made("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", **parameters)
    [term] = body["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    [expression] = term["matchExpressions"]
    assert len(expression["values"]) == 2
    assert "a" in expression["values"]


def test_rack_volume_has_both_labels_and_is_found_again() -> None:
    rack = "rack.standins.mooring.dev"
    node = a_node(labels={keys.ZONE: "a", keys.RACK: "r1"})
    wanted = task(
        a_claim(annotations={keys.STORAGE_PROVISIONER: rack}, selected_node="node-1"),
        a_class(name="local", provisioner=rack),
    )
    assert wanted is not None
    plan = decide(wanted, node, [node], Pools())
    assert isinstance(plan, Plan)
    [term] = plan.body["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert {one["key"]: one["values"] for one in term["matchExpressions"]} == {keys.ZONE: ["a"], keys.RACK: ["r1"]}
    assert tuple(places_of(VOLUME.decode(msgspec.json.encode(plan.body)))) == plan.places


def test_label_selectors_of_claims_are_refused() -> None:
    wanted = task(a_claim(annotations=ASKED, selector={"matchLabels": {"a": "b"}}), IMMEDIATE)
    assert wanted is not None
    assert decide(wanted, None, [NODE], Pools()) == Refused("claim Selector is not supported")


@pytest.mark.req("T37.translated")
def test_zones_in_the_parameters_are_the_topologies_they_mean() -> None:
    gce = a_class(
        name="disks", provisioner="kubernetes.io/gce-pd", binding_mode="Immediate", parameters={"zones": "b,c"}
    )
    nodes = [a_node(name=f"node-{zone}", labels={keys.ZONE: zone}) for zone in "abcd"]
    zones = set()
    for number in range(4):
        wanted = task(
            a_claim(name=f"data-web-{number}", annotations={keys.STORAGE_PROVISIONER: "pd.csi.storage.gke.io"}), gce
        )
        assert wanted is not None
        plan = decide(wanted, None, nodes, Pools())
        assert isinstance(plan, Plan)
        zones |= {zone for place in plan.places for zone in place}
    assert zones == {"b", "c"}
