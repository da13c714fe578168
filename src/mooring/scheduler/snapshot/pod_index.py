"""Pods on nodes, counted by the selectors and by the terms of pod affinity. Pure; part of the snapshot.

Pods with equal labels form one group; every selector that was asked for has counts by node, updated as pods are added
and removed; equal terms of existing pods are one entry, and their weights are kept summed. A decision then costs as
many steps as the pod has terms. Knows slots, not topology.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from mooring.api.selectors import LabelIndex, SelectorIndex
from mooring.api.views.pods import Pod
from mooring.multimap import Tally
from mooring.scheduler.snapshot.node_indexes import JoinedCounts, NodeCounts
from mooring.scheduler.snapshot.pod_terms import PodSelector, PodTerms, WeightedTerm
from mooring.volumes.topology import NodeSet, union

_Labels = frozenset[tuple[str, str]]

#: Namespace, its labels, and the pod labels that terms select by.
_TermKey = tuple[str, _Labels, _Labels]

#: Cached sums (least recently used first out): pending pods and replicas ask for the same.
MAX_CACHED_SUMS: Final = 64


class _TermSums:
    """The sums of the terms that match pods with these labels.

    They stay valid when a new term selects by another label: such pods have another key from then on.
    """

    __slots__ = ("_terms", "by_key", "labels", "namespace", "namespace_labels")

    def __init__(self, key: _TermKey) -> None:
        self.namespace = key[0]
        self.namespace_labels = dict(key[1])
        self.labels = dict(key[2])
        #: By topology key, the weights at the slots of the pods with the terms.
        self.by_key: dict[str, NodeCounts] = {}
        #: The number of terms of each sum: one without terms is removed, a sum of zero may still change.
        self._terms: Tally[str] = Tally()

    def matched_by(self, term: WeightedTerm) -> bool:
        return term.pods.matches_labels(self.namespace, self.labels, self.namespace_labels)

    def add_term(self, topology_key: str) -> None:
        if self._terms.add(topology_key, 1) == 1:
            self.by_key[topology_key] = NodeCounts()

    def remove_term(self, topology_key: str) -> None:
        if not self._terms.add(topology_key, -1):
            del self.by_key[topology_key]


class _ExistingTerm:
    """The nodes of the pods with a term, and the sums that include it."""

    __slots__ = ("pods", "sums")

    def __init__(self, sums: list[_TermSums]) -> None:
        self.sums = sums
        self.pods = NodeCounts()


class ExistingPodTerms:
    """Weighted terms of existing pods, and their sums for pods that they match."""

    def __init__(self) -> None:
        self._terms: dict[WeightedTerm, _ExistingTerm] = {}
        self._index: SelectorIndex[WeightedTerm] = SelectorIndex()
        #: The number of terms that select by a label.
        self._label_uses: Tally[str] = Tally()
        self._sums: OrderedDict[_TermKey, _TermSums] = OrderedDict()

    def count(self, term: WeightedTerm, slot: int, count: int) -> None:
        """Count a pod with the term on a node (`count` 1), or no longer (-1)."""
        existing = self._terms.get(term)
        if existing is None:
            existing = self._add(term)
        existing.pods.add(slot, count)
        for sums in existing.sums:
            sums.by_key[term.topology_key].add(slot, term.weight * count)
        if not existing.pods.nodes:
            self._remove(term)

    def sums_for(self, pod: Pod, namespace_labels: Mapping[str, str]) -> Collection[tuple[str, NodeCounts]]:
        """The sums of all terms that match a pod, by topology key."""
        if not self._terms:
            return ()
        labels = frozenset(label for label in pod.metadata.labels.items() if label[0] in self._label_uses)
        key = (pod.namespace, frozenset(namespace_labels.items()), labels)
        sums = self._sums.get(key)
        if sums is None:
            sums = self._sum(key)
        self._sums.move_to_end(key)
        return sums.by_key.items()

    def _add(self, term: WeightedTerm) -> _ExistingTerm:
        for label in term.pods.labels.requirements:
            self._label_uses.add(label.key, 1)
        existing = self._terms[term] = _ExistingTerm([one for one in self._sums.values() if one.matched_by(term)])
        self._index.put(term, term.pods.labels)
        for sums in existing.sums:
            sums.add_term(term.topology_key)
        return existing

    def _remove(self, term: WeightedTerm) -> None:
        for sums in self._terms.pop(term).sums:
            sums.remove_term(term.topology_key)
        self._index.remove(term)
        if not self._terms:
            self._sums.clear()
        for label in term.pods.labels.requirements:
            self._label_uses.add(label.key, -1)

    def _sum(self, key: _TermKey) -> _TermSums:
        if len(self._sums) >= MAX_CACHED_SUMS:
            self._drop(next(iter(self._sums)))
        sums = self._sums[key] = _TermSums(key)
        for term in self._index.candidates(sums.labels):
            if sums.matched_by(term):
                existing = self._terms[term]
                existing.sums.append(sums)
                sums.add_term(term.topology_key)
                total = sums.by_key[term.topology_key]
                for slot, count in existing.pods.counts.items():
                    total.add(slot, term.weight * count)
        return sums

    def _drop(self, key: _TermKey) -> None:
        dropped = self._sums.pop(key)
        for term in self._index.candidates(dropped.labels):
            existing = self._terms[term]
            existing.sums = [sums for sums in existing.sums if sums is not dropped]


#: Cached selectors (least recently used first out): about 1 kB each, plus a number per matching node.
MAX_CACHED_SELECTORS: Final = 1024
#: Keys, values and names in all of them, each at most 317 bytes.
MAX_CACHED_WORDS: Final = 1 << 16

#: kube-scheduler's default hardPodAffinityWeight.
HARD_AFFINITY_WEIGHT: Final = 1

_NO_LABELS: Final[Mapping[str, str]] = {}

#: Namespace, whether terminating, and labels.
_GroupKey = tuple[str, bool, frozenset[tuple[str, str]]]


class _Group:
    """Pods of one namespace with equal labels, all terminating or none, and the counts that include them."""

    __slots__ = ("counts", "labels", "namespace", "pods", "terminating")

    def __init__(self, pod: Pod) -> None:
        self.namespace = pod.namespace
        self.labels = pod.metadata.labels
        self.terminating = pod.deleting
        self.pods = NodeCounts()
        self.counts: list[NodeCounts] = []


class PodIndex:
    """Counts of the pods on nodes, by selector, and sums of their terms."""

    def __init__(self, namespaces: dict[str, Mapping[str, str]] | None = None) -> None:
        """`namespaces` are the namespace labels of another index, for one beside it."""
        self._groups: dict[_GroupKey, _Group] = {}
        self._labelled: LabelIndex[_GroupKey] = LabelIndex()
        self._watched: OrderedDict[tuple[PodSelector, ...], NodeCounts] = OrderedDict()
        #: Keys, values and names in them.
        self._watched_words = 0
        self._watched_labels: SelectorIndex[tuple[PodSelector, ...]] = SelectorIndex()
        self._forbidding = ExistingPodTerms()
        self._attracting = ExistingPodTerms()
        self._by_priority: defaultdict[int, NodeCounts] = defaultdict(NodeCounts)
        self._namespaces = {} if namespaces is None else namespaces
        #: Incremented when namespace labels change.
        self.namespaces_version = 0
        self._beside: tuple[PodIndex, ...] = ()

    def index_beside(self) -> "PodIndex":
        """An empty index for nominated pods; `counting` includes it."""
        return PodIndex(self._namespaces)

    @contextmanager
    def counting(self, others: Iterable["PodIndex"]) -> Iterator[None]:
        """Include the pods of the other indexes within the block."""
        before, self._beside = self._beside, tuple(others)
        try:
            yield
        finally:
            self._beside = before

    def put_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Set the labels of a namespace; None for a deleted one."""
        if self._namespaces.get(name, _NO_LABELS) == (labels or _NO_LABELS):
            return
        self.namespaces_version += 1
        if labels:
            self._namespaces[name] = labels
        else:
            del self._namespaces[name]
        for selectors in [s for s in self._watched if any(one.reads_namespaces for one in s)]:
            self._drop(selectors)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        return self._namespaces.get(name, _NO_LABELS)

    def matching(self, *selectors: PodSelector) -> NodeCounts | JoinedCounts:
        """The pods that every one of the selectors matches."""
        node_counts = self._watched.get(selectors)
        if node_counts is None:
            node_counts = self._watch(selectors)
        self._watched.move_to_end(selectors)
        if not self._beside:
            return node_counts
        return JoinedCounts((node_counts, *(one.matching(*selectors) for one in self._beside)))

    def forbidding(self, pod: Pod) -> Collection[tuple[str, NodeCounts]]:
        """The number of required anti-affinity terms of existing pods that match this pod, by topology key and node."""
        sums = self._forbidding.sums_for(pod, self.namespace_labels(pod.namespace))
        return [*sums, *(found for one in self._beside for found in one.forbidding(pod))] if self._beside else sums

    def attracting(self, pod: Pod) -> Collection[tuple[str, NodeCounts]]:
        """The weights of affinity terms of existing pods that match this pod, summed by topology key and node."""
        sums = self._attracting.sums_for(pod, self.namespace_labels(pod.namespace))
        return [*sums, *(found for one in self._beside for found in one.attracting(pod))] if self._beside else sums

    def less_important(self, priority: int) -> NodeSet:
        """The nodes with a pod of lower priority."""
        return union(node_counts.nodes for one, node_counts in self._by_priority.items() if one < priority)

    def count(self, pod: Pod, terms: PodTerms, slot: int, count: int) -> None:
        """Count a pod on a node (`count` 1), or the same pod with the same terms no longer (-1)."""
        key = (pod.namespace, pod.deleting, frozenset(pod.metadata.labels.items()))
        group = self._groups.get(key)
        if group is None:
            group = self._new_group(key, pod)
        group.pods.add(slot, count)
        for node_counts in group.counts:
            node_counts.add(slot, count)
        if not group.pods.nodes:
            del self._groups[key]
            self._labelled.remove(key, key[2])
        by_priority = self._by_priority[pod.spec.priority]
        by_priority.add(slot, count)
        if not by_priority.nodes:
            del self._by_priority[pod.spec.priority]
        for term in terms.anti_affinity:
            self._forbidding.count(WeightedTerm(term, 1), slot, count)
        for term in terms.affinity:
            self._attracting.count(WeightedTerm(term, HARD_AFFINITY_WEIGHT), slot, count)
        for weighted in terms.preferred:
            self._attracting.count(weighted, slot, count)

    def _new_group(self, key: _GroupKey, pod: Pod) -> _Group:
        group = self._groups[key] = _Group(pod)
        self._labelled.put(key, key[2])
        candidates = self._watched_labels.candidates(group.labels)
        group.counts = [self._watched[selectors] for selectors in candidates if self._matches(selectors, group)]
        return group

    def _watch(self, selectors: tuple[PodSelector, ...]) -> NodeCounts:
        words = sum(selector.words for selector in selectors)
        while self._watched and (
            len(self._watched) >= MAX_CACHED_SELECTORS or self._watched_words + words > MAX_CACHED_WORDS
        ):
            self._drop(next(iter(self._watched)))
        node_counts = self._watched[selectors] = NodeCounts()
        self._watched_words += words
        # A pod has to match them all, so the labels of one selector find it.
        self._watched_labels.put(selectors, selectors[0].labels)
        for group in self._candidates(selectors):
            if self._matches(selectors, group):
                group.counts.append(node_counts)
                for slot, count in group.pods.counts.items():
                    node_counts.add(slot, count)
        return node_counts

    def _drop(self, selectors: tuple[PodSelector, ...]) -> None:
        node_counts = self._watched.pop(selectors)
        self._watched_words -= sum(selector.words for selector in selectors)
        self._watched_labels.remove(selectors)
        for group in self._candidates(selectors):
            group.counts = [kept for kept in group.counts if kept is not node_counts]

    def _candidates(self, selectors: tuple[PodSelector, ...]) -> Collection[_Group]:
        """The groups that could match: those with a value that a selector requires."""
        labels = self._labelled.rarest(one for selector in selectors for one in selector.labels.requirements)
        return [self._groups[key] for key in self._labelled.having(labels)] if labels else self._groups.values()

    def _matches(self, selectors: tuple[PodSelector, ...], group: _Group) -> bool:
        labels = self.namespace_labels(group.namespace)
        return all(
            one.matches_labels(group.namespace, group.labels, labels) and (one.terminating or not group.terminating)
            for one in selectors
        )
