"""Reference implementation of preemption: all filters run again after every pod that is removed or added back.

Too slow for use; `mooring.scheduler.preemption.evaluator` must return the same.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from mooring.api.views.pods import Pod
from mooring.scheduler.framework.interface import FilterResult
from mooring.scheduler.preemption.evaluator import (
    MIN_CANDIDATES,
    MIN_CANDIDATES_PERCENT,
    NO_VICTIMS,
    NOT_HELPFUL,
    Preemption,
    PreemptionInput,
    ineligible,
    nodes_where_preemption_might_help,
    preemption_cost,
    start_time,
)
from mooring.scheduler.snapshot.snapshot import RemovedPods
from mooring.volumes import topology
from mooring.volumes.topology import NodeSet


def preempt_by_definition(
    attempt: PreemptionInput, run_filters: Callable[[], Sequence[FilterResult]]
) -> Preemption | str:
    """`run_filters` runs all filters, with nominated pods as in the scheduling cycle."""
    snapshot = attempt.state.snapshot
    resolvable = nodes_where_preemption_might_help(attempt.decision)
    if reason := ineligible(attempt, resolvable):
        return reason
    nodes = list(topology.slots_of(resolvable))
    enough = max(len(nodes) * MIN_CANDIDATES_PERCENT // 100, MIN_CANDIDATES)
    first = attempt.rng.randrange(len(nodes)) if nodes else 0
    found: list[Preemption] = []
    reasons: Counter[str] = Counter()
    for slot in (*nodes[first:], *nodes[:first]):
        outcome = _on_node(attempt, run_filters, snapshot.topology.name(slot), 1 << slot)
        if isinstance(outcome, Preemption):
            found.append(outcome)
            if len(found) >= enough and not all(one.violations for one in found):
                break
        else:
            reasons.update(outcome)
    if found:
        return min(found, key=preemption_cost)
    reasons[NOT_HELPFUL] += snapshot.nodes.bit_count() - len(nodes)
    texts = sorted(f"{count} {reason}" for reason, count in reasons.items() if count)
    return f"0/{snapshot.nodes.bit_count()} nodes are available: {', '.join(texts)}."


def _on_node(
    attempt: PreemptionInput, run_filters: Callable[[], Sequence[FilterResult]], node: str, bit: NodeSet
) -> Preemption | tuple[str, ...]:
    pod, snapshot = attempt.state.pod, attempt.state.snapshot
    candidates = [one for one in snapshot.pods_on(node) if one.spec.priority < pod.spec.priority]
    if not candidates:
        return (NO_VICTIMS,)
    candidates.sort(key=_importance)
    with RemovedPods(snapshot, candidates) as absent:
        if rejected := _rejections(run_filters(), bit):
            return rejected
        victims: list[Pod] = []
        violations = 0
        marked = attempt.budgets.overdrawn(candidates)
        protected = [one for one, mark in zip(candidates, marked, strict=True) if mark]
        others = [one for one, mark in zip(candidates, marked, strict=True) if not mark]
        for number, one in enumerate((*protected, *others)):
            absent.put_back(one)
            if _rejections(run_filters(), bit):
                absent.take_out(one)
                victims.append(one)
                violations += number < len(protected)
    return Preemption(node, tuple(sorted(victims, key=_importance)), violations)


def _rejections(results: Iterable[FilterResult], bit: NodeSet) -> tuple[str, ...]:
    for _, rejections in results:
        reasons = tuple(rejection.reason for rejection in rejections if rejection.nodes & bit)
        if reasons:
            return reasons
    return ()


def _importance(pod: Pod) -> tuple[int, float]:
    return -pod.spec.priority, start_time(pod)
