"""Segments of storage by the labels of nodes: which of thousands of capacity objects concern one node.

Kept by `capacity`. Most segments are told by one label, a host or a zone, so a node's own labels lead to them; only the
others are looked at one by one.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from mooring.api.label_selector import Operator
from mooring.volumes.affinity import Affinity


class Segments:
    """Keys of objects by their segment."""

    def __init__(self) -> None:
        #: By a label that only nodes of the segment can have; None for segments that no single label tells.
        self._by_label: defaultdict[tuple[str, str] | None, dict[Affinity, dict[str, None]]] = defaultdict(dict)

    def add(self, segment: Affinity, key: str) -> None:
        self._by_label[_telling(segment)].setdefault(segment, {})[key] = None

    def remove(self, segment: Affinity, key: str) -> None:
        """One that was added."""
        label = _telling(segment)
        keys = self._by_label[label][segment]
        del keys[key]
        if not keys:
            del self._by_label[label][segment]
        if not self._by_label[label]:
            del self._by_label[label]

    def at(self, labels: Mapping[str, str]) -> Iterator[str]:
        """The keys in whose segment a node with these labels is."""
        for label in (None, *labels.items()):
            for segment, keys in self._by_label.get(label, {}).items():
                if segment is None or segment.matches(labels, fields=None):
                    yield from keys


def _telling(segment: Affinity) -> tuple[str, str] | None:
    if segment is not None and len(segment.terms) == 1:
        for expression in segment.terms[0].expressions:
            if expression.operator is Operator.IN and len(expression.values) == 1:
                return expression.key, expression.values[0]
    return None
