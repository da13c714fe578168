"""The record of a recovery, and the step that follows from the objects as they are."""

import msgspec
import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.volumes.lost_storage import RecoveryRefusalCode, Refusal
from mooring.volumes.lost_storage_record import (
    CLAIM_MANIFEST,
    RECOVERY_RECORD,
    Abandon,
    AwaitClaimDeletion,
    CreateClaim,
    DeleteClaim,
    DeleteLostVolume,
    DeletePodOfLostNode,
    Finish,
    MalformedRecovery,
    RecoveryConfigMap,
    RecoveryRecord,
    RecoveryState,
    ReleaseLostVolume,
    new_claim_body,
    next_step,
    read_record,
    record_body,
)
from support.builders import Body, claim_body, claim_ref, pod_body, volume_body

RECORD = RecoveryRecord("default", "data", "old", "disk", "disk-uid", "n9", well_known.HOSTNAME, {"kind": "x"})
CAME_BACK = Refusal(RecoveryRefusalCode.NODE_EXISTS, "Node n9 exists")
OLD = claim_body(name="data", uid="old", volume="disk")
DELETING = claim_body(name="data", uid="old", volume="disk", deleting=True, finalizers=[well_known.PVC_PROTECTION])
NEW = claim_body(name="data", uid="new")
POD_THERE = pod_body(claims=["data"], node="n9")
GUARDS = [well_known.PV_PROTECTION, well_known.EXTERNAL_PROVISIONER]


def the_volume(uid: str = "disk-uid", claim: str = "old", **changes: object) -> Body:
    return volume_body(
        name="disk",
        node="n9",
        uid=uid,
        claim_ref=claim_ref(name="data", uid=claim),
        **({"reclaim": "Delete"} | changes),
    )


def decoded(body: Body) -> RecoveryConfigMap:
    return RECOVERY_RECORD.decode(msgspec.json.encode(body))


@pytest.mark.parametrize(
    ("claim", "volume", "lost", "expected"),
    [
        pytest.param(OLD, the_volume(), True, DeleteClaim, id="the claim exists"),
        pytest.param(OLD, the_volume(), False, Abandon, id="the Node came back before the claim was deleted"),
        pytest.param(DELETING, the_volume(), True, AwaitClaimDeletion, id="a finalizer keeps the claim"),
        pytest.param(DELETING, the_volume(), False, AwaitClaimDeletion, id="the Node came back while it is kept"),
        pytest.param(None, the_volume(), True, DeleteLostVolume, id="the claim is deleted"),
        pytest.param(NEW, the_volume(), True, DeleteLostVolume, id="its StatefulSet created the next claim"),
        pytest.param(
            None, the_volume(deleting=True, finalizers=GUARDS), True, ReleaseLostVolume, id="the driver's finalizer"
        ),
        pytest.param(
            None,
            the_volume(deleting=True, finalizers=[well_known.PV_PROTECTION]),
            True,
            CreateClaim,
            id="another finalizer of the volume",
        ),
        pytest.param(None, the_volume(reclaim="Retain"), True, CreateClaim, id="Retain keeps the volume"),
        pytest.param(None, the_volume(reclaim="Recycle"), True, CreateClaim, id="Recycle keeps the volume"),
        pytest.param(None, the_volume(), False, CreateClaim, id="the Node came back with the volume"),
        pytest.param(None, the_volume(uid="another"), True, CreateClaim, id="another volume of the name"),
        pytest.param(None, the_volume(claim="another"), True, CreateClaim, id="the volume was given to another claim"),
        pytest.param(None, None, True, CreateClaim, id="both are deleted"),
        pytest.param(NEW, None, True, Finish, id="the next claim exists"),
        pytest.param(NEW, the_volume(reclaim="Retain"), True, Finish, id="the next claim exists, the volume is kept"),
    ],
)
@pytest.mark.req("R9.given-up")
def test_next_step(claim: Body | None, volume: Body | None, lost: bool, expected: type) -> None:
    state = RecoveryState(
        None if claim is None else CLAIM.decode(msgspec.json.encode(claim)),
        None if volume is None else VOLUME.decode(msgspec.json.encode(volume)),
        (),
        None if lost else CAME_BACK,
        node_lost=lost,
    )
    assert isinstance(next_step(RECORD, state), expected)


@pytest.mark.parametrize(("lost", "expected"), [(True, DeletePodOfLostNode), (False, AwaitClaimDeletion)])
def test_pods_are_deleted_only_while_the_node_is_lost(lost: bool, expected: type) -> None:
    claim = CLAIM.decode(msgspec.json.encode(DELETING))
    pods = (POD.decode(msgspec.json.encode(POD_THERE)),)
    assert isinstance(next_step(RECORD, RecoveryState(claim, None, pods, None, node_lost=lost)), expected)


def test_only_finalizers_that_wait_for_storage_are_removed() -> None:
    volume = VOLUME.decode(msgspec.json.encode(the_volume(deleting=True, finalizers=[*GUARDS, "example.com/backup"])))
    step = next_step(RECORD, RecoveryState(None, volume, (), None, node_lost=True))
    assert isinstance(step, ReleaseLostVolume)
    assert step.finalizers == (well_known.PV_PROTECTION, "example.com/backup")


def test_the_next_claim_is_as_the_user_created_it() -> None:
    written = dict.fromkeys((well_known.BIND_COMPLETED, well_known.BOUND_BY_CONTROLLER, well_known.SELECTED_NODE), "x")
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "set-uid", "controller": False}
    body = claim_body(
        name="data", uid="old", volume="disk", labels={"app": "db"}, annotations={"own": "note"} | written,
        owners=[owner], finalizers=[well_known.PVC_PROTECTION], phase="Bound", version="7",
    )  # fmt: skip
    body["spec"]["dataSource"] = {"kind": "VolumeSnapshot", "name": "last", "apiGroup": "snapshot.storage.k8s.io"}
    body["spec"]["resources"]["limits"] = {"storage": "9Gi"}
    made = new_claim_body(CLAIM_MANIFEST.decode(msgspec.json.encode(body)))
    owners = made["metadata"].pop("ownerReferences")
    assert [(each["kind"], each["uid"]) for each in owners] == [("StatefulSet", "set-uid")]
    assert made["metadata"] == {
        "name": "data",
        "namespace": "default",
        "labels": {"app": "db"},
        "annotations": {"own": "note"},
    }
    assert made["spec"] == {key: value for key, value in body["spec"].items() if key != "volumeName"}
    assert "status" not in made


def test_record_survives_the_round_trip() -> None:
    assert read_record(decoded(record_body(RECORD)), RecoveryRecord) == RECORD


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"data": {}}, id="empty"),
        pytest.param({"data": {"record": "{}"}}, id="without fields"),
        pytest.param({"metadata": {"name": "lost-storage-other"}}, id="under another name"),
    ],
)
def test_malformed_records_are_rejected(changed: Body) -> None:
    with pytest.raises(MalformedRecovery):
        read_record(decoded(record_body(RECORD) | changed), RecoveryRecord)
