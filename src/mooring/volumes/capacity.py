"""How much free storage drivers report, and where: which nodes could have volumes of some size made.

Kept by `provisioning.Provisioners`, fed with CSIStorageCapacity objects, following nodes by itself. Objects of a class
lie in `columns` as free volumes do: the segment is the affinity and the limit is the size, so one comparison answers
for all nodes. What volumes in flight will take is told to it by `charges`; figures that add up shrink by it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.api import keys, label_selector, quantity
from mooring.api.label_selector import SelectorError
from mooring.api.node_selector import NodeSelector, NodeSelectorTerm
from mooring.api.quantity import NANOS_PER_UNIT, QuantityError
from mooring.api.timestamps import from_time
from mooring.api.views.meta import LabelSelectorView
from mooring.api.views.storage import StorageCapacity, StorageClass
from mooring.volumes.affinity import Affinity, AffinityFollower
from mooring.volumes.assignment import Sized
from mooring.volumes.columns import Columns, Sizes
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.segments import Segments
from mooring.volumes.topology import TopologyIndex

#: The segment of an object without `nodeTopology`: no node is in it.
_NOWHERE: Final = NodeSelector()
#: What is left where figures do not add up: nobody is refused for what others take.
_NO_END: Final = 2**62


@dataclass(slots=True, eq=False)
class Room:
    """What one object says: up to `limit` bytes can be made at once in the segment, and `free` are left in all."""

    key: str
    storage_class: str
    segment: Affinity
    limit: int
    free: int
    #: Both were reported, the first no larger than the second: so the second is no mere limit.
    told_apart: bool
    #: When the driver was asked; None where the publisher does not say.
    polled: float | None
    #: What volumes in flight will take of it.
    charged: int = 0
    additive: bool = False

    @property
    def unused(self) -> int:
        """What stays free when all that is in flight has been made."""
        return max(self.free - self.charged, 0)

    @property
    def left(self) -> int:
        """What several volumes may have together."""
        return self.unused if self.additive else _NO_END

    @property
    def left_for_one(self) -> int:
        """What one volume may have that nobody is ahead of: then the limit is taken at its word, even if it is more
        than there is."""
        return self.left if self.charged else max(self.left, self.limit)


class _OfClass:
    """The rooms of one class, by what they have for whom. Charges show in the columns when somebody looks at them: of
    many classes that share a driver's storage, few are asked about."""

    def __init__(self) -> None:
        self.limits = Columns()
        self.left = Columns()
        self.left_for_one = Columns()
        self.unused = Columns()
        #: How rooms stand in the columns.
        self._entered: dict[str, tuple[int, ...]] = {}
        self._charged: dict[str, Room] = {}

    @property
    def _columns(self) -> tuple[Columns, ...]:
        return self.limits, self.left, self.left_for_one, self.unused

    def move(self, touched: Affinity, nodes: NodeSet) -> None:
        for columns in self._columns:
            columns.move(touched, nodes)

    def enter(self, room: Room, nodes: NodeSet) -> None:
        sizes = self._entered[room.key] = (room.limit, room.left, room.left_for_one, room.unused)
        for columns, size in zip(self._columns, sizes, strict=True):
            columns.add(Sized(size * NANOS_PER_UNIT, room.key), room.segment, nodes)

    def leave(self, room: Room) -> None:
        self._charged.pop(room.key, None)
        for columns, size in zip(self._columns, self._entered.pop(room.key), strict=True):
            columns.remove(Sized(size * NANOS_PER_UNIT, room.key), room.segment)

    def charge(self, room: Room) -> None:
        self._charged[room.key] = room

    def refresh(self, nodes: Callable[[Affinity], NodeSet]) -> None:
        for room in tuple(self._charged.values()):
            self.leave(room)
            self.enter(room, nodes(room.segment))


