"""VolumeRestrictions and VolumeZone: sharing of volumes, and volumes with zone labels."""

from collections.abc import Iterable
from typing import Final

from mooring.api.node_selectors import NodeSelector, NodeSelectorTerm
from mooring.api.selectors import Operator, Requirement
from mooring.api.views.pods import Pod
from mooring.scheduler.cluster_events import ADD, CLAIM, CLASS, DELETE, LABELS, UPDATE, VOLUME, ZONES, QueueingHint
from mooring.scheduler.framework.interface import (
    CycleState,
    NodeRejection,
    PodDependentFilter,
    PodIndependentFilter,
    PreFilter,
    RejectionCode,
)
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.binding import is_delayed
from mooring.volumes.in_tree import GA_LABELS, ZONE_KEYS, ZoneRequirement, zone_requirements_of
from mooring.volumes.topology import NodeSet, union
from mooring.volumes.usage import disks_conflict

DISK_CONFLICT: Final = "node(s) had no available disk"
CLAIM_IN_USE: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)

ONE_POD: Final = "ReadWriteOncePod"


def _hint_volume_released(pod: Pod, deleted: Pod) -> bool:
    """Whether the deleted pod shared a claim or an in-tree disk with the pending pod."""
    return not set(pod.claim_keys).isdisjoint(deleted.claim_keys) or disks_conflict(pod, deleted)


class VolumeRestrictions(PreFilter, PodDependentFilter):
    """Rejects volumes that two pods cannot share: ReadWriteOncePod claims, and in-tree disks on one node."""

    name = "VolumeRestrictions"
    volumes_only = True
    events_to_register = (
        QueueingHint("Pod", (DELETE,), _hint_volume_released),
        QueueingHint("Node", (ADD,)),
        QueueingHint("PersistentVolumeClaim", (ADD,), interest_kind=CLAIM),
    )

    def prefilter(self, state: CycleState) -> str | None:
        namespace = state.pod.namespace
        for volume in state.pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                name = volume.persistent_volume_claim.claim_name
                if state.snapshot.volumes.claim(f"{namespace}/{name}") is None:
                    return f'persistentvolumeclaim "{name}" not found'
        return None

    def filter(self, state: CycleState) -> Iterable[NodeRejection]:
        pod, volumes = state.pod, state.snapshot.volumes
        if not pod.spec.volumes:
            return ()
        conflicting = volumes.disk_conflicts(pod)
        rejections = [NodeRejection(conflicting, DISK_CONFLICT, RejectionCode.DISK_IN_USE)]
        if _is_claim_in_use(state):
            # As in kube-scheduler, a node is reported with the first of the two reasons only.
            rejections.append(
                NodeRejection(state.snapshot.nodes & ~conflicting, CLAIM_IN_USE, RejectionCode.CLAIM_IN_USE)
            )
        return rejections

    def pod_dependent_nodes(self, state: CycleState) -> NodeSet:
        """A ReadWriteOncePod claim may be in use on any node."""
        return state.snapshot.nodes if _is_claim_in_use(state) else state.snapshot.volumes.disk_conflicts(state.pod)


def _is_claim_in_use(state: CycleState) -> bool:
    """Whether a ReadWriteOncePod claim of the pod is used by a pod on a node."""
    volumes = state.snapshot.volumes
    claims = ((key, volumes.claim(key)) for key in state.pod.claim_keys)
    return any(
        claim is not None and ONE_POD in claim.spec.access_modes and volumes.in_use(key) for key, claim in claims
    )


WRONG_ZONE: Final = "node(s) had no available volume zone"


class _Places(tuple[ZoneRequirement, ...]):
    """Zones and regions of the pod's bound volumes, in the CycleState."""


class VolumeZone(PreFilter, PodIndependentFilter):
    """Zone and region labels of bound volumes must match the node's, deprecated keys also the current ones.

    Nodes without any zone label pass. Node affinity of volumes is checked by VolumeBinding.
    """

    name = "VolumeZone"
    volumes_only = True
    events_to_register = (
        QueueingHint("StorageClass", (ADD,), lambda _, storage_class: storage_class.delayed, interest_kind=CLASS),
        QueueingHint("Node", (ADD, UPDATE), updated_fields=(LABELS,)),
        QueueingHint("PersistentVolumeClaim", (ADD, UPDATE), interest_kind=CLAIM),
        QueueingHint("PersistentVolume", (ADD, UPDATE), updated_fields=(ZONES,), interest_kind=VOLUME),
    )

    def prefilter(self, state: CycleState) -> str | None:
        if not state.pod.spec.volumes:
            return None
        places: list[ZoneRequirement] = []
        for volume in state.pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                found = _places(state, volume.persistent_volume_claim.claim_name)
                if isinstance(found, str):
                    return found
                places += found
        state.write(_Places(places))
        return None

    def filter(self, state: CycleState) -> Iterable[NodeRejection]:
        places = state.read(_Places) if state.pod.spec.volumes else ()
        if not places:
            return ()
        snapshot = state.snapshot
        zoned = union(map(snapshot.topology.having, ZONE_KEYS))
        matching = snapshot.nodes
        for place in places:
            matching &= _at(snapshot, place)
        return (NodeRejection(zoned & ~matching, WRONG_ZONE, RejectionCode.VOLUME_ZONE, resolvable=False),)


def _places(state: CycleState, name: str) -> tuple[ZoneRequirement, ...] | str:
    """The zone labels of a claim's volume, or kube-scheduler's error."""
    if not name:
        return "PersistentVolumeClaim had no name"
    volumes = state.snapshot.volumes
    claim = volumes.claim(f"{state.pod.namespace}/{name}")
    if claim is None:
        return f'persistentvolumeclaim "{name}" not found'
    if claim.spec.volume_name:
        volume, missing = (
            volumes.volume(claim.spec.volume_name),
            f'persistentvolume "{claim.spec.volume_name}" not found',
        )
        return missing if volume is None else zone_requirements_of(volume)
    if not claim.storage_class:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    if volumes.storage_class(claim.storage_class) is None:
        return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
    delayed = is_delayed(claim.storage_class, volumes.storage_class)
    if isinstance(delayed, str):
        return delayed
    return () if delayed else "PersistentVolume had no name"


def _at(snapshot: Snapshot, place: ZoneRequirement) -> NodeSet:
    nodes = _with_value(snapshot, place.key, place)
    successor = GA_LABELS.get(place.key)
    if successor is not None:
        unlabelled = snapshot.nodes & ~snapshot.topology.having(place.key)
        nodes |= unlabelled & _with_value(snapshot, successor, place)
    return nodes


def _with_value(snapshot: Snapshot, key: str, place: ZoneRequirement) -> NodeSet:
    requirement = Requirement(key, Operator.IN, place.values)
    return snapshot.topology.matching(NodeSelector((NodeSelectorTerm((requirement,)),)))
