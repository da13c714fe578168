"""Volumes of one class and shape as NumPy columns over nodes, and the exact assignment of volumes to claims on one
node.

"How many volumes of at least this size does each node reach" costs the same with 100 and with 100,000 volumes: row
*r* of a matrix holds every node's (*r*+1)-th largest volume. Volumes that many nodes reach are kept in one group per
affinity. An assignment is better when more claims are assigned, then when less size is wasted, then when earlier
claims get smaller volumes; wherever Kubernetes' greedy choice is as good as any, it is the result.
"""

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api.quantity import NANOS_PER_UNIT
from mooring.volumes import topology
from mooring.volumes.topology import EMPTY, Affinity, NodeSet

_UNASSIGNED: Final = -1

MAX_EXACT_CLAIMS: Final = 48
"""Claims of a pod up to which waste is minimised; the exact arithmetic takes hundredths of a second then. Of more, as
many are served as possible, the largest first with the smallest volume that does."""


class SizedVolume(NamedTuple):
    """A volume as far as choosing goes; sorts by size, then by name."""

    size: int
    name: str


def all_assigned(candidates: Sequence[Sequence[SizedVolume]]) -> bool:
    """Whether every claim can have a volume of its own among its candidates."""
    return None not in _most(candidates, range(len(candidates)))


def assign(requests: Sequence[int], candidates: Sequence[Sequence[SizedVolume]]) -> list[SizedVolume | None]:
    """The best assignment: for each claim its volume, or None. `candidates` are in ascending order per claim."""
    first_choices = [volumes[0] if volumes else None for volumes in candidates]
    chosen = [volume for volume in first_choices if volume is not None]
    if len(set(chosen)) == len(chosen):
        return first_choices
    if len(requests) > MAX_EXACT_CLAIMS:
        return _most(candidates, sorted(range(len(requests)), key=lambda claim: -requests[claim]))
    volumes = sorted({volume for of_claim in candidates for volume in of_claim})
    costs = _costs(requests, candidates, volumes)
    return [volumes[column] if column < len(volumes) else None for column in _cheapest(costs)]


def _most(candidates: Sequence[Sequence[SizedVolume]], order: Iterable[int]) -> list[SizedVolume | None]:
    """As many claims served as possible. Each in turn takes its first volume that is left, or has the holder of one
    move elsewhere where that is possible."""
    chosen: list[SizedVolume | None] = [None] * len(candidates)
    holder: dict[SizedVolume, int] = {}
    for claim in order:
        volume = next((one for one in candidates[claim] if one not in holder), None)
        wanted_by = {} if volume is not None else _chain(claim, candidates, holder)
        if volume is None:
            volume = next((one for one in wanted_by if one not in holder), None)
        taker = claim
        while volume is not None:
            taker = wanted_by.get(volume, claim)
            left, chosen[taker], holder[volume] = chosen[taker], volume, taker
            volume = left
    return chosen


def _chain(
    claim: int, candidates: Sequence[Sequence[SizedVolume]], holder: Mapping[SizedVolume, int]
) -> dict[SizedVolume, int]:
    """Volumes by the claim that would take them if their holders moved on, nearest first, up to a free one."""
    wanted_by: dict[SizedVolume, int] = {}
    waiting = deque([claim])
    while waiting:
        wanting = waiting.popleft()
        for volume in candidates[wanting]:
            if volume not in wanted_by:
                wanted_by[volume] = wanting
                if volume not in holder:
                    return wanted_by
                waiting.append(holder[volume])
    return {}


def _costs(
    requests: Sequence[int], candidates: Sequence[Sequence[SizedVolume]], volumes: Sequence[SizedVolume]
) -> list[list[int]]:
    """A row per claim, a column per volume and per claim that may go without.

    The three parts of "better" become digits of one exact integer: a claim left out outweighs any waste, and any
    waste outweighs the place of the volumes in their order, where an earlier claim outweighs all later ones.
    """
    claims = len(requests)
    base = len(volumes) + 1
    waste_unit = base**claims
    most = volumes[-1].size - min(requests)
    left_out = (claims * most + 1) * waste_unit
    forbidden = (claims + 1) * left_out
    rows: list[list[int]] = []
    for claim, request in enumerate(requests):
        allowed = set(candidates[claim])
        weight = base ** (claims - 1 - claim)
        row = [
            (volume.size - request) * waste_unit + place * weight if volume in allowed else forbidden
            for place, volume in enumerate(volumes)
        ]
        row += [left_out + len(volumes) * weight] * claims
        rows.append(row)
    return rows


