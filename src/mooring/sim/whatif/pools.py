"""Storage as large as CSIStorageCapacity objects say it is: what is left where, and what a new volume takes of it.

Pure. Each object is a pool with a segment. Objects of classes that count as one pool (`volumes.provisioning`) show the
same storage, so a volume is taken from all of them that have its place; that is how the scheduler counts too. A class
without any object has no end, one with objects has nothing where none of them is.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mooring.api.views.storage import StorageCapacity
from mooring.volumes.capacity import CapacityView
from mooring.volumes.segments import Segments
from mooring.volumes.topology import TopologyIndex


@dataclass(slots=True)
class Pool:
    """What one object says, as it is now."""

    key: str
    storage_class: str
    #: Bytes left, and the most that one volume may have of them.
    free: int
    largest: int
    #: Whether the object itself has a figure for the largest volume.
    tells_largest: bool


class Taken(NamedTuple):
    """A volume's room: the objects it was taken from, and how many bytes."""

    pools: tuple[str, ...]
    size: int


class Pools:
    def __init__(self, reported: Iterable[StorageCapacity], shared: Callable[[str], str]) -> None:
        """`shared` is what volumes of a class are taken from, equal for classes that share it."""
        self._shared = shared
        self._pools: dict[str, Pool] = {}
        self._classes: set[str] = set()
        self._segments = Segments()
        view = CapacityView(TopologyIndex())
        for each in reported:
            view.observe(each.key, each)
            room = view.room(each.key)
            if room is not None:
                told = each.maximum_volume_size is not None
                self._pools[each.key] = Pool(each.key, room.storage_class, room.free, room.limit, told)
                self._segments.add(room.segment, each.key)
                self._classes.add(room.storage_class)

    def __getitem__(self, key: str) -> Pool:
        return self._pools[key]

    def take(self, storage_class: str, labels: Mapping[str, str] | None, size: int) -> Taken | str:
        """Room for a volume in the place with these labels, None for anywhere; or why there is none."""
        if storage_class not in self._classes:
            return Taken((), size)
        here = [*self._pools.values()] if labels is None else [self._pools[key] for key in self._segments.at(labels)]
        own = [pool for pool in here if pool.storage_class == storage_class]
        if not own:
            return f"no capacity is reported for class {storage_class} there"
        fitting = [pool for pool in own if size <= min(pool.free, pool.largest)]
        if not fitting:
            most = max(min(pool.free, pool.largest) for pool in own)
            return f"{size} bytes were asked for and {most} are left"
        if labels is None:
            here = [max(fitting, key=lambda pool: (pool.free, pool.key))]
        whose = self._shared(storage_class)
        taken = [pool for pool in here if self._shared(pool.storage_class) == whose]
        for pool in taken:
            pool.free = max(pool.free - size, 0)
        return Taken(tuple(pool.key for pool in taken), size)

    def give_back(self, taken: Taken) -> None:
        for key in taken.pools:
            self._pools[key].free += taken.size
