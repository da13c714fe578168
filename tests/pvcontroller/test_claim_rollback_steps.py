"""The next write for a claim that is marked for rollback, one look at a time."""

from collections.abc import Iterable

import msgspec
import pytest

from mooring.api import well_known
from mooring.api.views.meta import Condition
from mooring.api.views.storage import Claim, Volume
from mooring.pvcontroller.actions import (
    DetachVolume,
    EndRollback,
    ReleaseVolume,
    SetClaimStatus,
    SyncStep,
    UnbindClaim,
    to_request,
)
from mooring.pvcontroller.claim_sync import REFUSED, ROLLED_BACK, next_rollback_step
from mooring.volumes.claim_rollback import CLEAN, ROLLBACK, detached_claim_uid
from support.builders import a_claim, a_volume, claim_ref

UID = "11111111-2222-3333-4444-555555555555"
CHOSEN = {well_known.BOUND_BY_CONTROLLER: well_known.ANNOTATION_SET}
MADE = {well_known.PROVISIONED_BY: "csi.example.com"}
OWN = f"pvc-{UID}"


class Known:
    def __init__(self, *volumes: Volume, near: Iterable[str] = ()) -> None:
        self._volumes = {volume.name: volume for volume in volumes}
        self._near = near

    def volume(self, name: str) -> Volume | None:
        return self._volumes.get(name)

    def pods_with_access(self, claim: Claim) -> Iterable[str]:
        return self._near


def bound(volume: str = "v1", *, clean: str = "True", by_user: bool = False) -> Claim:
    notes = {ROLLBACK: well_known.ANNOTATION_SET} | ({} if by_user else CHOSEN)
    claim = a_claim(name="a", uid=UID, volume=volume, bound=True, annotations=notes, selected_node="n1")
    status = msgspec.structs.replace(claim.status, conditions=(Condition(type=CLEAN, status=clean),))
    return msgspec.structs.replace(claim, status=status)


def unbound(had: str = "v1", *, phase: str = "Pending") -> Claim:
    return a_claim(name="a", uid=UID, annotations={ROLLBACK: had}, phase=phase)


def volume(name: str = "v1", *, notes: dict[str, str] = CHOSEN, reclaim: str = "Retain", uid: str = UID) -> Volume:
    return a_volume(name=name, annotations=notes, reclaim=reclaim, claim_ref=claim_ref(name="a", uid=uid))


DETACHED = detached_claim_uid(bound())


@pytest.mark.req("T40.steps")
@pytest.mark.parametrize(
    ("claim", "known", "write", "reason"),
    [
        pytest.param(bound(), Known(volume()), UnbindClaim, ROLLED_BACK, id="clean: the claim first"),
        pytest.param(bound(clean="False"), Known(volume()), EndRollback, REFUSED, id="used: never"),
        pytest.param(bound(by_user=True), Known(volume()), EndRollback, REFUSED, id="the user's own choice"),
        pytest.param(bound(), Known(volume(), near=["p"]), EndRollback, REFUSED, id="a pod is on its node"),
        pytest.param(bound(), Known(), EndRollback, REFUSED, id="its volume is not known"),
        pytest.param(
            bound(OWN), Known(volume(OWN, notes=MADE, reclaim="Retain")), EndRollback, REFUSED, id="to be retained"
        ),
        pytest.param(unbound(), Known(volume()), ReleaseVolume, "", id="then an existing volume is freed"),
        pytest.param(
            unbound(OWN),
            Known(volume(OWN, notes=MADE, reclaim="Delete")),
            DetachVolume,
            "",
            id="then one made for it loses the claim for good",
        ),
        pytest.param(
            unbound(OWN),
            Known(volume(OWN, notes=MADE, reclaim="Delete", uid=DETACHED)),
            None,
            "",
            id="which its provisioner removes",
        ),
        pytest.param(unbound(phase="Bound"), Known(), SetClaimStatus, "", id="the status follows"),
        pytest.param(unbound(), Known(), EndRollback, "", id="at last the mark goes: the volume is gone"),
        pytest.param(
            unbound(), Known(volume(uid="another")), EndRollback, "", id="at last the mark goes: it is another's"
        ),
        pytest.param(
            unbound(well_known.ANNOTATION_SET),
            Known(volume()),
            EndRollback,
            "",
            id="marked while it had no volume: nothing to undo",
        ),
        pytest.param(unbound("v2"), Known(volume()), EndRollback, "", id="another volume's name in the annotation"),
        pytest.param(
            unbound(), Known(volume(notes={})), EndRollback, "", id="an administrator has reserved the volume since"
        ),
    ],
)
def test_next_step(claim: Claim, known: Known, write: type | None, reason: str) -> None:
    step: SyncStep = next_rollback_step(claim, known)
    assert type(step.write) is (write or type(None))
    assert [say.reason for say in step.events] == ([reason] if reason else [])


def test_what_is_written() -> None:
    claim, own = bound("v1"), volume(OWN, notes=MADE, reclaim="Delete")
    taken = to_request(UnbindClaim(claim))
    assert taken.patch.body == {
        "metadata": {
            "resourceVersion": claim.metadata.resource_version,
            "annotations": {
                well_known.BIND_COMPLETED: None,
                well_known.BOUND_BY_CONTROLLER: None,
                well_known.SELECTED_NODE: None,
                well_known.SELECTED_NODE_DRAFT: None,
                ROLLBACK: "v1",
            },
        },
        "spec": {"volumeName": None},
    }
    forsaken = to_request(DetachVolume(own, claim))
    assert forsaken.patch.body == {
        "metadata": {"resourceVersion": own.metadata.resource_version},
        "spec": {"claimRef": {"uid": f"rollback-{UID}", "resourceVersion": None}},
    }
    ended = to_request(EndRollback(claim))
    assert ended.patch.body == {
        "metadata": {"resourceVersion": claim.metadata.resource_version, "annotations": {ROLLBACK: None}}
    }
