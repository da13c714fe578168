"""CSIStorageCapacity by segment: which nodes have capacity for a volume of some size.

Kept by `decider.Provisioners`; follows nodes by itself. Segments of a class lie in `columns` as available volumes
do: the node topology is the affinity and the maximum volume size is the size. `charges` subtracts in-flight volumes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.api import quantity, selectors, well_known
from mooring.api.node_selectors import NodeSelector, NodeSelectorTerm
from mooring.api.quantity import NANOS_PER_UNIT, QuantityError
from mooring.api.selectors import ALL_LABELS, LabelSelector, SelectorError, SelectorIndex
from mooring.api.times import time_or_none
from mooring.api.views.meta import LabelSelectorView
from mooring.api.views.storage import StorageCapacity, StorageClass
from mooring.multimap import Multimap
from mooring.volumes.columns import Columns, SizedVolume, Sizes
from mooring.volumes.topology import Affinity, AffinityFollower, NodeSet, TopologyIndex, slots_of


class SegmentsByLabel:
    """Keys of objects by their segment."""

    def __init__(self) -> None:
        self._segments: SelectorIndex[Affinity] = SelectorIndex()
        self._keys: Multimap[Affinity, str] = Multimap()

    def add(self, segment: Affinity, key: str) -> None:
        if segment not in self._keys:
            self._segments.put(segment, _label_of(segment))
        self._keys.add(segment, key)

    def remove(self, segment: Affinity, key: str) -> None:
        """One that was added."""
        self._keys.discard(segment, key)
        if segment not in self._keys:
            self._segments.remove(segment)

    def at(self, labels: Mapping[str, str]) -> Iterator[str]:
        """The keys in whose segment a node with these labels is."""
        for segment in self._segments.candidates(labels):
            if segment is None or segment.matches(labels, fields=None):
                yield from self._keys[segment]


def _label_of(segment: Affinity) -> LabelSelector:
    """Labels that all nodes of a segment have."""
    terms = () if segment is None else segment.terms
    return LabelSelector(terms[0].expressions) if len(terms) == 1 else ALL_LABELS


#: The segment of an object without `nodeTopology`: no node is in it.
_NO_NODES: Final = NodeSelector()
#: What is left where figures do not add up: no claim is rejected because of others.
_UNBOUNDED: Final = 2**62


@dataclass(slots=True, eq=False)
class CapacitySegment:
    """What one object says: up to `limit` bytes can be made at once in the segment, and `free` are left in all."""

    key: str
    storage_class: str
    segment: Affinity
    limit: int
    free: int
    #: Both were reported, the first no larger than the second: so the second is no mere limit.
    reports_total_and_maximum: bool
    #: When the driver was asked; None where the publisher does not say.
    polled: float | None
    #: What volumes in flight will take of it.
    charged: int = 0
    additive: bool = False

    @property
    def unused(self) -> int:
        """What stays free when all that is in flight has been provisioned."""
        return max(self.free - self.charged, 0)

    @property
    def left(self) -> int:
        """What several volumes may have together."""
        return self.unused if self.additive else _UNBOUNDED

    @property
    def available_to_one_volume(self) -> int:
        """What one volume may have. With nothing charged the limit counts, even if more than the free capacity."""
        return self.left if self.charged else max(self.left, self.limit)


class _OfClass:
    """The segments of one class in columns. Charges show in the columns when they are next read: of
    many classes that share a driver's storage, few are asked about."""

    def __init__(self) -> None:
        self.limits = Columns()
        self.left = Columns()
        self.available_to_one_volume = Columns()
        self.unused = Columns()
        #: As the driver reported it: what is in flight is not subtracted.
        self.reported = Columns()
        #: How segments are entered in the columns.
        self._entered: dict[str, tuple[int, ...]] = {}
        self._charged: dict[str, CapacitySegment] = {}

    @property
    def _columns(self) -> tuple[Columns, ...]:
        return self.limits, self.left, self.available_to_one_volume, self.unused, self.reported

    def move(self, touched: Affinity, nodes: NodeSet) -> None:
        for columns in self._columns:
            columns.move(touched, nodes)

    def enter(self, segment: CapacitySegment, nodes: NodeSet) -> None:
        self._entered[segment.key] = sizes = _sizes(segment)
        for columns, size in zip(self._columns, sizes, strict=True):
            columns.add(SizedVolume(size * NANOS_PER_UNIT, segment.key), segment.segment, nodes)

    def leave(self, segment: CapacitySegment) -> None:
        self._charged.pop(segment.key, None)
        for columns, size in zip(self._columns, self._entered.pop(segment.key), strict=True):
            columns.remove(SizedVolume(size * NANOS_PER_UNIT, segment.key), segment.segment)

    def charge(self, segment: CapacitySegment) -> None:
        self._charged[segment.key] = segment

    def refresh(self, nodes: Callable[[Affinity], NodeSet]) -> None:
        for segment in self._charged.values():
            before, now = self._entered[segment.key], _sizes(segment)
            self._entered[segment.key] = now
            for columns, old, new in zip(self._columns, before, now, strict=True):
                if old != new:
                    # In this order the segment's group of nodes is never empty, and stays.
                    columns.add(SizedVolume(new * NANOS_PER_UNIT, segment.key), segment.segment, nodes(segment.segment))
                    columns.remove(SizedVolume(old * NANOS_PER_UNIT, segment.key), segment.segment)
        self._charged.clear()


