"""Nodes like others: what they take over from their template, and what they do not."""

from typing import Any

import pytest

from mooring.api import well_known
from mooring.api.kinds import CSI_NODE, NODE, STORAGE_CAPACITY, VOLUME
from mooring.whatif.additions import Addition, add_nodes
from mooring.whatif.inventory import Inventory
from support.builders import Body, claim_ref, class_body, csi_node_body, node_body, reachable_from, volume_body
from support.whatif.questions import DRIVER, FAST, inventory, pool, provisioned_class


def added(*documents: Body, count: int = 1) -> Inventory:
    known = inventory(documents)
    add_nodes(known, Addition("n1", count, known))
    return known


def body(known: Inventory, kind: Any, key: str) -> Body:  # noqa: ANN401  # any kind
    return known.body(kind, key)


def test_the_new_node_has_the_size_and_labels_of_the_old_one_under_its_own_name() -> None:
    labels = {"disk": "ssd", "example.com/node": "n1"}
    node = node_body(name="n1", zone="a", labels=labels, allocatable={"cpu": "7"}, features=["SomethingNew"])
    new = body(added(node), NODE, "n1-new-1")
    assert new["metadata"]["labels"] == {
        well_known.HOSTNAME: "n1-new-1",
        well_known.ZONE: "a",
        "disk": "ssd",
        "example.com/node": "n1-new-1",
    }
    assert new["status"]["allocatable"]["cpu"] == "7"
    assert new["status"]["declaredFeatures"] == ["SomethingNew"]


def test_a_new_node_is_ready_and_open_whatever_ails_the_old_one() -> None:
    lasting = {"key": "gpu", "effect": "NoSchedule"}
    passing = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    node = node_body(name="n1", ready=False, unschedulable=True, taints=[lasting, passing])
    new = body(added(node), NODE, "n1-new-1")
    assert new["spec"] == {"taints": [lasting]}
    assert [(each["type"], each["status"]) for each in new["status"]["conditions"]] == [("Ready", "True")]


def test_names_that_are_taken_are_passed_over() -> None:
    known = added(node_body(name="n1"), node_body(name="n1-new-1"), count=2)
    assert [node.name for node in known.of(NODE)] == ["n1", "n1-new-1", "n1-new-2", "n1-new-3"]


@pytest.mark.req("C20.answer")
@pytest.mark.level("u")
def test_its_pool_is_what_is_left_and_what_volumes_take_together() -> None:
    source = {"csi": {"driver": DRIVER, "volumeHandle": "h"}}
    taken = volume_body(name="v", size="3Gi", storage_class=FAST, node="n1", source=source)
    known = added(node_body(name="n1"), node_body(name="n2"), *provisioned_class(), pool("n1", "2Gi"), taken)
    [new] = [each for each in known.of(STORAGE_CAPACITY) if each.name != "room-n1"]
    assert new.capacity == "5Gi"
    assert new.node_topology is not None
    assert new.node_topology.match_labels == {well_known.HOSTNAME: "n1-new-1"}


def test_the_largest_volume_grows_only_where_it_is_what_is_left() -> None:
    source = {"csi": {"driver": DRIVER, "volumeHandle": "h"}}
    taken = volume_body(name="v", size="3Gi", storage_class=FAST, node="n1", source=source)
    for most, want in (("2Gi", "5Gi"), ("1Gi", "1Gi")):
        reported = pool("n1", "2Gi") | {"maximumVolumeSize": most}
        known = added(node_body(name="n1"), *provisioned_class(), reported, taken)
        [new] = [each for each in known.of(STORAGE_CAPACITY) if each.name != "room-n1"]
        assert new.maximum_volume_size == want


def test_storage_that_others_reach_too_does_not_come_twice() -> None:
    everywhere = pool("n1", "9Gi") | {"nodeTopology": {}}
    known = added(node_body(name="n1"), *provisioned_class(), everywhere, node_body(name="n2"))
    assert len(known.of(STORAGE_CAPACITY)) == 1


def test_local_disks_are_there_again_and_free() -> None:
    disk = volume_body(name="disk", node="n1", claim_ref=claim_ref(uid="u"), phase="Bound")
    zonal = volume_body(name="zonal", affinity=reachable_from(well_known.ZONE, "a"))
    known = added(node_body(name="n1", zone="a"), node_body(name="n2", zone="a"), class_body(), disk, zonal)
    new = body(known, VOLUME, "disk-n1-new-1")
    assert "claimRef" not in new["spec"]
    assert new["status"] == {"phase": "Available"}
    [term] = new["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["n1-new-1"]
    assert len(known.of(VOLUME)) == 3


def test_its_drivers_and_their_limits_are_those_of_the_template() -> None:
    known = added(node_body(name="n1"), csi_node_body(name="n1", limits={DRIVER: 5}))
    [driver] = body(known, CSI_NODE, "n1-new-1")["spec"]["drivers"]
    assert driver == {"name": DRIVER, "nodeID": "n1-new-1", "allocatable": {"count": 5}}
