"""InterPodAffinity: pods that want to be near other pods, or away from them.

"Near" is the same value of the node label a term names. Required terms filter: the pod's affinity, its
anti-affinity, and the anti-affinity that pods already placed hold against it. Preferred terms of both sides score.
A node is named with the first of the three reasons only, as upstream reports it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

import numpy as np

from mooring.api.label_selector import SelectorError
from mooring.api.views.pod import Pod
from mooring.scheduler import changes, scores
from mooring.scheduler.affinity import PodTerms, Term, WeightedTerm, terms_of
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
from mooring.scheduler.snapshot import Snapshot
from mooring.scheduler.tally import Tally
from mooring.volumes.nodeset import EMPTY, NodeSet

AFFINITY: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


#: Terms up to which each is looked at by domain alone.
_FEW_TERMS: Final = 32


def _may_mean(term: Term, pod: Pod) -> bool:
    """Whether a term speaks of a pod; where that depends on a namespace's labels, perhaps."""
    return term.pods.reads_namespaces or term.pods.matches(pod, {})


def _attracts(pod: Pod, change: Change) -> bool:
    """A pod came or was relabelled that the waiting one wants to be near."""
    other, affinity = change.object, pod.spec.affinity
    if not isinstance(other, Pod) or affinity is None or affinity.pod_affinity is None:
        return False
    try:
        return any(_may_mean(term, other) for term in terms_of(pod).affinity)
    except SelectorError:
        # Refused as not understandable; no pod changes that.
        return False


def _makes_room(pod: Pod, change: Change) -> bool:
    """A pod went that the waiting one kept away from, that kept the waiting one away, or that was the last of a group
    of which the waiting one may be the first now."""
    other = change.object
    if not isinstance(other, Pod) or (pod.spec.affinity is None and other.spec.affinity is None):
        return False
    try:
        terms = terms_of(pod)
        held_against = terms_of(other).anti_affinity
    except SelectorError:
        return False
    return (
        any(_may_mean(term, other) for term in terms.anti_affinity)
        or any(_may_mean(term, pod) for term in held_against)
        or (bool(terms.affinity) and all(_may_mean(term, pod) and _may_mean(term, other) for term in terms.affinity))
    )


class InterPodAffinity:
    name: ClassVar[str] = "InterPodAffinity"
    weight: ClassVar[int] = 2
    wakes_on: ClassVar[tuple[Hint, ...]] = (
        Hint("Pod", frozenset({changes.ADD}), _attracts),
        Hint("Pod", frozenset({changes.DELETE}), _makes_room),
        # Which labels the pod had before is no longer known: it may have been in the way.
        Hint("Pod", frozenset({changes.UPDATE}), None, frozenset({changes.LABELS})),
        # With a node go its pods, before the API says so of them.
        Hint("Node", frozenset({changes.ADD, changes.DELETE})),
        Hint("Node", frozenset({changes.UPDATE}), None, frozenset({changes.LABELS})),
        Hint("Namespace", frozenset({changes.ADD, changes.UPDATE, changes.DELETE})),
    )

    def prefilter(self, cycle: Cycle) -> str | None:
        try:
            cycle.remember(terms_of(cycle.pod))
        except SelectorError as error:
            return f"pod's affinity to other pods cannot be understood: {error}"
        return None

    def filter(self, cycle: Cycle) -> Iterable[Rejection]:
        snapshot, terms = cycle.snapshot, cycle.recall(PodTerms)
        lonely = snapshot.nodes & ~_near_all(snapshot, cycle.pod, terms.affinity) if terms.affinity else EMPTY
        if lonely:
            yield Rejection(lonely, AFFINITY, RejectionCode.POD_AFFINITY, resolvable=False)
        crowded = EMPTY
        for term in terms.anti_affinity:
            crowded |= snapshot.domains.sharing(term.topology_key, snapshot.pods.matching(term.pods).nodes)
        crowded &= ~lonely
        if crowded:
            yield Rejection(crowded, ANTI_AFFINITY, RejectionCode.POD_ANTI_AFFINITY)
        forbidden = EMPTY
        for key, nodes in _by_key(snapshot.pods.forbidding(cycle.pod)).items():
            forbidden |= snapshot.domains.sharing(key, nodes)
        forbidden &= ~(lonely | crowded)
        if forbidden:
            yield Rejection(forbidden, EXISTING_ANTI_AFFINITY, RejectionCode.EXISTING_POD_ANTI_AFFINITY)

    def heeds_pods_on(self, cycle: Cycle) -> NodeSet:
        pods, terms = cycle.snapshot.pods, cycle.recall(PodTerms)
        nodes = pods.matching(*(term.pods for term in terms.affinity)).nodes if terms.affinity else EMPTY
        for term in terms.anti_affinity:
            nodes |= pods.matching(term.pods).nodes
        for _, holders in pods.forbidding(cycle.pod):
            nodes |= holders.nodes
        return nodes

    def score(self, cycle: Cycle, feasible: NodeSet) -> Scores | None:
        """What the pod prefers of others and what others prefer of it, added up per domain."""
        snapshot = cycle.snapshot
        wishes = [
            (weighted, snapshot.pods.matching(weighted.term.pods)) for weighted in cycle.recall(PodTerms).preferred
        ]
        wishes += snapshot.pods.attracting(cycle.pod)
        width = snapshot.resources.width
        counted = np.zeros(width)
        for key, counts in _weighed(wishes):
            counted += snapshot.domains.summed(key, counts, width)
        return scores.between_least_and_most(counted, feasible) if counted.any() else None


def _by_key(terms: Iterable[tuple[Term, Tally]]) -> dict[str, NodeSet]:
    """Where the pods are that carry terms, by topology key."""
    nodes: dict[str, NodeSet] = {}
    for term, holders in terms:
        nodes[term.topology_key] = nodes.get(term.topology_key, EMPTY) | holders.nodes
    return nodes


def _weighed(wishes: Sequence[tuple[WeightedTerm, Tally]]) -> Iterator[tuple[str, Mapping[int, int]]]:
    """What wishes come to by slot, with their topology keys. Where very many pods have terms of their own, those of a
    key are added up first: looking at each by domain would take long."""
    many = len(wishes) > _FEW_TERMS
    sums: defaultdict[str, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for (term, weight), tally in wishes:
        if not many and tally.counts:
            yield term.topology_key, {slot: weight * count for slot, count in tally.counts.items()}
        elif many:
            total = sums[term.topology_key]
            for slot, count in tally.counts.items():
                total[slot] += weight * count
    yield from sums.items()


def _near_all(snapshot: Snapshot, pod: Pod, terms: tuple[Term, ...]) -> NodeSet:
    """The nodes near a pod that fulfils all terms at once, as seen by each term's own topology key.

    The first pod of a group that wants to be near itself would never find a place; it goes wherever the labels that
    its terms name exist.
    """
    mates = snapshot.pods.matching(*(term.pods for term in terms)).nodes
    nodes, found = snapshot.nodes, EMPTY
    for term in terms:
        near = snapshot.domains.sharing(term.topology_key, mates)
        found |= near
        nodes &= near
    labels = snapshot.pods.namespace_labels(pod.namespace)
    if found or not all(term.pods.matches(pod, labels) for term in terms):
        return nodes
    nodes = snapshot.nodes
    for term in terms:
        nodes &= snapshot.domains.having(term.topology_key)
    return nodes


_contract: tuple[PreFilter, HeedsPods, Score] = (InterPodAffinity(), InterPodAffinity(), InterPodAffinity())
