"""Segments of storage by the labels of nodes: which of thousands of capacity objects concern one node.

Kept by `capacity`. Most segments are told by a label, a host or a zone, so a node's own labels lead to them; only the
others are looked at one by one.
"""

from collections.abc import Iterator, Mapping

from mooring.api.label_selector import EVERYTHING, LabelSelector
from mooring.api.selector_index import SelectorIndex
from mooring.volumes.affinity import Affinity


class Segments:
    """Keys of objects by their segment."""

    def __init__(self) -> None:
        self._segments: SelectorIndex[Affinity] = SelectorIndex()
        self._keys: dict[Affinity, dict[str, None]] = {}

    def add(self, segment: Affinity, key: str) -> None:
        if segment not in self._keys:
            self._keys[segment] = {}
            self._segments.put(segment, _told_by(segment))
        self._keys[segment][key] = None

    def remove(self, segment: Affinity, key: str) -> None:
        """One that was added."""
        del self._keys[segment][key]
        if not self._keys[segment]:
            del self._keys[segment]
            self._segments.remove(segment)

    def at(self, labels: Mapping[str, str]) -> Iterator[str]:
        """The keys in whose segment a node with these labels is."""
        for segment in self._segments.candidates(labels):
            if segment is None or segment.matches(labels, fields=None):
                yield from self._keys[segment]


def _told_by(segment: Affinity) -> LabelSelector:
    """Labels that all nodes of a segment have."""
    terms = () if segment is None else segment.terms
    return LabelSelector(terms[0].expressions) if len(terms) == 1 else EVERYTHING
