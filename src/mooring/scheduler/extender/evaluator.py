"""Evaluates pods for the verbs filter, prioritize and preempt, and the node of bind. Pure.

Uses the scheduler's snapshot, plugins and volume library, so that a node passes here exactly if it passes the
scheduler's cycle. Only VolumeBinding and NodeVolumeLimits run: VolumeRestrictions and VolumeZone run in kube-scheduler
in either mode, with the same result and on fresher caches.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim
from mooring.scheduler.extender.protocol import MAX_SCORE
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.cycle import NO_NOMINATED_PODS, NO_PROVISIONING_FAILURES, Profile
from mooring.scheduler.framework.interface import CycleState, FilterResult, Plugin
from mooring.scheduler.framework.scoring import MAX_NODE_SCORE
from mooring.scheduler.plugins.volume_binding import PREFERENCE_WEIGHT, NodeVolumeLimits, VolumeBinding
from mooring.scheduler.snapshot.snapshot import RemovedPods, Snapshot
from mooring.volumes.scoring import CapacityPolicy
from mooring.volumes.topology import NodeSet, mask_of, union

#: The extender's weight in kube-scheduler's configuration with which scores count as in this scheduler.
WEIGHT: Final = PREFERENCE_WEIGHT

PROVISIONING_FAILED: Final = "node(s) where provisioning failed before: other nodes are tried first"
UNKNOWN_NODE: Final = "node(s) not yet in the cache of the volume extender"


class Filtered(NamedTuple):
    """The nodes that pass, and the reasons of the others."""

    passing: tuple[str, ...]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


class PodNotCached(NamedTuple):
    """A claim of the pod is not in the cache yet. An error makes kube-scheduler retry, whereas a rejection would last
    until the next cluster event."""

    reason: str


class ExtenderEvaluator:
    """Evaluates pods on one snapshot, which does not change during a call."""

    def __init__(
        self, snapshot: Snapshot, *, policy: CapacityPolicy = CapacityPolicy.SPREAD, gate_plugins: Sequence[Plugin] = ()
    ) -> None:
        """`gate_plugins` are plugins that feature gates put before the others."""
        self._snapshot = snapshot
        self._binding = VolumeBinding(policy=policy)
        #: Also for reserving.
        self.profile = Profile((*gate_plugins, self._binding, NodeVolumeLimits()))

    def filter(
        self, pod: Pod, names: Sequence[str], *, provisioning_failures: Mapping[str, int] = NO_PROVISIONING_FAILURES
    ) -> Filtered | PodNotCached:
        """Of the passing nodes, those with the fewest `provisioning_failures` (by node, for this pod) are kept."""
        state = CycleState(pod, self._snapshot)
        if not pod.spec.volumes:
            return Filtered(tuple(names), {}, {})
        if reason := self._prefilter(state):
            if any(self._snapshot.volumes.claim(key) is None for key in pod.claim_keys):
                return PodNotCached(reason)
            return Filtered((), {}, dict.fromkeys(names, reason))
        return _fewest_failures(self._by_outcome(names, self._run_filters(state)), provisioning_failures)

    def scores(self, pod: Pod, names: Sequence[str]) -> list[int]:
        """One score per name, 0 to 10; all 0 if volumes prefer no node."""
        state = CycleState(pod, self._snapshot)
        claims = state.claims
        scores = None if isinstance(claims, str) or claims.none else self._binding.score(state, self._snapshot.nodes)
        if scores is None:
            return [0] * len(names)
        whole = np.floor(scores * MAX_SCORE / MAX_NODE_SCORE + 0.5).astype(np.int64)
        topology = self._snapshot.topology
        return [int(whole[topology.slot(name)]) if name in topology else 0 for name in names]

    def nodes_worth_preempting(self, pod: Pod, victims: Mapping[str, frozenset[str]]) -> list[str]:
        """The nodes where the pod would fit without the victims (uids by node). Evictions free no volumes, but places
        below the node's volume limits."""
        state = CycleState(pod, self._snapshot)
        if not pod.spec.volumes:
            return list(victims)
        if self._prefilter(state):
            return []
        rejected, unresolvable = _rejected(self._run_filters(state))
        topology = self._snapshot.topology
        worth: list[str] = []
        for name, uids in victims.items():
            node = topology.named(name)
            if node & ~rejected or (node & ~unresolvable and self._fits_without(state, name, uids)):
                worth.append(name)
        return worth

    def rejection(self, state: CycleState, node: str) -> str:
        """Why the pod does not fit one node because of its volumes; "" if it does."""
        if reason := self._prefilter(state):
            return reason
        if node not in self._snapshot.topology:
            return f'node "{node}" not found'
        topology = self._snapshot.topology
        return _Reasons(self._run_filters(state), topology.width).of(topology.slot(node))

    def _fits_without(self, state: CycleState, name: str, uids: frozenset[str]) -> bool:
        victims = [one for one in self._snapshot.pods_on(name) if one.uid in uids]
        with RemovedPods(self._snapshot, victims):
            rejected, _ = _rejected(self._run_filters(state))
        return not self._snapshot.topology.named(name) & rejected

    def _prefilter(self, state: CycleState) -> str:
        """The reason of the first prefilter that rejects the pod on every node, else ""."""
        plugins = self.profile.for_pod(state.pod).prefilters
        return next((reason for plugin in plugins if (reason := plugin.prefilter(state)) is not None), "")

    def _run_filters(self, state: CycleState) -> tuple[FilterResult, ...]:
        return cycle.run_filters(state, self.profile.for_pod(state.pod), NO_NOMINATED_PODS)

    def _by_outcome(self, names: Sequence[str], results: Sequence[FilterResult]) -> Filtered:
        topology = self._snapshot.topology
        rejected, never_fits = (mask_of(nodes, topology.width).tolist() for nodes in _rejected(results))
        reasons = _Reasons(results, topology.width)
        passing: list[str] = []
        failed: dict[str, str] = {}
        unresolvable: dict[str, str] = {}
        for name in names:
            if name not in topology:
                failed[name] = UNKNOWN_NODE
                continue
            slot = topology.slot(name)
            if not rejected[slot]:
                passing.append(name)
            else:
                (unresolvable if never_fits[slot] else failed)[name] = reasons.of(slot)
        return Filtered(tuple(passing), failed, unresolvable)


