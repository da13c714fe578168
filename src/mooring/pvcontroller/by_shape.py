"""Keys by class, shape and size: where volumes wait for claims and claims for volumes.

Pure. Few shapes are in use, so looking at each of a class costs nothing; within one, only sizes differ.
"""

from collections.abc import Mapping
from typing import Generic, NamedTuple

from mooring.pvcontroller.by_size import BySize, R
from mooring.volumes.shape import Shape


class Place(NamedTuple):
    """Where a key is filed."""

    storage_class: str
    shape: Shape
    size: int


class ByShape(Generic[R]):
    def __init__(self) -> None:
        self._classes: dict[str, dict[Shape, BySize[R]]] = {}
        self._places: dict[str, Place] = {}

    def put(self, key: str, place: Place, rank: R) -> None:
        """File a key, instead of where it was."""
        self.discard(key)
        shapes = self._classes.setdefault(place.storage_class, {})
        shapes.setdefault(place.shape, BySize()).add(place.size, key, rank)
        self._places[key] = place

    def discard(self, key: str) -> None:
        """Take a key out. Nothing happens if it is not there."""
        place = self._places.pop(key, None)
        if place is None:
            return
        shapes = self._classes[place.storage_class]
        shapes[place.shape].discard(place.size, key)
        if shapes[place.shape].empty:
            del shapes[place.shape]
        if not shapes:
            del self._classes[place.storage_class]

    def shapes(self, storage_class: str) -> Mapping[Shape, BySize[R]]:
        """What there is of a class. A live view."""
        return self._classes.get(storage_class, {})
