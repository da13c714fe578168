"""The node affinity that a volume's zone and region labels stand for.

Volumes said where they are by labels before they had node affinity. Written once, an affinity cannot be taken back,
so it is spelled in a label that nodes have: the volume's own, or today's name of it where no node has that one.
"""

from collections.abc import Collection, Mapping
from typing import Any

from mooring.volumes.zones import SUCCESSORS, Place, places_in


def zonal_affinity(labels: Mapping[str, str], node_keys: Collection[str]) -> dict[str, Any] | None:
    """A volume's `nodeAffinity` by its labels; None where they say nothing. `node_keys` are the labels nodes have."""
    places = places_in(labels)
    said = {place.key for place in places}
    wanted = [_spelled(place, node_keys) for place in places if SUCCESSORS.get(place.key) not in said]
    if not wanted:
        return None
    rows = [{"key": place.key, "operator": "In", "values": list(place.values)} for place in wanted]
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": rows}]}}


def _spelled(place: Place, node_keys: Collection[str]) -> Place:
    successor = SUCCESSORS.get(place.key)
    if successor is None or place.key in node_keys or successor not in node_keys:
        return place
    return place._replace(key=successor)
