"""NodeVolumeLimits: no more volumes of a driver on a node than the node takes.

Counts what pods use there, what is attached there, and what this pod would bring along, be given or have made: inside
the same decision, so that a pod is not sent where its volumes could never be attached. Evicting pods makes room.
On request, drivers that want it keep pods with their volumes off nodes that lack them.
"""

from collections.abc import Iterable
from typing import ClassVar, Final

from mooring.api.views.pod import Pod
from mooring.api.views.storage import VolumeAttachment
from mooring.scheduler import changes
from mooring.scheduler.contract import Change, Cycle, HeedsPods, Hint, Rejection, RejectionCode
from mooring.scheduler.interests import CLAIM, CLASS, DRIVER, VOLUME
from mooring.volumes.in_tree import disks_with_drivers
from mooring.volumes.nodeset import NodeSet

TOO_MANY: Final = "node(s) exceed max volume count"

_ANY: Final = frozenset({changes.ADD, changes.UPDATE, changes.DELETE})
_MORE_OF_A_DRIVER: Final = frozenset({changes.RAISED_LIMIT, changes.NEW_DRIVER})


def not_installed(driver: str) -> str:
    return f"{driver} CSI driver is not installed on the node"


def _had_volumes(pod: Pod, change: Change) -> bool:
    gone = change.object
    return isinstance(gone, Pod) and (bool(gone.claim_keys) or any(disks_with_drivers(gone)))


def _could_be_ours(pod: Pod, change: Change) -> bool:
    """A place of this driver got free; which driver a claim's volume has is not known here."""
    attachment = change.object
    if pod.claim_keys:
        return True
    return isinstance(attachment, VolumeAttachment) and any(
        disk.driver == attachment.spec.attacher for disk in disks_with_drivers(pod)
    )


class NodeVolumeLimits:
    name: ClassVar[str] = "NodeVolumeLimits"
    only_volumes: ClassVar[bool] = True
    wakes_on: ClassVar[tuple[Hint, ...]] = (
        Hint("CSINode", frozenset({changes.ADD, changes.DELETE}), about=DRIVER),
        Hint("CSINode", frozenset({changes.UPDATE}), parts=_MORE_OF_A_DRIVER, about=DRIVER),
        Hint("CSIDriver", frozenset({changes.UPDATE}), parts=frozenset({changes.NOT_REQUIRED}), about=DRIVER),
        Hint("CSIDriver", frozenset({changes.DELETE}), about=DRIVER),
        Hint("Pod", frozenset({changes.DELETE}), _had_volumes),
        Hint("PersistentVolumeClaim", frozenset({changes.ADD, changes.UPDATE}), about=CLAIM),
        # Which driver a claim's volume comes from may change with what there is to choose from.
        *(Hint("PersistentVolume", _ANY, about=topic) for topic in (CLAIM, CLASS, VOLUME)),
        Hint("Node", frozenset({changes.UPDATE}), parts=frozenset({changes.LABELS})),
        Hint("StorageClass", frozenset({changes.ADD}), about=CLASS),
        Hint("VolumeAttachment", frozenset({changes.DELETE}), _could_be_ours),
        Hint("Node", frozenset({changes.ADD})),
    )

    def __init__(self, *, requires_drivers: bool = False) -> None:
        """`requires_drivers` is kube-scheduler's gate VolumeLimitScaling."""
        self._requires_drivers = requires_drivers

    def filter(self, cycle: Cycle) -> Iterable[Rejection]:
        pod, volumes = cycle.pod, cycle.snapshot.volumes
        if not pod.spec.volumes:
            return ()
        for key in pod.claim_keys:
            if volumes.claim(key) is None:
                missing = f'looking up PVC {key}: persistentvolumeclaim "{key.partition("/")[2]}" not found'
                return (Rejection(cycle.snapshot.nodes, missing, RejectionCode.CLAIM_MISSING, resolvable=False),)
        claims = None if isinstance(cycle.claims, str) else cycle.claims
        said = [Rejection(volumes.over_limit(pod, claims), TOO_MANY, RejectionCode.VOLUME_LIMIT)]
        if self._requires_drivers:
            said += [
                Rejection(nodes, not_installed(driver), RejectionCode.DRIVER_MISSING, driver)
                for nodes, driver in volumes.lacking_drivers(pod, claims)
            ]
        return said

    def heeds_pods_on(self, cycle: Cycle) -> NodeSet:
        """Who leaves makes room; where the pod's own volumes are already, they stay or go with whoever uses them."""
        pod, volumes = cycle.pod, cycle.snapshot.volumes
        claims = None if isinstance(cycle.claims, str) else cycle.claims
        return volumes.over_limit(pod, claims) | volumes.already_on(pod, claims)


_contract: HeedsPods = NodeVolumeLimits()
