"""Affinity terms that pods on nodes carry: what those pods hold against, or wish of, pods still to come.

Part of `pod_index`. Equal terms of many replicas are one entry with a tally of where the replicas are, and a newcomer
is only held against the terms that could speak of it.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Generic, TypeVar

from mooring.api.selector_index import SelectorIndex
from mooring.api.views.pod import Pod
from mooring.scheduler.affinity import Term, WeightedTerm
from mooring.scheduler.tally import Tally

Carried = TypeVar("Carried", Term, WeightedTerm)

_Labels = frozenset[tuple[str, str]]

REMEMBERED: Final = 64
"""Sorts of pods whose terms are remembered: those that wait and are tried again and again, and replicas."""


class CarriedTerms(Generic[Carried]):
    """Terms of one sort, and where the pods are that carry them."""

    def __init__(self) -> None:
        self._tallies: dict[Carried, Tally] = {}
        self._index: SelectorIndex[Carried] = SelectorIndex()
        #: By namespace, its labels and a pod's labels: the terms about such pods. Forgotten when a term comes or goes.
        self._about: dict[tuple[str, _Labels, _Labels], list[tuple[Carried, Tally]]] = {}

    def carry(self, term: Carried, slot: int, count: int) -> None:
        """A pod with the term came to a node (`count` 1) or left it (-1)."""
        tally = self._tallies.get(term)
        if tally is None:
            tally = self._tallies[term] = Tally()
            self._index.put(term, term.pods.labels)
            self._about.clear()
        tally.add(slot, count)
        if not tally.nodes:
            del self._tallies[term]
            self._index.remove(term)
            self._about.clear()

    def about(self, pod: Pod, namespace_labels: Mapping[str, str]) -> Sequence[tuple[Carried, Tally]]:
        """The terms that speak of a pod, and where the pods are that carry them."""
        if not self._tallies:
            return ()
        likeness = (pod.namespace, frozenset(namespace_labels.items()), frozenset(pod.metadata.labels.items()))
        found = self._about.get(likeness)
        if found is None:
            if len(self._about) >= REMEMBERED:
                self._about.clear()
            found = self._about[likeness] = [
                (term, self._tallies[term])
                for term in self._index.candidates(pod.metadata.labels)
                if term.pods.matches(pod, namespace_labels)
            ]
        return found
