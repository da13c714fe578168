"""The claim state machine: the next write for a claim, its status, and its rollback. Pure.

Every `if` has its `else`: a claim that falls between two branches may lose data. With the gate `ClaimRollback` a
clean claim that is annotated for rollback is unbound: claim first, then volume, then the annotation is removed.
"""

from typing import Any, Final

from mooring.api import well_known
from mooring.api.quantity import QuantityError
from mooring.api.selectors import SelectorError
from mooring.api.views.meta import Amount
from mooring.api.views.storage import Claim, Volume, default_class
from mooring.pvcontroller import actions, migration
from mooring.pvcontroller.actions import EmitEvent, SyncStep
from mooring.pvcontroller.cache import BindingCache
from mooring.pvcontroller.migration import serving_provisioner, unknown_plugin
from mooring.volumes import claim_rollback
from mooring.volumes.matching import Criterion, exact_size, is_reserved_for, outgrows, requirements_of

PENDING = "Pending"
BOUND = "Bound"
LOST = "Lost"


def claim_status_changes(claim: Claim, phase: str, volume: Volume | None) -> dict[str, Any]:
    """The changed fields with their new values, None for a field that goes; empty when the status is right."""
    changed: dict[str, Any] = {} if claim.status.phase == phase else {"phase": phase}
    return changed | (_without_volume(claim) if volume is None else _offered(claim, phase, volume))


def _without_volume(claim: Claim) -> dict[str, Any]:
    said = claim.status
    shown = {
        "accessModes": said.access_modes,
        "capacity": said.capacity,
        "currentVolumeAttributesClassName": said.current_volume_attributes_class_name,
    }
    return {field: None for field, value in shown.items() if value}


def _offered(claim: Claim, phase: str, volume: Volume) -> dict[str, Any]:
    said = claim.status
    changed: dict[str, Any] = {}
    if said.access_modes != volume.spec.access_modes:
        changed["accessModes"] = list(volume.spec.access_modes)
    if said.phase != phase:
        size, before = _usable_size(volume), said.capacity.get("storage")
        if before is None or exact_size(before) != exact_size(size):
            changed["capacity"] = {"storage": size}
    attributes = volume.spec.volume_attributes_class_name
    if (said.phase, phase) == (PENDING, BOUND) and said.current_volume_attributes_class_name != attributes:
        changed["currentVolumeAttributesClassName"] = attributes or None
    return changed


def _usable_size(volume: Volume) -> Amount:
    """The size before a resize that the file system has not seen yet, else the volume's own."""
    before = volume.metadata.annotations.get(well_known.PRE_RESIZE_CAPACITY)
    if before is None:
        return volume.size
    try:
        exact_size(before)
    except QuantityError:
        return volume.size
    return before


ROLLED_BACK = "ClaimRolledBack"
REFUSED = "ClaimRollbackRefused"


def next_rollback_step(claim: Claim, cache: BindingCache) -> SyncStep:
    """For a claim that is marked."""
    if claim.spec.volume_name:
        return _unbind(claim, cache)
    # The claim has no volume any more, or had none when it was marked; no pod can be using one.
    volume = cache.volume(claim_rollback.unbound_from(claim))
    if volume is not None and claim_rollback.detached_from(volume) == claim.uid:
        # Its provisioner is about to remove it, and would make none beside it.
        return _report(claim, PENDING)
    if volume is not None and volume.spec.claim_ref is not None and volume.spec.claim_ref.uid == claim.uid:
        return _release_volume(volume, claim)
    step = _report(claim, PENDING)
    return step if step.write is not None else SyncStep(actions.EndRollback(claim))


def _unbind(claim: Claim, cache: BindingCache) -> SyncStep:
    refused = claim_rollback.unbind_blocker(claim, cache.volume(claim.spec.volume_name)) or _needed(claim, cache)
    if refused is not None:
        text = claim_rollback.REFUSED_TEXT.format(reason=refused)
        return SyncStep(actions.EndRollback(claim), (EmitEvent(claim, "Warning", REFUSED, text),))
    text = claim_rollback.ROLLED_BACK_TEXT.format(volume=claim.spec.volume_name)
    return SyncStep(actions.UnbindClaim(claim), (EmitEvent(claim, "Normal", ROLLED_BACK, text),))


