"""NodeVolumeLimits: no more volumes of a driver on a node than the node takes.

Counts what pods use there, what is attached there, and what this pod would bring along, be given or have made: inside
the same decision, so that a pod is not sent where its volumes could never be attached. Evicting pods makes room.
"""

from collections.abc import Iterable
from typing import ClassVar, Final

from mooring.api.views.pod import Pod
from mooring.api.views.storage import VolumeAttachment
from mooring.scheduler import changes
from mooring.scheduler.contract import Change, Cycle, Filter, Hint, Rejection
from mooring.volumes.usage import disks_with_drivers

TOO_MANY: Final = "node(s) exceed max volume count"


def _mounts(pod: Pod, change: Change) -> bool:
    return f"{change.namespace}/{change.name}" in pod.claim_keys


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
    wakes_on: ClassVar[tuple[Hint, ...]] = (
        Hint("CSINode", frozenset({changes.ADD})),
        Hint("CSINode", frozenset({changes.UPDATE}), None, frozenset({changes.RAISED_LIMIT})),
        Hint("Pod", frozenset({changes.DELETE}), _had_volumes),
        Hint("PersistentVolumeClaim", frozenset({changes.ADD, changes.UPDATE}), _mounts),
        Hint("VolumeAttachment", frozenset({changes.DELETE}), _could_be_ours),
        Hint("Node", frozenset({changes.ADD})),
    )

    def filter(self, cycle: Cycle) -> Iterable[Rejection]:
        pod, volumes = cycle.pod, cycle.snapshot.volumes
        if not pod.spec.volumes:
            return ()
        for key in pod.claim_keys:
            if volumes.claim(key) is None:
                missing = f'looking up PVC {key}: persistentvolumeclaim "{key.partition("/")[2]}" not found'
                return (Rejection(cycle.snapshot.nodes, missing, resolvable=False),)
        claims = cycle.claims
        return (Rejection(volumes.over_limit(pod, None if isinstance(claims, str) else claims), TOO_MANY),)


_contract: Filter = NodeVolumeLimits()
