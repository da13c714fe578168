"""Which claims a stand-in serves, and the volume it makes for one.

When a stand-in guards a volume, and when it deletes it.
"""

import msgspec
import pytest

from mooring.api import well_known
from mooring.api.kinds import VOLUME
from mooring.api.views.storage import Claim, StorageClass, Volume
from mooring.provisioner.provision.eligibility import VolumeAction, finalizer_step
from mooring.provisioner.standins.decisions import (
    StandInPlan,
    decide,
    is_stand_in_volume,
    request_for,
)
from mooring.provisioner.standins.disks import StandInFailure, StandInPools, places_of
from support.builders import Body, a_claim, a_class, a_node, a_volume, claim_ref

ZONAL = "zonal.standins.mooring.dev"
ASKED = {well_known.STORAGE_PROVISIONER: ZONAL}
NODE = a_node(labels={well_known.ZONE: "a", well_known.ZONE_BETA: "a"})

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
        pytest.param(a_claim(selected_node="node-1"), DELAYED, False, id="not annotated"),
        pytest.param(
            a_claim(annotations={well_known.STORAGE_PROVISIONER_BETA: ZONAL}),
            IMMEDIATE,
            True,
            id="asked by the old key",
        ),
        pytest.param(
            a_claim(annotations={well_known.STORAGE_PROVISIONER: "disks.example.com"}),
            IMMEDIATE,
            False,
            id="another provisioner",
        ),
        pytest.param(a_claim(annotations=ASKED, volume="v"), IMMEDIATE, False, id="has a volume"),
        pytest.param(a_claim(annotations=ASKED), None, False, id="class unknown"),
        pytest.param(a_claim(annotations=ASKED), a_class(provisioner="x.io"), False, id="class was replaced"),
        pytest.param(
            a_claim(annotations=ASKED | {well_known.SELECTED_NODE_DRAFT: "node-1"}),
            DELAYED,
            True,
            id="node by the draft key",
        ),
    ],
)
def test_claims_served(claim: Claim, storage_class: StorageClass | None, served: bool) -> None:
    assert (request_for(claim, storage_class) is not None) == served


def made(provisioner: str, handed_to: str, **parameters: str) -> Body:
    storage_class = a_class(name="disks", provisioner=provisioner, parameters=parameters, reclaim="Delete")
    claim = a_claim(
        uid="u1",
        storage_class="disks",
        size="7Gi",
        annotations={well_known.STORAGE_PROVISIONER: handed_to},
        selected_node="node-1",
    )
    request = request_for(claim, storage_class)
    assert request is not None
    others = [a_node(name=f"node-{zone}", labels={well_known.ZONE: zone}) for zone in "bc"]
    plan = decide(request, NODE, [NODE, *others], StandInPools())
    assert isinstance(plan, StandInPlan)
    return plan.body


@pytest.mark.req("T18.one-zone", "T42.PC30")
def test_volume_is_reserved_for_its_claim_and_says_where_it_is() -> None:
    body = made(ZONAL, ZONAL)
    assert body["metadata"] == {
        "name": "pvc-u1",
        "annotations": {well_known.PROVISIONED_BY: ZONAL},
        "finalizers": [well_known.EXTERNAL_PROVISIONER],
    }
    spec = body["spec"]
    assert spec["claimRef"] == claim_ref(uid="u1") | {"resourceVersion": "1"}
    assert (spec["capacity"], spec["storageClassName"]) == ({"storage": "7Gi"}, "disks")
    assert spec["persistentVolumeReclaimPolicy"] == "Delete"
    assert spec["csi"] == {"driver": ZONAL, "volumeHandle": "pvc-u1"}
    here = {"key": well_known.ZONE, "operator": "In", "values": ["a"]}
    assert spec["nodeAffinity"] == {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}


def test_in_tree_class_gets_in_tree_volume_source() -> None:
    body = made("kubernetes.io/gce-pd", "pd.csi.storage.gke.io")
    assert body["spec"]["gcePersistentDisk"]["pdName"] == "pvc-u1"
    assert body["metadata"]["annotations"] == {well_known.PROVISIONED_BY: "kubernetes.io/gce-pd"}


