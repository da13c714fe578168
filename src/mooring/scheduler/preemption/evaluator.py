"""Preemption: victims per node, and the node where preempting costs least. Pure.

Of the nodes where preemption might help a share is dry-run, and kube-scheduler's rules choose among the results. No
rejection because of volumes is resolvable by preemption. Evicting the victims is the executor's.
"""

import enum
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from mooring.api.times import from_time
from mooring.api.views.pods import Pod
from mooring.scheduler.framework.interface import (
    CycleState,
    Decision,
    Filter,
    FilterResult,
    PodDependentFilter,
    ResourceFilter,
)
from mooring.scheduler.preemption.nominator import DisruptionBudgets, Nominator
from mooring.scheduler.snapshot.resources import NO_SHORTFALLS, NodeShortfall
from mooring.scheduler.snapshot.snapshot import PodInfo, RemovedPods
from mooring.volumes import topology
from mooring.volumes.topology import EMPTY, NodeSet, union

NO_VICTIMS: Final = "No preemption victims found for incoming pod"
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"

#: The condition of preempted pods, and its reason.
DISRUPTION_TARGET: Final = "DisruptionTarget"
BY_SCHEDULER: Final = "PreemptionByScheduler"

#: kube-scheduler's minCandidateNodesPercentage and minCandidateNodesAbsolute: how many nodes are dry-run at most.
MIN_CANDIDATES_PERCENT: Final = 10
MIN_CANDIDATES: Final = 100

#: Added to priorities before they are summed, so that fewer pods of negative priority cost less than more of them.
_PRIORITY_OFFSET: Final = 2**31

#: Start times cached as numbers: the pods of a cluster, roughly.
_CACHED_TIMES: Final = 65536
#: Characters of a time with nanoseconds and a zone.
_MAX_TIME_LENGTH: Final = 40


class Ineligible(enum.StrEnum):
    """Why a pod may not preempt now, in kube-scheduler's words; it keeps its nominated node."""

    NEVER = "not eligible due to preemptionPolicy=Never."
    UNDER_WAY = "not eligible due to a terminating pod on the nominated node."


class Preemption(NamedTuple):
    """The pods to evict from the node, the most important first."""

    node: str
    victims: tuple[Pod, ...]
    #: How many of them violate a disruption budget.
    violations: int


@dataclass(frozen=True)
class PreemptionInput:
    """A failed scheduling cycle, and what preemption needs besides."""

    state: CycleState
    decision: Decision
    budgets: DisruptionBudgets
    nominator: Nominator
    #: The filters of the cycle, in order.
    filters: Sequence[Filter]
    #: Results of some filters on the snapshot as it is now: with nominated pods and, if there are any, without. A node
    #: must pass in both cases.
    run_filters: Callable[[Sequence[Filter]], Sequence[Sequence[FilterResult]]]
    rng: random.Random


