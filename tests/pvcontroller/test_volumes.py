"""The volume machine, row by row: what a volume and the claim behind it say, and what one turn makes of it."""

from functools import partial
from typing import Any

import pytest

from builders import Body, a_claim, a_pod, a_volume, claim_body, claim_ref, volume_body
from mooring.api import keys
from mooring.api.kinds import CLAIM, VOLUME
from mooring.pvcontroller import volumes
from mooring.pvcontroller.intents import SetVolumePhase
from pvcontroller.paper_world import PaperWorld

BY_CONTROLLER = {keys.BOUND_BY_CONTROLLER: keys.YES}
MINE = claim_ref(uid="claim-1-uid")

volume = partial(volume_body, claim_ref=MINE, phase="Bound")
bound_here = claim_body(volume="volume-1", bound=True)
bound_elsewhere = claim_body(volume="volume-2", bound=True)


@pytest.mark.parametrize(
    ("body", "claim", "wanted"),
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
            id="its claim went elsewhere, and nobody made it for the claim",
        ),
        pytest.param(
            volume(annotations=BY_CONTROLLER | {keys.PROVISIONED_BY: "vendor.example/disk"}),
            bound_elsewhere,
            "Available",
            id="made for the claim, but to be retained",
        ),
        pytest.param(
            volume(annotations=BY_CONTROLLER | {keys.PROVISIONED_BY: "vendor.example/disk"}, reclaim="Delete"),
            bound_elsewhere,
            "Released to claim-1 by controller",
            id="made for the claim in vain: left to its provisioner",
        ),
    ],
)
@pytest.mark.req("T42.PC14", "T42.PC16", "T42.PC17", "T42.PC18", "T42.PC19", "T42.PC20", "T42.PC25")
def test_phase_of_a_volume(body: Body, claim: Body | None, wanted: str) -> None:
    world = PaperWorld(body, *([claim] if claim else []))
    assert world.settle(VOLUME, "volume-1") == []
    assert world.volume() == wanted


@pytest.mark.req("T42.PC17")
def test_volume_ahead_of_its_claim_has_the_claim_looked_at() -> None:
    step = volumes.next_step(a_volume(claim_ref=MINE), a_claim())
    assert (step.write, step.look_at_claim) == (None, "default/claim-1")


@pytest.mark.parametrize("mode", ["Block", "Filesystem"])
@pytest.mark.req("T42.PC17")
def test_volume_of_another_mode_is_reported_on_both_sides(mode: str) -> None:
    other = "Filesystem" if mode == "Block" else "Block"
    step = volumes.next_step(a_volume(claim_ref=MINE, mode=mode, phase="Bound"), a_claim(mode=other))
    assert (step.write, step.look_at_claim) == (None, "")
    assert [(say.about.name, say.type, say.reason) for say in step.says] == [
        ("volume-1", "Warning", "VolumeMismatch"),
        ("claim-1", "Warning", "VolumeMismatch"),
    ]


@pytest.mark.req("T42.PC19")
def test_release_takes_only_what_the_controller_wrote() -> None:
    user = volume(annotations={"note": "mine"})
    world = PaperWorld(user, bound_elsewhere)
    world.settle(VOLUME, "volume-1")
    assert world.bodies[VOLUME, "volume-1"]["spec"]["claimRef"] == claim_ref()
    ours = volume(annotations=BY_CONTROLLER | {"note": "mine"})
    world = PaperWorld(ours, bound_elsewhere)
    world.settle(VOLUME, "volume-1")
    assert "claimRef" not in world.bodies[VOLUME, "volume-1"]["spec"]
    assert world.bodies[VOLUME, "volume-1"]["metadata"]["annotations"] == {"note": "mine"}


NO_PLUGIN = 'error getting deleter volume plugin for volume "volume-1": no volume plugin matched'


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param({}, None, id="Retain leaves it to a person"),
        pytest.param({"reclaim": "Delete"}, ("VolumeFailedDelete", NO_PLUGIN), id="Delete without a deleter"),
        pytest.param(
            {
                "reclaim": "Delete",
                "annotations": {keys.PROVISIONED_BY: "kubernetes.io/rbd"},
                "finalizers": [keys.IN_TREE_DELETER],
            },
            ("VolumeFailedDelete", "no volume plugin matched name: kubernetes.io/rbd"),
            id="Delete of what a built-in plugin once made",
        ),
        pytest.param(
            {"reclaim": "Delete", "annotations": {keys.PROVISIONED_BY: "vendor.example/disk"}},
            None,
            id="Delete of what an external provisioner made",
        ),
        pytest.param(
            {"reclaim": "Delete", "annotations": {keys.MIGRATED_TO: "vendor.example"}}, None, id="handed to a driver"
        ),
        pytest.param({"reclaim": "Delete", "annotations": {keys.MIGRATED_TO: ""}}, None, id="handed to some driver"),
        pytest.param(
            {"reclaim": "Recycle"},
            ("VolumeFailedRecycle", "No recycler plugin found for the volume!"),
            id="Recycle without a recycler",
        ),
        pytest.param(
            {"reclaim": "Burn"},
            ("VolumeUnknownReclaimPolicy", "Volume has unrecognized PersistentVolumeReclaimPolicy"),
            id="a policy nobody knows",
        ),
    ],
)
@pytest.mark.req("T42.PC21", "T42.PC22", "T42.PC23")
def test_reclaiming_a_released_volume(given: dict[str, Any], wanted: tuple[str, str] | None) -> None:
    released = a_volume(claim_ref=MINE, phase="Released", **given)
    step = volumes.next_step(released, None)
    if wanted is None:
        assert (step.write, step.says) == (None, ())
        return
    reason, text = wanted
    assert step.write == SetVolumePhase(released, "Failed", text)
    assert [(say.type, say.reason, say.message) for say in step.says] == [("Warning", reason, text)]
    failed = volumes.next_step(a_volume(claim_ref=MINE, phase="Failed", **given), None)
    assert (failed.write, failed.says) == (None, ())


@pytest.mark.req("T42.PC22")
def test_volume_made_by_hand_for_a_driver_is_left_to_it() -> None:
    body = volume(reclaim="Delete", phase="Released")
    del body["spec"]["local"]
    body["spec"]["csi"] = {"driver": "vendor.example", "volumeHandle": "1"}
    world = PaperWorld(body)
    assert world.settle(VOLUME, "volume-1") == []
    assert world.volume() == "Released to claim-1"


@pytest.mark.parametrize(
    ("pods", "claims", "wanted"),
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
def test_recycling_waits_for_pods(pods: list[Any], claims: list[Body], wanted: str) -> None:
    world = PaperWorld(volume(reclaim="Recycle", phase="Released"), *claims, pods=pods)
    events = world.settle(VOLUME, "volume-1")
    assert world.volume() == f"{wanted} to claim-1"
    assert events == [f"{'Normal' if wanted == 'Released' else 'Warning'} VolumeFailedRecycle"]


@pytest.mark.req("T42.PC19", "T42.PC12")
def test_two_volumes_reserved_for_one_claim_settle_with_one_of_them_free() -> None:
    first = volume(annotations=BY_CONTROLLER)
    second = volume(name="volume-2", annotations=BY_CONTROLLER)
    world = PaperWorld(first, second, bound_here)
    world.settle(CLAIM, "default/claim-1")
    world.settle(VOLUME, "volume-1")
    world.settle(VOLUME, "volume-2")
    assert (world.volume("volume-1"), world.volume("volume-2")) == ("Bound to claim-1 by controller", "Available")
