"""The volumes that claims may take, by class, shape and size.

Pure; kept by `facts`. Volumes reserved for a claim are not here: those are found by the claim's name. A volume whose
reservation is on its way is out of reach for other claims until it is known what became of that.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from mooring.api.quantity import QuantityError
from mooring.api.views.volume import Volume
from mooring.pvcontroller.by_size import BySize
from mooring.volumes.matching import AVAILABLE, Needs
from mooring.volumes.shape import Shape, exact_size, shape_of


class _Offer(NamedTuple):
    """What makes volumes differ only in size, and how large one is."""

    storage_class: str
    shape: Shape
    size: int


class FreeVolumes:
    def __init__(self) -> None:
        self._sizes: BySize[tuple[str, Shape], str] = BySize()
        self._volumes: dict[str, Volume] = {}
        #: Counts the free volumes of each shape, by class.
        self._shapes: defaultdict[str, dict[Shape, int]] = defaultdict(dict)
        self._promised: set[str] = set()

    def moved(self, before: Volume | None, after: Volume | None) -> None:
        if before is not None:
            self._remove(before.name)
        if after is not None and after.name not in self._promised:
            self._put(after)

    def promise(self, volume: Volume) -> None:
        """The volume is being reserved for a claim."""
        self._promised.add(volume.name)
        self._remove(volume.name)

    def settle(self, name: str, now: Volume | None) -> None:
        """The reservation has come about or failed; `now` is the volume as it is."""
        self._promised.discard(name)
        self.moved(now, now)

    def shapes_for(self, wanted: Needs) -> list[Shape]:
        """The shapes that serve a claim: those with the fewest access modes first, so that a plain claim does not
        use up a shareable volume."""
        shapes = [shape for shape in self._shapes.get(wanted.storage_class, ()) if shape.serves(wanted.shape)]
        return sorted(shapes, key=lambda shape: (len(shape.access_modes), sorted(shape.access_modes)))

    def smallest(self, wanted: Needs, shape: Shape) -> Volume | None:
        """The smallest volume of a shape that is large enough and has the labels asked for; ties by name."""
        group = wanted.storage_class, shape
        if not wanted.selects:
            name = self._sizes.smallest_from(group, wanted.size)
            return None if name is None else self._volumes[name]
        return next((volume for volume in self._large_enough(wanted, shape) if _selected(volume, wanted)), None)

    def _large_enough(self, wanted: Needs, shape: Shape) -> Iterator[Volume]:
        return (self._volumes[name] for name in self._sizes.walk_from((wanted.storage_class, shape), wanted.size))

    def _put(self, volume: Volume) -> None:
        offer = _offer(volume)
        if offer is None:
            return
        self._volumes[volume.name] = volume
        self._sizes.add((offer.storage_class, offer.shape), offer.size, volume.name, volume.name)
        shapes = self._shapes[offer.storage_class]
        shapes[offer.shape] = shapes.get(offer.shape, 0) + 1

    def _remove(self, name: str) -> None:
        known = self._volumes.pop(name, None)
        offer = None if known is None else _offer(known)
        if offer is None:
            return
        self._sizes.discard((offer.storage_class, offer.shape), offer.size, name)
        shapes = self._shapes[offer.storage_class]
        shapes[offer.shape] -= 1
        if not shapes[offer.shape]:
            del shapes[offer.shape]


def is_free(volume: Volume) -> bool:
    return volume.spec.claim_ref is None and volume.status.phase == AVAILABLE and not volume.deleting


def _offer(volume: Volume) -> _Offer | None:
    """None for a volume that nobody may take, or whose size cannot be understood."""
    if not is_free(volume):
        return None
    try:
        return _Offer(volume.storage_class, shape_of(volume), exact_size(volume.size))
    except QuantityError:
        return None


def _selected(volume: Volume, wanted: Needs) -> bool:
    return wanted.selector is None or wanted.selector.matches(volume.metadata.labels)
