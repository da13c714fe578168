"""The volume machine, row by row: what a volume and the claim behind it say, and what one turn makes of it."""

from functools import partial
from typing import Any

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, VOLUME
from mooring.pvcontroller import volume_sync
from mooring.pvcontroller.actions import SetVolumePhase
from support.builders import Body, a_claim, a_pod, a_volume, claim_body, claim_ref, volume_body
from support.pvcontroller.fake_cluster import FakeCluster

BY_CONTROLLER = {well_known.BOUND_BY_CONTROLLER: well_known.ANNOTATION_SET}
MINE = claim_ref(uid="claim-1-uid")

volume = partial(volume_body, claim_ref=MINE, phase="Bound")
bound_here = claim_body(volume="volume-1", bound=True)
bound_elsewhere = claim_body(volume="volume-2", bound=True)


@pytest.mark.parametrize(
    ("body", "claim", "expected"),
    [
        pytest.param(volume(claim_ref=None, phase="Pending"), None, "Available", id="new and unused"),
        pytest.param(volume(claim_ref=None, phase=""), None, "Available", id="new, on a server that sets no phase"),
        pytest.param(
            volume(claim_ref=claim_ref(), phase="Pending"), None, "Available for claim-1", id="reserved by name"
        ),
        pytest.param(
            volume(claim_ref=claim_ref(), phase="Pending"),
            claim_body(),
            "Available for claim-1",
            id="reserved by name for a claim that is there: its own turn completes it",
        ),
        pytest.param(volume(phase="Available"), bound_here, "Bound to claim-1", id="its claim names it"),
        pytest.param(volume(), bound_here, "Bound to claim-1", id="all is well"),
        pytest.param(volume(reclaim="Delete"), bound_here, "Bound to claim-1", id="policy Delete deletes nothing used"),
        pytest.param(
            volume(phase="Available", annotations=BY_CONTROLLER),
            claim_body(),
            "Available to claim-1 by controller",
            id="ahead of its claim: the phase is the claim's business",
        ),
        pytest.param(volume(), None, "Released to claim-1", id="its claim is gone"),
        pytest.param(
            volume(), claim_body(uid="another-uid"), "Released to claim-1", id="a new claim has the name of the old one"
        ),
        pytest.param(volume(phase="Released"), None, "Released to claim-1", id="released and retained"),
        pytest.param(volume(phase="Failed"), None, "Failed to claim-1", id="Failed is not overwritten"),
        pytest.param(
            volume(annotations=BY_CONTROLLER), bound_elsewhere, "Available", id="its claim went elsewhere: free again"
        ),
        pytest.param(
            volume(), bound_elsewhere, "Available for claim-1", id="its claim went elsewhere: the user's words stay"
        ),
        pytest.param(
            volume(annotations=BY_CONTROLLER, reclaim="Delete"),
            bound_elsewhere,
            "Available",
            id="its claim went elsewhere; not provisioned for the claim",
        ),
        pytest.param(
            volume(annotations=BY_CONTROLLER | {well_known.PROVISIONED_BY: "vendor.example/disk"}),
            bound_elsewhere,
            "Available",
            id="made for the claim, but to be retained",
        ),
        pytest.param(
            volume(annotations=BY_CONTROLLER | {well_known.PROVISIONED_BY: "vendor.example/disk"}, reclaim="Delete"),
            bound_elsewhere,
            "Released to claim-1 by controller",
            id="made for the claim in vain: left to its provisioner",
        ),
    ],
)
@pytest.mark.req("T42.PC14", "T42.PC16", "T42.PC17", "T42.PC18", "T42.PC19", "T42.PC20", "T42.PC25")
def test_phase_of_a_volume(body: Body, claim: Body | None, expected: str) -> None:
    cluster = FakeCluster(body, *([claim] if claim else []))
    assert cluster.settle(VOLUME, "volume-1") == []
    assert cluster.volume() == expected


@pytest.mark.req("T42.PC17")
def test_volume_ahead_of_its_claim_has_the_claim_looked_at() -> None:
    step = volume_sync.next_volume_step(a_volume(claim_ref=MINE), a_claim())
    assert (step.write, step.enqueue_claim) == (None, "default/claim-1")


@pytest.mark.parametrize("mode", ["Block", "Filesystem"])
@pytest.mark.req("T42.PC17")
def test_volume_of_another_mode_is_reported_on_both_sides(mode: str) -> None:
    other = "Filesystem" if mode == "Block" else "Block"
    step = volume_sync.next_volume_step(a_volume(claim_ref=MINE, mode=mode, phase="Bound"), a_claim(mode=other))
    assert (step.write, step.enqueue_claim) == (None, "")
    assert [(say.about.name, say.type, say.reason) for say in step.events] == [
        ("volume-1", "Warning", "VolumeMismatch"),
        ("claim-1", "Warning", "VolumeMismatch"),
    ]


