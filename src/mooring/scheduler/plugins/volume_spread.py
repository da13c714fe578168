"""VolumeSpread: new volumes rather go to zones that have few of their kin. Off unless a profile enables it.

Spreading pods looks at pods that are there. Volumes stay when pods go: a set that was scaled down, or whose pods wait,
comes back to where its volumes are, and one that grew while a zone was away has most of them in the others. So this
counts volumes: of each claim that is still to be bound, the claims of the same namespace with the same labels, and in
which zone their volumes are or are being made. Volumes that several zones reach are in none. It only prefers.
"""

from typing import ClassVar

import numpy as np

from mooring.api import keys
from mooring.scheduler import scores
from mooring.scheduler.contract import Cycle, Hint, Score, Scores
from mooring.volumes.nodeset import EMPTY, NodeSet, to_mask


class VolumeSpread:
    name: ClassVar[str] = "VolumeSpread"
    only_volumes: ClassVar[bool] = True
    #: As much as spreading pods.
    weight: ClassVar[int] = 2
    #: It rejects nobody.
    wakes_on: ClassVar[tuple[Hint, ...]] = ()

    def score(self, cycle: Cycle, feasible: NodeSet) -> Scores | None:
        claims = cycle.claims
        if isinstance(claims, str) or not claims.unbound:
            return None
        snapshot = cycle.snapshot
        zones = snapshot.topology.by_value(keys.ZONE)
        counted = np.zeros(snapshot.resources.width)
        zoned = EMPTY
        for nodes in zones.values():
            zoned |= nodes
        for needs in claims.unbound:
            for zone, volumes in snapshot.volumes.kin_in(needs.claim, zones).items():
                counted += volumes * to_mask(zones[zone], len(counted))
        if not counted.any():
            return None
        # Where there is no zone, nothing can be said for the node.
        return scores.least_is_best(counted, feasible) * to_mask(zoned, len(counted))


_contract: Score = VolumeSpread()