def _cheapest(costs: Sequence[Sequence[int]]) -> list[int]:
    """The column of each row in the assignment of least total cost; there are more columns than rows. Shortest
    augmenting paths with potentials: rows are added one by one, each along the cheapest chain of moves."""
    columns = len(costs[0])
    row_potential = [0] * len(costs)
    column_potential = [0] * columns
    holder = [_UNASSIGNED] * columns
    for start in range(len(costs)):
        came_from = [_UNASSIGNED] * columns
        reach = [costs[start][c] - row_potential[start] - column_potential[c] for c in range(columns)]
        unsettled = set(range(columns))
        distance, target = min((reach[c], c) for c in unsettled)
        while holder[target] != _UNASSIGNED:
            unsettled.remove(target)
            row = holder[target]
            for c in unsettled:
                length = distance + costs[row][c] - row_potential[row] - column_potential[c]
                if length < reach[c]:
                    reach[c], came_from[c] = length, target
            distance, target = min((reach[c], c) for c in unsettled)
        # Potentials keep every reduced cost at zero or above, and at zero along the chosen pairs.
        row_potential[start] += distance
        for c in set(range(columns)) - unsettled:
            row_potential[holder[c]] += distance - reach[c]
            column_potential[c] -= distance - reach[c]
        while came_from[target] != _UNASSIGNED:
            holder[target] = holder[came_from[target]]
            target = came_from[target]
        holder[target] = start
    chosen = {row: column for column, row in enumerate(holder)}
    return [chosen[row] for row in range(len(costs))]


MAX_ROW_NODES: Final = 16
"""Nodes up to which a volume is entered at each: local storage with replicas keeps two to four of them, a rack has some
sixteen. What more nodes reach is looked at group by group, of which there are few then."""

MAX_ROWS: Final = 32
"""Rows the matrix grows to: for pods with more claims of one class, nodes with more volumes are counted one by one.
Nodes have some 24 disks at most; of more, the largest are compared when nodes are."""

MAX_CACHED_ANSWERS: Final = 64
"""Answers that columns keep until one of their volumes changes: the pods of a workload ask for few sizes."""

#: Whole bytes by slot.
Sizes = npt.NDArray[np.int64]
#: Volumes by slot.
Counts = npt.NDArray[np.int64]

_NO_VOLUME: Final = np.iinfo(np.int64).min

#: What sums of floats may be off by.
_ROUNDING: Final = 1e-9

#: Cells are whole bytes; larger sizes are cut to this, and such requests are counted exactly where cells are equal.
_MAX_CELL: Final = 2**62


@dataclass(slots=True, eq=False)
class AffinityGroup:
    """The volumes of one affinity, ascending, and the nodes that reach them."""

    nodes: NodeSet
    volumes: list[SizedVolume] = field(default_factory=list)
    _slots: npt.NDArray[np.intp] | None = None

    @property
    def wide(self) -> bool:
        return self.nodes.bit_count() > MAX_ROW_NODES

    @property
    def slots(self) -> npt.NDArray[np.intp]:
        """The slots of its nodes, ascending."""
        if self._slots is None:
            self._slots = np.flatnonzero(topology.mask_of(self.nodes, self.nodes.bit_length()))
        return self._slots

    def move(self, nodes: NodeSet) -> None:
        self.nodes, self._slots = nodes, None


