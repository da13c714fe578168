"""PodTopologySpread: pods of a kind are spread over zones, hosts or whatever a constraint names.

A constraint counts matching pods per domain of a topology key. What must hold filters: with the pod, no domain may have
more than `maxSkew` more than the one with the fewest. What is only wished for scores: the fewer the better, and a key
with many domains weighs more. Nodes without the key are outside.
"""

import math
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

import numpy as np

from mooring.api import keys
from mooring.api.label_selector import SelectorError
from mooring.api.views.pod import Pod
from mooring.scheduler import changes, scores
from mooring.scheduler.columns import Vector
from mooring.scheduler.contract import (
    Change,
    Cycle,
    HeedsPods,
    Hint,
    PreFilter,
    Rejection,
    RejectionCode,
    Score,
    Scores,
)
from mooring.scheduler.domains import Census
from mooring.scheduler.spreading import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    Constraint,
    constraints_of,
    counted_nodes,
    default_constraints,
)
from mooring.volumes.nodeset import EMPTY, NodeSet, from_mask, to_mask

UNEVEN: Final = "node(s) didn't match pod topology spread constraints"
UNLABELLED: Final = f"{UNEVEN} (missing required label)"


class _Required(tuple[Constraint, ...]):
    """What must hold; kept between the methods of one cycle."""


class _Wished(tuple[Constraint, ...]):
    """What should hold."""


def _is_counted(pod: Pod, change: Change) -> bool:
    other = change.object
    if not isinstance(other, Pod) or other.namespace != pod.namespace:
        return False
    try:
        return any(constraint.matches(other) for constraint in constraints_of(pod, DO_NOT_SCHEDULE))
    except SelectorError:
        # Refused as not understandable; no pod changes that.
        return False


class PodTopologySpread:
    name: ClassVar[str] = "PodTopologySpread"
    weight: ClassVar[int] = 2
    wakes_on: ClassVar[tuple[Hint, ...]] = (
        Hint("Pod", frozenset({changes.ADD, changes.DELETE}), _is_counted),
        # Which labels the pod had before is no longer known: it may have been counted.
        Hint("Pod", frozenset({changes.UPDATE}), None, frozenset({changes.LABELS, changes.LEAVING})),
        Hint("Node", frozenset({changes.ADD, changes.DELETE})),
        Hint("Node", frozenset({changes.UPDATE}), None, frozenset({changes.LABELS, changes.TAINTS})),
    )

    def prefilter(self, cycle: Cycle) -> str | None:
        if not cycle.pod.spec.topology_spread_constraints:
            return None
        try:
            cycle.remember(_Required(constraints_of(cycle.pod, DO_NOT_SCHEDULE)))
            cycle.remember(_Wished(constraints_of(cycle.pod, SCHEDULE_ANYWAY)))
        except SelectorError as error:
            return f"pod's topology spread constraints cannot be understood: {error}"
        return None

    def filter(self, cycle: Cycle) -> Iterable[Rejection]:
        constraints = cycle.recall(_Required) if cycle.pod.spec.topology_spread_constraints else ()
        if not constraints:
            return
        domains, left = cycle.snapshot.domains, cycle.snapshot.nodes
        labelled = _labelled(cycle, constraints)
        # A node is named with its first problem only.
        unlabelled, uneven = EMPTY, EMPTY
        for constraint in constraints:
            unlabelled |= left & ~domains.having(constraint.topology_key)
            left &= ~unlabelled
            census = _census(cycle, constraint, labelled)
            least = census.least if census.domains >= constraint.min_domains else 0.0
            most = constraint.max_skew + least - constraint.matches(cycle.pod)
            uneven |= left & from_mask(census.by_slot > most)
            left &= ~uneven
        if unlabelled:
            yield Rejection(unlabelled, UNLABELLED, RejectionCode.SPREADING_LABEL, resolvable=False)
        if uneven:
            yield Rejection(uneven, UNEVEN, RejectionCode.SPREADING)

    def heeds_pods_on(self, cycle: Cycle) -> NodeSet:
        nodes = EMPTY
        for constraint in cycle.recall(_Required) if cycle.pod.spec.topology_spread_constraints else ():
            if not constraint.counts_nobody:
                nodes |= cycle.snapshot.pods.matching(constraint.pods).nodes
        return nodes

    def score(self, cycle: Cycle, feasible: NodeSet) -> Scores | None:
        """How many pods there are already, weighed, turned round: the most gets the least."""
        own = bool(cycle.pod.spec.topology_spread_constraints)
        constraints = cycle.recall(_Wished) if own else default_constraints(cycle.pod, cycle.snapshot)
        if not constraints:
            return None
        # By default, nodes without a zone are spread over as well as they can be: by host.
        labelled = _labelled(cycle, constraints) if own else cycle.snapshot.nodes
        scored = feasible & labelled
        counted = np.zeros(cycle.snapshot.resources.width)
        for constraint in constraints:
            weight = math.log(_domains(cycle, constraint, scored) + 2)
            having = to_mask(cycle.snapshot.domains.having(constraint.topology_key), len(counted))
            counted += having * (_counts(cycle, constraint, labelled) * weight + (constraint.max_skew - 1))
        return _turned_round(np.floor(counted + 0.5), scored)


def _labelled(cycle: Cycle, constraints: Sequence[Constraint]) -> NodeSet:
    """The nodes that have the keys of all constraints."""
    nodes = cycle.snapshot.nodes
    for constraint in constraints:
        nodes &= cycle.snapshot.domains.having(constraint.topology_key)
    return nodes


def _census(cycle: Cycle, constraint: Constraint, labelled: NodeSet) -> Census:
    snapshot = cycle.snapshot
    counts = {} if constraint.counts_nobody else snapshot.pods.matching(constraint.pods).counts
    nodes = labelled & counted_nodes(constraint, cycle.pod, snapshot)
    return snapshot.domains.census(constraint.topology_key, counts, nodes, snapshot.resources.width)


def _counts(cycle: Cycle, constraint: Constraint, labelled: NodeSet) -> Vector:
    if constraint.topology_key != keys.HOSTNAME:
        return _census(cycle, constraint, labelled).by_slot
    # Upstream's shortcut: each node's own pods count, whether the node is counted in or not.
    counts = np.zeros(cycle.snapshot.resources.width)
    if not constraint.counts_nobody:
        tally = cycle.snapshot.pods.matching(constraint.pods).counts
        counts[list(tally)] = list(tally.values())
    return counts


def _domains(cycle: Cycle, constraint: Constraint, scored: NodeSet) -> int:
    """How many domains the nodes to choose from are in; those without the label are in one of their own."""
    if constraint.topology_key == keys.HOSTNAME:
        return scored.bit_count()
    domains = cycle.snapshot.domains
    labelled = domains.having(constraint.topology_key)
    return domains.census(constraint.topology_key, {}, scored, 0).domains + bool(scored & ~labelled)


def _turned_round(counted: Vector, scored: NodeSet) -> Scores:
    among = to_mask(scored, len(counted))
    if not among.any():
        return np.zeros_like(counted)
    least, most = float(counted[among].min()), float(counted[among].max())
    if most == 0:
        return np.where(among, scores.HIGHEST, 0.0)
    return np.where(among, np.floor(scores.HIGHEST * (most + least - counted) / most), 0.0)


_contract: tuple[PreFilter, HeedsPods, Score] = (PodTopologySpread(), PodTopologySpread(), PodTopologySpread())
