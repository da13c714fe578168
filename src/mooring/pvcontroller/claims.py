"""The claim state machine: what is the next write that brings a claim closer to its volume?

Pure. Written so that every `if` has its `else`: a claim lost between two branches is somebody's data. `SEEN:` notes
say what is known to be true in a branch. The rules and texts are those of Kubernetes' PV controller; provisioning is
handed to external provisioners, there are none inside.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from mooring.api import keys
from mooring.api.label_selector import SelectorError
from mooring.api.quantity import QuantityError
from mooring.api.views.claim import Claim
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.pvcontroller import claim_rollback, claim_status, handover
from mooring.pvcontroller.claim_status import BOUND, LOST, PENDING
from mooring.pvcontroller.intents import (
    AssignClass,
    HandToProvisioner,
    MarkClean,
    PointClaim,
    ReserveVolume,
    Say,
    SetClaimStatus,
    SetVolumePhase,
    Step,
)
from mooring.pvcontroller.provisioners import unknown_plugin, who_serves
from mooring.volumes.clean_claims import is_clean, rolls_back
from mooring.volumes.matching import Criterion, needs_of, outgrows, points_to
from mooring.volumes.pod_claims import is_delayed

#: Upstream's words of its expand controller, for volumes that no plugin of its own can expand.
NOT_EXPANDED: Final = (
    "Ignoring the PVC: didn't find a plugin capable of expanding the volume; waiting for an external controller to "
    "process this PVC."
)


class Facts(Protocol):
    """What the machine may look up. Answers are the newest known, own writes included."""

    @property
    def classes(self) -> Mapping[str, StorageClass]: ...

    @property
    def delayed_binding(self) -> bool:
        """Whether there is a scheduler that decides for classes that wait for their first consumer."""
        ...

    @property
    def claim_rollback(self) -> bool:
        """Whether claims that no pod has used can be unbound again."""
        ...

    def volume(self, name: str) -> Volume | None: ...

    def pods_near(self, claim: Claim) -> Iterable[str]:
        """Names of pods of the claim that were let onto a node, or may still be."""
        ...

    def default_class(self) -> str | None:
        """The newest class marked as default, ties by name; None where there is none."""
        ...

    def best_volume(self, claim: Claim, *, delayed: bool) -> Volume | None:
        """The volume to bind, found through the index; for delayed claims only one already reserved for it.

        Raises SelectorError and QuantityError for a claim that cannot be understood.
        """
        ...

    def waiting_pods(self, claim: Claim) -> Iterable[str]:
        """Names of pods that use the claim, have no node yet and have not finished."""
        ...


def next_step(claim: Claim, facts: Facts) -> Step:
    """The next write for this claim."""
    note = handover.due_on_claim(claim)
    if note is not None:
        return Step(note)
    if facts.claim_rollback and rolls_back(claim):
        return claim_rollback.next_step(claim, facts)
    if keys.BIND_COMPLETED in claim.metadata.annotations:
        return _keep_bound(claim, facts)
    if claim.spec.volume_name:
        return _bind_named(claim, facts)
    return _find_volume(claim, facts)


def _find_volume(claim: Claim, facts: Facts) -> Step:
    # SEEN: the claim names no volume.
    delayed = is_delayed(claim, facts.classes)
    if isinstance(delayed, str):
        # SEEN: its class does not say when to bind; binding too early could not be undone.
        return Step(problem=delayed)
    try:
        volume = facts.best_volume(claim, delayed=delayed)
    except (SelectorError, QuantityError) as problem:
        return Step(problem=str(problem))
    if volume is not None:
        return _bind(volume, claim, count_use=facts.claim_rollback)
    # SEEN: no volume fits, or the class is delayed and none is reserved for this claim.
    if not claim.has_class:
        default = facts.default_class()
        if default is not None:
            return Step(AssignClass(claim, default))
    if delayed and claim.selected_node is None:
        return _pending(claim, _why_waiting(claim, facts))
    if claim.storage_class:
        return _provision(claim, facts)
    text = "no persistent volumes available for this claim and no storage class is set"
    return _pending(claim, Say(claim, "Normal", "FailedBinding", text))


def _why_waiting(claim: Claim, facts: Facts) -> Say:
    if not facts.delayed_binding:
        text = (
            f'storage class "{claim.storage_class}" waits for a consumer, but the feature gate VolumeScheduling '
            "is off: the claim stays unbound"
        )
        return Say(claim, "Warning", "FailedBinding", text)
    pods = sorted(facts.waiting_pods(claim))
    if not pods:
        text = "waiting for first consumer to be created before binding"
        return Say(claim, "Normal", "WaitForFirstConsumer", text)
    what = "pod" if len(pods) == 1 else "pods"
    return Say(claim, "Normal", "WaitForPodScheduled", f"waiting for {what} {','.join(pods)} to be scheduled")


def _provision(claim: Claim, facts: Facts) -> Step:
    # SEEN: the claim has a class, and is immediate or has its node.
    storage_class = facts.classes.get(claim.storage_class)
    if storage_class is None:
        return _cannot_provision(claim, f'storageclass.storage.k8s.io "{claim.storage_class}" not found')
    provisioner = who_serves(storage_class.provisioner)
    if not provisioner:
        return _cannot_provision(claim, unknown_plugin(storage_class.provisioner))
    if claim.metadata.annotations.get(keys.STORAGE_PROVISIONER) != provisioner:
        return Step(HandToProvisioner(claim, provisioner))
    text = (
        f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the "
        "system administrator. If volume creation is delayed, please verify that the provisioner is running and "
        "correctly registered."
    )
    return Step(says=(Say(claim, "Normal", "ExternalProvisioning", text),))


def _cannot_provision(claim: Claim, why: str) -> Step:
    # The status stays as it is: a volume may still be made by hand, or the class may come.
    return Step(says=(Say(claim, "Warning", "ProvisioningFailed", why),))


def _bind_named(claim: Claim, facts: Facts) -> Step:
    # SEEN: somebody set volumeName: the user, or a controller that could not finish.
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
    taken = Say(claim, "Warning", "FailedBinding", text)
    if keys.BOUND_BY_CONTROLLER in claim.metadata.annotations:
        # SEEN: not the user but a controller chose this volume, and lost it. Nobody knows better what to do.
        return Step(says=(taken,), problem=text)
    return _pending(claim, taken)


def _keep_bound(claim: Claim, facts: Facts) -> Step:
    # SEEN: the claim was completely bound once; there may be data behind it.
    if not claim.spec.volume_name:
        text = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
        return _lost(claim, "ClaimLost", text)
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


def _bind(volume: Volume, claim: Claim, *, count_use: bool = False) -> Step:
    """Volume first, then claim, spec before status: each write alone leaves a state that can be continued.

    With `count_use` a claim without volume is called clean before it has one: afterwards nobody could tell.
    """
    reserved = points_to(volume, claim)
    reference = volume.spec.claim_ref
    if not reserved or reference is None or reference.uid != claim.uid:
        return Step(ReserveVolume(volume, claim, by_controller=not reserved))
    if volume.status.phase != BOUND:
        return Step(SetVolumePhase(volume, BOUND))
    if count_use and not is_clean(claim):
        return Step(MarkClean(claim))
    if not claim.fully_bound or claim.spec.volume_name != volume.name:
        return Step(PointClaim(claim, volume.name))
    if claim.status.phase != BOUND and "storage" not in volume.spec.capacity:
        return Step(problem=f'PersistentVolume "{volume.name}" is without a storage capacity')
    step = _report(claim, BOUND, volume)
    if step.write is None and outgrows(claim, volume):
        return Step(says=(Say(claim, "Normal", "ExternalExpanding", NOT_EXPANDED),))
    return step


def _report(claim: Claim, phase: str, volume: Volume | None = None) -> Step:
    changes = claim_status.changes(claim, phase, volume)
    return Step(SetClaimStatus(claim, phase, changes)) if changes else Step()


def _pending(claim: Claim, *says: Say) -> Step:
    step = _report(claim, PENDING)
    return step if step.write is not None else Step(says=says)


def _lost(claim: Claim, reason: str, text: str) -> Step:
    if claim.status.phase == LOST:
        return Step()
    return _report(claim, LOST)._replace(says=(Say(claim, "Warning", reason, text),))


#: What a volume that a claim asks for by name must fulfil, in the order and the words of Kubernetes' PV controller.
#: Selector, phase and affinity are the user's business.
_ASKED_BY_NAME: Final = {
    Criterion.DELETING: 'the volume is marked for deletion "{}"',
    Criterion.SIZE: "requested PV is too small",
    Criterion.CLASS: "storageClassName does not match",
    Criterion.ATTRIBUTES_CLASS: "volumeAttributesClassName does not match",
    Criterion.MODE: "incompatible volumeMode",
    Criterion.ACCESS_MODES: "incompatible accessMode",
}


def _why_unusable(claim: Claim, volume: Volume) -> str | None:
    """Why a volume the claim asks for by name cannot be it."""
    needs = needs_of(claim, selecting=False)
    failed = next((criterion for criterion in _ASKED_BY_NAME if needs.fails(criterion, volume)), None)
    return None if failed is None else _ASKED_BY_NAME[failed].format(volume.name)
