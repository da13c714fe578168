"""Free volumes of one class and one shape as columns over nodes: they differ in size and place only.

Asked by `contest` and `capacity`. A question is "how many volumes of at least this size does each node reach", and
costs the same with 100 volumes and with 100,000: row *r* of a matrix holds every node's (*r*+1)-th largest volume, so
the answer is a comparison of as many rows as matter. Volumes that many nodes reach stay out of the matrix, in one group
per affinity, and are looked at once per group.
"""

import math
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.api.quantity import NANOS_PER_UNIT
from mooring.volumes import nodeset
from mooring.volumes.affinity import Affinity
from mooring.volumes.assignment import Sized
from mooring.volumes.nodeset import EMPTY, NodeSet

FEW: Final = 16
"""Nodes up to which a volume is entered at each: local storage with replicas keeps two to four of them, a rack has some
sixteen. What more nodes reach is looked at group by group, of which there are few then."""

DEPTH: Final = 32
"""Rows the matrix grows to: for pods with more claims of one class, nodes with more volumes are counted one by one.
Nodes have some 24 disks at most; of more, the largest are compared when nodes are."""

#: Whole bytes by slot.
Sizes = npt.NDArray[np.int64]
#: Volumes by slot.
Counts = npt.NDArray[np.int64]

_NO_VOLUME: Final = np.iinfo(np.int64).min

#: What sums of floats may be off by.
_ROUNDING: Final = 1e-9

_LARGEST_CELL: Final = 2**62
"""Cells are whole bytes; sizes above are cut to this, and requests from here on are counted exactly where cells are
equal."""


@dataclass(slots=True, eq=False)
class Group:
    """The volumes of one affinity, ascending, and the nodes that reach them."""

    nodes: NodeSet
    volumes: list[Sized] = field(default_factory=list)
    _slots: npt.NDArray[np.intp] | None = None

    @property
    def wide(self) -> bool:
        return self.nodes.bit_count() > FEW

    @property
    def slots(self) -> npt.NDArray[np.intp]:
        """The slots of its nodes, ascending."""
        if self._slots is None:
            self._slots = np.flatnonzero(nodeset.to_mask(self.nodes, self.nodes.bit_length()))
        return self._slots

    def move(self, nodes: NodeSet) -> None:
        self.nodes, self._slots = nodes, None