def _sizes(segment: CapacitySegment) -> tuple[int, ...]:
    return segment.limit, segment.left, segment.available_to_one_volume, segment.unused, segment.free


_NO_SEGMENTS: Final = _OfClass()


class CapacityView:
    """Segments by class and topology."""

    def __init__(self, topology: TopologyIndex) -> None:
        self._topology = topology
        self._follower = AffinityFollower(topology)
        self._segments: dict[str, CapacitySegment] = {}
        self._classes: dict[str, _OfClass] = {}
        self._by_label = SegmentsByLabel()
        self._uses: dict[str, str] = {}
        self._grown: set[str] = set()

    def observe(self, key: str, now: StorageCapacity | None) -> str:
        """An object is as it is, None for gone. Answers with why it cannot be used, "" in the normal case."""
        known = self._segments.pop(key, None)
        if known is not None:
            self._leave(known)
            self._by_label.remove(known.segment, key)
        if now is None:
            return ""
        try:
            segment = _capacity_segment(now)
        except (SelectorError, QuantityError) as problem:
            return str(problem)
        if segment is not None:
            segment.charged = 0 if known is None else known.charged
            segment.additive = self._adds_up(segment)
            self._segments[key] = segment
            self._enter(segment)
            self._by_label.add(segment.segment, key)
            if (
                known is None
                or known.segment != segment.segment
                or segment.left > known.left
                or segment.limit > known.limit
            ):
                self._grown.add(segment.storage_class)
        return ""

    def observe_class(self, name: str, now: StorageClass | None) -> None:
        """A class may say how the figures of its objects are to be used."""
        use = "" if now is None else now.metadata.annotations.get(well_known.CAPACITY_USE, "")
        if use == self._uses.get(name, ""):
            return
        self._uses[name] = use
        for segment in self._segments.values():
            if segment.storage_class == name:
                self._leave(segment)
                segment.additive = self._adds_up(segment)
                self._enter(segment)
        self._grown.add(name)

    def charge(self, key: str, amount: int) -> None:
        """So many bytes more (or fewer) will be taken of an object's storage."""
        segment = self._segments[key]
        segment.charged += amount
        self._classes[segment.storage_class].charge(segment)
        if amount < 0:
            self._grown.add(segment.storage_class)

    def refund(self, key: str, amount: int) -> None:
        """As if so many bytes more of an object's storage were reported as free; a negative amount takes that back."""
        segment = self._segments[key]
        if not segment.reports_total_and_maximum or segment.limit == segment.free:
            segment.limit += amount
        segment.free += amount
        self._classes[segment.storage_class].charge(segment)

    def take_grown_classes(self) -> frozenset[str]:
        """The classes that have more capacity somewhere than when this was last asked."""
        grown = frozenset(self._grown)
        self._grown.clear()
        return grown

    def note_grown(self, classes: Iterable[str]) -> None:
        """Classes that `take_grown_classes` returned too early."""
        self._grown.update(classes)

    def segment(self, key: str) -> CapacitySegment | None:
        return self._segments.get(key)

    def segments(self) -> tuple[CapacitySegment, ...]:
        return tuple(self._segments.values())

    def segments_at(self, node: str) -> Iterator[CapacitySegment]:
        """The objects whose segment has a node; none for a node that is not there."""
        keys_at = self._by_label.at(self._topology.labels(node)) if node in self._topology else ()
        return (self._segments[key] for key in keys_at)

    def nodes_with_capacity(self, storage_class: str, size: int) -> NodeSet:
        """The nodes on which a driver reports that a volume of so many bytes could be provisioned."""
        return self._at_least(self._of_class(storage_class).limits, size)

    def nodes_with_total_capacity(self, storage_class: str, size: int, *, volumes: int) -> NodeSet:
        """The nodes on which so many bytes, for so many volumes, are left beside what volumes in flight will take;
        where figures do not add up, all that report something."""
        of_class = self._of_class(storage_class)
        return self._at_least(of_class.available_to_one_volume if volumes == 1 else of_class.left, size)

    def nodes_in_several_segments(self, storage_class: str) -> NodeSet:
        """The nodes for which more than one object of the class reports something."""
        return self._of_class(storage_class).limits.nodes_with_at_least(0, 2, self._topology.width)

    def total_available(self, storage_class: str, width: int) -> npt.NDArray[np.float64]:
        """By slot, the most bytes that all objects that have the node in their segment leave together."""
        return self._of_class(storage_class).available_to_one_volume.totals(width)

    def free(self, storage_class: str, width: int) -> Sizes:
        """By slot, the most bytes that are left of what one object reports as free; 0 where none does."""
        return self._of_class(storage_class).unused.largest(width)

    def reported(self, storage_class: str, size: int, width: int) -> Sizes:
        """By slot, the capacity of an object that admits a volume of so many bytes, as reported; 0 where none does.
        Of several objects, kube-scheduler takes any."""
        capacity = self._of_class(storage_class).reported.largest(width)
        for slot in slots_of(self.nodes_in_several_segments(storage_class)):
            segments = self.segments_at(self._topology.name(slot))
            admitting = (one.free for one in segments if one.storage_class == storage_class and one.limit >= size)
            capacity[slot] = max(admitting, default=0)
        return capacity

    def _at_least(self, columns: Columns, size: int) -> NodeSet:
        return columns.nodes_with_at_least(size * NANOS_PER_UNIT, 1, self._topology.width)

    def _of_class(self, storage_class: str) -> _OfClass:
        for touched, nodes in self._follower.moved():
            for of_class in self._classes.values():
                of_class.move(touched, nodes)
        asked = self._classes.get(storage_class, _NO_SEGMENTS)
        asked.refresh(self._follower.nodes)
        return asked

    def _adds_up(self, segment: CapacitySegment) -> bool:
        """Whether volumes may be counted against a figure together: the class says, or else the driver by reporting
        what one volume may have beside what there is in all."""
        use = self._uses.get(segment.storage_class, "")
        return use == well_known.CAPACITY_ADDITIVE if use else segment.reports_total_and_maximum

    def _enter(self, segment: CapacitySegment) -> None:
        of_class = self._classes.setdefault(segment.storage_class, _OfClass())
        of_class.enter(segment, self._follower.add(segment.segment))

    def _leave(self, segment: CapacitySegment) -> None:
        of_class = self._classes[segment.storage_class]
        of_class.leave(segment)
        self._follower.discard(segment.segment)
        if not of_class.limits:
            del self._classes[segment.storage_class]


