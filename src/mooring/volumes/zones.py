"""Where a volume is by its labels, as volumes said before they had node affinity.

A label may name several zones, joined by `__`. Read by the VolumeZone plugin; node affinity is `affinity`'s.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from mooring.api import keys
from mooring.api.views.volume import Volume
from mooring.volumes.in_tree import ZONES_JOINED_BY

#: In the order they are looked at.
ZONE_KEYS: Final = (keys.ZONE_BETA, keys.REGION_BETA, keys.ZONE, keys.REGION)


#: By which key of today a node may answer for one of yesterday; not the other way round.
SUCCESSORS: Final[Mapping[str, str]] = {keys.ZONE_BETA: keys.ZONE, keys.REGION_BETA: keys.REGION}


class Place(NamedTuple):
    """A node must have one of these values."""

    key: str
    values: tuple[str, ...]

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels is there."""
        value = labels.get(self.key)
        if value is None:
            value = labels.get(SUCCESSORS.get(self.key, ""))
        return value in self.values


def in_zone(volume: Volume, labels: Mapping[str, str]) -> bool:
    """Whether a volume's labels let a node with these labels use it; a node without any zone or region is not asked."""
    return labels.keys().isdisjoint(ZONE_KEYS) or all(place.has(labels) for place in places_of(volume))


def places_of(volume: Volume) -> tuple[Place, ...]:
    """What the zone and region labels of a volume ask of a node."""
    return places_in(volume.metadata.labels)


def places_in(labels: Mapping[str, str]) -> tuple[Place, ...]:
    """What such labels ask of a node; a label with an empty part asks for nothing."""
    places: list[Place] = []
    for key in ZONE_KEYS:
        pieces = [piece.strip() for piece in labels.get(key, "").split(ZONES_JOINED_BY)]
        if all(pieces):
            places.append(Place(key, tuple(sorted(set(pieces)))))
    return tuple(places)
