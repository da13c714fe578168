"""VolumeBinding: a pod goes where its volumes are or can be.

Bound claims limit the nodes to those that reach their volumes; claims bound late need, on the chosen node, a volume
each or a class that can provision one. All of it is decided by the volume library; this is its place in the cycle.
Evicting pods frees no volumes, so none of its rejections can be resolved that way.
"""

from collections.abc import Iterable
from typing import ClassVar

from mooring.api.quantity import QuantityError
from mooring.api.views.pod import Pod
from mooring.scheduler import changes
from mooring.scheduler.contract import Change, Cycle, Filter, Hint, PreFilter, Rejection, Reserve
from mooring.scheduler.snapshot import Snapshot
from mooring.volumes.plan import BindingPlan
from mooring.volumes.pod_claims import PodClaims


def _mounts(pod: Pod, change: Change) -> bool:
    return f"{change.namespace}/{change.name}" in pod.claim_keys


class VolumeBinding:
    name: ClassVar[str] = "VolumeBinding"
    #: Deletions are missing on purpose: neither a claim nor a volume that goes away makes room for another.
    wakes_on: ClassVar[tuple[Hint, ...]] = (
        Hint("PersistentVolumeClaim", frozenset({changes.ADD, changes.UPDATE}), _mounts),
        Hint("PersistentVolume", frozenset({changes.ADD, changes.UPDATE})),
        Hint("StorageClass", frozenset({changes.ADD})),
        Hint("StorageClass", frozenset({changes.UPDATE}), None, frozenset({changes.ALLOWED_TOPOLOGIES})),
        Hint("Node", frozenset({changes.ADD})),
        Hint("Node", frozenset({changes.UPDATE}), None, frozenset({changes.LABELS})),
    )

    def prefilter(self, cycle: Cycle) -> str | None:
        try:
            claims = cycle.snapshot.volumes.claims_of(cycle.pod)
        except QuantityError as error:
            return f"the size of a persistentvolumeclaim cannot be understood: {error}"
        if isinstance(claims, str):
            return claims
        cycle.remember(claims)
        return None

    def filter(self, cycle: Cycle) -> Iterable[Rejection]:
        claims = cycle.recall(PodClaims)
        if claims.none:
            return ()
        rejections = cycle.snapshot.volumes.rejections(claims)
        return [Rejection(nodes, reason, resolvable=False) for nodes, reason in rejections]

    def reserve(self, cycle: Cycle, node: str) -> BindingPlan:
        claims = cycle.recall(PodClaims)
        if claims.all_bound:
            return BindingPlan(node)
        volumes = cycle.snapshot.volumes
        return volumes.assume(volumes.plan(claims, node))

    def unreserve(self, snapshot: Snapshot, plan: BindingPlan) -> None:
        snapshot.volumes.restore(plan)


_contract: tuple[PreFilter, Filter, Reserve] = (VolumeBinding(), VolumeBinding(), VolumeBinding())
