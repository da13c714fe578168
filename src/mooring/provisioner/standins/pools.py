"""How much is used where, and what a class says about that: the stand-ins' storage, as far as there is any.

Pure. Two parameters of a class make things go wrong on purpose: `capacityPerDomain` is what volumes of the class may
take up in one place, and in the places of `unavailableIn` nothing can be made at all. Charges are kept by volume
name; those of volumes that exist are read from the volumes themselves, so that a restart forgets nothing.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from mooring.api import quantity
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.provisioner.standins.contract import Place

CAPACITY: Final = "capacityPerDomain"
UNAVAILABLE: Final = "unavailableIn"


class _Charge(NamedTuple):
    storage_class: str
    places: tuple[Place, ...]
    size: int


class Pools:
    def __init__(self) -> None:
        self._charges: dict[str, _Charge] = {}
        self._used: defaultdict[tuple[str, Place], int] = defaultdict(int)

    def charge(self, volume: str, storage_class: str, places: Collection[Place], size: int) -> None:
        """A volume takes this much in each of its places; a charge of the same name is replaced."""
        self.release(volume)
        charge = _Charge(storage_class, tuple(places), size)
        self._charges[volume] = charge
        for place in charge.places:
            self._used[storage_class, place] += size

    def release(self, volume: str) -> None:
        """The volume takes nothing any more. Nothing happens when that was known."""
        charge = self._charges.pop(volume, None)
        if charge is not None:
            for place in charge.places:
                self._used[charge.storage_class, place] -= charge.size

    def observe(self, volume: Volume) -> None:
        """A volume that was made here is there."""
        size = quantity.to_bytes(volume.size)
        self.charge(volume.name, volume.storage_class, tuple(places_of(volume)), size)

    def trouble_in(self, place: Place, storage_class: StorageClass, size: int) -> str:
        """Why a volume of this size and class cannot be made in a place; "" where it can."""
        where = "/".join(sorted(place))
        if place & _listed(storage_class.parameters.get(UNAVAILABLE, "")):
            return f"storage in {where} is not available"
        limit = storage_class.parameters.get(CAPACITY)
        if limit is None:
            return ""
        free = max(quantity.to_bytes(limit) - self._used[storage_class.name, place], 0)
        return "" if size <= free else f"not enough storage in {where}: {size} bytes requested, {free} free"


def places_of(volume: Volume) -> Iterator[Place]:
    """The places a stand-in's volume is in, read back from its node affinity."""
    required = volume.required_affinity
    for term in () if required is None else required.node_selector_terms:
        if len(term.match_expressions) == 1:
            yield from (frozenset((value,)) for value in term.match_expressions[0].values)
        else:
            yield frozenset(value for one in term.match_expressions for value in one.values)


def _listed(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())
