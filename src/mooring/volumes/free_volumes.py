"""The volumes nobody has yet, in columns by class and shape, and once more by the labels somebody asked for.

Below `volume_index`, which asks for the columns that serve a claim. Claims rarely select by labels, and those that do
use few selectors: the first claim with a selector makes columns of the volumes it matches, later ones find them
current. It knows sizes and places; what is reserved or promised is not here.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from mooring.api.label_selector import LabelSelector
from mooring.api.views.volume import Volume
from mooring.volumes.affinity import Affinity, AffinityFollower, affinity
from mooring.volumes.assignment import Sized
from mooring.volumes.columns import Columns
from mooring.volumes.in_tree import identity_of
from mooring.volumes.matching import Needs
from mooring.volumes.shape import Shape, exact_size, shape_of
from mooring.volumes.topology import TopologyIndex

REMEMBERED_SELECTORS: Final = 64
"""Selectors whose columns are kept, the longest unused going first; each costs one entry per matching volume."""

_Shapes = dict[Shape, Columns]


class _Place(NamedTuple):
    """Where a free volume was entered."""

    volume: Volume
    shape: Shape
    affinity: Affinity
    sized: Sized


class FreeVolumes:
    """Columns of free volumes. They follow nodes by themselves; volumes come and go by name."""

    def __init__(self, topology: TopologyIndex) -> None:
        self._follower = AffinityFollower(topology)
        self._class_of: dict[str, str] = {}
        self._places: dict[str, dict[str, _Place]] = {}
        #: By class, how many volumes each driver has; "" are those that no driver knows.
        self._drivers: dict[str, Counter[str]] = {}
        self._plain: dict[str, _Shapes] = {}
        self._picked: OrderedDict[tuple[str, LabelSelector], _Shapes] = OrderedDict()

    def add(self, volume: Volume) -> None:
        """A volume whose size can be read is free."""
        place = _Place(volume, shape_of(volume), affinity(volume), Sized(exact_size(volume.size), volume.name))
        self._follower.add(place.affinity)
        self._class_of[volume.name] = volume.storage_class
        self._places.setdefault(volume.storage_class, {})[volume.name] = place
        self._drivers.setdefault(volume.storage_class, Counter())[_driver(volume)] += 1
        for shapes in self._shapes_with(volume):
            self._enter(shapes, place)

    def remove(self, name: str) -> None:
        """A volume is free no more. Nothing happens when it was not."""
        storage_class = self._class_of.pop(name, None)
        if storage_class is None:
            return
        place = self._places[storage_class].pop(name)
        self._follower.discard(place.affinity)
        drivers = self._drivers[storage_class]
        drivers[_driver(place.volume)] -= 1
        if not drivers[_driver(place.volume)]:
            del drivers[_driver(place.volume)]
        for shapes in self._shapes_with(place.volume):
            columns = shapes[place.shape]
            columns.remove(place.sized, place.affinity)
            if not columns:
                del shapes[place.shape]
        if not self._places[storage_class]:
            del self._places[storage_class]
            del self._plain[storage_class]
            del self._drivers[storage_class]

    def serving(self, claim: Needs) -> dict[Shape, Columns]:
        """The columns all of whose volumes do for the claim, as far as size and place do. Volumes in columns of
        different shapes differ; columns for different selectors may share volumes."""
        self._follow_nodes()
        if claim.selector is None or not claim.selects:
            shapes = self._plain.get(claim.storage_class, {})
        else:
            shapes = self._picked_by(claim.storage_class, claim.selector)
        return {shape: columns for shape, columns in shapes.items() if shape.serves(claim.shape)}

    def drivers(self, storage_class: str) -> Collection[str]:
        """The drivers that free volumes of a class have; "" for volumes that no driver knows."""
        return self._drivers.get(storage_class, Counter()).keys()

    def _picked_by(self, storage_class: str, selector: LabelSelector) -> _Shapes:
        key = (storage_class, selector)
        shapes = self._picked.get(key)
        if shapes is None:
            if len(self._picked) >= REMEMBERED_SELECTORS:
                self._picked.popitem(last=False)
            shapes = self._picked[key] = {}
            for place in self._places.get(storage_class, {}).values():
                if selector.matches(place.volume.metadata.labels):
                    self._enter(shapes, place)
        self._picked.move_to_end(key)
        return shapes

    def _shapes_with(self, volume: Volume) -> Iterator[_Shapes]:
        """Everything a volume of this class and these labels belongs to."""
        yield self._plain.setdefault(volume.storage_class, {})
        for (storage_class, selector), shapes in self._picked.items():
            if storage_class == volume.storage_class and selector.matches(volume.metadata.labels):
                yield shapes

    def _enter(self, shapes: _Shapes, place: _Place) -> None:
        if place.shape not in shapes:
            shapes[place.shape] = Columns()
        shapes[place.shape].add(place.sized, place.affinity, self._follower.nodes(place.affinity))

    def _follow_nodes(self) -> None:
        """Move the volumes whose nodes have changed since the last question."""
        for touched, nodes in self._follower.moved():
            for all_shapes in (self._plain, self._picked):
                for shapes in all_shapes.values():
                    for columns in shapes.values():
                        columns.move(touched, nodes)


def _driver(volume: Volume) -> str:
    identity = identity_of(volume)
    return "" if identity is None else identity.driver
