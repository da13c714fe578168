"""Pods on nodes, counted by what other pods' affinity terms ask about.

Without it every decision about a pod with (anti-)affinity would walk over all pods. Here pods with equal labels
form one group; every selector that somebody asked about keeps a tally of matching pods per node, moved along as pods
come and go; and equal terms carried by many replicas are one entry. A decision then costs as many steps as there are
different terms, not pods. It knows slots, not topology: what "near" means is `domains`' business.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

from mooring.api.views.pod import Pod
from mooring.scheduler.affinity import PodSelector, PodTerms, Term, WeightedTerm
from mooring.volumes.nodeset import EMPTY, NodeSet

#: Selectors whose tallies are kept, the longest unused going first: some 1 kB each plus a number per matching node.
REMEMBERED_SELECTORS: Final = 1024

#: How much an existing pod's required affinity attracts the pods it speaks of; kube-scheduler's default.
HARD_AFFINITY_WEIGHT: Final = 1

_NO_LABELS: Final[Mapping[str, str]] = {}

_Carried = TypeVar("_Carried", Term, WeightedTerm)


class Tally:
    """How many pods of some kind are on each node; `nodes` are those with at least one."""

    __slots__ = ("counts", "nodes")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.nodes: NodeSet = EMPTY

    def add(self, slot: int, count: int) -> None:
        now = self.counts.get(slot, 0) + count
        if now:
            self.counts[slot] = now
            self.nodes |= 1 << slot
        else:
            del self.counts[slot]
            self.nodes &= ~(1 << slot)


class _Group:
    """Pods of one namespace with equal labels, all staying or all on their way out, and the tallies that count them."""

    __slots__ = ("labels", "leaving", "namespace", "pods", "tallies")

    def __init__(self, pod: Pod) -> None:
        self.namespace = pod.namespace
        self.labels = pod.metadata.labels
        self.leaving = pod.deleting
        self.pods = Tally()
        self.tallies: list[Tally] = []


class PodIndex:
    """Tallies of the pods on nodes, by selector, and of the terms those pods carry."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, bool, frozenset[tuple[str, str]]], _Group] = {}
        self._watched: OrderedDict[tuple[PodSelector, ...], Tally] = OrderedDict()
        self._forbidding: dict[Term, Tally] = {}
        self._attracting: dict[WeightedTerm, Tally] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}

    def add(self, pod: Pod, terms: PodTerms, slot: int) -> None:
        self._move(pod, terms, slot, 1)

    def remove(self, pod: Pod, terms: PodTerms, slot: int) -> None:
        """The same pod and terms that were added."""
        self._move(pod, terms, slot, -1)

    def put_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """The labels of a namespace; None when it is gone."""
        if self._namespaces.get(name, _NO_LABELS) == (labels or _NO_LABELS):
            return
        if labels:
            self._namespaces[name] = labels
        else:
            del self._namespaces[name]
        for selectors in [s for s in self._watched if any(one.reads_namespaces for one in s)]:
            self._forget(selectors)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        return self._namespaces.get(name, _NO_LABELS)

    def matching(self, *selectors: PodSelector) -> Tally:
        """The pods that every one of the selectors matches."""
        tally = self._watched.get(selectors)
        if tally is None:
            tally = self._watch(selectors)
        self._watched.move_to_end(selectors)
        return tally

    def forbidding(self, pod: Pod) -> Iterator[tuple[Term, Tally]]:
        """Required anti-affinity terms that pods on nodes hold against this pod, and where those pods are."""
        labels = self.namespace_labels(pod.namespace)
        return ((term, tally) for term, tally in self._forbidding.items() if term.pods.matches(pod, labels))

    def attracting(self, pod: Pod) -> Iterator[tuple[WeightedTerm, Tally]]:
        """Preferences of pods on nodes that speak of this pod, and where those pods are."""
        labels = self.namespace_labels(pod.namespace)
        return (
            (weighted, tally) for weighted, tally in self._attracting.items() if weighted.term.pods.matches(pod, labels)
        )

    def _move(self, pod: Pod, terms: PodTerms, slot: int, count: int) -> None:
        key = (pod.namespace, pod.deleting, frozenset(pod.metadata.labels.items()))
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = self._new_group(pod)
        group.pods.add(slot, count)
        for tally in group.tallies:
            tally.add(slot, count)
        if not group.pods.nodes:
            del self._groups[key]
        for term in terms.anti_affinity:
            _carry(self._forbidding, term, slot, count)
        for term in terms.affinity:
            _carry(self._attracting, WeightedTerm(term, HARD_AFFINITY_WEIGHT), slot, count)
        for weighted in terms.preferred:
            _carry(self._attracting, weighted, slot, count)

    def _new_group(self, pod: Pod) -> _Group:
        group = _Group(pod)
        group.tallies = [tally for selectors, tally in self._watched.items() if self._matches(selectors, group)]
        return group

    def _watch(self, selectors: tuple[PodSelector, ...]) -> Tally:
        if len(self._watched) >= REMEMBERED_SELECTORS:
            self._forget(next(iter(self._watched)))
        tally = self._watched[selectors] = Tally()
        for group in self._groups.values():
            if self._matches(selectors, group):
                group.tallies.append(tally)
                for slot, count in group.pods.counts.items():
                    tally.add(slot, count)
        return tally

    def _forget(self, selectors: tuple[PodSelector, ...]) -> None:
        tally = self._watched.pop(selectors)
        for group in self._groups.values():
            group.tallies = [kept for kept in group.tallies if kept is not tally]

    def _matches(self, selectors: tuple[PodSelector, ...], group: _Group) -> bool:
        labels = self.namespace_labels(group.namespace)
        return all(
            one.matches_labels(group.namespace, group.labels, labels) and (one.leaving or not group.leaving)
            for one in selectors
        )


def _carry(carried: dict[_Carried, Tally], term: _Carried, slot: int, count: int) -> None:
    tally = carried.get(term)
    if tally is None:
        tally = carried[term] = Tally()
    tally.add(slot, count)
    if not tally.nodes:
        del carried[term]