def _needed(claim: Claim, cache: BindingCache) -> str | None:
    """A pod that has a node is its node's to refuse; unbound under its hands, the claim would never come back there."""
    pods = sorted(cache.pods_with_access(claim))
    return f"{'pod' if len(pods) == 1 else 'pods'} {','.join(pods)} may be about to use it" if pods else None


def _release_volume(volume: Volume, claim: Claim) -> SyncStep:
    match claim_rollback.unbound_volume_action(claim, volume):
        case claim_rollback.UnboundVolumeAction.REMOVED:
            return SyncStep(actions.DetachVolume(volume, claim))
        case claim_rollback.UnboundVolumeAction.FREED:
            return SyncStep(actions.ReleaseVolume(volume, whole=True))
        case str():
            # The volume has been reserved for the claim by hand since.
            return SyncStep(actions.EndRollback(claim))


#: Upstream's words of its expand controller, for volumes that no plugin of its own can expand.
NOT_EXPANDED: Final = (
    "Ignoring the PVC: didn't find a plugin capable of expanding the volume; waiting for an external controller to "
    "process this PVC."
)


def next_claim_step(claim: Claim, cache: BindingCache) -> SyncStep:
    note = migration.claim_migration_step(claim)
    if note is not None:
        return SyncStep(note)
    if cache.claim_rollback and claim_rollback.is_rolling_back(claim):
        return next_rollback_step(claim, cache)
    if well_known.BIND_COMPLETED in claim.metadata.annotations:
        return _keep_bound(claim, cache)
    if claim.spec.volume_name:
        return _bind_named(claim, cache)
    return _find_volume(claim, cache)


def _find_volume(claim: Claim, cache: BindingCache) -> SyncStep:
    # The claim names no volume.
    delayed = cache.is_delayed(claim.storage_class)
    if isinstance(delayed, str):
        # Its class does not say when to bind; binding too early could not be undone.
        return SyncStep(problem=delayed)
    try:
        volume = cache.best_volume(claim, delayed=delayed)
    except (SelectorError, QuantityError) as problem:
        return SyncStep(problem=str(problem))
    if volume is not None:
        return _bind(volume, claim, count_use=cache.claim_rollback)
    # No volume fits, or the class is delayed and none is reserved for this claim.
    if not claim.has_class:
        default = default_class(cache.classes.values())
        if default:
            return SyncStep(actions.AssignClass(claim, default))
    if delayed and claim.selected_node is None:
        return _pending(claim, _waiting_event(claim, cache))
    if claim.storage_class:
        return _provision(claim, cache)
    text = "no persistent volumes available for this claim and no storage class is set"
    return _pending(claim, EmitEvent(claim, "Normal", "FailedBinding", text))


def _waiting_event(claim: Claim, cache: BindingCache) -> EmitEvent:
    pods = sorted(cache.waiting_pods(claim))
    if not pods:
        text = "waiting for first consumer to be created before binding"
        return EmitEvent(claim, "Normal", "WaitForFirstConsumer", text)
    what = "pod" if len(pods) == 1 else "pods"
    return EmitEvent(claim, "Normal", "WaitForPodScheduled", f"waiting for {what} {','.join(pods)} to be scheduled")


def _provision(claim: Claim, cache: BindingCache) -> SyncStep:
    # The claim has a class, and is immediate or has its node.
    storage_class = cache.classes.get(claim.storage_class)
    if storage_class is None:
        return _cannot_provision(claim, f'storageclass.storage.k8s.io "{claim.storage_class}" not found')
    provisioner = serving_provisioner(storage_class.provisioner)
    if not provisioner:
        return _cannot_provision(claim, unknown_plugin(storage_class.provisioner))
    if claim.metadata.annotations.get(well_known.STORAGE_PROVISIONER) != provisioner:
        return SyncStep(actions.RequestProvisioning(claim, provisioner))
    text = (
        f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the "
        "system administrator. If volume creation is delayed, please verify that the provisioner is running and "
        "correctly registered."
    )
    return SyncStep(events=(EmitEvent(claim, "Normal", "ExternalProvisioning", text),))


