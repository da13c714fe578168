"""VolumeBinding: a pod goes where its volumes are or can be, and best where they fit.

Bound claims limit the nodes to those that reach their volumes; claims bound late need, on the chosen node, a volume
each or a class that can provision one. All of it is decided by the volume library; this is its place in the cycle.
Evicting pods frees no volumes, so none of its rejections can be resolved that way.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from mooring.api.quantity import QuantityError
from mooring.api.views.volume import Volume
from mooring.scheduler import changes
from mooring.scheduler.contract import (
    Change,
    Cycle,
    HeedsPods,
    Hint,
    PreFilter,
    Rejection,
    RejectionCode,
    Reserve,
    Score,
    Scores,
)
from mooring.scheduler.interests import CLAIM, CLASS, DRIVER, PLUGIN, VOLUME, Interests
from mooring.scheduler.snapshot import Snapshot
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.plan import BindingPlan
from mooring.volumes.pod_claims import PodClaims
from mooring.volumes.scoring import CapacityPolicy, Ramp, preference, utilization
from mooring.volumes.state import ConflictReason

#: For a pod with one claim, a volume that exists is then worth at least 100 points more than one to be made: more than
#: all that NodeResourcesFit can say about a node.
PREFERENCE_WEIGHT: Final = 3
#: kube-scheduler gives this plugin no weight of its own.
UTILIZATION_WEIGHT: Final = 1

#: The codes of what the volume library holds against nodes.
CODES: Final[Mapping[ConflictReason, RejectionCode]] = {
    ConflictReason.NODE_AFFINITY: RejectionCode.VOLUME_AFFINITY,
    ConflictReason.NO_VOLUME: RejectionCode.NO_VOLUME,
    ConflictReason.STORAGE_CAPACITY: RejectionCode.STORAGE_CAPACITY,
    ConflictReason.VOLUME_MISSING: RejectionCode.VOLUME_MISSING,
}


def _serves(interests: Interests, change: Change) -> bool:
    """Whether the volume, wherever it is, does for one of the claims."""
    volume = change.object
    try:
        return isinstance(volume, Volume) and any(needs.why_not(volume) is None for needs in interests.unbound)
    except QuantityError:
        # A volume whose size cannot be understood is given to nobody.
        return False


class VolumeBinding:
    name: ClassVar[str] = "VolumeBinding"
    only_volumes: ClassVar[bool] = True
    #: Deletions of claims and of free volumes are missing on purpose: neither makes room for another.
    wakes_on: ClassVar[tuple[Hint, ...]] = (
        Hint("PersistentVolumeClaim", frozenset({changes.ADD, changes.UPDATE}), about=CLAIM),
        Hint("PersistentVolume", frozenset({changes.ADD, changes.UPDATE}), about=CLASS, suits=_serves),
        Hint("PersistentVolume", frozenset({changes.ADD, changes.UPDATE}), about=VOLUME),
        # A claim that a volume is kept for takes no other: it may when the volume goes.
        Hint("PersistentVolume", frozenset({changes.ADD, changes.UPDATE, changes.DELETE}), about=CLAIM),
        Hint("StorageClass", frozenset({changes.ADD}), about=CLASS),
        Hint("StorageClass", frozenset({changes.UPDATE}), parts=frozenset({changes.ALLOWED_TOPOLOGIES}), about=CLASS),
        Hint("Node", frozenset({changes.ADD})),
        Hint("Node", frozenset({changes.UPDATE}), None, frozenset({changes.LABELS})),
        Hint("CSINode", frozenset({changes.ADD, changes.DELETE}), about=PLUGIN),
        Hint("CSINode", frozenset({changes.UPDATE}), parts=frozenset({changes.MIGRATED_PLUGINS}), about=PLUGIN),
        Hint("CSIStorageCapacity", frozenset({changes.ADD}), about=CLASS),
        Hint("CSIStorageCapacity", frozenset({changes.UPDATE}), parts=frozenset({changes.MORE_ROOM}), about=CLASS),
        Hint("CSIDriver", frozenset({changes.UPDATE}), parts=frozenset({changes.CAPACITY_NOT_TRACKED}), about=DRIVER),
        Hint("CSIDriver", frozenset({changes.DELETE}), about=DRIVER),
    )

    def __init__(self, ramp: Ramp | None = None, *, policy: CapacityPolicy = CapacityPolicy.SPREAD) -> None:
        """With a `ramp`, nodes are scored as kube-scheduler's StorageCapacityScoring does with that shape; without,
        `policy` says whether volumes are rather made where much is free, or where little is."""
        self._ramp = ramp
        self._policy = policy
        self.weight = PREFERENCE_WEIGHT if ramp is None else UTILIZATION_WEIGHT

    def prefilter(self, cycle: Cycle) -> str | None:
        claims = cycle.claims
        return claims if isinstance(claims, str) else None

    def filter(self, cycle: Cycle) -> Iterable[Rejection]:
        claims = _claims(cycle)
        if claims.none:
            return ()
        rejections = cycle.snapshot.volumes.rejections(claims)
        return [Rejection(nodes, reason, CODES[reason], resolvable=False) for nodes, reason in rejections]

    def heeds_pods_on(self, cycle: Cycle) -> NodeSet:
        return EMPTY

    def score(self, cycle: Cycle, feasible: NodeSet) -> Scores | None:
        claims = _claims(cycle)
        if not claims.unbound:
            return None
        fits = cycle.snapshot.volumes.fits(claims)
        width = cycle.snapshot.topology.width
        return preference(fits, width, self._policy) if self._ramp is None else utilization(fits, self._ramp, width)

    def reserve(self, cycle: Cycle, node: str) -> BindingPlan:
        claims = _claims(cycle)
        if claims.all_bound:
            return BindingPlan(node)
        volumes = cycle.snapshot.volumes
        return volumes.assume(volumes.plan(claims, node))

    def unreserve(self, snapshot: Snapshot, plan: BindingPlan) -> None:
        if not plan.empty:
            snapshot.volumes.restore(plan)


def _claims(cycle: Cycle) -> PodClaims:
    """What `prefilter` let pass."""
    claims = cycle.claims
    assert not isinstance(claims, str), claims
    return claims


_contract: tuple[PreFilter, HeedsPods, Score, Reserve] = (VolumeBinding(),) * 4
