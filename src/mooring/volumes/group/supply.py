"""Supplies that members of a group take from, by the nodes that reach them, and how many members one limit lets fit.

Free volumes and segments of a class are read once per decision (`VolumeStock`, `CapacityStock`); the supply for a
claim of some size then follows by comparing columns, so that many kinds of members cost little more than one. Used by
`bounds`; all of it only ever overestimates.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.volumes.capacity import CapacitySegment
from mooring.volumes.group.outcome import ShortageCode
from mooring.volumes.topology import EMPTY, NodeSet, mask_of, node_set_from_mask, node_set_of, slots_of

Counts = npt.NDArray[np.int64]
_Slots = npt.NDArray[np.intp]

#: More members than any group has.
MANY: Final = 2**31

#: Units from which on nothing is counted: sums stay below 64 bits, and 8 PiB are enough for any group.
_MAX_UNITS: Final = 2**53
#: Bytes in columns are cut to this.
_MAX_BYTES: Final = 2**62

#: Supplies of several nodes up to which each is compared with each for common nodes.
_MAX_COMPARED: Final = 64


class SupplyPlace(NamedTuple):
    nodes: NodeSet
    #: As shown, and in units.
    amount: int
    units: int
    segment: CapacitySegment | None = None


class SlotCache:
    """The slots of node sets that several supplies have in common."""

    def __init__(self) -> None:
        self._known: dict[NodeSet, _Slots] = {}

    def of(self, nodes: NodeSet) -> _Slots:
        found = self._known.get(nodes)
        if found is None:
            found = self._known[nodes] = np.fromiter(slots_of(nodes), dtype=np.intp)
        return found


@dataclass(slots=True, eq=False)
class Supply:
    """Units that members take from, by the nodes that reach them."""

    width: int
    slots: SlotCache
    #: By slot, units that one node reaches. Several supplies may have the same array: replaced, never written to.
    local: Counts
    #: Units that several nodes reach.
    wide: list[tuple[NodeSet, int]] = field(default_factory=list)
    #: Nodes on which this does not limit.
    unlimited: NodeSet = EMPTY
    #: What `places` lists, with the size that is asked for.
    stocks: "list[tuple[VolumeStock | CapacityStock, int]]" = field(default_factory=list)
    nodes_listed: list[SupplyPlace] = field(default_factory=list)

    def add(self, nodes: NodeSet, units: int) -> None:
        """Units that several nodes reach."""
        if units > _MAX_UNITS:
            self.unlimited |= nodes
        else:
            self.wide.append((nodes, units))

    def add_local(self, counts: Counts, factor: int = 1) -> None:
        """So many times as many units as there are counts."""
        if factor > 1:
            over = counts > _MAX_UNITS // factor
            self.unlimited |= node_set_from_mask(over)
            counts = np.where(over, 0, counts) * factor
        self.local = self.local + counts if self.local.any() else counts

    def total(self, domain: NodeSet) -> int:
        """The units that nodes of a domain reach."""
        if self.unlimited & domain:
            return MANY * MANY
        wide = sum(units for nodes, units in self.wide if nodes & domain)
        return wide + int(self.local[mask_of(domain, self.width)].sum())

    def places(self) -> list[SupplyPlace]:
        """Where the units are, for a certificate."""
        return [place for stock, size in self.stocks for place in stock.places(size)] + self.nodes_listed


class VolumeStock:
    """Free volumes that do for the claims of a family, by the nodes that reach them."""

    def __init__(self, groups: Iterable[tuple[NodeSet, Sequence[int]]], width: int) -> None:
        """Nodes may repeat; sizes ascend."""
        self._groups = [(nodes, sizes) for nodes, sizes in groups if nodes]
        self._wide = [(nodes, sizes) for nodes, sizes in self._groups if nodes & (nodes - 1)]
        self._width = width
        single = sorted(
            (size, nodes.bit_length() - 1) for nodes, sizes in self._groups if not nodes & (nodes - 1) for size in sizes
        )
        self._sizes = [size for size, _ in single]
        self._slots = np.array([slot for _, slot in single], dtype=np.intp)
        #: By position in the sizes, volumes from there on by slot.
        self._counted: dict[int, Counts] = {}

    def __bool__(self) -> bool:
        return bool(self._groups)

    def add_to(self, supply: Supply, size: int, factor: int = 1) -> None:
        """The volumes of at least this size, each as so many units."""
        first = bisect_left(self._sizes, size)
        if first < len(self._sizes):
            counts = self._counted.get(first)
            if counts is None:
                counts = self._counted[first] = np.bincount(self._slots[first:], minlength=self._width)
            supply.add_local(counts, factor)
        for nodes, sizes in self._wide:
            number = len(sizes) - bisect_left(sizes, size)
            if number:
                supply.add(nodes, number * factor)

    def places(self, size: int) -> Iterator[SupplyPlace]:
        for nodes, sizes in self._groups:
            number = len(sizes) - bisect_left(sizes, size)
            if number:
                yield SupplyPlace(nodes, number, number)


class _SegmentState(NamedTuple):
    """A segment when the stock was read: charges change while members are placed."""

    nodes: NodeSet
    segment: CapacitySegment
    unused: int
    limit: int
    left: int
    available_to_one_volume: int
    additive: bool


class CapacityStock:
    """The segments of a class, by the nodes that it may provision on."""

    def __init__(self, segments: Iterable[tuple[CapacitySegment, NodeSet]], width: int) -> None:
        states = (
            _SegmentState(
                nodes, one, one.unused, one.limit, one.left, one.available_to_one_volume, additive=one.additive
            )
            for one, nodes in segments
        )
        self._states = [state for state in states if state.nodes]
        self._wide = [state for state in self._states if state.nodes & (state.nodes - 1)]
        single = [state for state in self._states if not state.nodes & (state.nodes - 1)]
        self._width = width
        self._slots = np.array([state.nodes.bit_length() - 1 for state in single], dtype=np.intp)
        self._limit = _bytes_of(state.limit for state in single)
        self._left = _bytes_of(state.left for state in single)
        self._one = _bytes_of(state.available_to_one_volume for state in single)
        self._additive = np.array([state.additive for state in single], dtype=np.bool_)

    def add_volumes(self, supply: Supply, size: int) -> None:
        """How many volumes of so many bytes can be provisioned."""
        if len(self._slots):
            enough = self._limit >= min(size, _MAX_BYTES)
            counted = enough & self._additive if size else np.zeros_like(enough)
            self._add(supply, counted, self._volumes(size, counted))
            supply.unlimited |= node_set_of(self._slots[enough & ~counted].tolist())
        for state in self._wide:
            if state.limit < size:
                continue
            if not state.additive or not size:
                supply.unlimited |= state.nodes
            else:
                supply.add(state.nodes, max(state.left // size, int(state.available_to_one_volume >= size)))

    def add_bytes(self, supply: Supply) -> None:
        """How many bytes can be provisioned."""
        if len(self._slots):
            self._add(supply, self._additive, np.maximum(self._left, self._one)[self._additive])
            supply.unlimited |= node_set_of(self._slots[~self._additive].tolist())
        for state in self._wide:
            if state.additive:
                supply.add(state.nodes, max(state.left, state.available_to_one_volume))
            else:
                supply.unlimited |= state.nodes

    def places(self, size: int) -> Iterator[SupplyPlace]:
        """Segments that limit volumes of this size; with 0, those that limit bytes."""
        for state in self._states:
            most = max(state.left, state.available_to_one_volume)
            if not size:
                if state.additive:
                    yield SupplyPlace(state.nodes, state.unused, most, state.segment)
            elif state.limit < size:
                yield SupplyPlace(state.nodes, state.unused, 0, state.segment)
            elif state.additive:
                units = max(state.left // size, int(state.available_to_one_volume >= size))
                yield SupplyPlace(state.nodes, state.unused, units, state.segment)

    def _volumes(self, size: int, counted: npt.NDArray[np.bool_]) -> Counts:
        divisor = min(max(size, 1), _MAX_BYTES)
        units: Counts = np.maximum(self._left[counted] // divisor, self._one[counted] >= divisor)
        return units

    def _add(self, supply: Supply, where: npt.NDArray[np.bool_], units: Counts) -> None:
        slots, over = self._slots[where], units > _MAX_UNITS
        supply.unlimited |= node_set_of(slots[over].tolist())
        counts = np.zeros(self._width, dtype=np.int64)
        np.add.at(counts, slots[~over], units[~over])
        supply.add_local(counts)


def _bytes_of(amounts: Iterable[int]) -> Counts:
    return np.array([min(amount, _MAX_BYTES) for amount in amounts], dtype=np.int64)


@dataclass(slots=True, eq=False)
class Limit:
    """A supply, and how much of it one member takes."""

    code: ShortageCode
    subject: str
    supply: Supply
    per_member: int
    #: Bytes of a volume.
    size: int = 0

    def per_node(self) -> Counts:
        """By slot, how many members fit, each node having all that it reaches."""
        supply = self.supply
        reach = supply.local.copy()
        for nodes, units in supply.wide:
            reach[supply.slots.of(nodes)] += units
        counts: Counts = reach // self.per_member if self.per_member > 1 else reach
        if supply.unlimited:
            counts[mask_of(supply.unlimited, supply.width)] = MANY
        return counts

    def most_members(self, caps: Counts, domain: NodeSet, enough: int) -> int:
        """How many members fit on the nodes of a domain, of which each has no more than its cap; `enough` if so many
        or more do."""
        supply, size = self.supply, self.per_member
        inside = mask_of(domain, supply.width)
        free = inside & mask_of(supply.unlimited, supply.width)
        limited = inside & ~free
        total = int(caps[free].sum())
        base = np.minimum(caps, supply.local // size)
        total += int(base[limited].sum())
        if total >= enough:
            return enough
        left = np.where(limited, caps - base, 0)
        rest = supply.local - base * size
        for nodes, units in self._joined(domain & ~supply.unlimited):
            slots = supply.slots.of(nodes)
            total += _members_of_wide(units, left[slots], rest[slots], size)
            if total >= enough:
                return enough
        return total

    def _joined(self, domain: NodeSet) -> list[tuple[NodeSet, int]]:
        """Supplies of several nodes within a domain; those that overlap are one."""
        inside = [(nodes & domain, units) for nodes, units in self.supply.wide if nodes & domain]
        if len(inside) > _MAX_COMPARED:
            return _joined_by_slot(inside)
        parts: list[tuple[NodeSet, int]] = []
        for nodes, units in inside:
            together, amount = nodes, units
            apart: list[tuple[NodeSet, int]] = []
            for part in parts:
                if part[0] & together:
                    together, amount = together | part[0], amount + part[1]
                else:
                    apart.append(part)
            parts = [*apart, (together, amount)]
        return parts


def _joined_by_slot(supplies: Sequence[tuple[NodeSet, int]]) -> list[tuple[NodeSet, int]]:
    """The same for many: slots lead to the supply that has them, and supplies to the one that they were joined with."""
    joined = list(range(len(supplies)))
    at: dict[int, int] = {}

    def first(position: int) -> int:
        while joined[position] != position:
            joined[position] = joined[joined[position]]
            position = joined[position]
        return position

    for position, (nodes, _) in enumerate(supplies):
        for slot in slots_of(nodes):
            joined[first(at.setdefault(slot, position))] = first(position)
    parts: dict[int, tuple[NodeSet, int]] = {}
    for position, (nodes, units) in enumerate(supplies):
        together, amount = parts.get(first(position), (EMPTY, 0))
        parts[first(position)] = together | nodes, amount + units
    return list(parts.values())


def _members_of_wide(units: int, left: Counts, rest: Counts, size: int) -> int:
    """How many more members fit by units that several nodes share. The first on a node also uses what is left there."""
    able = left > 0
    first = np.sort(size - np.minimum(rest[able], size))
    spent = np.cumsum(first)
    members = int(np.searchsorted(spent, units, side="right"))
    if members == len(first):
        units -= int(spent[-1]) if members else 0
        members += min(units // size, int(left[able].sum()) - members)
    return members
