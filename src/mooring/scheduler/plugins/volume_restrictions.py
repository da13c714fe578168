"""VolumeRestrictions: volumes that two pods cannot share.

A claim that only one pod may use at a time, wherever that pod is; and disks that pods name themselves and that cannot
be attached twice on one node. Evicting whoever is in the way would help. Whoever merely waits for such a claim is not
in the way: only pods on nodes, or promised to one, count.
"""

from collections.abc import Iterable
from typing import ClassVar, Final

from mooring.api.views.pod import Pod
from mooring.scheduler import changes
from mooring.scheduler.contract import Change, Cycle, HeedsPods, Hint, PreFilter, Rejection, RejectionCode
from mooring.scheduler.interests import CLAIM
from mooring.volumes.disks_in_use import conflict
from mooring.volumes.nodeset import NodeSet

DISK_CONFLICT: Final = "node(s) had no available disk"
CLAIM_IN_USE: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)

ONE_POD: Final = "ReadWriteOncePod"


def _was_in_the_way(pod: Pod, change: Change) -> bool:
    """Claims are shared within a namespace only, disks by anybody."""
    gone = change.object
    return isinstance(gone, Pod) and (not set(pod.claim_keys).isdisjoint(gone.claim_keys) or conflict(pod, gone))


class VolumeRestrictions:
    name: ClassVar[str] = "VolumeRestrictions"
    only_volumes: ClassVar[bool] = True
    wakes_on: ClassVar[tuple[Hint, ...]] = (
        Hint("Pod", frozenset({changes.DELETE}), _was_in_the_way),
        Hint("Node", frozenset({changes.ADD})),
        Hint("PersistentVolumeClaim", frozenset({changes.ADD}), about=CLAIM),
    )

    def prefilter(self, cycle: Cycle) -> str | None:
        namespace = cycle.pod.namespace
        for volume in cycle.pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                name = volume.persistent_volume_claim.claim_name
                if cycle.snapshot.volumes.claim(f"{namespace}/{name}") is None:
                    return f'persistentvolumeclaim "{name}" not found'
        return None

    def filter(self, cycle: Cycle) -> Iterable[Rejection]:
        pod, volumes = cycle.pod, cycle.snapshot.volumes
        if not pod.spec.volumes:
            return ()
        conflicting = volumes.disk_conflicts(pod)
        said = [Rejection(conflicting, DISK_CONFLICT, RejectionCode.DISK_IN_USE)]
        if _is_taken(cycle):
            # A node is named with the first of the two reasons only, as upstream reports it.
            said.append(Rejection(cycle.snapshot.nodes & ~conflicting, CLAIM_IN_USE, RejectionCode.CLAIM_IN_USE))
        return said

    def heeds_pods_on(self, cycle: Cycle) -> NodeSet:
        """A claim for one pod at a time may be in use anywhere."""
        return cycle.snapshot.nodes if _is_taken(cycle) else cycle.snapshot.volumes.disk_conflicts(cycle.pod)


def _is_taken(cycle: Cycle) -> bool:
    """Whether somebody uses a claim of the pod that only one may use."""
    volumes = cycle.snapshot.volumes
    claims = ((key, volumes.claim(key)) for key in cycle.pod.claim_keys)
    return any(
        claim is not None and ONE_POD in claim.spec.access_modes and volumes.in_use(key) for key, claim in claims
    )


_contract: tuple[PreFilter, HeedsPods] = (VolumeRestrictions(), VolumeRestrictions())
