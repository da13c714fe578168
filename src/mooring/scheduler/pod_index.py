"""Pods on nodes, counted by what other pods' affinity terms ask about.

Without it every decision about a pod with (anti-)affinity would walk over all pods. Here pods with equal labels
form one group; every selector that somebody asked about keeps a tally of matching pods per node, moved along as pods
come and go; and terms that pods carry are kept in `carried_terms`. A decision then costs as many steps as there are
different terms about the pod. It knows slots, not topology: what "near" means is `domains`' business.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from mooring.api.label_selector import Operator
from mooring.api.selector_index import SelectorIndex
from mooring.api.views.pod import Pod
from mooring.scheduler.affinity import PodSelector, PodTerms, Term, WeightedTerm
from mooring.scheduler.carried_terms import CarriedTerms
from mooring.scheduler.tally import Tally, joined
from mooring.volumes.nodeset import EMPTY, NodeSet

#: Selectors whose tallies are kept, the longest unused going first: some 1 kB each plus a number per matching node.
REMEMBERED_SELECTORS: Final = 1024
#: Keys, values and names in all of them, each of 317 bytes at most.
REMEMBERED_WORDS: Final = 1 << 16

#: How much an existing pod's required affinity attracts the pods it speaks of; kube-scheduler's default.
HARD_AFFINITY_WEIGHT: Final = 1

_NO_LABELS: Final[Mapping[str, str]] = {}

#: Namespace, whether they are on their way out, and labels.
_Likeness = tuple[str, bool, frozenset[tuple[str, str]]]


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

    def __init__(self, namespaces: dict[str, Mapping[str, str]] | None = None) -> None:
        """`namespaces` are the labels of namespaces that another index keeps, for one that counts beside it."""
        self._groups: dict[_Likeness, _Group] = {}
        self._labelled: dict[tuple[str, str], dict[_Likeness, _Group]] = {}
        self._watched: OrderedDict[tuple[PodSelector, ...], Tally] = OrderedDict()
        #: Keys, values and names in them.
        self._watched_words = 0
        self._watched_labels: SelectorIndex[tuple[PodSelector, ...]] = SelectorIndex()
        self._forbidding: CarriedTerms[Term] = CarriedTerms()
        self._attracting: CarriedTerms[WeightedTerm] = CarriedTerms()
        self._by_priority: dict[int, Tally] = {}
        self._namespaces = {} if namespaces is None else namespaces
        #: Moves when a namespace comes, goes or changes its labels.
        self.namespaces_version = 0
        self._beside: tuple[PodIndex, ...] = ()

    def index_beside(self) -> "PodIndex":
        """An empty index for pods that are not on nodes, which can be counted as if they were."""
        return PodIndex(self._namespaces)

    @contextmanager
    def counting(self, others: Iterable["PodIndex"]) -> Iterator[None]:
        """Answers are about the pods of the other indexes as well, as long as the block lasts."""
        before, self._beside = self._beside, tuple(others)
        try:
            yield
        finally:
            self._beside = before

    def add(self, pod: Pod, terms: PodTerms, slot: int) -> None:
        self._move(pod, terms, slot, 1)

    def remove(self, pod: Pod, terms: PodTerms, slot: int) -> None:
        """The same pod and terms that were added."""
        self._move(pod, terms, slot, -1)

    def put_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """The labels of a namespace; None when it is gone."""
        if self._namespaces.get(name, _NO_LABELS) == (labels or _NO_LABELS):
            return
        self.namespaces_version += 1
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
        return joined((tally, *(one.matching(*selectors) for one in self._beside))) if self._beside else tally

    def forbidding(self, pod: Pod) -> Sequence[tuple[Term, Tally]]:
        """Required anti-affinity terms that pods on nodes hold against this pod, and where those pods are."""
        labels = self.namespace_labels(pod.namespace)
        about = self._forbidding.about(pod, labels)
        return [*about, *(found for one in self._beside for found in one.forbidding(pod))] if self._beside else about

    def attracting(self, pod: Pod) -> Sequence[tuple[WeightedTerm, Tally]]:
        """Preferences of pods on nodes that speak of this pod, and where those pods are."""
        labels = self.namespace_labels(pod.namespace)
        about = self._attracting.about(pod, labels)
        return [*about, *(found for one in self._beside for found in one.attracting(pod))] if self._beside else about

    def less_important(self, priority: int) -> NodeSet:
        """The nodes with a pod of lower priority."""
        nodes = EMPTY
        for one, tally in self._by_priority.items():
            if one < priority:
                nodes |= tally.nodes
        return nodes

    def _move(self, pod: Pod, terms: PodTerms, slot: int, count: int) -> None:
        likeness = (pod.namespace, pod.deleting, frozenset(pod.metadata.labels.items()))
        group = self._groups.get(likeness)
        if group is None:
            group = self._new_group(likeness, pod)
        group.pods.add(slot, count)
        for tally in group.tallies:
            tally.add(slot, count)
        if not group.pods.nodes:
            self._remove_group(likeness)
        self._count_priority(pod.spec.priority, slot, count)
        for term in terms.anti_affinity:
            self._forbidding.carry(term, slot, count)
        for term in terms.affinity:
            self._attracting.carry(WeightedTerm(term, HARD_AFFINITY_WEIGHT), slot, count)
        for weighted in terms.preferred:
            self._attracting.carry(weighted, slot, count)

    def _count_priority(self, priority: int, slot: int, count: int) -> None:
        tally = self._by_priority.get(priority)
        if tally is None:
            tally = self._by_priority[priority] = Tally()
        tally.add(slot, count)
        if not tally.nodes:
            del self._by_priority[priority]

    def _new_group(self, likeness: _Likeness, pod: Pod) -> _Group:
        group = self._groups[likeness] = _Group(pod)
        for label in likeness[2]:
            self._labelled.setdefault(label, {})[likeness] = group
        candidates = self._watched_labels.candidates(group.labels)
        group.tallies = [self._watched[selectors] for selectors in candidates if self._matches(selectors, group)]
        return group

    def _remove_group(self, likeness: _Likeness) -> None:
        del self._groups[likeness]
        for label in likeness[2]:
            alike = self._labelled[label]
            del alike[likeness]
            if not alike:
                del self._labelled[label]

    def _watch(self, selectors: tuple[PodSelector, ...]) -> Tally:
        words = sum(selector.words for selector in selectors)
        while self._watched and (
            len(self._watched) >= REMEMBERED_SELECTORS or self._watched_words + words > REMEMBERED_WORDS
        ):
            self._forget(next(iter(self._watched)))
        tally = self._watched[selectors] = Tally()
        self._watched_words += words
        # A pod has to match them all, so the labels of one are enough to find it by.
        self._watched_labels.put(selectors, selectors[0].labels)
        for group in self._candidates(selectors):
            if self._matches(selectors, group):
                group.tallies.append(tally)
                for slot, count in group.pods.counts.items():
                    tally.add(slot, count)
        return tally

    def _forget(self, selectors: tuple[PodSelector, ...]) -> None:
        tally = self._watched.pop(selectors)
        self._watched_words -= sum(selector.words for selector in selectors)
        self._watched_labels.remove(selectors)
        for group in self._candidates(selectors):
            group.tallies = [kept for kept in group.tallies if kept is not tally]

    def _candidates(self, selectors: tuple[PodSelector, ...]) -> Collection[_Group]:
        """The groups that could match: where a selector names a value, those that have it."""
        found: Collection[_Group] = self._groups.values()
        for one in (one for selector in selectors for one in selector.labels.requirements):
            if one.operator is Operator.IN:
                having = [group for value in one.values for group in self._labelled.get((one.key, value), {}).values()]
                found = min(found, having, key=len)
        return found

    def _matches(self, selectors: tuple[PodSelector, ...], group: _Group) -> bool:
        labels = self.namespace_labels(group.namespace)
        return all(
            one.matches_labels(group.namespace, group.labels, labels) and (one.leaving or not group.leaving)
            for one in selectors
        )
