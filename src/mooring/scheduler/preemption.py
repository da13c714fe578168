"""Preemption: on which node it does least harm if other pods have to go for a pod to fit. Pure.

Of the nodes that evicting pods could help, a share is tried (`clearing` finds who would have to leave each), and the
least harmful wins. No filter takes volumes as freed by it, so nobody is evicted for a volume. The rules of choice are
kube-scheduler's. Evicting is `evictor`'s work.
"""

import enum
from collections import Counter
from typing import Final

from mooring.api.views.pod import Pod
from mooring.scheduler.clearing import NO_VICTIMS, Attempt, Clearing, Preemption, started
from mooring.scheduler.contract import Decision
from mooring.volumes import nodeset
from mooring.volumes.nodeset import EMPTY, NodeSet

__all__ = ["Attempt", "Preemption", "preempt"]


class Ineligible(enum.StrEnum):
    """Why a pod may not preempt now, in kube-scheduler's words; it keeps the node it was nominated to."""

    NEVER = "not eligible due to preemptionPolicy=Never."
    UNDER_WAY = "not eligible due to a terminating pod on the nominated node."


NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"

#: What an evicted pod's condition says; by this others know why it goes.
DISRUPTION_TARGET: Final = "DisruptionTarget"
BY_SCHEDULER: Final = "PreemptionByScheduler"

#: How many nodes are tried at most: this share of those in question, but at least so many; kube-scheduler's figures.
TRIED_PERCENT: Final = 10
TRIED_AT_LEAST: Final = 100

#: Added to priorities when they are summed up, so that fewer pods of negative priority weigh less than more of them.
_ABOVE_ZERO: Final = 2**31


def preempt(attempt: Attempt) -> Preemption | str:
    """The least harmful preemption, or why there is none."""
    pod, snapshot = attempt.cycle.pod, attempt.cycle.snapshot
    resolvable = resolvable_by(attempt.decision)
    if why := ineligible(attempt, resolvable):
        return why
    nodes = list(nodeset.slots(resolvable))
    enough = max(len(nodes) * TRIED_PERCENT // 100, TRIED_AT_LEAST)
    first = attempt.rng.randrange(len(nodes)) if nodes else 0
    found: list[Preemption] = []
    reasons: Counter[str] = Counter()
    less_important = snapshot.pods.less_important(pod.spec.priority)
    if resolvable & less_important:
        clearing = Clearing(attempt)
        for slot in (*nodes[first:], *nodes[:first]):
            if not less_important >> slot & 1:
                continue
            outcome = clearing.clear(slot)
            if isinstance(outcome, Preemption):
                found.append(outcome)
                if len(found) >= enough and not all(one.violations for one in found):
                    break
            else:
                reasons.update(outcome)
    if found:
        return min(found, key=harm)
    all_nodes = snapshot.nodes.bit_count()
    reasons[NO_VICTIMS] += (resolvable & ~less_important).bit_count()
    reasons[NOT_HELPFUL] += all_nodes - len(nodes)
    told = sorted(f"{count} {reason}" for reason, count in reasons.items() if count)
    return f"0/{all_nodes} nodes are available: {', '.join(told)}."


def resolvable_by(decision: Decision) -> NodeSet:
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


def ineligible(attempt: Attempt, resolvable: NodeSet) -> str:
    """Why the pod may not have others evicted now; "" where it may."""
    pod, snapshot = attempt.cycle.pod, attempt.cycle.snapshot
    if pod.spec.preemption_policy == "Never":
        return Ineligible.NEVER
    nominated = attempt.nominations.node_of(pod)
    # Where nothing on the nominated node can help any more, another node has to be found.
    if nominated and snapshot.topology.named(nominated) & resolvable:
        leaving = (one for one in snapshot.pods_on(nominated) if one.spec.priority < pod.spec.priority)
        if any(is_preempted(one) for one in leaving):
            return Ineligible.UNDER_WAY
    return ""


def is_preempted(pod: Pod) -> bool:
    """Whether a pod is on its way out because a scheduler evicts it for another pod."""
    return pod.deleting and any(
        condition.type == DISRUPTION_TARGET and condition.status == "True" and condition.reason == BY_SCHEDULER
        for condition in pod.status.conditions
    )


def harm(preemption: Preemption) -> tuple[bool, int, int, int, int, float, str]:
    """Sorts the least harmful first: best is where everybody who would have to go is on the way out already."""
    somebody_stays = not all(victim.deleting for victim in preemption.victims)
    priorities = [victim.spec.priority for victim in preemption.victims]
    highest = max(priorities)
    oldest = min(started(victim) for victim in preemption.victims if victim.spec.priority == highest)
    total = sum(priority + _ABOVE_ZERO for priority in priorities)
    return somebody_stays, preemption.violations, highest, total, len(priorities), -oldest, preemption.node