def _fewest_failures(verdict: Filtered, provisioning_failures: Mapping[str, int]) -> Filtered:
    if not provisioning_failures or not verdict.passing:
        return verdict
    fewest = min(provisioning_failures.get(name, 0) for name in verdict.passing)
    kept = tuple(name for name in verdict.passing if provisioning_failures.get(name, 0) == fewest)
    others = {name: PROVISIONING_FAILED for name in verdict.passing if provisioning_failures.get(name, 0) > fewest}
    return verdict._replace(passing=kept, failed={**verdict.failed, **others})


def _rejected(results: Sequence[FilterResult]) -> tuple[NodeSet, NodeSet]:
    """The rejected nodes, and those of them where preemption would not help."""
    return union(result.nodes for result in results), union(result.unresolvable for result in results)


class _Reasons:
    """Rejection reasons by slot, as columns: a call may name thousands of nodes."""

    def __init__(self, results: Iterable[FilterResult], width: int) -> None:
        self._columns = [
            [(rejection.reason, mask_of(rejection.nodes, width).tolist()) for rejection in rejections]
            for _, rejections in results
        ]

    def of(self, slot: int) -> str:
        """All reasons of the first plugin that rejects the node, as in kube-scheduler; "" if none does."""
        for columns in self._columns:
            reasons = [reason for reason, column in columns if column[slot]]
            if reasons:
                return ", ".join(reasons)
        return ""


#: Claims with failed provisioning that are not bound yet.
MAX_CACHED_CLAIMS: Final = 4096


class FailedProvisioning:
    """Nodes where provisioning failed, by claim: a provisioner that fails clears the claim's selected node.

    kube-scheduler does not remember its states, and scores alone would choose the same node again. Every replica
    observes the same.
    """

    def __init__(self) -> None:
        self._by_claim: OrderedDict[str, Counter[str]] = OrderedDict()

    def observe(self, before: Claim | None, after: Claim | None) -> None:
        if before is None:
            return
        if after is None or after.uid != before.uid or after.spec.volume_name:
            self._by_claim.pop(before.key, None)
        elif before.selected_node and after.selected_node != before.selected_node:
            self._by_claim.setdefault(after.key, Counter())[before.selected_node] += 1
            self._by_claim.move_to_end(after.key)
            if len(self._by_claim) > MAX_CACHED_CLAIMS:
                self._by_claim.popitem(last=False)

    def of(self, pod: Pod) -> Mapping[str, int]:
        """By node, how often provisioning failed for a claim of the pod."""
        if not self._by_claim:
            return {}
        counted: Counter[str] = Counter()
        for key in dict.fromkeys(pod.claim_keys):
            counted.update(self._by_claim.get(key, {}))
        return counted


#: How long an event may reach this extender after kube-scheduler.
RECHECK_DELAY_SECONDS: Final = 0.05
#: With one delay each, rechecks take at most a tenth of kube-scheduler's time.
RECHECK_INTERVAL_SECONDS: Final = 0.5


class RecheckLimiter:
    """Limits how often a rejection on all nodes is evaluated again after a short delay.

    kube-scheduler may call before the event that made it call has reached this extender; a rejection then lasts until
    the next event. kube-scheduler's only scheduling loop waits meanwhile, hence the limit.
    """

    def __init__(self) -> None:
        self._next = 0.0

    def take(self, now: float) -> bool:
        """Whether a recheck is allowed now."""
        if now < self._next:
            return False
        self._next = now + RECHECK_INTERVAL_SECONDS
        return True
