"""Plugins that gate whole pods, and DefaultPreemption, the PostFilter plugin."""

from collections.abc import Callable
from functools import partial
from typing import Final

from mooring.control.feature_gates import CLAIM_ROLLBACK, VOLUME_SCHEDULING, FeatureGates, Gate
from mooring.scheduler.cluster_events import ADD, CLAIM, DELETE, LABELS, UPDATE, QueueingHint
from mooring.scheduler.framework.interface import CycleState, Plugin, PreFilter
from mooring.scheduler.preemption.evaluator import Preemption, PreemptionInput, preempt
from mooring.volumes.claim_rollback import is_rolling_back


class ClaimsInRollback(PreFilter):
    """Rejects pods with a claim that is being rolled back (feature gate ClaimRollback)."""

    name = "ClaimsInRollback"
    volumes_only = True
    #: ADD: a recreated claim of the same name is not being rolled back.
    events_to_register = (QueueingHint("PersistentVolumeClaim", (ADD, UPDATE), interest_kind=CLAIM),)

    def __init__(self, is_active: Callable[[], bool] = lambda: True) -> None:
        """While the feature is not active, marks are ignored: no component unbinds claims."""
        self._is_active = is_active

    def prefilter(self, state: CycleState) -> str | None:
        for key in state.pod.claim_keys if self._is_active() else ():
            claim = state.snapshot.volumes.claim(key)
            if claim is not None and is_rolling_back(claim):
                return f'persistentvolumeclaim "{claim.name}" is being rolled back'
        return None


class DefaultPreemption(Plugin):
    """Preempts pods of lower priority for an unschedulable pod."""

    name = "DefaultPreemption"
    events_to_register = ()

    def preempt(self, given: PreemptionInput) -> Preemption | str:
        return preempt(given)


class VolumeSchedulingDisabled(PreFilter):
    """Rejects pods with WaitForFirstConsumer claims while the feature gate VolumeScheduling is off."""

    name = "DelayedBindingOff"
    events_to_register = (QueueingHint("PersistentVolumeClaim", (ADD, UPDATE), interest_kind=CLAIM),)

    def prefilter(self, state: CycleState) -> str | None:
        claims = state.claims
        if isinstance(claims, str) or claims.all_bound:
            return None
        name = (*claims.unbound, *claims.provisioning)[0].claim.name
        return f'persistentvolumeclaim "{name}" waits for a consumer, but the feature gate VolumeScheduling is off'


def gate_plugins(gates: FeatureGates, is_active: Callable[[Gate], bool]) -> list[Plugin]:
    """The plugins that feature gates put before all others; `is_active` is asked at each decision."""
    plugins: list[Plugin] = []
    if gates.enabled(CLAIM_ROLLBACK):
        plugins.append(ClaimsInRollback(partial(is_active, CLAIM_ROLLBACK)))
    if not gates.enabled(VOLUME_SCHEDULING):
        plugins.append(VolumeSchedulingDisabled())
    return plugins


DEVICES: Final = "mooring does not support resourceClaims yet"
GROUP: Final = "mooring does not support schedulingGroup yet: pods of a group are not scheduled one by one"


class GangScheduling(Plugin):
    """Stands for the group where no other plugin rejects a member: its topology constraint, or its quorum.

    The decision itself is the group cycle's (`framework.group_cycle`); here is what can change it.
    """

    name = "GangScheduling"
    events_to_register = (
        QueueingHint("Node", (ADD, UPDATE), updated_fields=(LABELS,)),
        QueueingHint("Pod", (DELETE,)),
    )


class Unsupported(PreFilter):
    """Rejects pods that need features that Mooring does not implement, or that the API server does not serve.

    Without kube-scheduler's DynamicResources, pods with devices would be scheduled wrongly. So would pods of a group
    whose PodGroup cannot be read: one of them could hold resources that the others need.
    """

    name = "Unsupported"
    #: Only an update of the pod itself helps.
    events_to_register = (QueueingHint("Pod", (UPDATE,), lambda pod, updated: updated.key == pod.key),)

    def prefilter(self, state: CycleState) -> str | None:
        if state.pod.spec.resource_claims:
            return DEVICES
        is_grouped = state.pod.spec.scheduling_group is not None
        return GROUP if is_grouped and not state.snapshot.schedules_groups else None
