"""TaintToleration: taints keep pods away (NoSchedule, NoExecute) or make a node less liked (PreferNoSchedule)."""

from collections.abc import Iterable
from typing import ClassVar, Final

import numpy as np

from mooring.api.tolerations import tolerated
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.scheduler import changes, scores
from mooring.scheduler.contract import Change, Cycle, HeedsPods, Hint, Rejection, RejectionCode, Score, Scores
from mooring.volumes.nodeset import EMPTY, NodeSet, to_mask

#: Since 1.35 the text no longer names the taint: keys and values may be nobody else's business.
REASON: Final = "node(s) had untolerated taint(s)"

_FORBIDDING: Final = frozenset({"NoSchedule", "NoExecute"})
_DISCOURAGING: Final = "PreferNoSchedule"


def _tolerable(pod: Pod, change: Change) -> bool:
    return isinstance(change.object, Node) and all(
        taint.effect not in _FORBIDDING or tolerated(pod.spec.tolerations, taint) for taint in change.object.spec.taints
    )


class TaintToleration:
    name: ClassVar[str] = "TaintToleration"
    weight: ClassVar[int] = 3
    wakes_on: ClassVar[tuple[Hint, ...]] = (
        Hint("Node", frozenset({changes.ADD}), _tolerable),
        Hint("Node", frozenset({changes.UPDATE}), _tolerable, frozenset({changes.TAINTS})),
    )

    def filter(self, cycle: Cycle) -> Iterable[Rejection]:
        nodes: NodeSet = EMPTY
        for taint, tainted in cycle.snapshot.taints.items():
            if taint.effect in _FORBIDDING and not tolerated(cycle.pod.spec.tolerations, taint):
                nodes |= tainted
        if nodes:
            yield Rejection(nodes, REASON, RejectionCode.TAINT, resolvable=False)

    def heeds_pods_on(self, cycle: Cycle) -> NodeSet:
        return EMPTY

    def score(self, cycle: Cycle, feasible: NodeSet) -> Scores | None:
        """The fewer untolerated PreferNoSchedule taints, the better."""
        unwelcome = [
            tainted
            for taint, tainted in cycle.snapshot.taints.items()
            if taint.effect == _DISCOURAGING and tainted & feasible and not tolerated(cycle.pod.spec.tolerations, taint)
        ]
        if not unwelcome:
            return None
        counted = np.zeros(cycle.snapshot.resources.width)
        for tainted in unwelcome:
            counted += to_mask(tainted, len(counted))
        return scores.least_is_best(counted, feasible)


_contract: tuple[HeedsPods, Score] = (TaintToleration(), TaintToleration())
