"""The claim state machine: what is the next write that brings a claim closer to its volume?

Pure. Written so that every `if` has its `else`: a claim lost between two branches is somebody's data. `SEEN:` notes
say what is known to be true in a branch. The rules and texts are those of Kubernetes' PV controller; provisioning is
handed to external provisioners, there are none inside.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from mooring.api import keys, quantity
from mooring.api.views.claim import Claim
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.pvcontroller.intents import (
    AssignClass,
    HandToProvisioner,
    PointClaim,
    ReserveVolume,
    Say,
    SetClaimStatus,
    SetVolumePhase,
    Step,
)
from mooring.volumes.matching import points_to

#: Provisioner names with this prefix belong to plugins that once were built into Kubernetes.
IN_TREE: Final = "kubernetes.io/"


class Facts(Protocol):
    """What the machine may look up. Answers are the newest known, own writes included."""

    def volume(self, name: str) -> Volume | None: ...

    def storage_class(self, name: str) -> StorageClass | None: ...

    def default_class(self) -> str | None:
        """The newest class marked as default, ties by name; None where there is none."""
        ...

    def best_volume(self, claim: Claim, *, delayed: bool) -> Volume | None:
        """The volume to bind, found through the index; for delayed claims only one already reserved for it."""
        ...

    def waiting_pods(self, claim: Claim) -> Iterable[str]:
        """Names of pods that use the claim, have no node yet and have not finished."""
        ...


class ModeNotSet(Exception):
    """A class without volumeBindingMode: the server that stored it did not default it."""

    def __init__(self, storage_class: str) -> None:
        super().__init__(f'VolumeBindingMode not set for StorageClass "{storage_class}"')


class TakenByAnother(Exception):
    """Our own earlier write named a volume that now belongs to another claim: retry, and let it be seen."""


def delayed(claim: Claim, facts: Facts) -> bool:
    """Whether the scheduler, not we, decides when and where this claim is bound."""
    storage_class = facts.storage_class(claim.storage_class) if claim.storage_class else None
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        raise ModeNotSet(storage_class.name)
    return storage_class.volume_binding_mode == "WaitForFirstConsumer"


def next_step(claim: Claim, facts: Facts) -> Step:
    """The next write for this claim. Raises ModeNotSet and TakenByAnother, which mean: retry later."""
    if keys.BIND_COMPLETED in claim.metadata.annotations:
        return _keep_bound(claim, facts)
    if claim.spec.volume_name:
        return _bind_named(claim, facts)
    return _find_volume(claim, facts)


def _find_volume(claim: Claim, facts: Facts) -> Step:
    # SEEN: the claim names no volume.
    wait_for_scheduler = delayed(claim, facts)
    volume = facts.best_volume(claim, delayed=wait_for_scheduler)
    if volume is not None:
        return _bind(volume, claim)
    # SEEN: no volume fits, or the class is delayed and none is reserved for this claim.
    if not claim.has_class:
        default = facts.default_class()
        if default is not None:
            return Step(AssignClass(claim, default))
    if wait_for_scheduler and claim.selected_node is None:
        return _pending(claim, _why_waiting(claim, facts))
    if claim.storage_class:
        return _provision(claim, facts)
    says = Say(
        claim,
        "Normal",
        "FailedBinding",
        "no persistent volumes available for this claim and no storage class is set",
    )
    return _pending(claim, says)


def _why_waiting(claim: Claim, facts: Facts) -> Say:
    pods = sorted(facts.waiting_pods(claim))
    if not pods:
        text = "waiting for first consumer to be created before binding"
        return Say(claim, "Normal", "WaitForFirstConsumer", text)
    what = "pod" if len(pods) == 1 else "pods"
    return Say(claim, "Normal", "WaitForPodScheduled", f"waiting for {what} {','.join(pods)} to be scheduled")


def _provision(claim: Claim, facts: Facts) -> Step:
    # SEEN: the claim has a class, and is immediate or has its node.
    storage_class = facts.storage_class(claim.storage_class)
    if storage_class is None:
        text = f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
        return Step(says=(Say(claim, "Warning", "ProvisioningFailed", text),))
    provisioner = storage_class.provisioner
    if provisioner.startswith(IN_TREE):
        text = f"no volume plugin matched name: {provisioner}"
        return Step(says=(Say(claim, "Warning", "ProvisioningFailed", text),))
    text = (
        f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the "
        "system administrator. If volume creation is delayed, please verify that the provisioner is running and "
        "correctly registered."
    )
    says = (Say(claim, "Normal", "ExternalProvisioning", text),)
    if claim.metadata.annotations.get(keys.STORAGE_PROVISIONER) == provisioner:
        return Step(says=says)
    return Step(HandToProvisioner(claim, provisioner), says)


def _bind_named(claim: Claim, facts: Facts) -> Step:
    # SEEN: somebody set volumeName: the user, or we ourselves before we could finish.
    volume = facts.volume(claim.spec.volume_name)
    if volume is None:
        # SEEN: it may be created later.
        return _pending(claim)
    if volume.spec.claim_ref is None:
        mismatch = _why_unusable(claim, volume)
        if mismatch is None:
            return _bind(volume, claim)
        text = f'Cannot bind to requested volume "{volume.name}": {mismatch}'
        return _pending(claim, Say(claim, "Warning", "VolumeMismatch", text))
    if points_to(volume, claim):
        return _bind(volume, claim)
    # SEEN: the volume belongs to another claim.
    text = f'volume "{volume.name}" already bound to a different claim.'
    if keys.BOUND_BY_CONTROLLER not in claim.metadata.annotations:
        return _pending(claim, Say(claim, "Warning", "FailedBinding", text))
    raise TakenByAnother(text)


def _keep_bound(claim: Claim, facts: Facts) -> Step:
    # SEEN: the claim was completely bound once; there may be data behind it.
    if not claim.spec.volume_name:
        return _lost(
            claim, "ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
        )
    volume = facts.volume(claim.spec.volume_name)
    if volume is None:
        text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        return _lost(claim, "ClaimLost", text)
    reference = volume.spec.claim_ref
    if reference is None or reference.uid == claim.uid:
        return _bind(volume, claim)
    # SEEN: the volume is another claim's, or reserved by a name that nobody completed.
    text = "Two claims are bound to the same volume, this one is bound incorrectly"
    return _lost(claim, "ClaimMisbound", text)


def _bind(volume: Volume, claim: Claim) -> Step:
    """Volume first, then claim, spec before status: each write alone leaves a state that can be continued."""
    reference = volume.spec.claim_ref
    reserved = points_to(volume, claim)
    complete = reserved and reference is not None and reference.uid == claim.uid
    if not complete:
        return Step(ReserveVolume(volume, claim, by_controller=not reserved))
    if volume.status.phase != "Bound":
        return Step(SetVolumePhase(volume, "Bound"))
    if not claim.fully_bound or claim.spec.volume_name != volume.name:
        return Step(PointClaim(claim, volume.name))
    if claim.status.phase != "Bound":
        return Step(SetClaimStatus(claim, "Bound", volume))
    return Step()


def _pending(claim: Claim, *says: Say) -> Step:
    if claim.status.phase == "Pending":
        return Step(says=says)
    return Step(SetClaimStatus(claim, "Pending"), says)


def _lost(claim: Claim, reason: str, text: str) -> Step:
    if claim.status.phase == "Lost":
        return Step()
    return Step(SetClaimStatus(claim, "Lost"), (Say(claim, "Warning", reason, text),))


def _why_unusable(claim: Claim, volume: Volume) -> str | None:
    """Why a volume the claim asks for by name cannot be it. Selector, phase and affinity are the user's business."""
    if volume.deleting:
        return "volume is being deleted"
    if quantity.to_bytes(volume.size) < quantity.to_bytes(claim.request):
        return "requested PV is too small"
    if volume.storage_class != claim.storage_class:
        return "storageClassName does not match"
    if volume.spec.volume_attributes_class_name != claim.spec.volume_attributes_class_name:
        return "volumeAttributesClassName does not match"
    if volume.spec.volume_mode != claim.spec.volume_mode:
        return "incompatible volumeMode"
    if not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
        return "incompatible accessMode"
    return None
