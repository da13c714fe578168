"""Plugins that gate whole pods, and DefaultPreemption, the PostFilter plugin."""

from typing import Final

from mooring.control.feature_gates import CLAIM_ROLLBACK, VOLUME_SCHEDULING, FeatureGates
from mooring.scheduler.cluster_events import ADD, CLAIM, UPDATE, QueueingHint
from mooring.scheduler.framework.interface import CycleState, Plugin, PreFilter
from mooring.scheduler.preemption.evaluator import Preemption, PreemptionInput, preempt
from mooring.volumes.claim_rollback import is_rolling_back


class ClaimsInRollback(PreFilter):
    """Rejects pods with a claim that is being rolled back (feature gate ClaimRollback)."""

    name = "ClaimsInRollback"
    volumes_only = True
    #: ADD: a recreated claim of the same name is not being rolled back.
    events_to_register = (QueueingHint("PersistentVolumeClaim", (ADD, UPDATE), interest_kind=CLAIM),)

    def prefilter(self, state: CycleState) -> str | None:
        for key in state.pod.claim_keys:
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


def gate_plugins(gates: FeatureGates) -> list[Plugin]:
    """The plugins that feature gates put before all others."""
    plugins: list[Plugin] = []
    if gates.enabled(CLAIM_ROLLBACK):
        plugins.append(ClaimsInRollback())
    if not gates.enabled(VOLUME_SCHEDULING):
        plugins.append(VolumeSchedulingDisabled())
    return plugins


DEVICES: Final = "mooring does not support resourceClaims yet"
GROUP: Final = "mooring does not support schedulingGroup yet: pods of a group are not scheduled one by one"


class Unsupported(PreFilter):
    """Rejects pods that need features that Mooring does not implement.

    Without kube-scheduler's DynamicResources and GangScheduling, pods with devices or of a PodGroup would be scheduled
    wrongly: one pod of a group could hold resources that the others need.
    """

    name = "Unsupported"
    #: Only an update of the pod itself helps.
    events_to_register = (QueueingHint("Pod", (UPDATE,), lambda pod, updated: updated.key == pod.key),)

    def prefilter(self, state: CycleState) -> str | None:
        if state.pod.spec.resource_claims:
            return DEVICES
        return GROUP if state.pod.spec.scheduling_group is not None else None