def test_regional_disks_of_gce_are_a_parameter() -> None:
    parameters = {"replication-type": "regional-pd"}
    body = made("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", **parameters)
    [term] = body["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    [expression] = term["matchExpressions"]
    assert len(expression["values"]) == 2
    assert "a" in expression["values"]


def test_rack_volume_has_both_labels_and_is_found_again() -> None:
    rack = "rack.standins.mooring.dev"
    node = a_node(labels={well_known.ZONE: "a", well_known.RACK: "r1"})
    request = request_for(
        a_claim(annotations={well_known.STORAGE_PROVISIONER: rack}, selected_node="node-1"),
        a_class(name="local", provisioner=rack),
    )
    assert request is not None
    plan = decide(request, node, [node], StandInPools())
    assert isinstance(plan, StandInPlan)
    [term] = plan.body["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert {one["key"]: one["values"] for one in term["matchExpressions"]} == {
        well_known.ZONE: ["a"],
        well_known.RACK: ["r1"],
    }
    assert tuple(places_of(VOLUME.decode(msgspec.json.encode(plan.body)))) == plan.places


def test_label_selectors_of_claims_are_refused() -> None:
    request = request_for(a_claim(annotations=ASKED, selector={"matchLabels": {"a": "b"}}), IMMEDIATE)
    assert request is not None
    with pytest.raises(StandInFailure, match="claim Selector is not supported") as caught:
        decide(request, None, [NODE], StandInPools())
    assert not caught.value.reschedule


@pytest.mark.req("T37.translated")
def test_zones_in_the_parameters_are_the_topologies_they_mean() -> None:
    gce = a_class(
        name="disks", provisioner="kubernetes.io/gce-pd", binding_mode="Immediate", parameters={"zones": "b,c"}
    )
    nodes = [a_node(name=f"node-{zone}", labels={well_known.ZONE: zone}) for zone in "abcd"]
    zones = set()
    for number in range(4):
        request = request_for(
            a_claim(name=f"data-web-{number}", annotations={well_known.STORAGE_PROVISIONER: "pd.csi.storage.gke.io"}),
            gce,
        )
        assert request is not None
        plan = decide(request, None, nodes, StandInPools())
        assert isinstance(plan, StandInPlan)
        zones |= {zone for place in plan.places for zone in place}
    assert zones == {"b", "c"}


DRIVEN: Body = {"csi": {"driver": ZONAL, "volumeHandle": "h"}}
DISK: Body = {"gcePersistentDisk": {"pdName": "d"}}


@pytest.mark.parametrize(
    ("volume", "ours"),
    [
        pytest.param(a_volume(annotations={well_known.PROVISIONED_BY: ZONAL}), True, id="provisioned here"),
        pytest.param(a_volume(annotations={well_known.PROVISIONED_BY: "x.io"}, source=DRIVEN), False, id="by another"),
        pytest.param(a_volume(source=DRIVEN), True, id="made by hand for our driver"),
        pytest.param(a_volume(), False, id="made by hand"),
        pytest.param(
            a_volume(annotations={well_known.PROVISIONED_BY: "kubernetes.io/gce-pd"}, source=DISK),
            True,
            id="handed over",
        ),
        pytest.param(
            a_volume(annotations={well_known.PROVISIONED_BY: "kubernetes.io/cinder"}),
            False,
            id="handed over to another",
        ),
    ],
)
def test_which_volumes_are_ours(volume: Volume, ours: bool) -> None:
    assert is_stand_in_volume(volume) == ours


def volume(phase: str, *, reclaim: str = "Delete", guarded: bool, deleting: bool = False) -> Volume:
    finalizers = [well_known.EXTERNAL_PROVISIONER] if guarded else []
    return a_volume(phase=phase, reclaim=reclaim, finalizers=finalizers, deleting=deleting)


@pytest.mark.parametrize(
    ("given", "due"),
    [
        pytest.param(volume("Bound", guarded=True), VolumeAction.NOTHING, id="bound and guarded"),
        pytest.param(volume("Bound", guarded=False), VolumeAction.ADD_FINALIZER, id="bound, not guarded"),
        pytest.param(volume("Bound", guarded=False, deleting=True), VolumeAction.NOTHING, id="too late to guard"),
        pytest.param(volume("Released", guarded=True), VolumeAction.DELETE, id="released"),
        pytest.param(volume("Released", guarded=False), VolumeAction.DELETE, id="released, never guarded"),
        pytest.param(volume("Released", guarded=True, deleting=True), VolumeAction.DELETE, id="half deleted"),
        pytest.param(volume("Released", guarded=False, deleting=True), VolumeAction.NOTHING, id="deleted by others"),
        pytest.param(volume("Failed", guarded=True), VolumeAction.NOTHING, id="failed is for people"),
        pytest.param(volume("Released", reclaim="Retain", guarded=False), VolumeAction.NOTHING, id="kept"),
        pytest.param(
            volume("Bound", reclaim="Retain", guarded=True),
            VolumeAction.REMOVE_FINALIZER,
            id="to be kept from now on",
        ),
    ],
)
def test_what_is_due(given: Volume, due: VolumeAction) -> None:
    assert finalizer_step(given) is due
