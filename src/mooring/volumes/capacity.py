"""How much free storage drivers report, and where: which nodes could have a volume of some size made.

Kept by `provisioning.Provisioners`, fed with CSIStorageCapacity objects, following nodes by itself. Objects of a class
lie in `columns` as free volumes do: the segment is the affinity and the limit is the size, so one comparison answers
for all nodes. Each claim is judged alone, as kube-scheduler does: that two claims of a pod, or two pods in flight, ask
for the same room is not counted here yet.
"""

from typing import Final, NamedTuple

from mooring.api import label_selector, quantity
from mooring.api.label_selector import SelectorError
from mooring.api.node_selector import NodeSelector, NodeSelectorTerm
from mooring.api.quantity import NANOS_PER_UNIT, QuantityError
from mooring.api.views.meta import LabelSelectorView
from mooring.api.views.storage import StorageCapacity
from mooring.volumes.affinity import Affinity, AffinityFollower
from mooring.volumes.assignment import Sized
from mooring.volumes.columns import Columns, Sizes
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.topology import TopologyIndex

#: The segment of an object without `nodeTopology`: no node is in it.
_NOWHERE: Final = NodeSelector()


class _Room(NamedTuple):
    """What one object says: up to this many bytes can be made at once on these nodes, and so many are free."""

    storage_class: str
    segment: Affinity
    limit: Sized
    free: Sized


class _OfClass:
    """The rooms of one class: by what a single volume may have, and by what is free."""

    __slots__ = ("free", "limits")

    def __init__(self) -> None:
        self.limits = Columns()
        self.free = Columns()


class CapacityView:
    """Rooms by class and place."""

    def __init__(self, topology: TopologyIndex) -> None:
        self._topology = topology
        self._follower = AffinityFollower(topology)
        self._rooms: dict[str, _Room] = {}
        self._classes: dict[str, _OfClass] = {}

    def observe(self, key: str, now: StorageCapacity | None) -> str:
        """An object is as it is, None for gone. Answers with why it cannot be used, "" in the normal case."""
        known = self._rooms.pop(key, None)
        if known is not None:
            self._leave(known)
        if now is None:
            return ""
        try:
            room = _room(now)
        except (SelectorError, QuantityError) as problem:
            return str(problem)
        if room is not None:
            self._rooms[key] = room
            self._enter(room)
        return ""

    def enough(self, storage_class: str, size: int) -> NodeSet:
        """The nodes on which a driver reports that a volume of so many bytes could be made."""
        of_class = self._of_class(storage_class)
        if of_class is None:
            return EMPTY
        return of_class.limits.ladder(size * NANOS_PER_UNIT, 1, self._topology.all)[1]

    def free(self, storage_class: str, width: int) -> Sizes:
        """By slot, the most bytes that one object reports as free; 0 where none does."""
        of_class = self._of_class(storage_class)
        return (Columns() if of_class is None else of_class.free).largest(width)

    def _of_class(self, storage_class: str) -> _OfClass | None:
        for touched, nodes in self._follower.moved():
            for of_class in self._classes.values():
                of_class.limits.move(touched, nodes)
                of_class.free.move(touched, nodes)
        return self._classes.get(storage_class)

    def _enter(self, room: _Room) -> None:
        of_class = self._classes.setdefault(room.storage_class, _OfClass())
        nodes = self._follower.add(room.segment)
        of_class.limits.add(room.limit, room.segment, nodes)
        of_class.free.add(room.free, room.segment, nodes)

    def _leave(self, room: _Room) -> None:
        of_class = self._classes[room.storage_class]
        of_class.limits.remove(room.limit, room.segment)
        of_class.free.remove(room.free, room.segment)
        self._follower.discard(room.segment)
        if not of_class.limits:
            del self._classes[room.storage_class]


def limit_of(reported: StorageCapacity) -> int | None:
    """The largest volume that could be made, in bytes; None where the object does not say.

    `maximumVolumeSize` decides where it is given, whatever `capacity` says. Raises QuantityError.
    """
    amount = reported.capacity if reported.maximum_volume_size is None else reported.maximum_volume_size
    return None if amount is None else quantity.to_bytes(amount)


def _room(reported: StorageCapacity) -> _Room | None:
    limit = limit_of(reported)
    if limit is None:
        return None
    free = limit if reported.capacity is None else quantity.to_bytes(reported.capacity)
    key = reported.key
    segment = _segment(reported.node_topology)
    sized = Sized(limit * NANOS_PER_UNIT, key)
    return _Room(reported.storage_class_name, segment, sized, Sized(free * NANOS_PER_UNIT, key))


def _segment(view: LabelSelectorView | None) -> Affinity:
    """A label selector over nodes as an affinity: no selector is nowhere, an empty one is everywhere."""
    if view is None:
        return _NOWHERE
    selector = label_selector.from_view(view.match_labels, view.match_expressions)
    return NodeSelector((NodeSelectorTerm(selector.requirements),)) if selector.requirements else None