def preempt(given: PreemptionInput) -> Preemption | str:
    """The preemption with the lowest cost, or kube-scheduler's message why there is none."""
    pod, snapshot = given.state.pod, given.state.snapshot
    resolvable = nodes_where_preemption_might_help(given.decision)
    if reason := ineligible(given, resolvable):
        return reason
    nodes = list(topology.slots_of(resolvable))
    enough = max(len(nodes) * MIN_CANDIDATES_PERCENT // 100, MIN_CANDIDATES)
    first = given.rng.randrange(len(nodes)) if nodes else 0
    found: list[Preemption] = []
    reasons: Counter[str] = Counter()
    less_important = snapshot.pods.less_important(pod.spec.priority)
    if resolvable & less_important:
        selector = VictimSelector(given)
        for slot in (*nodes[first:], *nodes[:first]):
            if not less_important >> slot & 1:
                continue
            outcome = selector.select_victims(slot)
            if isinstance(outcome, Preemption):
                found.append(outcome)
                if len(found) >= enough and not all(one.violations for one in found):
                    break
            else:
                reasons.update(outcome)
    if found:
        return min(found, key=preemption_cost)
    all_nodes = snapshot.nodes.bit_count()
    reasons[NO_VICTIMS] += (resolvable & ~less_important).bit_count()
    reasons[NOT_HELPFUL] += all_nodes - len(nodes)
    counted = sorted(f"{count} {reason}" for reason, count in reasons.items() if count)
    return f"0/{all_nodes} nodes are available: {', '.join(counted)}."


def nodes_where_preemption_might_help(decision: Decision) -> NodeSet:
    """The nodes whose first rejection is resolvable."""
    if decision.refusals:
        return EMPTY
    settled, resolvable = EMPTY, EMPTY
    for result in decision.filter_results:
        resolvable |= result.nodes & ~result.unresolvable & ~settled
        settled |= result.nodes
    return resolvable


def plugins_that_prevent_preemption(state: CycleState, decision: Decision) -> frozenset[str]:
    """Those whose rejection no eviction resolves, on nodes where preemption might help otherwise: mostly VolumeBinding.
    Once they accept a node the pod can preempt, although the plugin that was first to reject it still does."""
    nodes = nodes_where_preemption_might_help(decision) & state.snapshot.pods.less_important(state.pod.spec.priority)
    if not nodes or state.pod.spec.preemption_policy == "Never":
        return frozenset()
    return frozenset(result.plugin for result in decision.filter_results if result.unresolvable & nodes)


def ineligible(given: PreemptionInput, resolvable: NodeSet) -> str:
    """Why the pod may not preempt others now; "" if it may."""
    pod, snapshot = given.state.pod, given.state.snapshot
    if pod.spec.preemption_policy == "Never":
        return Ineligible.NEVER
    nominated = given.nominator.node_of(pod)
    # If evictions on the nominated node no longer help, another node has to be found.
    if nominated and snapshot.topology.named(nominated) & resolvable:
        lower = (one for one in snapshot.pods_on(nominated) if one.spec.priority < pod.spec.priority)
        if any(is_preempted(one) for one in lower):
            return Ineligible.UNDER_WAY
    return ""


def is_preempted(pod: Pod) -> bool:
    """Whether the pod is terminating because a scheduler preempted it."""
    return pod.deleting and any(
        condition.type == DISRUPTION_TARGET and condition.status == "True" and condition.reason == BY_SCHEDULER
        for condition in pod.status.conditions
    )


def preemption_cost(preemption: Preemption) -> tuple[bool, int, int, int, int, float, str]:
    """Sort key, the cheapest first: a node whose victims are all terminating already is best."""
    evicts = not all(victim.deleting for victim in preemption.victims)
    priorities = [victim.spec.priority for victim in preemption.victims]
    highest = max(priorities)
    oldest = min(start_time(victim) for victim in preemption.victims if victim.spec.priority == highest)
    total = sum(priority + _PRIORITY_OFFSET for priority in priorities)
    return evicts, preemption.violations, highest, total, len(priorities), -oldest, preemption.node


def start_time(pod: Pod) -> float:
    """Seconds since the epoch; infinite for a pod that has not started."""
    text = pod.status.start_time or ""
    return _parsed_time(text) if len(text) <= _MAX_TIME_LENGTH else math.inf


@lru_cache(_CACHED_TIMES)
def _parsed_time(text: str) -> float:
    try:
        return from_time(text)
    except ValueError:
        return math.inf


def _importance(info: PodInfo) -> tuple[int, float]:
    """Sort key, the most important first: by priority, then by start time."""
    return -info.pod.spec.priority, start_time(info.pod)


class VictimSelector:
    """Selects the victims of one node after the other, in a snapshot that does not change meanwhile.

    All pods of lower priority are removed; if the pod fits then, they are added back as long as it does: those that a
    disruption budget protects first, then the most important. The rest are the victims.

    Running every filter at every step on hundreds of nodes would block the scheduler for a second. So resource amounts
    are computed (`ResourceShortfall`), results on nodes that do not depend on their pods are kept, and pods are removed
    from the snapshot only for the other filters.
    """

    def __init__(self, given: PreemptionInput) -> None:
        self._input = given
        self._pod = given.state.pod
        self._snapshot = given.state.snapshot
        self._resources = next((one for one in given.filters if isinstance(one, ResourceFilter)), None)
        with given.nominator.with_nominated_pods(self._snapshot, self._pod) as any_nominated:
            resources = self._resources
            self._shortfalls = NO_SHORTFALLS if resources is None else resources.resource_shortfalls(given.state)
            #: The other filters, with the nodes on which they have to run again.
            self._filters = [
                (
                    one,
                    one.pod_dependent_nodes(given.state)
                    if isinstance(one, PodDependentFilter)
                    else self._snapshot.nodes,
                )
                for one in given.filters
                if one is not resources
            ]
        self._results = given.run_filters(given.filters) if any_nominated else (given.decision.filter_results,)
        self._unresolvable_nodes = self._rejected_regardless_of_pods()

    def select_victims(self, slot: int) -> Preemption | tuple[str, ...]:
        """The victims on the node, or the reasons why the pod would not fit without any of its pods."""
        bit, priority = 1 << slot, self._pod.spec.priority
        node = self._snapshot.topology.name(slot)
        candidates = self._snapshot.pod_infos_on(node, below=priority)
        if not candidates:
            return (NO_VICTIMS,)
        candidates.sort(key=_importance)
        candidates, protected = self._protected_first(candidates)
        shortfall = self._shortfalls.on_node(slot)
        shortfall.remove_pods([one.requests for one in candidates])
        filters = [one for one, nodes in self._filters if nodes & bit]
        if filters or self._resources is None:
            outcome = self._add_back(bit, shortfall, candidates, filters)
        else:
            outcome = self._reasons(bit, shortfall) or shortfall.readd_all()
        if isinstance(outcome, tuple):
            return outcome
        victims = [one for one, stays in zip(candidates, outcome, strict=True) if not stays]
        violations = protected - sum(outcome[:protected])
        if violations:
            victims.sort(key=_importance)
        return Preemption(node, tuple([one.pod for one in victims]), violations)

    def _add_back(
        self, bit: NodeSet, shortfall: NodeShortfall, candidates: Sequence[PodInfo], filters: Sequence[Filter]
    ) -> list[bool] | tuple[str, ...]:
        """Which candidates stay, running the filters for each; or the reasons if the pod does not fit without any."""
        run_filters = self._input.run_filters
        with RemovedPods(self._snapshot, [one.pod for one in candidates]) as removed:
            if reasons := self._reasons(bit, shortfall, filters):
                return reasons
            outcome: list[bool] = []
            for one in candidates:
                stays = shortfall.add_pod(one.requests)
                if stays:
                    removed.put_back(one.pod)
                    stays = not any(_reasons_of(result, bit) for results in run_filters(filters) for result in results)
                    if not stays:
                        removed.take_out(one.pod)
                        shortfall.remove_pods((one.requests,))
                outcome.append(stays)
            return outcome

    def _protected_first(self, candidates: list[PodInfo]) -> tuple[list[PodInfo], int]:
        """Pods whose eviction violates a disruption budget come first; and how many they are."""
        overdrawn = self._input.budgets.overdrawn([one.pod for one in candidates])
        protected = sum(overdrawn)
        if protected:
            pairs = sorted(zip(candidates, overdrawn, strict=True), key=lambda pair: not pair[1])
            candidates = [one for one, _ in pairs]
        return candidates, protected

    def _rejected_regardless_of_pods(self) -> NodeSet:
        dependent = {one.name: nodes for one, nodes in self._filters}
        kept = (result for results in self._results for result in results if result.plugin in dependent)
        return union(result.nodes & ~dependent[result.plugin] for result in kept)

    def _reasons(self, bit: NodeSet, shortfall: NodeShortfall, filters: Sequence[Filter] = ()) -> tuple[str, ...]:
        """All reasons of the first filter that rejects the node; `filters` have to run again."""
        if not (filters or self._unresolvable_nodes & bit):
            return shortfall.reasons()
        reruns = self._input.run_filters(filters) if filters else ((),) * len(self._results)
        for results, rerun in zip(self._results, reruns, strict=True):
            fresh = {result.plugin: result for result in rerun}
            for result in results:
                is_resources = self._resources is not None and result.plugin == self._resources.name
                current = fresh.get(result.plugin, result)
                if reasons := shortfall.reasons() if is_resources else _reasons_of(current, bit):
                    return reasons
        return ()


def _reasons_of(result: FilterResult, bit: NodeSet) -> tuple[str, ...]:
    return tuple(rejection.reason for rejection in result.rejections if rejection.nodes & bit)