class Columns:
    """Volumes by size and place. Nodes are what the caller says they are, until it calls `move`."""

    def __init__(self) -> None:
        self._groups: dict[Affinity, Group] = {}
        self._wide: dict[Affinity, Group] = {}
        self._volumes = 0
        #: How many of them have a size that is no whole number of bytes.
        self._uneven = 0
        #: Of volumes that few nodes reach: those of each slot, ascending.
        self._rows: dict[int, list[Sized]] = {}
        self._largest = np.full((1, 1), _NO_VOLUME, dtype=np.int64)
        #: Slots whose cells do not show their row yet.
        self._stale: set[int] = set()

    def __len__(self) -> int:
        """How many volumes there are."""
        return self._volumes

    def add(self, volume: Sized, affinity: Affinity, nodes: NodeSet) -> None:
        """A volume is free; `nodes` reach it, as they reach all others of its affinity."""
        self._volumes += 1
        self._uneven += volume.size % NANOS_PER_UNIT != 0
        self.move(affinity, nodes)
        group = self._groups.get(affinity)
        if group is None:
            group = self._groups[affinity] = Group(nodes)
            if group.wide:
                self._wide[affinity] = group
        insort(group.volumes, volume)
        if not group.wide:
            self._enter(volume, group.nodes)

    def remove(self, volume: Sized, affinity: Affinity) -> None:
        """A volume that was added is free no more."""
        self._volumes -= 1
        self._uneven -= volume.size % NANOS_PER_UNIT != 0
        group = self._groups[affinity]
        del group.volumes[bisect_left(group.volumes, volume)]
        if not group.wide:
            self._strike(volume, group.nodes)
        if not group.volumes:
            del self._groups[affinity]
            self._wide.pop(affinity, None)

    def move(self, affinity: Affinity, nodes: NodeSet) -> None:
        """From now on these nodes reach the volumes of this affinity."""
        group = self._groups.get(affinity)
        if group is None or group.nodes == nodes:
            return
        if not group.wide:
            for volume in group.volumes:
                self._strike(volume, group.nodes)
        self._wide.pop(affinity, None)
        group.move(nodes)
        if group.wide:
            self._wide[affinity] = group
        else:
            for volume in group.volumes:
                self._enter(volume, nodes)

    @property
    def wide_groups(self) -> Iterator[Group]:
        return iter(self._wide.values())

    def own(self, slot: int) -> Sequence[Sized]:
        """The volumes in this slot's row: those it shares with few, ascending."""
        return self._rows.get(slot, ())

    def reached_from(self, slot: int) -> Iterator[Sequence[Sized]]:
        """All volumes the node in this slot reaches, as ascending sequences."""
        yield self.own(slot)
        for group in self._wide.values():
            if group.nodes >> slot & 1:
                yield group.volumes

    def at_least(self, size: int, wanted: int, width: int) -> NodeSet:
        """The nodes that reach at least `wanted` volumes of at least `size`."""
        if not self._uneven:
            size = -(-size // NANOS_PER_UNIT) * NANOS_PER_UNIT
        if self._wide or wanted > DEPTH or not _in_cells(size):
            return nodeset.from_mask(self.counts(size, wanted, width) >= wanted)
        self._refresh()
        # Row *n* says it alone. A node with more volumes than there are rows does not exist.
        return EMPTY if wanted > len(self._largest) else nodeset.from_mask(self._largest[wanted - 1] >= cell(size))

    def counts(self, size: int, wanted: int, width: int) -> Counts:
        """By slot, how many volumes of at least `size` the node reaches. Of those in its own row no more than `wanted`
        are counted."""
        if not self._uneven:
            size = -(-size // NANOS_PER_UNIT) * NANOS_PER_UNIT
        self._refresh()
        counted = np.zeros(width, dtype=np.int64)
        known = self._largest[:wanted, :width]
        counted[: known.shape[1]] = (known >= _cell_above(size)).sum(axis=0)
        for slot in self._uncounted(size, wanted, known):
            row = self._rows[slot]
            counted[slot] = len(row) - bisect_left(row, Sized(size, ""))
        for group in self._wide.values():
            held = len(group.volumes) - bisect_left(group.volumes, Sized(size, ""))
            if held:
                counted[group.slots] += held
        return counted

    def _uncounted(self, size: int, wanted: int, known: Sizes) -> Iterable[int]:
        """The slots for which cells do not settle it: sizes between two cells, and rows longer than columns are."""
        if not _in_cells(size):
            yield from np.flatnonzero((known == cell(size)).any(axis=0)).tolist()
        if wanted > DEPTH:
            yield from (slot for slot, row in self._rows.items() if len(row) > DEPTH)

    def cells(self, width: int) -> npt.NDArray[np.int64]:
        """By row and slot, the sizes of volumes that few nodes reach, descending; below zero where there is none."""
        self._refresh()
        known = self._largest[:, :width]
        if known.shape[1] < width:
            known = np.pad(known, ((0, 0), (0, width - known.shape[1])), constant_values=_NO_VOLUME)
        return known

    def totals(self, width: int) -> npt.NDArray[np.float64]:
        """By slot, the bytes of all volumes that the node reaches, about; never less."""
        totals: npt.NDArray[np.float64] = np.maximum(self.cells(width), 0).sum(axis=0, dtype=np.float64)
        for slot, row in self._rows.items() if len(self._largest) >= DEPTH else ():
            if len(row) > DEPTH:
                totals[slot] = math.inf
        for group in self._wide.values():
            totals[group.slots] += sum(cell(volume.size, up=True) for volume in group.volumes)
        totals *= 1 + _ROUNDING
        return totals

    def largest(self, width: int) -> Sizes:
        """By slot, the bytes of the largest volume that the node reaches; 0 where it reaches none."""
        self._refresh()
        sizes = np.zeros(width, dtype=np.int64)
        known = min(width, self._largest.shape[1])
        np.maximum(sizes[:known], self._largest[0, :known], out=sizes[:known])
        for group in self._wide.values():
            reach = nodeset.to_mask(group.nodes, width)
            sizes[reach] = np.maximum(sizes[reach], cell(group.volumes[-1].size))
        return sizes

    def _enter(self, volume: Sized, nodes: NodeSet) -> None:
        for slot in nodeset.slots(nodes):
            insort(self._rows.setdefault(slot, []), volume)
            self._stale.add(slot)

    def _strike(self, volume: Sized, nodes: NodeSet) -> None:
        for slot in nodeset.slots(nodes):
            row = self._rows[slot]
            del row[bisect_left(row, volume)]
            if not row:
                del self._rows[slot]
            self._stale.add(slot)

    def _refresh(self) -> None:
        """Bring the matrix up to the rows; changes between two questions are entered together."""
        for slot in self._stale:
            largest = self._rows.get(slot, [])[-DEPTH:]
            self._make_room(len(largest), slot)
            cells = self._largest[:, slot]
            cells[:] = _NO_VOLUME
            cells[: len(largest)] = [cell(size) for size, _ in reversed(largest)]
        self._stale.clear()

    def _make_room(self, depth: int, slot: int) -> None:
        rows, width = self._largest.shape
        if depth <= rows and slot < width:
            return
        rows = rows if depth <= rows else min(max(depth, 2 * rows), DEPTH)
        width = width if slot < width else max(slot + 1, 2 * width)
        grown = np.full((rows, width), _NO_VOLUME, dtype=np.int64)
        grown[: self._largest.shape[0], : self._largest.shape[1]] = self._largest
        self._largest = grown


def cell(size: int, *, up: bool = False) -> int:
    """A size in whole bytes, as cells hold it; `up` for one that is asked for."""
    return min(-(-size // NANOS_PER_UNIT) if up else size // NANOS_PER_UNIT, _LARGEST_CELL)


def _in_cells(size: int) -> bool:
    """Whether a comparison of cells says which volumes are at least as large."""
    return not size % NANOS_PER_UNIT and size < _LARGEST_CELL * NANOS_PER_UNIT


def _cell_above(size: int) -> int:
    """The smallest cell whose volumes are all at least as large."""
    return cell(size) if _in_cells(size) else min(size // NANOS_PER_UNIT, _LARGEST_CELL) + 1
