"""Preemption as its rules read: every filter is asked anew about everything, after every pod taken out or put back.

Far too slow for use; what it says is what `mooring.scheduler.preemption` has to say.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from mooring.api.views.pod import Pod
from mooring.scheduler.clearing import NO_VICTIMS, Attempt, Preemption, started
from mooring.scheduler.contract import Said
from mooring.scheduler.preemption import NOT_HELPFUL, TRIED_AT_LEAST, TRIED_PERCENT, harm, ineligible, resolvable_by
from mooring.scheduler.snapshot import Absence
from mooring.volumes import nodeset
from mooring.volumes.nodeset import NodeSet


def preempt_slowly(attempt: Attempt, ask: Callable[[], Sequence[Said]]) -> Preemption | str:
    """`ask` asks all filters, nominated pods counted as the cycle counts them."""
    snapshot = attempt.cycle.snapshot
    resolvable = resolvable_by(attempt.decision)
    if why := ineligible(attempt, resolvable):
        return why
    nodes = list(nodeset.slots(resolvable))
    enough = max(len(nodes) * TRIED_PERCENT // 100, TRIED_AT_LEAST)
    first = attempt.rng.randrange(len(nodes)) if nodes else 0
    found: list[Preemption] = []
    reasons: Counter[str] = Counter()
    for slot in (*nodes[first:], *nodes[:first]):
        outcome = _on_node(attempt, ask, snapshot.topology.name(slot), 1 << slot)
        if isinstance(outcome, Preemption):
            found.append(outcome)
            if len(found) >= enough and not all(one.violations for one in found):
                break
        else:
            reasons.update(outcome)
    if found:
        return min(found, key=harm)
    reasons[NOT_HELPFUL] += snapshot.nodes.bit_count() - len(nodes)
    told = sorted(f"{count} {reason}" for reason, count in reasons.items() if count)
    return f"0/{snapshot.nodes.bit_count()} nodes are available: {', '.join(told)}."


def _on_node(
    attempt: Attempt, ask: Callable[[], Sequence[Said]], node: str, bit: NodeSet
) -> Preemption | tuple[str, ...]:
    pod, snapshot = attempt.cycle.pod, attempt.cycle.snapshot
    candidates = [one for one in snapshot.pods_on(node) if one.spec.priority < pod.spec.priority]
    if not candidates:
        return (NO_VICTIMS,)
    candidates.sort(key=_importance)
    with Absence(snapshot, candidates) as absent:
        if against := _against(ask(), bit):
            return against
        victims: list[Pod] = []
        violations = 0
        marked = attempt.budgets.overdrawn(candidates)
        protected = [one for one, mark in zip(candidates, marked, strict=True) if mark]
        others = [one for one, mark in zip(candidates, marked, strict=True) if not mark]
        for number, one in enumerate((*protected, *others)):
            absent.put_back(one)
            if _against(ask(), bit):
                absent.take_out(one)
                victims.append(one)
                violations += number < len(protected)
    return Preemption(node, tuple(sorted(victims, key=_importance)), violations)


def _against(said: Iterable[Said], bit: NodeSet) -> tuple[str, ...]:
    for _, rejections in said:
        reasons = tuple(rejection.reason for rejection in rejections if rejection.nodes & bit)
        if reasons:
            return reasons
    return ()


def _importance(pod: Pod) -> tuple[int, float]:
    return -pod.spec.priority, started(pod)