class CapacityView:
    """Rooms by class and place."""

    def __init__(self, topology: TopologyIndex) -> None:
        self._topology = topology
        self._follower = AffinityFollower(topology)
        self._rooms: dict[str, Room] = {}
        self._classes: dict[str, _OfClass] = {}
        self._segments = Segments()
        self._uses: dict[str, str] = {}
        self._grown: set[str] = set()

    def observe(self, key: str, now: StorageCapacity | None) -> str:
        """An object is as it is, None for gone. Answers with why it cannot be used, "" in the normal case."""
        known = self._rooms.pop(key, None)
        if known is not None:
            self._leave(known)
            self._segments.remove(known.segment, key)
        if now is None:
            return ""
        try:
            room = _room(now)
        except (SelectorError, QuantityError) as problem:
            return str(problem)
        if room is not None:
            room.charged = 0 if known is None else known.charged
            room.additive = self._adds_up(room)
            self._rooms[key] = room
            self._enter(room)
            self._segments.add(room.segment, key)
            if known is None or known.segment != room.segment or room.left > known.left or room.limit > known.limit:
                self._grown.add(room.storage_class)
        return ""

    def observe_class(self, name: str, now: StorageClass | None) -> None:
        """A class may say how the figures of its objects are to be used."""
        use = "" if now is None else now.metadata.annotations.get(keys.CAPACITY_USE, "")
        if use == self._uses.get(name, ""):
            return
        self._uses[name] = use
        for room in self._rooms.values():
            if room.storage_class == name:
                self._leave(room)
                room.additive = self._adds_up(room)
                self._enter(room)
        self._grown.add(name)

    def charge(self, key: str, amount: int) -> None:
        """So many bytes more (or fewer) will be taken of an object's storage."""
        room = self._rooms[key]
        room.charged += amount
        self._classes[room.storage_class].charge(room)
        if amount < 0:
            self._grown.add(room.storage_class)

    def grown(self) -> frozenset[str]:
        """The classes that have more room somewhere than when this was last asked."""
        grown = frozenset(self._grown)
        self._grown.clear()
        return grown

    def room(self, key: str) -> Room | None:
        return self._rooms.get(key)

    def rooms(self) -> tuple[Room, ...]:
        return tuple(self._rooms.values())

    def rooms_at(self, node: str) -> Iterator[Room]:
        """The objects whose segment has a node; none for a node that is not there."""
        keys_at = self._segments.at(self._topology.labels(node)) if node in self._topology else ()
        return (self._rooms[key] for key in keys_at)

    def enough(self, storage_class: str, size: int) -> NodeSet:
        """The nodes on which a driver reports that a volume of so many bytes could be made."""
        of_class = self._of_class(storage_class)
        return EMPTY if of_class is None else self._at_least(of_class.limits, size)

    def enough_in_all(self, storage_class: str, size: int, *, volumes: int) -> NodeSet:
        """The nodes on which so many bytes, for so many volumes, are left beside what volumes in flight will take;
        where figures do not add up, all that report something."""
        of_class = self._of_class(storage_class)
        if of_class is None:
            return EMPTY
        return self._at_least(of_class.left_for_one if volumes == 1 else of_class.left, size)

    def several(self, storage_class: str) -> NodeSet:
        """The nodes for which more than one object of the class reports something."""
        of_class = self._of_class(storage_class)
        return EMPTY if of_class is None else of_class.limits.at_least(0, 2, self._topology.width)

    def left_in_all(self, storage_class: str, width: int) -> npt.NDArray[np.float64]:
        """By slot, the most bytes that all objects that have the node in their segment leave together."""
        of_class = self._of_class(storage_class)
        return np.zeros(width) if of_class is None else of_class.left_for_one.totals(width)

    def free(self, storage_class: str, width: int) -> Sizes:
        """By slot, the most bytes that are left of what one object reports as free; 0 where none does."""
        of_class = self._of_class(storage_class)
        return (Columns() if of_class is None else of_class.unused).largest(width)

    def _at_least(self, columns: Columns, size: int) -> NodeSet:
        return columns.at_least(size * NANOS_PER_UNIT, 1, self._topology.width)

    def _of_class(self, storage_class: str) -> _OfClass | None:
        for touched, nodes in self._follower.moved():
            for of_class in self._classes.values():
                of_class.move(touched, nodes)
        asked = self._classes.get(storage_class)
        if asked is not None:
            asked.refresh(self._follower.nodes)
        return asked

    def _adds_up(self, room: Room) -> bool:
        """Whether volumes may be counted against a figure together: the class says, or else the driver by reporting
        what one volume may have beside what there is in all."""
        use = self._uses.get(room.storage_class, "")
        return use == keys.CAPACITY_ADDITIVE if use else room.told_apart

    def _enter(self, room: Room) -> None:
        of_class = self._classes.setdefault(room.storage_class, _OfClass())
        of_class.enter(room, self._follower.add(room.segment))

    def _leave(self, room: Room) -> None:
        of_class = self._classes[room.storage_class]
        of_class.leave(room)
        self._follower.discard(room.segment)
        if not of_class.limits:
            del self._classes[room.storage_class]


def limit_of(reported: StorageCapacity) -> int | None:
    """The largest volume that could be made, in bytes; None where the object does not say.

    `maximumVolumeSize` decides where it is given, whatever `capacity` says. Raises QuantityError.
    """
    amount = reported.capacity if reported.maximum_volume_size is None else reported.maximum_volume_size
    return None if amount is None else quantity.to_bytes(amount)


def _room(reported: StorageCapacity) -> Room | None:
    limit = limit_of(reported)
    if limit is None:
        return None
    free = limit if reported.capacity is None else quantity.to_bytes(reported.capacity)
    # A driver that lets one volume be larger than what is left means something else by its figures than a sum.
    told_apart = reported.capacity is not None and reported.maximum_volume_size is not None and limit <= free
    segment = _segment(reported.node_topology)
    return Room(reported.key, reported.storage_class_name, segment, limit, free, told_apart, _polled(reported))


def _polled(reported: StorageCapacity) -> float | None:
    """What cannot be understood is not said."""
    try:
        return from_time(reported.metadata.annotations.get(keys.CAPACITY_POLLED_AT, ""))
    except ValueError:
        return None


def _segment(view: LabelSelectorView | None) -> Affinity:
    """A label selector over nodes as an affinity: no selector is nowhere, an empty one is everywhere."""
    if view is None:
        return _NOWHERE
    selector = label_selector.from_view(view.match_labels, view.match_expressions)
    return NodeSelector((NodeSelectorTerm(selector.requirements),)) if selector.requirements else None