@pytest.mark.req("T42.PC19")
def test_release_takes_only_what_the_controller_wrote() -> None:
    user = volume(annotations={"note": "mine"})
    cluster = FakeCluster(user, bound_elsewhere)
    cluster.settle(VOLUME, "volume-1")
    assert cluster.bodies[VOLUME, "volume-1"]["spec"]["claimRef"] == claim_ref()
    ours = volume(annotations=BY_CONTROLLER | {"note": "mine"})
    cluster = FakeCluster(ours, bound_elsewhere)
    cluster.settle(VOLUME, "volume-1")
    assert "claimRef" not in cluster.bodies[VOLUME, "volume-1"]["spec"]
    assert cluster.bodies[VOLUME, "volume-1"]["metadata"]["annotations"] == {"note": "mine"}


NO_PLUGIN = 'error getting deleter volume plugin for volume "volume-1": no volume plugin matched'


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, None, id="Retain leaves it to a person"),
        pytest.param({"reclaim": "Delete"}, ("VolumeFailedDelete", NO_PLUGIN), id="Delete without a deleter"),
        pytest.param(
            {
                "reclaim": "Delete",
                "annotations": {well_known.PROVISIONED_BY: "kubernetes.io/rbd"},
                "finalizers": [well_known.IN_TREE_DELETER],
            },
            ("VolumeFailedDelete", "no volume plugin matched name: kubernetes.io/rbd"),
            id="Delete of what a built-in plugin once made",
        ),
        pytest.param(
            {"reclaim": "Delete", "annotations": {well_known.PROVISIONED_BY: "vendor.example/disk"}},
            None,
            id="Delete of what an external provisioner made",
        ),
        pytest.param(
            {"reclaim": "Delete", "annotations": {well_known.MIGRATED_TO: "vendor.example"}},
            None,
            id="handed to a driver",
        ),
        pytest.param(
            {"reclaim": "Delete", "annotations": {well_known.MIGRATED_TO: ""}}, None, id="handed to some driver"
        ),
        pytest.param(
            {"reclaim": "Recycle"},
            ("VolumeFailedRecycle", "No recycler plugin found for the volume!"),
            id="Recycle without a recycler",
        ),
        pytest.param(
            {"reclaim": "Burn"},
            ("VolumeUnknownReclaimPolicy", "Volume has unrecognized PersistentVolumeReclaimPolicy"),
            id="unknown policy",
        ),
    ],
)
@pytest.mark.req("T42.PC21", "T42.PC22", "T42.PC23")
def test_reclaiming_a_released_volume(given: dict[str, Any], expected: tuple[str, str] | None) -> None:
    released = a_volume(claim_ref=MINE, phase="Released", **given)
    step = volume_sync.next_volume_step(released, None)
    if expected is None:
        assert (step.write, step.events) == (None, ())
        return
    reason, text = expected
    assert step.write == SetVolumePhase(released, "Failed", text)
    assert [(say.type, say.reason, say.message) for say in step.events] == [("Warning", reason, text)]
    failed = volume_sync.next_volume_step(a_volume(claim_ref=MINE, phase="Failed", **given), None)
    assert (failed.write, failed.events) == (None, ())


@pytest.mark.req("T42.PC22")
def test_volume_made_by_hand_for_a_driver_is_left_to_it() -> None:
    body = volume(reclaim="Delete", phase="Released")
    del body["spec"]["local"]
    body["spec"]["csi"] = {"driver": "vendor.example", "volumeHandle": "1"}
    cluster = FakeCluster(body)
    assert cluster.settle(VOLUME, "volume-1") == []
    assert cluster.volume() == "Released to claim-1"


@pytest.mark.parametrize(
    ("pods", "claims", "expected"),
    [
        pytest.param([a_pod(claims=["claim-1"], phase="Running")], [], "Released", id="a running pod uses it"),
        pytest.param([a_pod(claims=["claim-1"])], [], "Released", id="a pending pod uses it"),
        pytest.param([a_pod(claims=["claim-1"], phase="Succeeded")], [], "Failed", id="only a finished pod used it"),
        pytest.param(
            [a_pod(claims=["claim-1"], phase="Running")],
            [claim_body(uid="another-uid")],
            "Failed",
            id="the pod uses a new claim of the name",
        ),
    ],
)
@pytest.mark.req("T42.PC23")
def test_recycling_waits_for_pods(pods: list[Any], claims: list[Body], expected: str) -> None:
    cluster = FakeCluster(volume(reclaim="Recycle", phase="Released"), *claims, pods=pods)
    events = cluster.settle(VOLUME, "volume-1")
    assert cluster.volume() == f"{expected} to claim-1"
    assert events == [f"{'Normal' if expected == 'Released' else 'Warning'} VolumeFailedRecycle"]


@pytest.mark.req("T42.PC19", "T42.PC12")
def test_two_volumes_reserved_for_one_claim_settle_with_one_of_them_free() -> None:
    first = volume(annotations=BY_CONTROLLER)
    second = volume(name="volume-2", annotations=BY_CONTROLLER)
    cluster = FakeCluster(first, second, bound_here)
    cluster.settle(CLAIM, "default/claim-1")
    cluster.settle(VOLUME, "volume-1")
    cluster.settle(VOLUME, "volume-2")
    assert (cluster.volume("volume-1"), cluster.volume("volume-2")) == ("Bound to claim-1 by controller", "Available")