class Columns:
    """Volumes by size and place. Nodes are what the caller says they are, until it calls `move`."""

    def __init__(self) -> None:
        self._groups: dict[Affinity, AffinityGroup] = {}
        self._wide: dict[Affinity, AffinityGroup] = {}
        self._volumes = 0
        #: How many of them have a size that is no whole number of bytes.
        self._uneven = 0
        #: Of volumes that few nodes reach: those of each slot, ascending.
        self._rows: dict[int, list[SizedVolume]] = {}
        self._largest = np.full((1, 1), _NO_VOLUME, dtype=np.int64)
        #: Slots whose cells do not show their row yet.
        self._stale: set[int] = set()
        #: Nodes by size and number of volumes, as long as nothing changes.
        self._answers: dict[tuple[int, int, int], NodeSet] = {}
        #: By slot, the largest volume that many nodes reach; not yet so for the nodes in the set.
        self._widest = np.zeros(0, dtype=np.int64)
        self._widest_stale: NodeSet = EMPTY

    def __len__(self) -> int:
        """How many volumes there are."""
        return self._volumes

    def add(self, volume: SizedVolume, affinity: Affinity, nodes: NodeSet) -> None:
        """A volume is free; `nodes` reach it, as they reach all others of its affinity."""
        self._volumes += 1
        self._uneven += volume.size % NANOS_PER_UNIT != 0
        self.move(affinity, nodes)
        group = self._groups.get(affinity)
        if group is None:
            group = self._groups[affinity] = AffinityGroup(nodes)
            if group.wide:
                self._wide[affinity] = group
        insort(group.volumes, volume)
        self._touch(group)
        if not group.wide:
            self._enter(volume, group.nodes)

    def remove(self, volume: SizedVolume, affinity: Affinity) -> None:
        """A volume that was added is free no more."""
        self._volumes -= 1
        self._uneven -= volume.size % NANOS_PER_UNIT != 0
        group = self._groups[affinity]
        del group.volumes[bisect_left(group.volumes, volume)]
        self._touch(group)
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
        self._touch(group)
        if not group.wide:
            for volume in group.volumes:
                self._strike(volume, group.nodes)
        self._wide.pop(affinity, None)
        group.move(nodes)
        self._touch(group)
        if group.wide:
            self._wide[affinity] = group
        else:
            for volume in group.volumes:
                self._enter(volume, nodes)

    @property
    def groups(self) -> Collection[AffinityGroup]:
        return self._groups.values()

    @property
    def has_rows(self) -> bool:
        """Whether there are volumes that few nodes reach."""
        return bool(self._rows)

    @property
    def wide_groups(self) -> Collection[AffinityGroup]:
        return self._wide.values()

    def row(self, slot: int) -> Sequence[SizedVolume]:
        """The volumes in this slot's row: those it shares with few, ascending."""
        return self._rows.get(slot, ())

    def reached_from(self, slot: int) -> Iterator[Sequence[SizedVolume]]:
        """All volumes the node in this slot reaches, as ascending sequences."""
        yield self.row(slot)
        for group in self._wide.values():
            if group.nodes >> slot & 1:
                yield group.volumes

    def nodes_with_at_least(self, size: int, count: int, width: int) -> NodeSet:
        """The nodes that reach at least `count` volumes of at least `size`."""
        if not self._uneven:
            size = -(-size // NANOS_PER_UNIT) * NANOS_PER_UNIT
        asked = (size, count, width)
        answer = self._answers.get(asked)
        if answer is None:
            if len(self._answers) >= MAX_CACHED_ANSWERS:
                self._answers.clear()
            answer = self._answers[asked] = self._nodes_with_at_least(*asked)
        return answer

    def _nodes_with_at_least(self, size: int, count: int, width: int) -> NodeSet:
        if (self._wide and count > 1) or count > MAX_ROWS or not _in_cells(size):
            return topology.node_set_from_mask(self.counts(size, count, width) >= count)
        self._refresh()
        # Row *n* says it alone, but for groups, of which one volume is enough where one is asked for. A node with more
        # volumes than there are rows does not exist.
        rows = self._largest[count - 1 : count]
        nodes = topology.node_set_from_mask(rows[0] >= cell(size)) if self._rows and len(rows) else EMPTY
        for group in self._wide.values():
            if group.volumes[-1].size >= size:
                nodes |= group.nodes
        return nodes

    def counts(self, size: int, count: int, width: int) -> Counts:
        """By slot, how many volumes of at least `size` the node reaches; of its own row at most `count` are counted."""
        if not self._uneven:
            size = -(-size // NANOS_PER_UNIT) * NANOS_PER_UNIT
        self._refresh()
        counted = np.zeros(width, dtype=np.int64)
        known = self._largest[:count, :width]
        counted[: known.shape[1]] = (known >= _cell_above(size)).sum(axis=0)
        for slot in self._uncounted(size, count, known):
            row = self._rows[slot]
            counted[slot] = len(row) - bisect_left(row, SizedVolume(size, ""))
        for group in self._wide.values():
            held = len(group.volumes) - bisect_left(group.volumes, SizedVolume(size, ""))
            if held:
                counted[group.slots] += held
        return counted

    def _uncounted(self, size: int, count: int, known: Sizes) -> Iterable[int]:
        """The slots for which cells do not settle it: sizes between two cells, and rows longer than columns are."""
        if not _in_cells(size):
            yield from np.flatnonzero((known == cell(size)).any(axis=0)).tolist()
        if count > MAX_ROWS:
            yield from (slot for slot, row in self._rows.items() if len(row) > MAX_ROWS)

    def cells(self, width: int) -> npt.NDArray[np.int64]:
        """By row and slot, the sizes of volumes that few nodes reach, descending; below zero where there is none."""
        self._refresh()
        known = self._largest[:, :width]
        if known.shape[1] < width:
            padded = np.full((known.shape[0], width), _NO_VOLUME, dtype=np.int64)
            padded[:, : known.shape[1]] = known
            return padded
        return known

    def totals(self, width: int) -> npt.NDArray[np.float64]:
        """By slot, the bytes of all volumes that the node reaches, about; never less."""
        totals: npt.NDArray[np.float64] = np.maximum(self.cells(width), 0).sum(axis=0, dtype=np.float64)
        for slot, row in self._rows.items() if len(self._largest) >= MAX_ROWS else ():
            if len(row) > MAX_ROWS:
                totals[slot] = math.inf
        for group in self._wide.values():
            totals[group.slots] += sum(cell(volume.size, up=True) for volume in group.volumes)
        totals *= 1 + _ROUNDING
        return totals

    def largest(self, width: int) -> Sizes:
        """By slot, the bytes of the largest volume that the node reaches; 0 where it reaches none."""
        sizes = self._largest_wide(width)
        if self._rows:
            self._refresh()
            known = min(width, self._largest.shape[1])
            np.maximum(sizes[:known], self._largest[0, :known], out=sizes[:known])
        return sizes

    def _largest_wide(self, width: int) -> Sizes:
        """By slot, the largest volume that many nodes reach; read again only for groups that have changed."""
        if len(self._widest) < width:
            self._widest, self._widest_stale = np.zeros(width, dtype=np.int64), (1 << width) - 1
        stale = self._widest_stale
        if stale:
            self._widest[topology.mask_of(stale, len(self._widest))] = 0
            for group in self._wide.values():
                if group.nodes & stale:
                    size = cell(group.volumes[-1].size)
                    self._widest[group.slots] = np.maximum(self._widest[group.slots], size)
            self._widest_stale = EMPTY
        return self._widest[:width].copy()

    def _touch(self, group: AffinityGroup) -> None:
        """Volumes of a group change."""
        self._answers.clear()
        if group.wide:
            self._widest_stale |= group.nodes

    def _enter(self, volume: SizedVolume, nodes: NodeSet) -> None:
        for slot in topology.slots_of(nodes):
            insort(self._rows.setdefault(slot, []), volume)
            self._stale.add(slot)

    def _strike(self, volume: SizedVolume, nodes: NodeSet) -> None:
        for slot in topology.slots_of(nodes):
            row = self._rows[slot]
            del row[bisect_left(row, volume)]
            if not row:
                del self._rows[slot]
            self._stale.add(slot)

    def _refresh(self) -> None:
        """Bring the matrix up to the rows; changes between two questions are entered together."""
        for slot in self._stale:
            largest = self._rows.get(slot, [])[-MAX_ROWS:]
            self._grow(len(largest), slot)
            cells = self._largest[:, slot]
            cells[:] = _NO_VOLUME
            cells[: len(largest)] = [cell(size) for size, _ in reversed(largest)]
        self._stale.clear()

    def _grow(self, depth: int, slot: int) -> None:
        rows, width = self._largest.shape
        if depth <= rows and slot < width:
            return
        rows = rows if depth <= rows else min(max(depth, 2 * rows), MAX_ROWS)
        width = width if slot < width else max(slot + 1, 2 * width)
        grown = np.full((rows, width), _NO_VOLUME, dtype=np.int64)
        grown[: self._largest.shape[0], : self._largest.shape[1]] = self._largest
        self._largest = grown


def cell(size: int, *, up: bool = False) -> int:
    """A size in whole bytes, as cells hold it; `up` for one that is asked for."""
    return min(-(-size // NANOS_PER_UNIT) if up else size // NANOS_PER_UNIT, _MAX_CELL)


def _in_cells(size: int) -> bool:
    """Whether a comparison of cells says which volumes are at least as large."""
    return not size % NANOS_PER_UNIT and size < _MAX_CELL * NANOS_PER_UNIT


def _cell_above(size: int) -> int:
    """The smallest cell whose volumes are all at least as large."""
    return cell(size) if _in_cells(size) else min(size // NANOS_PER_UNIT, _MAX_CELL) + 1
