"""The volume state machine: the next write for a volume, by its claimRef. Pure.

A volume is never bound to a second claim and never deleted here: no in-tree plugin can delete or recycle storage, so
external provisioners do, or an event reports it.
"""

from collections.abc import Sequence

from mooring.api import well_known
from mooring.api.views.storage import Claim, Volume
from mooring.pvcontroller import migration
from mooring.pvcontroller.actions import EmitEvent, ReleaseVolume, SetVolumePhase, SyncStep
from mooring.pvcontroller.migration import is_external, unknown_plugin


def next_volume_step(volume: Volume, claim: Claim | None, *, users: Sequence[str] = ()) -> SyncStep:
    """The next write for this volume.

    `claim` is the claim with the uid in claimRef, None only if it is certain that there is none. `users` are the keys
    of unfinished pods that use a claim of that name although it is gone.
    """
    note = migration.volume_migration_step(volume)
    if note is not None:
        return SyncStep(note)
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        # Unused, or reserved by name for a claim that has not come yet.
        return _phase(volume, "Available")
    if claim is None:
        # The claim this volume was bound to is gone, and will not come back with this uid.
        return _released(volume, users)
    if not claim.spec.volume_name:
        # The volume is ahead of its claim; the claim's own turn completes it.
        if claim.spec.volume_mode != volume.spec.volume_mode:
            return SyncStep(events=_mode_mismatch(volume, claim))
        return SyncStep(enqueue_claim=claim.key)
    if claim.spec.volume_name == volume.name:
        return _phase(volume, "Bound")
    # The claim is bound to another volume.
    provisioned = well_known.PROVISIONED_BY in volume.metadata.annotations
    if provisioned and volume.spec.persistent_volume_reclaim_policy == "Delete":
        # Provisioned for this claim and not needed: its provisioner removes it.
        return _released(volume, users)
    return SyncStep(ReleaseVolume(volume, whole=well_known.BOUND_BY_CONTROLLER in volume.metadata.annotations))


def _mode_mismatch(volume: Volume, claim: Claim) -> tuple[EmitEvent, EmitEvent]:
    why = "due to incompatible volumeMode."
    to_volume = f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{claim.name}" {why}'
    to_claim = f'Cannot bind PersistentVolume "{volume.name}" to requested PersistentVolumeClaim {why}'
    return (
        EmitEvent(volume, "Warning", "VolumeMismatch", to_volume),
        EmitEvent(claim, "Warning", "VolumeMismatch", to_claim),
    )


def _phase(volume: Volume, phase: str) -> SyncStep:
    return SyncStep() if volume.status.phase == phase else SyncStep(SetVolumePhase(volume, phase))


def _released(volume: Volume, users: Sequence[str]) -> SyncStep:
    # A Failed volume stays Failed: Released would hide what went wrong.
    if volume.status.phase not in ("Released", "Failed"):
        return SyncStep(SetVolumePhase(volume, "Released"))
    if volume.metadata.annotations.get(well_known.MIGRATED_TO):
        # A CSI driver looks after it.
        return SyncStep()
    match volume.spec.persistent_volume_reclaim_policy:
        case "Retain":
            # A person decides what happens to the data.
            return SyncStep()
        case "Delete":
            return _delete(volume)
        case "Recycle" if users:
            # A pod may still write to it.
            text = f"Volume is used by pods: {','.join(users)}"
            return SyncStep(events=(EmitEvent(volume, "Normal", "VolumeFailedRecycle", text),))
        case "Recycle":
            return _failed(volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
        case _:
            text = "Volume has unrecognized PersistentVolumeReclaimPolicy"
            return _failed(volume, "VolumeUnknownReclaimPolicy", text)


def _delete(volume: Volume) -> SyncStep:
    annotations = volume.metadata.annotations
    provisioner = annotations.get(well_known.PROVISIONED_BY, "")
    if provisioner:
        if is_external(provisioner):
            # Its provisioner deletes it.
            return SyncStep()
        return _failed(volume, "VolumeFailedDelete", unknown_plugin(provisioner))
    if well_known.MIGRATED_TO in annotations or volume.spec.csi is not None:
        # Created by hand for a CSI driver, whose provisioner deletes it.
        return SyncStep()
    text = f'error getting deleter volume plugin for volume "{volume.name}": no volume plugin matched'
    return _failed(volume, "VolumeFailedDelete", text)


def _failed(volume: Volume, reason: str, text: str) -> SyncStep:
    if volume.status.phase == "Failed":
        return SyncStep()
    return SyncStep(SetVolumePhase(volume, "Failed", text), (EmitEvent(volume, "Warning", reason, text),))
