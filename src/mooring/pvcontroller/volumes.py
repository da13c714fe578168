"""The volume state machine: what does a volume's claimRef say, and what follows from it?

Pure, in the same style as `claims`: every `if` has its `else`, `SEEN:` says what is true. A volume is never given
to a second claim and never deleted here: it has no plugin that could delete storage, so reclaiming by deletion is
left to external provisioners or reported.
"""

from typing import Protocol

from mooring.api import keys
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ObjectReference
from mooring.api.views.volume import Volume
from mooring.pvcontroller.intents import ReleaseVolume, Say, SetVolumePhase, Step


class Facts(Protocol):
    def claim_of(self, reference: ObjectReference) -> Claim | None:
        """The claim a claimRef means; None only if it is certain that no claim with that uid exists."""
        ...


def next_step(volume: Volume, facts: Facts) -> Step:
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        # SEEN: unused, or reserved by name for a claim that has not come yet.
        return _phase(volume, "Available")
    claim = facts.claim_of(reference)
    if claim is None:
        # SEEN: the claim this volume was bound to is gone, and will not come back with this uid.
        return _released(volume)
    if not claim.spec.volume_name:
        # SEEN: the volume is ahead of its claim; the claim's own turn completes it.
        if claim.spec.volume_mode != volume.spec.volume_mode:
            text = (
                f'Cannot bind PersistentVolume "{volume.name}" to requested PersistentVolumeClaim "{claim.name}" '
                "due to incompatible volumeMode."
            )
            return Step(
                says=(
                    Say(volume, "Warning", "VolumeMismatch", text),
                    Say(claim, "Warning", "VolumeMismatch", text),
                )
            )
        return Step(look_at_claim=claim.key)
    if claim.spec.volume_name == volume.name:
        return _phase(volume, "Bound")
    # SEEN: the claim is bound to another volume.
    provisioned = keys.PROVISIONED_BY in volume.metadata.annotations
    if provisioned and volume.spec.persistent_volume_reclaim_policy == "Delete":
        # SEEN: made for this claim and not needed: its provisioner removes it.
        return _released(volume)
    return Step(ReleaseVolume(volume, whole=keys.BOUND_BY_CONTROLLER in volume.metadata.annotations))


def _phase(volume: Volume, phase: str) -> Step:
    return Step() if volume.status.phase == phase else Step(SetVolumePhase(volume, phase))


def _released(volume: Volume) -> Step:
    # A Failed volume stays Failed: Released would hide what went wrong.
    if volume.status.phase not in ("Released", "Failed"):
        return Step(SetVolumePhase(volume, "Released"))
    return _reclaim(volume)


def _reclaim(volume: Volume) -> Step:
    annotations = volume.metadata.annotations
    if annotations.get(keys.MIGRATED_TO):
        return Step()
    match volume.spec.persistent_volume_reclaim_policy:
        case "Retain":
            # SEEN: a person decides what happens to the data.
            return Step()
        case "Delete":
            provisioner = annotations.get(keys.PROVISIONED_BY, "")
            external = provisioner and not provisioner.startswith("kubernetes.io/")
            if external or keys.MIGRATED_TO in annotations or volume.spec.csi is not None:
                # SEEN: the external provisioner deletes it.
                return Step()
            text = f'error getting deleter volume plugin for volume "{volume.name}": no volume plugin matched'
            return _failed(volume, "VolumeFailedDelete", text)
        case "Recycle":
            return _failed(volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
        case _:
            text = "Volume has an unrecognized PersistentVolumeReclaimPolicy"
            return _failed(volume, "VolumeUnknownReclaimPolicy", text)


def _failed(volume: Volume, reason: str, text: str) -> Step:
    if volume.status.phase == "Failed":
        return Step()
    return Step(SetVolumePhase(volume, "Failed", text), (Say(volume, "Warning", reason, text),))
