"""Where a volume is by its labels, as volumes said before they had node affinity.

A label may name several zones, joined by `__`. Read by the VolumeZone plugin; node affinity is `affinity`'s.
"""

from typing import Final, NamedTuple

from mooring.api import keys
from mooring.api.views.volume import Volume
from mooring.volumes.in_tree import ZONES_JOINED_BY

#: In the order they are looked at.
ZONE_KEYS: Final = (keys.ZONE_BETA, keys.REGION_BETA, keys.ZONE, keys.REGION)


class Place(NamedTuple):
    """A node must have one of these values."""

    key: str
    values: tuple[str, ...]


def places_of(volume: Volume) -> tuple[Place, ...]:
    """What the zone and region labels of a volume ask of a node; a label with an empty part asks for nothing."""
    places: list[Place] = []
    for key in ZONE_KEYS:
        pieces = [piece.strip() for piece in volume.metadata.labels.get(key, "").split(ZONES_JOINED_BY)]
        if all(pieces):
            places.append(Place(key, tuple(sorted(set(pieces)))))
    return tuple(places)
