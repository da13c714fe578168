"""What happened to the cluster, in the words plugins declare their wake-ups in.

From (before, after) of one object to at most one `Change`: heartbeats and whatever else no plugin looks at come out
as None, so that they wake nobody. Of pods only those count that take room on a node; for others a pod "is added" when
it gets its node and "is deleted" when it leaves it. Pure.
"""

import math
from typing import Final

from mooring.api.quantity import QuantityError
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.namespace import Namespace
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.storage import CsiDriver, CsiNode, StorageCapacity, StorageClass, VolumeAttachment
from mooring.api.views.volume import Volume
from mooring.scheduler.contract import Change
from mooring.volumes.capacity import limit_of
from mooring.volumes.in_tree import migrated_on
from mooring.volumes.zones import places_of

ADD: Final = "add"
UPDATE: Final = "update"
DELETE: Final = "delete"

#: Parts of an update.
LABELS: Final = "labels"
TAINTS: Final = "taints"
UNSCHEDULABLE: Final = "unschedulable"
ALLOCATABLE: Final = "allocatable"
ALLOWED_TOPOLOGIES: Final = "allowedTopologies"
ZONES: Final = "zones"
RAISED_LIMIT: Final = "raised limit"
NEW_DRIVER: Final = "new driver"
MIGRATED_PLUGINS: Final = "migrated plugins"
CAPACITY_NOT_TRACKED: Final = "capacity not tracked any more"
NOT_REQUIRED: Final = "not required any more"
MORE_ROOM: Final = "more room"
LEAVING: Final = "leaving"

_WHOLE: Final = frozenset({"spec"})


def of_node(before: Node | None, after: Node | None) -> Change | None:
    if before is None or after is None:
        return _came_or_went("Node", before, after)
    parts: set[str] = set()
    if before.metadata.labels != after.metadata.labels:
        parts.add(LABELS)
    if before.spec.taints != after.spec.taints:
        parts.add(TAINTS)
    if before.spec.unschedulable != after.spec.unschedulable:
        parts.add(UNSCHEDULABLE)
    if before.status.allocatable != after.status.allocatable:
        parts.add(ALLOCATABLE)
    return _updated("Node", after, frozenset(parts))


def of_pod(before: Pod | None, after: Pod | None) -> Change | None:
    was = before if before is not None and takes_room(before) else None
    now = after if after is not None and takes_room(after) else None
    if was is None or now is None:
        return _came_or_went("Pod", was, now)
    parts: set[str] = set()
    if was.metadata.labels != now.metadata.labels:
        parts.add(LABELS)
    if now.deleting and not was.deleting:
        parts.add(LEAVING)
    return _updated("Pod", now, frozenset(parts))


def of_volume(before: Volume | None, after: Volume | None) -> Change | None:
    if before is None or after is None:
        return _came_or_went("PersistentVolume", before, after)
    same = (
        before.spec == after.spec
        and before.status.phase == after.status.phase
        and before.metadata.labels == after.metadata.labels
        and before.deleting == after.deleting
    )
    parts = frozenset() if same else _WHOLE
    if places_of(before) != places_of(after):
        parts |= {ZONES}
    return _updated("PersistentVolume", after, parts)


def of_claim(before: Claim | None, after: Claim | None) -> Change | None:
    if before is None or after is None:
        return _came_or_went("PersistentVolumeClaim", before, after)
    same = (
        before.spec == after.spec
        and before.status.phase == after.status.phase
        and before.metadata.annotations == after.metadata.annotations
        and before.deleting == after.deleting
    )
    return _updated("PersistentVolumeClaim", after, frozenset() if same else _WHOLE)


def of_class(before: StorageClass | None, after: StorageClass | None) -> Change | None:
    if before is None or after is None:
        return _came_or_went("StorageClass", before, after)
    changed = before.allowed_topologies != after.allowed_topologies
    return _updated("StorageClass", after, frozenset({ALLOWED_TOPOLOGIES} if changed else ()))


def of_csi_node(before: CsiNode | None, after: CsiNode | None) -> Change | None:
    if before is None or after is None:
        return _came_or_went("CSINode", before, after)
    parts: set[str] = set()
    was, now = _limits(before), _limits(after)
    # A driver that sets no limit any more takes as many as come.
    if any(now.get(driver, math.inf) > limit for driver, limit in was.items()):
        parts.add(RAISED_LIMIT)
    if not _drivers(after) <= _drivers(before):
        parts.add(NEW_DRIVER)
    if migrated_on(before) != migrated_on(after):
        parts.add(MIGRATED_PLUGINS)
    return _updated("CSINode", after, frozenset(parts))


def of_driver(before: CsiDriver | None, after: CsiDriver | None) -> Change | None:
    if before is None or after is None:
        return _came_or_went("CSIDriver", before, after)
    parts: set[str] = set()
    if before.spec.storage_capacity and not after.spec.storage_capacity:
        parts.add(CAPACITY_NOT_TRACKED)
    if before.spec.prevent_pod_scheduling_if_missing and not after.spec.prevent_pod_scheduling_if_missing:
        parts.add(NOT_REQUIRED)
    return _updated("CSIDriver", after, frozenset(parts))


def of_capacity(before: StorageCapacity | None, after: StorageCapacity | None) -> Change | None:
    if before is None or after is None:
        return _came_or_went("CSIStorageCapacity", before, after)
    more = _limit(after) > _limit(before)
    return _updated("CSIStorageCapacity", after, frozenset({MORE_ROOM} if more else ()))


def of_attachment(before: VolumeAttachment | None, after: VolumeAttachment | None) -> Change | None:
    """Attachments come and go; what changes in between is their status, which nobody here looks at."""
    return _came_or_went("VolumeAttachment", before, after) if before is None or after is None else None


def of_namespace(before: Namespace | None, after: Namespace | None) -> Change | None:
    if before is None or after is None:
        return _came_or_went("Namespace", before, after)
    changed = before.metadata.labels != after.metadata.labels
    return _updated("Namespace", after, frozenset({LABELS} if changed else ()))


def takes_room(pod: Pod) -> bool:
    return pod.spec.node_name != "" and not pod.finished


def _drivers(csi_node: CsiNode) -> set[str]:
    return {driver.name for driver in csi_node.spec.drivers or ()}


def _limits(csi_node: CsiNode) -> dict[str, int]:
    drivers = csi_node.spec.drivers or ()
    return {
        driver.name: driver.allocatable.count
        for driver in drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def _limit(reported: StorageCapacity) -> int:
    """What cannot be understood offers nothing."""
    try:
        limit = limit_of(reported)
    except QuantityError:
        limit = None
    return -1 if limit is None else limit


def told(change: Change) -> str:
    """What happened, for people: `Node n1 was added`, `PersistentVolumeClaim default/data changed`."""
    what = {ADD: " was added", DELETE: " went away"}.get(change.what, " changed")
    parts = f" ({', '.join(sorted(change.parts))})" if change.parts and change.parts != _WHOLE else ""
    return f"{change.kind}{f' {change.key}' if change.name else ''}{what}{parts}"


def _came_or_went(kind: str, before: ApiObject | None, after: ApiObject | None) -> Change | None:
    if after is not None:
        return Change(kind, ADD, after.namespace, after.name, object=after)
    if before is not None:
        return Change(kind, DELETE, before.namespace, before.name, object=before)
    return None


def _updated(kind: str, after: ApiObject, parts: frozenset[str]) -> Change | None:
    return Change(kind, UPDATE, after.namespace, after.name, parts, after) if parts else None
