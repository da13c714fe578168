"""The record of a replacement: what it keeps, what a malformed one is, and the steps that the model does not reach."""

import msgspec
import pytest

from mooring.api import well_known
from mooring.api.views.meta import Meta
from mooring.api.views.storage import Claim, Volume
from mooring.volumes.lost_storage_record import (
    ClaimManifest,
    MalformedRecovery,
    RecoveryConfigMap,
    read_record,
    record_body,
)
from mooring.volumes.unused.proof import UnusedRefusal, UnusedRefusalCode, Usage
from mooring.volumes.unused.record import (
    FINALIZER,
    UNUSED,
    AwaitFinalizers,
    CreateReplacement,
    DeleteUnusedClaim,
    ForgetReplacement,
    ListPods,
    ReleaseClaim,
    ReplacementRecord,
    ReplacementState,
    RestorePolicy,
    ReturnVolume,
    next_replacement_step,
    replacement_record,
)
from support.builders import a_claim, a_volume, claim_body, claim_ref

RECORD = ReplacementRecord("default", "c", "old", "pvc-old", "volume-uid", "Delete", {"metadata": {"name": "c"}})
GONE = UnusedRefusal(UnusedRefusalCode.NOT_BLOCKING, "no unschedulable pod uses it")


PROTECTED = a_claim(name="c", uid="old", finalizers=[FINALIZER, well_known.PVC_PROTECTION], deleting=True)


def claim(*, uid: str = "old", guarded: bool = False, deleting: bool = False) -> Claim:
    guards = [FINALIZER] if guarded else []
    return a_claim(name="c", uid=uid, volume="pvc-old", bound=True, finalizers=guards, deleting=deleting)


def volume(*, policy: str = "Retain", ref: str = "old", uid: str = "volume-uid", marked: bool = False) -> Volume:
    notes = {UNUSED: "old"} if marked else {}
    reference = claim_ref(name="c", uid=ref)
    return a_volume(name="pvc-old", uid=uid, reclaim=policy, claim_ref=reference, annotations=notes)


@pytest.mark.req("R8.released")
def test_next_claim_has_what_its_owner_wrote() -> None:
    """Labels, annotations, owners and spec; without volume, node and the marks of controllers."""
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "set-1"}
    notes = {"team": "blue", well_known.BOUND_BY_CONTROLLER: "yes", well_known.STORAGE_PROVISIONER: "csi"}
    body = claim_body(
        name="c", uid="old", volume="pvc-old", bound=True, selected_node="n1", annotations=notes, owners=[owner]
    )
    body["metadata"]["labels"] = {"app": "db"}
    manifest = msgspec.convert(body, ClaimManifest)
    record = replacement_record(claim(), volume(policy="Delete"), manifest)
    assert (record.policy, record.claim_uid, record.volume_uid) == ("Delete", "old", "volume-uid")
    made = record.manifest
    assert made["metadata"]["labels"] == {"app": "db"}
    assert made["metadata"]["annotations"] == {"team": "blue", well_known.TIMES_REPLACED: "1"}
    assert [each["name"] for each in made["metadata"]["ownerReferences"]] == ["db"]
    assert made["spec"] == {key: value for key, value in body["spec"].items() if key != "volumeName"}
    found = RecoveryConfigMap(metadata=Meta(name=record.name), data=record_body(record)["data"])
    assert record_body(read_record(found, ReplacementRecord)) == record_body(record)


@pytest.mark.parametrize(
    ("name", "text"), [("unused-claim-old", "{"), ("unused-claim-old", "{}"), ("unused-claim-other", None)]
)
def test_malformed_record_is_rejected(name: str, text: str | None) -> None:
    data = {"record": text} if text is not None else record_body(RECORD)["data"]
    with pytest.raises(MalformedRecovery, match=name):
        read_record(RecoveryConfigMap(metadata=Meta(name=name), data=data), ReplacementRecord)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param(
            ReplacementState(claim(guarded=True), volume(), GONE, Usage.NEVER),
            ReleaseClaim(claim(guarded=True)),
            id="refused: the finalizer goes first",
        ),
        pytest.param(
            ReplacementState(claim(), volume(), GONE, Usage.NEVER),
            RestorePolicy(volume(), "Delete"),
            id="refused: then the policy is restored",
        ),
        pytest.param(
            ReplacementState(claim(), volume(policy="Delete"), GONE, Usage.NEVER),
            ForgetReplacement(GONE),
            id="refused: nothing is left to undo",
        ),
        pytest.param(
            ReplacementState(claim(guarded=True), volume(), None, Usage.NEVER),
            ListPods(claim(guarded=True)),
            id="guarded: pods are listed before the deletion",
        ),
        pytest.param(
            ReplacementState(claim(guarded=True), volume(), None, Usage.NEVER, pods_listed=True),
            DeleteUnusedClaim(claim(guarded=True)),
            id="guarded, and pods were listed since",
        ),
        pytest.param(
            ReplacementState(claim(), volume(uid="another"), None, Usage.NEVER),
            ForgetReplacement(),
            id="the volume is another one",
        ),
        pytest.param(
            ReplacementState(claim(deleting=True), volume(), None, Usage.NEVER),
            RestorePolicy(volume(), "Delete"),
            id="its user deletes the claim before it is guarded",
        ),
        pytest.param(
            ReplacementState(PROTECTED, volume(), None, Usage.MAYBE),
            AwaitFinalizers(PROTECTED),
            id="a pod still uses the claim: nothing changes under it",
        ),
        pytest.param(
            ReplacementState(None, volume(), None, Usage.UNKNOWN),
            ReturnVolume(volume(), "Delete"),
            id="the finalizer was removed by hand",
        ),
        pytest.param(
            ReplacementState(None, None, None, Usage.UNKNOWN),
            CreateReplacement({"metadata": {"name": "c"}}),
            id="the volume is deleted",
        ),
        pytest.param(
            ReplacementState(claim(uid="new"), volume(ref="new"), None, Usage.UNKNOWN),
            ForgetReplacement(returned=True),
            id="returned",
        ),
        pytest.param(
            ReplacementState(claim(uid="new"), volume(marked=True), None, Usage.UNKNOWN),
            ForgetReplacement(),
            id="replaced, and the volume retained",
        ),
    ],
)
def test_next_step(state: ReplacementState, expected: object) -> None:
    step = next_replacement_step(RECORD, state)
    assert type(step) is type(expected)
    assert step == expected
