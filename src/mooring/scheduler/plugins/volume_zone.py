"""VolumeZone: for volumes that say where they are by zone and region labels only.

Labels of a bound volume must be matched by those of the node, the old keys also by the new ones. A node without any of
them is no part of the scheme and is let through. Node affinity is VolumeBinding's; claims that are bound late have no
place yet. Evicting pods moves no volume.
"""

from collections.abc import Iterable
from typing import ClassVar, Final

from mooring.api.label_selector import Operator, Requirement
from mooring.api.node_selector import NodeSelector, NodeSelectorTerm
from mooring.api.views.pod import Pod
from mooring.api.views.storage import StorageClass
from mooring.scheduler import changes
from mooring.scheduler.contract import Change, Cycle, HeedsPods, Hint, PreFilter, Rejection, RejectionCode
from mooring.scheduler.interests import CLAIM, CLASS, VOLUME
from mooring.scheduler.snapshot import Snapshot
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.zones import SUCCESSORS, ZONE_KEYS, Place, places_of

ELSEWHERE: Final = "node(s) had no available volume zone"


class _Places(tuple[Place, ...]):
    """Where the pod's bound volumes are; kept between the methods of one cycle."""


def _waits(pod: Pod, change: Change) -> bool:
    return isinstance(change.object, StorageClass) and change.object.delayed


class VolumeZone:
    name: ClassVar[str] = "VolumeZone"
    only_volumes: ClassVar[bool] = True
    wakes_on: ClassVar[tuple[Hint, ...]] = (
        Hint("StorageClass", frozenset({changes.ADD}), _waits, about=CLASS),
        Hint("Node", frozenset({changes.ADD})),
        Hint("Node", frozenset({changes.UPDATE}), None, frozenset({changes.LABELS})),
        Hint("PersistentVolumeClaim", frozenset({changes.ADD, changes.UPDATE}), about=CLAIM),
        Hint("PersistentVolume", frozenset({changes.ADD}), about=VOLUME),
        Hint("PersistentVolume", frozenset({changes.UPDATE}), parts=frozenset({changes.ZONES}), about=VOLUME),
    )

    def prefilter(self, cycle: Cycle) -> str | None:
        if not cycle.pod.spec.volumes:
            return None
        places: list[Place] = []
        for volume in cycle.pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                found = _places(cycle, volume.persistent_volume_claim.claim_name)
                if isinstance(found, str):
                    return found
                places += found
        cycle.remember(_Places(places))
        return None

    def filter(self, cycle: Cycle) -> Iterable[Rejection]:
        places = cycle.recall(_Places) if cycle.pod.spec.volumes else ()
        if not places:
            return ()
        snapshot = cycle.snapshot
        zoned = EMPTY
        for key in ZONE_KEYS:
            zoned |= _having(snapshot, Requirement(key, Operator.EXISTS))
        fitting = snapshot.nodes
        for place in places:
            fitting &= _at(snapshot, place)
        return (Rejection(zoned & ~fitting, ELSEWHERE, RejectionCode.VOLUME_ZONE, resolvable=False),)

    def heeds_pods_on(self, cycle: Cycle) -> NodeSet:
        return EMPTY


def _places(cycle: Cycle, name: str) -> tuple[Place, ...] | str:
    """Where the volume of a claim is by its labels, or why that cannot be known."""
    if not name:
        return "PersistentVolumeClaim had no name"
    volumes = cycle.snapshot.volumes
    claim = volumes.claim(f"{cycle.pod.namespace}/{name}")
    if claim is None:
        return f'persistentvolumeclaim "{name}" not found'
    if claim.spec.volume_name:
        volume = volumes.volume(claim.spec.volume_name)
        return f'persistentvolume "{claim.spec.volume_name}" not found' if volume is None else places_of(volume)
    if not claim.storage_class:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage_class = volumes.storage_class(claim.storage_class)
    if storage_class is None:
        return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
    if storage_class.volume_binding_mode is None:
        return f'VolumeBindingMode not set for StorageClass "{storage_class.name}"'
    return () if storage_class.delayed else "PersistentVolume had no name"


def _at(snapshot: Snapshot, place: Place) -> NodeSet:
    nodes = _having(snapshot, Requirement(place.key, Operator.IN, place.values))
    successor = SUCCESSORS.get(place.key)
    if successor is not None:
        unlabelled = snapshot.nodes & ~_having(snapshot, Requirement(place.key, Operator.EXISTS))
        nodes |= unlabelled & _having(snapshot, Requirement(successor, Operator.IN, place.values))
    return nodes


def _having(snapshot: Snapshot, requirement: Requirement) -> NodeSet:
    return snapshot.topology.matching(NodeSelector((NodeSelectorTerm((requirement,)),)))


_contract: tuple[PreFilter, HeedsPods] = (VolumeZone(), VolumeZone())
