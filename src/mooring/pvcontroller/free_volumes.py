"""The volumes that claims may take, by class, shape and size.

Pure; kept by `facts`. Volumes reserved for a claim are not here: those are found by the claim's name. A volume whose
reservation is on its way is out of reach for other claims until it is known what became of that.
"""

from mooring.api.quantity import QuantityError
from mooring.api.views.volume import Volume
from mooring.pvcontroller.by_shape import ByShape, Place
from mooring.pvcontroller.by_size import BySize
from mooring.volumes.matching import Criterion, Needs, is_free
from mooring.volumes.shape import exact_size, shape_of


class VolumesBySize:
    def __init__(self) -> None:
        self._filed: ByShape[str] = ByShape()
        self._volumes: dict[str, Volume] = {}
        self._promised: set[str] = set()

    def __contains__(self, name: str) -> bool:
        """Whether a claim may take the volume of this name now."""
        return name in self._volumes

    def moved(self, before: Volume | None, after: Volume | None) -> None:
        """A volume was `before` and is `after`."""
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

    def by_modes(self, wanted: Needs) -> dict[frozenset[str], BySize[str]]:
        """The volumes of the right class and kind that offer the access modes asked for, by what they offer."""
        offers = self._filed.shapes(wanted.storage_class).items()
        return {shape.access_modes: sizes for shape, sizes in offers if shape.serves(wanted.shape)}

    def smallest(self, wanted: Needs, among: BySize[str]) -> Volume | None:
        """The smallest volume that is large enough and has the labels asked for; ties by name."""
        if not wanted.selects:
            name = among.smallest_from(wanted.size)
            return None if name is None else self._volumes[name]
        large_enough = (self._volumes[name] for name in among.walk_from(wanted.size))
        return next((volume for volume in large_enough if not wanted.fails(Criterion.SELECTOR, volume)), None)

    def _put(self, volume: Volume) -> None:
        if not is_free(volume):
            return
        try:
            place = Place(volume.storage_class, shape_of(volume), exact_size(volume.size))
        except QuantityError:
            # Nobody can tell for whom it would do.
            return
        self._filed.put(volume.name, place, volume.name)
        self._volumes[volume.name] = volume

    def _remove(self, name: str) -> None:
        self._filed.discard(name)
        self._volumes.pop(name, None)
