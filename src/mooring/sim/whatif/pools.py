"""Storage as large as CSIStorageCapacity objects say it is: what is left where, and what a volume takes of it.

Pure. Each object is a pool with a segment. Objects of classes that count as one pool (`volumes.provisioning`) show the
same storage, so a volume is taken from all of them that have its place; that is how the scheduler counts too. A class
without any object has no end, one with objects has nothing where none of them is.

Classes that name one pool and report a whole fraction of each other's figures everywhere keep as many copies: a volume
of one that reports half takes twice its size.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple

from mooring.api import keys, quantity
from mooring.api.kinds import STORAGE_CAPACITY, STORAGE_CLASS
from mooring.api.timestamps import from_time
from mooring.api.views.storage import StorageCapacity
from mooring.api.views.volume import Volume
from mooring.sim.whatif.inventory import Inventory
from mooring.volumes.affinity import Affinity
from mooring.volumes.capacity import CapacityView, Room
from mooring.volumes.provisioning import Provisioners
from mooring.volumes.segments import Segments
from mooring.volumes.topology import TopologyIndex

#: More copies than any driver keeps; figures that are smaller by more are unrelated.
MAX_COPIES: Final = 4


@dataclass(slots=True)
class Pool:
    """What one object says, as it is now."""

    key: str
    storage_class: str
    #: Bytes left of the storage itself, of which a volume of the class takes its size `copies` times.
    unused: int
    copies: int
    #: The most that one volume may have, None where that is what is left.
    limit: int | None
    #: Whether the object itself has a figure for the largest volume.
    tells_largest: bool
    #: When the driver was asked for the figure, None where the publisher does not say.
    polled: float | None

    @property
    def free(self) -> int:
        """Bytes left for volumes of the class."""
        return max(self.unused, 0) // self.copies

    @property
    def largest(self) -> int:
        return self.free if self.limit is None else min(self.limit, self.free)


class Taken(NamedTuple):
    """A volume's room: the objects it was taken from, and how many bytes of the storage."""

    pools: tuple[str, ...]
    size: int


class Pools:
    def __init__(
        self, reported: Iterable[StorageCapacity], shared: Callable[[str], str], named: Collection[str] = ()
    ) -> None:
        """`shared` is what volumes of a class are taken from, equal for classes that share it; the classes `named` say
        so themselves."""
        self._shared = shared
        self._pools: dict[str, Pool] = {}
        self._classes: dict[str, int] = {}
        self._segments = Segments()
        view = CapacityView(TopologyIndex())
        rooms: list[tuple[StorageCapacity, Room]] = []
        for each in reported:
            view.observe(each.key, each)
            room = view.room(each.key)
            if room is not None:
                rooms.append((each, room))
                self._segments.add(room.segment, each.key)
        self._classes = _copies((room for _, room in rooms), shared, named)
        for each, room in rooms:
            copies = self._classes[room.storage_class]
            limit = None if room.limit == room.free else room.limit
            told = each.maximum_volume_size is not None
            unused = room.free * copies
            self._pools[each.key] = Pool(each.key, room.storage_class, unused, copies, limit, told, room.polled)

    def __getitem__(self, key: str) -> Pool:
        return self._pools[key]

    def take(self, storage_class: str, labels: Mapping[str, str] | None, size: int) -> Taken | str:
        """Room for a volume in the place with these labels, None for anywhere; or why there is none."""
        if storage_class not in self._classes:
            return Taken((), size)
        here = [*self._pools.values()] if labels is None else self._at(labels)
        own = [pool for pool in here if pool.storage_class == storage_class]
        if not own:
            return f"no capacity is reported for class {storage_class} there"
        fitting = [pool for pool in own if size <= pool.largest]
        if not fitting:
            most = max(pool.largest for pool in own)
            return f"{size} bytes were asked for and {most} are left"
        if labels is None:
            here = [max(fitting, key=lambda pool: (pool.free, pool.key))]
        taken = Taken(self._sharing(storage_class, here), size * self._classes[storage_class])
        self._give_back(taken.pools, -taken.size)
        return taken

    def taken_by(self, volume: Volume) -> Taken:
        """The room of a volume that was there before."""
        places = [pool for labels in _places(volume) for pool in self._at(labels)]
        size = quantity.to_bytes(volume.size) * self._classes.get(volume.storage_class, 1)
        return Taken(self._sharing(volume.storage_class, places), size)

    def catch_up(self, volume: Volume, taken: Taken) -> Taken:
        """Takes a volume from those of its objects whose figures were asked for before it was made, and answers with
        them: a publisher would find it there too."""
        unseen = Taken(tuple(key for key in taken.pools if _unseen(volume, self._pools[key])), taken.size)
        self._give_back(unseen.pools, -unseen.size)
        return unseen

    def give_back(self, taken: Taken) -> None:
        self._give_back(taken.pools, taken.size)

    def _give_back(self, pools: Iterable[str], size: int) -> None:
        for key in pools:
            self._pools[key].unused += size

    def _at(self, labels: Mapping[str, str]) -> list[Pool]:
        return [self._pools[key] for key in self._segments.at(labels)]

    def _sharing(self, storage_class: str, pools: Iterable[Pool]) -> tuple[str, ...]:
        """Those of the pools that show the storage of a class, each once."""
        whose = self._shared(storage_class)
        return tuple(dict.fromkeys(pool.key for pool in pools if self._shared(pool.storage_class) == whose))


def pools_of(inventory: Inventory) -> Pools:
    """What the objects that are there report."""
    classes = Provisioners(TopologyIndex())
    for each in inventory.of(STORAGE_CLASS):
        classes.observe_class(each.name, each)
    named = {each.name for each in inventory.of(STORAGE_CLASS) if keys.CAPACITY_POOL in each.metadata.annotations}
    return Pools(inventory.of(STORAGE_CAPACITY), classes.pool, named)


def _copies(rooms: Iterable[Room], shared: Callable[[str], str], named: Collection[str]) -> dict[str, int]:
    """How often volumes of each class take their size."""
    found: dict[str, set[int]] = {}
    by_place: dict[tuple[str, Affinity], list[Room]] = {}
    for room in rooms:
        found.setdefault(room.storage_class, set())
        if room.storage_class in named:
            by_place.setdefault((shared(room.storage_class), room.segment), []).append(room)
    for alike in by_place.values():
        most = max(room.free for room in alike)
        for room in alike:
            if most:
                copies = most // room.free if room.free else 0
                found[room.storage_class].add(copies if copies and most // copies == room.free else 0)
    return {name: _only(copies) for name, copies in found.items()}


def _only(copies: Collection[int]) -> int:
    """Figures that are in no whole relation, or in another elsewhere, say nothing."""
    return next(iter(copies)) if len(copies) == 1 and 1 <= max(copies) <= MAX_COPIES else 1


def _places(volume: Volume) -> Iterator[Mapping[str, str]]:
    """The labels of each place that a volume says it can be reached from."""
    required = volume.required_affinity
    for term in required.node_selector_terms if required is not None else ():
        wanted = [(each.key, each.values) for each in term.match_expressions if each.operator == "In"]
        for values in product(*(values for _, values in wanted)):
            yield dict(zip((key for key, _ in wanted), values, strict=True))


def _unseen(volume: Volume, pool: Pool) -> bool:
    try:
        made = from_time(volume.metadata.creation_timestamp or "")
    except ValueError:
        return False
    return pool.polled is not None and made > pool.polled
