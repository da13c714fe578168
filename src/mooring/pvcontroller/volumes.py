"""The volume state machine: what does a volume's claimRef say, and what follows from it?

Pure, in the same style as `claims`: every `if` has its `else`, `SEEN:` says what is true. A volume is never given
to a second claim and never deleted here: there is no plugin that could delete or recycle storage, so that is left to
external provisioners or reported.
"""

from collections.abc import Sequence

from mooring.api import keys
from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.pvcontroller import handover
from mooring.pvcontroller.intents import ReleaseVolume, Say, SetVolumePhase, Step
from mooring.pvcontroller.provisioners import is_external, unknown_plugin


def next_step(volume: Volume, claim: Claim | None, *, users: Sequence[str] = ()) -> Step:
    """The next write for this volume.

    `claim` is the claim with the uid in claimRef, None only if it is certain that there is none. `users` are the keys
    of unfinished pods that use a claim of that name although it is gone.
    """
    note = handover.due_on_volume(volume)
    if note is not None:
        return Step(note)
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        # SEEN: unused, or reserved by name for a claim that has not come yet.
        return _phase(volume, "Available")
    if claim is None:
        # SEEN: the claim this volume was bound to is gone, and will not come back with this uid.
        return _released(volume, users)
    if not claim.spec.volume_name:
        # SEEN: the volume is ahead of its claim; the claim's own turn completes it.
        if claim.spec.volume_mode != volume.spec.volume_mode:
            return Step(says=_mode_mismatch(volume, claim))
        return Step(look_at_claim=claim.key)
    if claim.spec.volume_name == volume.name:
        return _phase(volume, "Bound")
    # SEEN: the claim is bound to another volume.
    provisioned = keys.PROVISIONED_BY in volume.metadata.annotations
    if provisioned and volume.spec.persistent_volume_reclaim_policy == "Delete":
        # SEEN: made for this claim and not needed: its provisioner removes it.
        return _released(volume, users)
    return Step(ReleaseVolume(volume, whole=keys.BOUND_BY_CONTROLLER in volume.metadata.annotations))


def _mode_mismatch(volume: Volume, claim: Claim) -> tuple[Say, Say]:
    why = "due to incompatible volumeMode."
    to_volume = f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{claim.name}" {why}'
    to_claim = f'Cannot bind PersistentVolume "{volume.name}" to requested PersistentVolumeClaim {why}'
    return (
        Say(volume, "Warning", "VolumeMismatch", to_volume),
        Say(claim, "Warning", "VolumeMismatch", to_claim),
    )


def _phase(volume: Volume, phase: str) -> Step:
    return Step() if volume.status.phase == phase else Step(SetVolumePhase(volume, phase))


def _released(volume: Volume, users: Sequence[str]) -> Step:
    # A Failed volume stays Failed: Released would hide what went wrong.
    if volume.status.phase not in ("Released", "Failed"):
        return Step(SetVolumePhase(volume, "Released"))
    return _reclaim(volume, users)


def _reclaim(volume: Volume, users: Sequence[str]) -> Step:
    if volume.metadata.annotations.get(keys.MIGRATED_TO):
        # SEEN: a CSI driver looks after it.
        return Step()
    match volume.spec.persistent_volume_reclaim_policy:
        case "Retain":
            # SEEN: a person decides what happens to the data.
            return Step()
        case "Delete":
            return _delete(volume)
        case "Recycle":
            return _recycle(volume, users)
        case _:
            text = "Volume has unrecognized PersistentVolumeReclaimPolicy"
            return _failed(volume, "VolumeUnknownReclaimPolicy", text)


def _delete(volume: Volume) -> Step:
    annotations = volume.metadata.annotations
    provisioner = annotations.get(keys.PROVISIONED_BY, "")
    if provisioner:
        if is_external(provisioner):
            # SEEN: who made it deletes it.
            return Step()
        return _failed(volume, "VolumeFailedDelete", unknown_plugin(provisioner))
    if keys.MIGRATED_TO in annotations or volume.spec.csi is not None:
        # SEEN: made by hand for a CSI driver, whose provisioner deletes it.
        return Step()
    text = f'error getting deleter volume plugin for volume "{volume.name}": no volume plugin matched'
    return _failed(volume, "VolumeFailedDelete", text)


def _recycle(volume: Volume, users: Sequence[str]) -> Step:
    if users:
        # SEEN: somebody may still write to it.
        text = f"Volume is used by pods: {','.join(users)}"
        return Step(says=(Say(volume, "Normal", "VolumeFailedRecycle", text),))
    return _failed(volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!")


def _failed(volume: Volume, reason: str, text: str) -> Step:
    if volume.status.phase == "Failed":
        return Step()
    return Step(SetVolumePhase(volume, "Failed", text), (Say(volume, "Warning", reason, text),))
