"""Topology domains: which nodes share the value of a label key.

Spreading and gathering pods is counted per domain ("this zone", "this host"). Each key somebody asked about has one
vector of small numbers, equal where the label values are equal, kept current as nodes change; so a question costs a
few vector operations however many domains there are. It knows slots and labels, not pods.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.scheduler.columns import Vector
from mooring.volumes.nodeset import NodeSet, from_mask, to_mask

_FIRST_SLOTS: Final = 64
#: Pods of a cluster use a handful of topology keys; a bound keeps odd ones from piling up.
_REMEMBERED_KEYS: Final = 64
#: The domain of nodes that lack the label: they are near nobody, not even each other.
_NOWHERE: Final = 0


class Census(NamedTuple):
    """How many there are per domain."""

    #: For every slot the number in its domain.
    by_slot: Vector
    #: The number in the domain with the fewest.
    least: float
    domains: int


class Domains:
    """The labels of all nodes, seen one topology key at a time."""

    def __init__(self) -> None:
        self._labels: dict[int, Mapping[str, str]] = {}
        self._keys: dict[str, _Key] = {}

    def put(self, slot: int, labels: Mapping[str, str]) -> None:
        self._labels[slot] = labels
        for key, domains in self._keys.items():
            domains.put(slot, labels.get(key))

    def remove(self, slot: int) -> None:
        self._labels.pop(slot, None)
        for domains in self._keys.values():
            domains.put(slot, None)

    def having(self, key: str) -> NodeSet:
        """The nodes that carry the label at all."""
        return self._of(key).having

    def sharing(self, key: str, nodes: NodeSet) -> NodeSet:
        """All nodes in the domains of the given ones, themselves included."""
        if not nodes:
            return nodes
        domains = self._of(key)
        numbers = domains.numbers
        near = np.zeros(domains.size, np.bool_)
        near[numbers[to_mask(nodes, len(numbers))]] = True
        near[_NOWHERE] = False
        return from_mask(near[numbers])

    def summed(self, key: str, counts: Mapping[int, int], width: int) -> Vector:
        """For every slot the sum of `counts` (by slot) over its domain; zero where the label is missing."""
        domains = self._of(key)
        numbers = domains.numbers
        slots = np.fromiter(counts.keys(), np.intp, len(counts))
        amounts = np.fromiter(counts.values(), np.float64, len(counts))
        sums = np.bincount(numbers[slots], weights=amounts, minlength=domains.size)
        sums[_NOWHERE] = 0
        total = np.zeros(width)
        reach = min(width, len(numbers))
        total[:reach] = sums[numbers[:reach]]
        return total

    def census(self, key: str, counts: Mapping[int, int], nodes: NodeSet, width: int) -> Census:
        """The counts (by slot) of these nodes per domain; domains that none of the nodes is in have none."""
        domains = self._of(key)
        numbers, size = domains.numbers, domains.size
        here = to_mask(nodes & domains.having, len(numbers))
        sums: Vector = np.zeros(size)
        if counts:
            slots = np.fromiter(counts.keys(), np.intp, len(counts))
            amounts = np.fromiter(counts.values(), np.float64, len(counts))
            sums += np.bincount(numbers[slots], weights=amounts * here[slots], minlength=size)
        present = np.zeros(size, np.bool_)
        present[numbers[here]] = True
        sums[~present] = 0
        by_slot = np.zeros(width)
        reach = min(width, len(numbers))
        by_slot[:reach] = sums[numbers[:reach]]
        found = int(np.count_nonzero(present))
        return Census(by_slot, float(sums[present].min()) if found else 0.0, found)

    def _of(self, key: str) -> "_Key":
        known = self._keys.get(key)
        if known is None:
            if len(self._keys) >= _REMEMBERED_KEYS:
                del self._keys[next(iter(self._keys))]
            known = self._keys[key] = _Key()
            for slot, labels in self._labels.items():
                known.put(slot, labels.get(key))
            known.reach(max(self._labels, default=0))
        return known


class _Key:
    """One label key: numbers for its values, one per slot."""

    def __init__(self) -> None:
        self.numbers: npt.NDArray[np.int32] = np.zeros(_FIRST_SLOTS, np.int32)
        self._value_of: dict[int, str] = {}
        self._number_of: dict[str, int] = {}
        self._members: dict[str, int] = {}
        self._free: list[int] = []
        self._having: NodeSet | None = None

    @property
    def size(self) -> int:
        """One more than the highest number in use, or given back."""
        return len(self._number_of) + len(self._free) + 1

    @property
    def having(self) -> NodeSet:
        """The nodes that have a value."""
        if self._having is None:
            self._having = from_mask(self.numbers != _NOWHERE)
        return self._having

    def put(self, slot: int, value: str | None) -> None:
        self.reach(slot)
        before = self._value_of.get(slot)
        if before == value:
            return
        self._having = None
        if before is not None:
            self._leave(slot, before)
        if value is not None:
            self._join(slot, value)

    def reach(self, slot: int) -> None:
        if slot >= len(self.numbers):
            larger = np.zeros(2 * slot, np.int32)
            larger[: len(self.numbers)] = self.numbers
            self.numbers = larger

    def _join(self, slot: int, value: str) -> None:
        if value not in self._number_of:
            self._number_of[value] = self._free.pop() if self._free else len(self._number_of) + 1
            self._members[value] = 0
        self._members[value] += 1
        self._value_of[slot] = value
        self.numbers[slot] = self._number_of[value]

    def _leave(self, slot: int, value: str) -> None:
        del self._value_of[slot]
        self.numbers[slot] = _NOWHERE
        self._members[value] -= 1
        if not self._members[value]:
            # Numbers are handed out again: a cluster whose hosts come and go must not grow the vectors' range.
            del self._members[value]
            self._free.append(self._number_of.pop(value))