def limit_of(reported: StorageCapacity) -> int | None:
    """The largest volume that could be provisioned, in bytes; None where the object does not say. `maximumVolumeSize`
    decides where it is given, whatever `capacity` says. Raises QuantityError."""
    amount = reported.capacity if reported.maximum_volume_size is None else reported.maximum_volume_size
    return None if amount is None else quantity.to_bytes(amount)


def _capacity_segment(reported: StorageCapacity) -> CapacitySegment | None:
    limit = limit_of(reported)
    # The nodes of a template do not exist: whatever its selector, no node has the capacity.
    if limit is None or reported.node_group:
        return None
    free = limit if reported.capacity is None else quantity.to_bytes(reported.capacity)
    # A driver that lets one volume be larger than what is left means something else by its figures than a sum.
    reports_both = None not in (reported.capacity, reported.maximum_volume_size) and limit <= free
    segment = segment_of(reported.node_topology)
    polled = time_or_none(reported.metadata.annotations.get(well_known.CAPACITY_POLLED_AT))
    return CapacitySegment(reported.key, reported.storage_class_name, segment, limit, free, reports_both, polled)


def readable_segment(reported: StorageCapacity) -> CapacitySegment | None:
    """What an object says, alone; None where it cannot be used."""
    try:
        return _capacity_segment(reported)
    except (SelectorError, QuantityError):
        return None


def segment_of(view: LabelSelectorView | None) -> Affinity:
    """A label selector over nodes as an affinity: no selector is nowhere, an empty one is everywhere."""
    if view is None:
        return _NO_NODES
    selector = selectors.label_selector_from_view(view)
    return NodeSelector((NodeSelectorTerm(selector.requirements),)) if selector.requirements else None
