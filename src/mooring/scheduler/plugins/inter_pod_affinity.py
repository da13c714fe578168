"""InterPodAffinity: scheduling near to, or away from, other pods; near means an equal value of the term's topologyKey.

Required terms filter: the pod's affinity and anti-affinity, and the anti-affinity of existing pods against it.
Preferred terms of both sides score. As in kube-scheduler, a node is reported with the first of the three reasons only.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from mooring.api.selectors import SelectorError
from mooring.api.views.pods import Pod
from mooring.scheduler.cluster_events import ADD, DELETE, LABELS, UPDATE, QueueingHint
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
from mooring.scheduler.snapshot.pod_terms import PodTerms, Term, terms_of
from mooring.scheduler.snapshot.resources import Vector
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.topology import EMPTY, NodeSet, union

AFFINITY: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


def _may_match(term: Term, pod: Pod) -> bool:
    """Whether a term selects a pod; True if that depends on namespace labels."""
    return term.pods.reads_namespaces or term.pods.matches(pod, {})


def _hint_pod_added(pod: Pod, added: Pod) -> bool:
    """Whether the added pod matches an affinity term of the pending pod."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_affinity is None:
        return False
    try:
        return any(_may_match(term, added) for term in terms_of(pod).affinity)
    except SelectorError:
        # Rejected by prefilter whatever the pods.
        return False


def _hint_pod_deleted(pod: Pod, deleted: Pod) -> bool:
    """Whether the deleted pod matched an anti-affinity term of the pending pod, or the other way round, or was the last
    of a group of which the pending pod may be the first now."""
    if pod.spec.affinity is None and deleted.spec.affinity is None:
        return False
    try:
        terms = terms_of(pod)
        existing_anti_affinity = terms_of(deleted).anti_affinity
    except SelectorError:
        return False
    if any(_may_match(term, deleted) for term in terms.anti_affinity):
        return True
    if any(_may_match(term, pod) for term in existing_anti_affinity):
        return True
    return bool(terms.affinity) and all(_may_match(term, pod) and _may_match(term, deleted) for term in terms.affinity)


class InterPodAffinity(PreFilter, PodDependentFilter, Score):
    """Inter-pod affinity and anti-affinity."""

    name = "InterPodAffinity"
    weight = 2
    events_to_register = (
        QueueingHint("Pod", (ADD,), _hint_pod_added),
        QueueingHint("Pod", (DELETE,), _hint_pod_deleted),
        # The labels before are not known: the pod may have matched.
        QueueingHint("Pod", (UPDATE,), updated_fields=(LABELS,)),
        # The pods of a deleted node no longer count, before their deletion is observed.
        QueueingHint("Node", (ADD, UPDATE, DELETE), updated_fields=(LABELS,)),
        QueueingHint("Namespace", (ADD, UPDATE, DELETE)),
    )

    def prefilter(self, state: CycleState) -> str | None:
        try:
            state.write(terms_of(state.pod))
        except SelectorError as error:
            return f"pod's affinity to other pods cannot be parsed: {error}"
        return None

    def filter(self, state: CycleState) -> Iterable[NodeRejection]:
        snapshot, terms = state.snapshot, state.read(PodTerms)
        unattracted = snapshot.nodes & ~_near_all(snapshot, state.pod, terms.affinity) if terms.affinity else EMPTY
        if unattracted:
            yield NodeRejection(unattracted, AFFINITY, RejectionCode.POD_AFFINITY, resolvable=False)
        sharing, pods = snapshot.domains.sharing, snapshot.pods
        anti_affine = union(sharing(term.topology_key, pods.matching(term.pods).nodes) for term in terms.anti_affinity)
        anti_affine &= ~unattracted
        if anti_affine:
            yield NodeRejection(anti_affine, ANTI_AFFINITY, RejectionCode.POD_ANTI_AFFINITY)
        existing_anti_affine = union(sharing(key, carriers.nodes) for key, carriers in pods.forbidding(state.pod))
        existing_anti_affine &= ~(unattracted | anti_affine)
        if existing_anti_affine:
            yield NodeRejection(existing_anti_affine, EXISTING_ANTI_AFFINITY, RejectionCode.EXISTING_POD_ANTI_AFFINITY)

    def pod_dependent_nodes(self, state: CycleState) -> NodeSet:
        pods, terms = state.snapshot.pods, state.read(PodTerms)
        nodes = pods.matching(*(term.pods for term in terms.affinity)).nodes if terms.affinity else EMPTY
        nodes |= union(pods.matching(term.pods).nodes for term in terms.anti_affinity)
        return nodes | union(carriers.nodes for _, carriers in pods.forbidding(state.pod))

    def score(self, state: CycleState, feasible: NodeSet) -> Scores | None:
        """The weights of the pod's preferred terms and of existing pods' terms that match it, summed by domain."""
        snapshot, width = state.snapshot, state.snapshot.resources.width
        # Summed by topology key first, as a pod may have very many terms.
        weights: dict[str, Vector] = {}
        for key, sums in snapshot.pods.attracting(state.pod):
            weights[key] = weights.get(key, 0.0) + sums.column(width)
        for term, weight in state.read(PodTerms).preferred:
            counts = snapshot.pods.matching(term.pods)
            if counts.nodes:
                weights[term.topology_key] = weights.get(term.topology_key, 0.0) + weight * counts.column(width)
        counted = np.zeros(width)
        for key, by_slot in weights.items():
            counted += snapshot.domains.summed(key, by_slot)
        return scoring.normalize_min_max(counted, feasible) if counted.any() else None


def _near_all(snapshot: Snapshot, pod: Pod, terms: tuple[Term, ...]) -> NodeSet:
    """The nodes that share a domain, by each term's topology key, with a pod that matches all terms. The first pod of a
    group with affinity to itself fits every node that has the topology keys."""
    matching = snapshot.pods.matching(*(term.pods for term in terms)).nodes
    nodes, found = snapshot.nodes, EMPTY
    for term in terms:
        near = snapshot.domains.sharing(term.topology_key, matching)
        found |= near
        nodes &= near
    labels = snapshot.pods.namespace_labels(pod.namespace)
    if found or not all(term.pods.matches(pod, labels) for term in terms):
        return nodes
    nodes = snapshot.nodes
    for term in terms:
        nodes &= snapshot.topology.having(term.topology_key)
    return nodes
