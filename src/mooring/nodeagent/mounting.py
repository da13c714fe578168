"""Can this node mount a pod's volumes now? The last word on where a volume may be used.

Pure. An obstacle is not final: the pod stays Pending with an event, and is looked at again when its claims, volumes or
node change. Claims must be bound by the time a pod has a node; the one way around that, a preset `nodeName`, is told
apart so that nobody waits for a scheduler that will not come.
"""

from collections.abc import Callable
from typing import NamedTuple

from mooring.api.views.claim import Claim
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod, PodVolume
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.volumes.affinity import reaches

#: The reason of every event about volumes that cannot be mounted; kubelet's word.
FAILED_MOUNT = "FailedMount"


class Storage(NamedTuple):
    """Where to look things up: claims by key, the others by name."""

    claim: Callable[[str], Claim | None]
    volume: Callable[[str], Volume | None]
    storage_class: Callable[[str], StorageClass | None]


def obstacle(pod: Pod, node: Node, storage: Storage) -> str | None:
    """Why the first of the pod's volumes that cannot be mounted cannot; None if all can."""
    for mount in pod.spec.volumes:
        name = pod.claim_name(mount)
        why = _obstacle(pod, mount, f"{pod.namespace}/{name}", node, storage) if name else None
        if why is not None:
            return why
    return None


def _obstacle(pod: Pod, mount: PodVolume, key: str, node: Node, storage: Storage) -> str | None:
    claim = storage.claim(key)
    if claim is None:
        return _unprocessed(mount, key, f'failed to fetch PVC from API server: persistentvolumeclaim "{key}" not found')
    if mount.ephemeral is not None and (claim.controller is None or claim.controller.uid != pod.uid):
        return _unprocessed(mount, key, f"PVC {key} was not created for pod {pod.key} (pod is not owner)")
    if claim.deleting:
        return _unprocessed(mount, key, "PVC is being deleted")
    if not claim.fully_bound or claim.status.phase != "Bound":
        return _unprocessed(mount, key, f"PVC is not bound{_why_unbound(claim, storage)}")
    volume = storage.volume(claim.spec.volume_name)
    reference = volume.spec.claim_ref if volume is not None else None
    if volume is None or reference is None or reference.uid != claim.uid:
        return _unprocessed(mount, key, f"PV {claim.spec.volume_name} is not bound to this claim")
    if not reaches(node.name, node.metadata.labels, volume):
        return f'MountVolume.NodeAffinity check failed for volume "{volume.name}" : no matching NodeSelectorTerms'
    return None


def _why_unbound(claim: Claim, storage: Storage) -> str:
    storage_class = storage.storage_class(claim.storage_class)
    if storage_class is None or not storage_class.delayed or claim.spec.volume_name:
        return ""
    return (
        f": its class {storage_class.name} binds it when a pod that uses it is scheduled, and this pod's nodeName was "
        "set without the scheduler"
    )


def _unprocessed(mount: PodVolume, key: str, why: str) -> str:
    return (
        f"Unable to attach or mount volumes: unmounted volumes=[{mount.name}], unattached volumes=[], "
        f"failed to process volumes=[{mount.name}]: error processing PVC {key}: {why}"
    )
