"""PodTopologySpread: spreads pods over the domains of a topology key, such as zones or hosts.

A constraint counts matching pods per domain. DoNotSchedule filters: with the pod, no domain may have more than
`maxSkew` more than the one with the fewest. ScheduleAnyway scores: the fewer the better, and a key with many domains
weighs more. Nodes without the key are rejected or score 0.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from mooring.api import selectors, well_known
from mooring.api.selectors import SelectorError
from mooring.api.views.pods import Pod
from mooring.scheduler.cluster_events import ADD, DELETE, LABELS, TAINTS, TERMINATING, UPDATE, QueueingHint
from mooring.scheduler.framework import scoring
from mooring.scheduler.framework.interface import (
    CycleState,
    NodeRejection,
    PodDependentFilter,
    PreFilter,
    RejectionCode,
    Score,
    Scores,
)
from mooring.scheduler.snapshot.node_indexes import DomainCounts
from mooring.scheduler.snapshot.pod_terms import PodSelector, required_of, with_own_labels
from mooring.scheduler.snapshot.resources import Vector
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.topology import EMPTY, NodeSet, mask_of, node_set_from_mask, union

DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"

#: Topology keys and skews that default constraints have.
_DEFAULTS: Final = ((well_known.HOSTNAME, 3), (well_known.ZONE, 5))
_HONOR: Final = "Honor"


class Constraint(NamedTuple):
    topology_key: str
    max_skew: int
    pods: PodSelector
    #: With fewer domains, the minimum count is taken as 0.
    min_domains: int
    honours_affinity: bool
    honours_taints: bool

    @property
    def matches_no_pod(self) -> bool:
        """As in kube-scheduler, an empty selector counts no pods."""
        return self.pods.labels == selectors.ALL_LABELS

    def matches(self, pod: Pod) -> bool:
        return self.pods.labels.matches(pod.metadata.labels)


def constraints_of(pod: Pod, action: str) -> tuple[Constraint, ...]:
    """The pod's constraints with one whenUnsatisfiable. Raises SelectorError."""
    return tuple(
        Constraint(
            each.topology_key,
            each.max_skew,
            PodSelector(
                with_own_labels(selectors.label_selector_from_view(each.label_selector), pod, each.match_label_keys),
                frozenset({pod.namespace}),
                terminating=False,
            ),
            1 if each.min_domains is None else each.min_domains,
            (each.node_affinity_policy or _HONOR) == _HONOR,
            each.node_taints_policy == _HONOR,
        )
        for each in pod.spec.topology_spread_constraints
        if each.when_unsatisfiable == action
    )


def default_constraints(pod: Pod, snapshot: Snapshot) -> tuple[Constraint, ...]:
    """kube-scheduler's system defaults, for pods of one Service or controller without constraints of their own."""
    selector = snapshot.spread_selectors.of(pod)
    if selector is None:
        return ()
    pods = PodSelector(selector, frozenset({pod.namespace}), terminating=False)
    return tuple(Constraint(key, skew, pods, 1, honours_affinity=True, honours_taints=False) for key, skew in _DEFAULTS)


def pods_by_slot(constraint: Constraint, snapshot: Snapshot) -> Vector:
    """The matching pods on each node, whether the node is counted or not. Read-only."""
    width = snapshot.resources.width
    return np.zeros(width) if constraint.matches_no_pod else snapshot.pods.matching(constraint.pods).column(width)


def counted_nodes(constraint: Constraint, pod: Pod, snapshot: Snapshot) -> NodeSet:
    """The nodes whose pods count, by nodeAffinityPolicy and nodeTaintsPolicy."""
    nodes = snapshot.nodes
    if constraint.honours_affinity:
        try:
            nodes &= required_of(pod).matching(snapshot.topology)
        except SelectorError:
            # Reported by NodeAffinity. As in kube-scheduler, an invalid selector matches no node.
            return 0
    return nodes & ~snapshot.untolerated_nodes(pod) if constraint.honours_taints else nodes


UNEVEN: Final = "node(s) didn't match pod topology spread constraints"
UNLABELLED: Final = f"{UNEVEN} (missing required label)"


class _Required(tuple[Constraint, ...]):
    """DoNotSchedule constraints, in the CycleState."""


class _Preferred(tuple[Constraint, ...]):
    """ScheduleAnyway constraints."""


def _hint_pod_counted(pod: Pod, other: Pod) -> bool:
    if other.namespace != pod.namespace:
        return False
    try:
        return any(constraint.matches(other) for constraint in constraints_of(pod, DO_NOT_SCHEDULE))
    except SelectorError:
        # Rejected by prefilter whatever the pods.
        return False


