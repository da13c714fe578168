"""Preemption: which pods would have to go for a pod to fit, and on which node that does least harm. Pure.

Node by node, all less important pods are taken out of the snapshot; if the pod fits then, they are put back one after
the other, the most important first and those that a disruption budget protects before all others, and whoever is in the
way stays out: a victim. Every filter is asked, so nobody is evicted where the pod could not go anyway; and no filter
takes volumes as freed by it, so nobody is evicted for a volume. The rules of choice are kube-scheduler's. Evicting is
`evictor`'s work.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mooring.api.timestamps import from_time
from mooring.api.views.pod import Pod
from mooring.scheduler.contract import Cycle, Decision, Said
from mooring.scheduler.disruption import Budgets
from mooring.scheduler.nominations import Nominations
from mooring.scheduler.snapshot import Absence
from mooring.volumes import nodeset
from mooring.volumes.nodeset import EMPTY, NodeSet

NEVER: Final = "not eligible due to preemptionPolicy=Never."
UNDER_WAY: Final = "not eligible due to a terminating pod on the nominated node."
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"

#: What an evicted pod's condition says; by this others know why it goes.
DISRUPTION_TARGET: Final = "DisruptionTarget"
BY_SCHEDULER: Final = "PreemptionByScheduler"

#: How many nodes are tried at most: this share of those in question, but at least so many; kube-scheduler's figures.
TRIED_PERCENT: Final = 10
TRIED_AT_LEAST: Final = 100

#: Added to priorities when they are summed up, so that fewer pods of negative priority weigh less than more of them.
_ABOVE_ZERO: Final = 2**31


class Preemption(NamedTuple):
    """These pods have to leave the node for the pod to fit, the most important first."""

    node: str
    victims: tuple[Pod, ...]
    #: How many of them a budget protects.
    violations: int


@dataclass(frozen=True)
class Attempt:
    """All that preemption needs to know about one failed cycle."""

    cycle: Cycle
    decision: Decision
    budgets: Budgets
    nominations: Nominations
    #: What the filters say about the nodes in the snapshot as it is now, in order.
    ask: Callable[[], Sequence[Said]]
    rng: random.Random


def preempt(attempt: Attempt) -> Preemption | str:
    """The least harmful preemption, or why there is none."""
    pod, snapshot = attempt.cycle.pod, attempt.cycle.snapshot
    resolvable = _resolvable(attempt.decision)
    if why := _ineligible(attempt, resolvable):
        return why
    nodes = list(nodeset.slots(resolvable))
    enough = max(len(nodes) * TRIED_PERCENT // 100, TRIED_AT_LEAST)
    first = attempt.rng.randrange(len(nodes)) if nodes else 0
    found: list[Preemption] = []
    reasons: Counter[str] = Counter()
    for slot in (*nodes[first:], *nodes[:first]):
        outcome = _on_node(attempt, pod, snapshot.topology.name(slot), 1 << slot)
        if isinstance(outcome, Preemption):
            found.append(outcome)
            if len(found) >= enough and not all(one.violations for one in found):
                break
        else:
            reasons.update(outcome)
    if found:
        return min(found, key=_harm)
    all_nodes = snapshot.nodes.bit_count()
    reasons[NOT_HELPFUL] += all_nodes - len(nodes)
    told = sorted(f"{count} {reason}" for reason, count in reasons.items() if count)
    return f"0/{all_nodes} nodes are available: {', '.join(told)}."


def _resolvable(decision: Decision) -> NodeSet:
    """The nodes whose first rejection evicting pods could change."""
    if decision.refusals:
        return EMPTY
    settled, resolvable = EMPTY, EMPTY
    for _, rejections in decision.said:
        rejected, hopeless = EMPTY, EMPTY
        for rejection in rejections:
            rejected |= rejection.nodes
            if not rejection.resolvable:
                hopeless |= rejection.nodes
        resolvable |= rejected & ~hopeless & ~settled
        settled |= rejected
    return resolvable


def _ineligible(attempt: Attempt, resolvable: NodeSet) -> str:
    pod, snapshot = attempt.cycle.pod, attempt.cycle.snapshot
    if pod.spec.preemption_policy == "Never":
        return NEVER
    nominated = attempt.nominations.node_of(pod)
    # Where nothing on the nominated node can help any more, another node has to be found.
    if nominated and snapshot.topology.named(nominated) & resolvable:
        leaving = (one for one in snapshot.pods_on(nominated) if one.spec.priority < pod.spec.priority)
        if any(_is_leaving_for_another(one) for one in leaving):
            return UNDER_WAY
    return ""


def _is_leaving_for_another(pod: Pod) -> bool:
    return pod.deleting and any(
        condition.type == DISRUPTION_TARGET and condition.status == "True" and condition.reason == BY_SCHEDULER
        for condition in pod.status.conditions
    )


def _on_node(attempt: Attempt, pod: Pod, node: str, bit: NodeSet) -> Preemption | tuple[str, ...]:
    """Who has to leave the node, or the reasons why it would not help if all did."""
    snapshot = attempt.cycle.snapshot
    candidates = [one for one in snapshot.pods_on(node) if one.spec.priority < pod.spec.priority]
    if not candidates:
        return (NO_VICTIMS,)
    candidates.sort(key=_importance)
    with Absence(snapshot, candidates) as absent:
        if against := _against(attempt.ask(), bit):
            return against
        victims: list[Pod] = []
        violations = 0
        protected, others = attempt.budgets.split(candidates)
        for number, one in enumerate((*protected, *others)):
            absent.put_back(one)
            if _against(attempt.ask(), bit):
                absent.take_out(one)
                victims.append(one)
                violations += number < len(protected)
    return Preemption(node, tuple(sorted(victims, key=_importance)), violations)


def _against(said: Iterable[Said], bit: NodeSet) -> tuple[str, ...]:
    """All that the first plugin that rejects a node has against it."""
    for _, rejections in said:
        reasons = tuple(rejection.reason for rejection in rejections if rejection.nodes & bit)
        if reasons:
            return reasons
    return ()


def _importance(pod: Pod) -> tuple[int, float]:
    """Sorts the most important first: by priority, then by how long they run."""
    return -pod.spec.priority, _started(pod)


def _started(pod: Pod) -> float:
    """Who has not started yet is the youngest."""
    try:
        return from_time(pod.status.start_time or "")
    except ValueError:
        return math.inf


def _harm(preemption: Preemption) -> tuple[bool, int, int, int, int, float, str]:
    """Sorts the least harmful first: best is where everybody who would have to go is on the way out already."""
    somebody_stays = not all(victim.deleting for victim in preemption.victims)
    priorities = [victim.spec.priority for victim in preemption.victims]
    highest = max(priorities)
    oldest = min(_started(victim) for victim in preemption.victims if victim.spec.priority == highest)
    total = sum(priority + _ABOVE_ZERO for priority in priorities)
    return somebody_stays, preemption.violations, highest, total, len(priorities), -oldest, preemption.node
