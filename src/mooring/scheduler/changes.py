"""What happened to the cluster, in the words plugins declare their wake-ups in.

From (before, after) of one object to at most one `Change`: heartbeats and whatever else no plugin looks at come out
as None, so that they wake nobody. What a volume or claim was before is what decisions took it for, promises included.
Of pods only those count that take room on a node; for others a pod "is added" when it gets its node and "is deleted"
when it leaves it. Pure.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Final

from mooring.api.pod_requests import asks_less
from mooring.api.quantity import QuantityError
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.namespace import Namespace
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.storage import CsiDriver, CsiNode, StorageCapacity, StorageClass, VolumeAttachment
from mooring.api.views.volume import Volume
from mooring.scheduler.contract import Change
from mooring.scheduler.interests import CLAIM, CLASS, DRIVER, PLUGIN, VOLUME, Topic
from mooring.volumes.capacity import limit_of
from mooring.volumes.in_tree import migrated_on
from mooring.volumes.plan import BindingPlan
from mooring.volumes.state import VolumeState
from mooring.volumes.zones import places_of

ADD: Final = "add"
UPDATE: Final = "update"
DELETE: Final = "delete"

#: Parts of an update.
LABELS: Final = "labels"
TAINTS: Final = "taints"
UNSCHEDULABLE: Final = "unschedulable"
ALLOCATABLE: Final = "allocatable"
FEATURES: Final = "features"
ALLOWED_TOPOLOGIES: Final = "allowedTopologies"
ZONES: Final = "zones"
RAISED_LIMIT: Final = "raised limit"
NEW_DRIVER: Final = "new driver"
MIGRATED_PLUGINS: Final = "migrated plugins"
CAPACITY_NOT_TRACKED: Final = "capacity not tracked any more"
NOT_REQUIRED: Final = "not required any more"
MORE_ROOM: Final = "more room"
LEAVING: Final = "leaving"
SCALED_DOWN: Final = "asks for less"

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
    if before.status.declared_features != after.status.declared_features:
        parts.add(FEATURES)
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
    if asks_less(was, now):
        parts.add(SCALED_DOWN)
    return _updated("Pod", now, frozenset(parts))


def of_volume(before: Volume | None, after: Volume | None) -> Change | None:
    if before is None or after is None:
        return _came_or_went("PersistentVolume", before, after, _of_volumes(before, after))
    same = (
        before.spec == after.spec
        and before.storage_class == after.storage_class
        and before.status.phase == after.status.phase
        and before.metadata.labels == after.metadata.labels
        and before.deleting == after.deleting
    )
    parts = frozenset() if same else _WHOLE
    if places_of(before) != places_of(after):
        parts |= {ZONES}
    return _updated("PersistentVolume", after, parts, _of_volumes(before, after))


def of_claim(before: Claim | None, after: Claim | None) -> Change | None:
    if before is None or after is None:
        return _came_or_went("PersistentVolumeClaim", before, after, _named(CLAIM, before, after))
    same = (
        before.uid == after.uid
        and before.spec == after.spec
        and before.status.phase == after.status.phase
        and before.metadata.annotations == after.metadata.annotations
        and before.controller == after.controller
        and before.deleting == after.deleting
    )
    topics = _named(CLAIM, before, after)
    return _updated("PersistentVolumeClaim", after, frozenset() if same else _WHOLE, topics)


def of_class(before: StorageClass | None, after: StorageClass | None) -> Change | None:
    if before is None or after is None or before.uid != after.uid:
        # Another one under the same name, if somebody did not see the first go, may be another in everything.
        return _came_or_went("StorageClass", before, after, _named(CLASS, before, after))
    changed = before.allowed_topologies != after.allowed_topologies
    parts = frozenset({ALLOWED_TOPOLOGIES} if changed else ())
    return _updated("StorageClass", after, parts, _named(CLASS, before, after))


def of_csi_node(before: CsiNode | None, after: CsiNode | None) -> Change | None:
    plugins = migrated_on(before) ^ migrated_on(after)
    if before is None or after is None:
        drivers = _drivers(before) | _drivers(after)
        return _came_or_went("CSINode", before, after, _topics(DRIVER, drivers) + _topics(PLUGIN, plugins))
    now = _limits(after)
    # A driver that sets no limit any more takes as many as come.
    raised = {driver for driver, limit in _limits(before).items() if now.get(driver, math.inf) > limit}
    new = _drivers(after) - _drivers(before)
    parts = {RAISED_LIMIT: raised, NEW_DRIVER: new, MIGRATED_PLUGINS: plugins}
    topics = _topics(DRIVER, raised | new) + _topics(PLUGIN, plugins)
    return _updated("CSINode", after, frozenset(part for part, found in parts.items() if found), topics)


def of_driver(before: CsiDriver | None, after: CsiDriver | None) -> Change | None:
    if before is None or after is None:
        return _came_or_went("CSIDriver", before, after, _named(DRIVER, before, after))
    parts: set[str] = set()
    if before.spec.storage_capacity and not after.spec.storage_capacity:
        parts.add(CAPACITY_NOT_TRACKED)
    if before.spec.prevent_pod_scheduling_if_missing and not after.spec.prevent_pod_scheduling_if_missing:
        parts.add(NOT_REQUIRED)
    return _updated("CSIDriver", after, frozenset(parts), _named(DRIVER, before, after))


def of_capacity(before: StorageCapacity | None, after: StorageCapacity | None) -> Change | None:
    classes = {reported.storage_class_name for reported in (before, after) if reported is not None}
    if before is None or after is None:
        return _came_or_went("CSIStorageCapacity", before, after, _topics(CLASS, classes))
    more = _limit(after) > _limit(before)
    return _updated("CSIStorageCapacity", after, frozenset({MORE_ROOM} if more else ()), _topics(CLASS, classes))


def of_grown_room(classes: Iterable[str]) -> Change:
    """Not only what drivers report makes room for volumes of these classes: what others will not take does as well."""
    topics = _topics(CLASS, classes)
    return Change("CSIStorageCapacity", UPDATE, parts=frozenset({MORE_ROOM}), topics=topics)


def of_room_left_by(pod: Pod) -> Change:
    """A pod that counted on a node does not any more, of which the API will not tell."""
    return Change("Pod", DELETE, pod.namespace, pod.name, object=pod)


def of_restored(plan: BindingPlan, volumes: VolumeState) -> Iterator[Change | None]:
    """What was promised to a pod was taken back: volumes and claims are again what the API says of them."""
    for binding in plan.static:
        yield of_volume(binding.volume, volumes.volume(binding.volume.name))
    for wish in plan.provision:
        yield of_claim(wish.claim, volumes.claim(wish.claim.key))


def of_retry(claim: Claim) -> Change:
    """Nothing happened to a claim, and whoever waits for it shall try again."""
    topics = _named(CLAIM, claim, claim)
    return Change("PersistentVolumeClaim", UPDATE, claim.namespace, claim.name, object=claim, topics=topics)


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


def _of_volumes(before: Volume | None, after: Volume | None) -> tuple[Topic, ...]:
    """A volume matters under its name, to its class, and to the claim that it is or was kept for."""
    found = [volume for volume in (before, after) if volume is not None]
    references = [volume.spec.claim_ref for volume in found if volume.spec.claim_ref is not None]
    claims = {f"{reference.namespace}/{reference.name}" for reference in references}
    classes = {volume.storage_class for volume in found}
    return _named(VOLUME, before, after) + _topics(CLASS, classes) + _topics(CLAIM, claims)


def _named(kind: str, before: ApiObject | None, after: ApiObject | None) -> tuple[Topic, ...]:
    return _topics(kind, {thing.key for thing in (before, after) if thing is not None})


def _topics(kind: str, names: Iterable[str]) -> tuple[Topic, ...]:
    return tuple(Topic(kind, name) for name in sorted(names))


def _drivers(csi_node: CsiNode | None) -> set[str]:
    return set() if csi_node is None else {driver.name for driver in csi_node.spec.drivers or ()}


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


def _came_or_went(
    kind: str, before: ApiObject | None, after: ApiObject | None, topics: tuple[Topic, ...] = ()
) -> Change | None:
    if after is not None:
        return Change(kind, ADD, after.namespace, after.name, object=after, topics=topics)
    if before is not None:
        return Change(kind, DELETE, before.namespace, before.name, object=before, topics=topics)
    return None


def _updated(kind: str, after: ApiObject, parts: frozenset[str], topics: tuple[Topic, ...] = ()) -> Change | None:
    return Change(kind, UPDATE, after.namespace, after.name, parts, after, topics) if parts else None