def _cannot_provision(claim: Claim, why: str) -> SyncStep:
    # The status stays as it is: a volume may still be created by hand, or the class later.
    return SyncStep(events=(EmitEvent(claim, "Warning", "ProvisioningFailed", why),))


def _bind_named(claim: Claim, cache: BindingCache) -> SyncStep:
    # volumeName was set by the user, or by a controller that could not finish.
    volume = cache.volume(claim.spec.volume_name)
    if volume is None:
        # It may be created later.
        return _pending(claim)
    if volume.spec.claim_ref is None:
        mismatch = _volume_mismatch(claim, volume)
        if mismatch is None:
            return _bind(volume, claim)
        text = f'Cannot bind to requested volume "{volume.name}": {mismatch}'
        return _pending(claim, EmitEvent(claim, "Warning", "VolumeMismatch", text))
    if is_reserved_for(volume, claim):
        return _bind(volume, claim)
    # The volume belongs to another claim.
    text = f'volume "{volume.name}" already bound to a different claim.'
    taken = EmitEvent(claim, "Warning", "FailedBinding", text)
    if well_known.BOUND_BY_CONTROLLER in claim.metadata.annotations:
        # Not the user but a controller chose this volume, and lost it. A retry would not help.
        return SyncStep(events=(taken,), problem=text)
    return _pending(claim, taken)


def _keep_bound(claim: Claim, cache: BindingCache) -> SyncStep:
    # The claim was completely bound once; there may be data behind it.
    if not claim.spec.volume_name:
        text = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
        return _lost(claim, "ClaimLost", text)
    volume = cache.volume(claim.spec.volume_name)
    if volume is None:
        return _lost(claim, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
    reference = volume.spec.claim_ref
    if reference is None or reference.uid == claim.uid:
        return _bind(volume, claim)
    # The volume is another claim's, or reserved by name without uid.
    return _lost(claim, "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")


def _bind(volume: Volume, claim: Claim, *, count_use: bool = False) -> SyncStep:
    """Volume first, then claim, spec before status: each write alone leaves a state that can be continued.

    With `count_use` a claim without volume is called clean before it has one: afterwards that would be unknown.
    """
    reserved = is_reserved_for(volume, claim)
    reference = volume.spec.claim_ref
    if not reserved or reference is None or reference.uid != claim.uid:
        return SyncStep(actions.ReserveVolume(volume, claim, by_controller=not reserved))
    if volume.status.phase != BOUND:
        return SyncStep(actions.SetVolumePhase(volume, BOUND))
    if count_use and not claim_rollback.is_clean(claim):
        return SyncStep(actions.MarkClean(claim))
    if not claim.fully_bound or claim.spec.volume_name != volume.name:
        return SyncStep(actions.SetClaimVolumeName(claim, volume.name))
    if claim.status.phase != BOUND and "storage" not in volume.spec.capacity:
        return SyncStep(problem=f'PersistentVolume "{volume.name}" is without a storage capacity')
    step = _report(claim, BOUND, volume)
    if step.write is None and outgrows(claim, volume):
        return SyncStep(events=(EmitEvent(claim, "Normal", "ExternalExpanding", NOT_EXPANDED),))
    return step


def _report(claim: Claim, phase: str, volume: Volume | None = None) -> SyncStep:
    changes = claim_status_changes(claim, phase, volume)
    return SyncStep(actions.SetClaimStatus(claim, phase, changes)) if changes else SyncStep()


def _pending(claim: Claim, *events: EmitEvent) -> SyncStep:
    step = _report(claim, PENDING)
    return step if step.write is not None else SyncStep(events=events)


def _lost(claim: Claim, reason: str, text: str) -> SyncStep:
    if claim.status.phase == LOST:
        return SyncStep()
    return _report(claim, LOST)._replace(events=(EmitEvent(claim, "Warning", reason, text),))


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


def _volume_mismatch(claim: Claim, volume: Volume) -> str | None:
    """Why a volume the claim asks for by name cannot be it."""
    needs = requirements_of(claim, selecting=False)
    failed = next((criterion for criterion in _ASKED_BY_NAME if needs.fails(criterion, volume)), None)
    return None if failed is None else _ASKED_BY_NAME[failed].format(volume.name)