class PodTopologySpread(PreFilter, PodDependentFilter, Score):
    """Spreads pods over topology domains."""

    name = "PodTopologySpread"
    weight = 2
    events_to_register = (
        QueueingHint("Pod", (ADD, DELETE), _hint_pod_counted),
        # The labels before are not known: the pod may have been counted.
        QueueingHint("Pod", (UPDATE,), updated_fields=(LABELS, TERMINATING)),
        QueueingHint("Node", (ADD, UPDATE, DELETE), updated_fields=(LABELS, TAINTS)),
    )

    def prefilter(self, state: CycleState) -> str | None:
        if not state.pod.spec.topology_spread_constraints:
            return None
        try:
            state.write(_Required(constraints_of(state.pod, DO_NOT_SCHEDULE)))
            state.write(_Preferred(constraints_of(state.pod, SCHEDULE_ANYWAY)))
        except SelectorError as error:
            return f"pod's topology spread constraints cannot be parsed: {error}"
        return None

    def filter(self, state: CycleState) -> Iterable[NodeRejection]:
        constraints = state.read(_Required) if state.pod.spec.topology_spread_constraints else ()
        if not constraints:
            return
        topology, left = state.snapshot.topology, state.snapshot.nodes
        labelled = _labelled(state, constraints)
        # A node is reported with its first reason only.
        unlabelled, uneven = EMPTY, EMPTY
        for constraint in constraints:
            unlabelled |= left & ~topology.having(constraint.topology_key)
            left &= ~unlabelled
            counts = _count_domains(state, constraint, labelled)
            least = counts.least if counts.domains >= constraint.min_domains else 0.0
            most = constraint.max_skew + least - constraint.matches(state.pod)
            uneven |= left & node_set_from_mask(counts.by_slot > most)
            left &= ~uneven
        if unlabelled:
            yield NodeRejection(unlabelled, UNLABELLED, RejectionCode.SPREADING_LABEL, resolvable=False)
        if uneven:
            yield NodeRejection(uneven, UNEVEN, RejectionCode.SPREADING)

    def pod_dependent_nodes(self, state: CycleState) -> NodeSet:
        constraints = state.read(_Required) if state.pod.spec.topology_spread_constraints else ()
        matching = state.snapshot.pods.matching
        return union(matching(one.pods).nodes for one in constraints if not one.matches_no_pod)

    def score(self, state: CycleState, feasible: NodeSet) -> Scores | None:
        """The matching pods per domain, weighted; fewer score higher."""
        own = bool(state.pod.spec.topology_spread_constraints)
        constraints = state.read(_Preferred) if own else default_constraints(state.pod, state.snapshot)
        if not constraints:
            return None
        # With default constraints, nodes without a zone are spread by host.
        labelled = _labelled(state, constraints) if own else state.snapshot.nodes
        scored = feasible & labelled
        counted = np.zeros(state.snapshot.resources.width)
        for constraint in constraints:
            weight = math.log(_domains(state, constraint, scored) + 2)
            having = mask_of(state.snapshot.topology.having(constraint.topology_key), len(counted))
            counted += having * (_counts(state, constraint, labelled) * weight + (constraint.max_skew - 1))
        return _reversed(np.floor(counted + 0.5), scored)


def _labelled(state: CycleState, constraints: Sequence[Constraint]) -> NodeSet:
    """The nodes that have all topology keys."""
    nodes = state.snapshot.nodes
    for constraint in constraints:
        nodes &= state.snapshot.topology.having(constraint.topology_key)
    return nodes


def _count_domains(state: CycleState, constraint: Constraint, labelled: NodeSet) -> DomainCounts:
    snapshot = state.snapshot
    nodes = labelled & counted_nodes(constraint, state.pod, snapshot)
    return snapshot.domains.counts(constraint.topology_key, pods_by_slot(constraint, snapshot), nodes)


def _counts(state: CycleState, constraint: Constraint, labelled: NodeSet) -> Vector:
    if constraint.topology_key != well_known.HOSTNAME:
        return _count_domains(state, constraint, labelled).by_slot
    # As in kube-scheduler, each node's own pods count, whether the node is counted or not.
    return pods_by_slot(constraint, state.snapshot)


def _domains(state: CycleState, constraint: Constraint, scored: NodeSet) -> int:
    """The number of domains of the scored nodes; nodes without the label are one domain."""
    if constraint.topology_key == well_known.HOSTNAME:
        return scored.bit_count()
    labelled = state.snapshot.topology.having(constraint.topology_key)
    return state.snapshot.domains.among(constraint.topology_key, scored) + bool(scored & ~labelled)


def _reversed(counted: Vector, scored: NodeSet) -> Scores:
    among = mask_of(scored, len(counted))
    if not among.any():
        return np.zeros_like(counted)
    least, most = float(counted[among].min()), float(counted[among].max())
    if most == 0:
        return np.where(among, scoring.MAX_NODE_SCORE, 0.0)
    return np.where(among, np.floor(scoring.MAX_NODE_SCORE * (most + least - counted) / most), 0.0)
