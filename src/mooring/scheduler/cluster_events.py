"""Cluster events, queueing hints, and what unschedulable pods wait for. Pure.

`<kind>_event(before, after)` maps an informer's update of one object to at most one `ClusterEvent`; updates that no
plugin registers for (heartbeats) give None. A plugin's `QueueingHint`s say which events may make a pod schedulable.
`interests_of` records which claims, volumes, classes and drivers a pod waits for: the queue indexes unschedulable pods
by these keys, so that an event about one volume looks up the affected pods only.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from mooring.api.pod_requirements import asks_less
from mooring.api.quantity import QuantityError
from mooring.api.selectors import SelectorError
from mooring.api.views.core import Namespace, Node
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import (
    Claim,
    CsiDriver,
    CsiNode,
    StorageCapacity,
    StorageClass,
    Volume,
    VolumeAttachment,
    of_existing_nodes,
)
from mooring.volumes.attach_limits import driver_limits
from mooring.volumes.binding import BindingPlan, PodClaims
from mooring.volumes.capacity import limit_of
from mooring.volumes.claim_rollback import is_clean
from mooring.volumes.in_tree import migrated_on, plugin_of, zone_requirements_of
from mooring.volumes.inline_volumes import has_inline_volumes, size_attributes
from mooring.volumes.matching import ClaimRequirements, requirements_of
from mooring.volumes.state import VolumeState

#: Kinds of interest keys.
CLAIM: Final = "PersistentVolumeClaim"
VOLUME: Final = "PersistentVolume"
CLASS: Final = "StorageClass"
DRIVER: Final = "CSIDriver"
#: In-tree volume plugins, which a node may have migrated to a CSI driver.
PLUGIN: Final = "in-tree plugin"

#: Actions of events.
ADD: Final = "add"
UPDATE: Final = "update"
DELETE: Final = "delete"

#: Updated fields.
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
CAPACITY_NOT_TRACKED: Final = "capacity no longer tracked"
NOT_REQUIRED: Final = "no longer required"
MORE_CAPACITY: Final = "more capacity"
TERMINATING: Final = "terminating"
SCALED_DOWN: Final = "scaled down"

#: Any other change of a volume or claim that plugins read.
SPEC: Final = "spec"


class InterestKey(NamedTuple):
    """An object that a pod may wait for and an event may be about."""

    kind: str
    #: `namespace/name`, or the name of a cluster-scoped object.
    name: str


class PodInterests(NamedTuple):
    """What one unschedulable pod waits for."""

    keys: frozenset[InterestKey] = frozenset()
    #: Requirements of its unbound claims, and of bound ones that rollback could unbind; empty while the pod is rejected
    #: because of its claims.
    unbound: tuple[ClaimRequirements, ...] = ()


#: Of a pod without volumes.
NO_INTERESTS: Final = PodInterests()


class ClusterEvent(NamedTuple):
    """An object of a kind was added, updated or deleted; kube-scheduler's framework.ClusterEvent."""

    kind: str
    #: ADD, UPDATE or DELETE.
    action: str
    namespace: str = ""
    name: str = ""
    #: Of an update: the fields that changed, as named above.
    updated_fields: frozenset[str] = frozenset()
    #: The object after the event; before it, of a deletion.
    object: ApiObject | None = None
    #: The keys under which pods may wait for this event.
    interest_keys: tuple[InterestKey, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def __str__(self) -> str:
        """`Node n1 added`, `PersistentVolumeClaim default/data updated`."""
        action = {ADD: "added", DELETE: "deleted"}.get(self.action, "updated")
        fields = self.updated_fields if self.updated_fields != {SPEC} else ()
        named = f" ({', '.join(sorted(fields))})" if fields else ""
        return f"{self.kind}{f' {self.key}' if self.name else ''} {action}{named}"


class QueueingHint(NamedTuple):
    """A row of a plugin's `events_to_register`: events that may make a pod schedulable which it rejected."""

    kind: str
    actions: tuple[str, ...]
    #: Whether the event's object, which is of the kind, may help the pod; None for every pod.
    hint_fn: Callable[[Pod, Any], bool] | None = None
    #: Restricts updates to those of one of these fields; empty for any update.
    updated_fields: tuple[str, ...] = ()
    #: Restricts the row to pods that wait for one of the event's keys of this kind; "" for all pods.
    interest_kind: str = ""
    #: Whether the event's object may help a pod with these interests; None for any.
    interests_fn: Callable[[PodInterests, Any], bool] | None = None

    def requeues(self, pod: Pod, interests: PodInterests, event: ClusterEvent) -> bool:
        """Whether the event may make the pod schedulable."""
        if event.kind != self.kind or event.action not in self.actions:
            return False
        if event.action == UPDATE and self.updated_fields and event.updated_fields.isdisjoint(self.updated_fields):
            return False
        if self.interest_kind and interests.keys.isdisjoint(self.keys_of(event)):
            return False
        if self.interests_fn is not None and not self.interests_fn(interests, event.object):
            return False
        return self.hint_fn is None or self.hint_fn(pod, event.object)

    def keys_of(self, event: ClusterEvent) -> list[InterestKey]:
        return [key for key in event.interest_keys if key.kind == self.interest_kind]


def interests_of(pod: Pod, claims: PodClaims | None, volumes: VolumeState) -> PodInterests:
    """The interests of a pod that `volumes` has just rejected; `claims` is None if they are the reason.

    They stay valid while the pod waits: only an object among the keys could add another key, and its event requeues
    the pod.
    """
    if not pod.spec.volumes:
        return NO_INTERESTS
    keys = {InterestKey(DRIVER, driver) for driver in volumes.possible_drivers(pod, claims)}
    if has_inline_volumes(pod):
        classes = size_attributes(volumes.provisioners.classes.values())
        inline = (classes.get(volume.csi.driver) for volume in pod.spec.volumes if volume.csi is not None)
        keys.update(InterestKey(CLASS, storage_class.name) for storage_class in inline if storage_class is not None)
    for key in pod.claim_keys:
        keys.add(InterestKey(CLAIM, key))
        claim = volumes.claim(key)
        if claim is not None:
            keys.update(_dependencies(claim, volumes))
    unbound = () if claims is None else (*claims.unbound, *_clean(claims))
    return PodInterests(frozenset(keys), unbound)


def _clean(claims: PodClaims) -> Iterator[ClaimRequirements]:
    """The requirements of bound claims that no pod has used: the next attempt decides whether to unbind them."""
    for claim in claims.bound:
        if is_clean(claim):
            # A claim that cannot be parsed keeps its volume.
            with suppress(SelectorError, QuantityError):
                yield requirements_of(claim)


def _dependencies(claim: Claim, volumes: VolumeState) -> Iterator[InterestKey]:
    name = claim.spec.volume_name
    if name:
        yield InterestKey(VOLUME, name)
        volume = volumes.volume(name)
        plugin = None if volume is None else plugin_of(volume.spec)
        if plugin is not None:
            yield InterestKey(PLUGIN, plugin.name)
    if not claim.fully_bound or is_clean(claim):
        yield InterestKey(CLASS, claim.storage_class)
        provisioner = volumes.provisioners.provisioner(claim.storage_class)
        if provisioner:
            yield InterestKey(DRIVER, provisioner)


def node_event(before: Node | None, after: Node | None) -> ClusterEvent | None:
    if before is None or after is None:
        return _added_or_deleted("Node", before, after)
    changed = [
        (LABELS, before.metadata.labels != after.metadata.labels),
        (TAINTS, before.spec.taints != after.spec.taints),
        (UNSCHEDULABLE, before.spec.unschedulable != after.spec.unschedulable),
        (ALLOCATABLE, before.status.allocatable != after.status.allocatable),
        (FEATURES, before.status.declared_features != after.status.declared_features),
    ]
    return _updated("Node", after, changed)


def pod_event(before: Pod | None, after: Pod | None) -> ClusterEvent | None:
    """Only pods that occupy a node count: "added" means bound to it, "deleted" that it was released."""
    was = before if before is not None and occupies_node(before) else None
    now = after if after is not None and occupies_node(after) else None
    if was is None or now is None:
        return _added_or_deleted("Pod", was, now)
    changed = [
        (LABELS, was.metadata.labels != now.metadata.labels),
        (TERMINATING, now.deleting and not was.deleting),
        (SCALED_DOWN, asks_less(was, now)),
    ]
    return _updated("Pod", now, changed)


def volume_event(before: Volume | None, after: Volume | None) -> ClusterEvent | None:
    """`before` is the volume as cached, reservations included. So it is of claims."""
    keys = _volume_keys(before, after)
    if before is None or after is None:
        return _added_or_deleted("PersistentVolume", before, after, keys)
    same = (
        before.spec == after.spec
        and before.storage_class == after.storage_class
        and before.status.phase == after.status.phase
        and before.metadata.labels == after.metadata.labels
        and before.deleting == after.deleting
    )
    zones_changed = zone_requirements_of(before) != zone_requirements_of(after)
    return _updated("PersistentVolume", after, [(SPEC, not same), (ZONES, zones_changed)], keys)


def claim_event(before: Claim | None, after: Claim | None) -> ClusterEvent | None:
    keys = _keys_by_name(CLAIM, before, after)
    if before is None or after is None:
        return _added_or_deleted("PersistentVolumeClaim", before, after, keys)
    same = (
        before.uid == after.uid
        and before.spec == after.spec
        and before.status.phase == after.status.phase
        and before.metadata.annotations == after.metadata.annotations
        and before.controller == after.controller
        and before.deleting == after.deleting
    )
    return _updated("PersistentVolumeClaim", after, [(SPEC, not same)], keys)


def class_event(before: StorageClass | None, after: StorageClass | None) -> ClusterEvent | None:
    keys = _keys_by_name(CLASS, before, after)
    if before is None or after is None or before.uid != after.uid:
        # Recreated under the same name, and the deletion was not observed: nothing need be as before.
        return _added_or_deleted("StorageClass", before, after, keys)
    changed = [(ALLOWED_TOPOLOGIES, before.allowed_topologies != after.allowed_topologies)]
    return _updated("StorageClass", after, changed, keys)


def csi_node_event(before: CsiNode | None, after: CsiNode | None) -> ClusterEvent | None:
    plugins = migrated_on(before) ^ migrated_on(after)
    if before is None or after is None:
        drivers = _drivers(before) | _drivers(after)
        return _added_or_deleted("CSINode", before, after, _keys(DRIVER, drivers) + _keys(PLUGIN, plugins))
    now = driver_limits(after)
    # A driver without a limit accepts any number of volumes.
    raised = {driver for driver, limit in driver_limits(before).items() if now.get(driver, math.inf) > limit}
    new = _drivers(after) - _drivers(before)
    changed = [(RAISED_LIMIT, bool(raised)), (NEW_DRIVER, bool(new)), (MIGRATED_PLUGINS, bool(plugins))]
    return _updated("CSINode", after, changed, _keys(DRIVER, raised | new) + _keys(PLUGIN, plugins))


def driver_event(before: CsiDriver | None, after: CsiDriver | None) -> ClusterEvent | None:
    keys = _keys_by_name(DRIVER, before, after)
    if before is None or after is None:
        return _added_or_deleted("CSIDriver", before, after, keys)
    was, now = before.spec, after.spec
    changed = [
        (CAPACITY_NOT_TRACKED, was.storage_capacity and not now.storage_capacity),
        (NOT_REQUIRED, was.prevent_pod_scheduling_if_missing and not now.prevent_pod_scheduling_if_missing),
    ]
    return _updated("CSIDriver", after, changed, keys)


def capacity_event(before: StorageCapacity | None, after: StorageCapacity | None) -> ClusterEvent | None:
    before, after = of_existing_nodes(before), of_existing_nodes(after)
    keys = _keys(CLASS, {reported.storage_class_name for reported in (before, after) if reported is not None})
    if before is None or after is None:
        return _added_or_deleted("CSIStorageCapacity", before, after, keys)
    return _updated("CSIStorageCapacity", after, [(MORE_CAPACITY, _limit(after) > _limit(before))], keys)


def capacity_freed_event(classes: Iterable[str]) -> ClusterEvent:
    """Capacity of these classes that in-flight volumes no longer need, which no object reports."""
    keys = _keys(CLASS, classes)
    return ClusterEvent("CSIStorageCapacity", UPDATE, updated_fields=frozenset({MORE_CAPACITY}), interest_keys=keys)


def node_released_event(pod: Pod) -> ClusterEvent:
    """A pod that was assumed or nominated on a node no longer is, which no object reports."""
    return ClusterEvent("Pod", DELETE, pod.namespace, pod.name, object=pod)


def restored_events(plan: BindingPlan, volumes: VolumeState) -> Iterator[ClusterEvent | None]:
    """Reserved volumes and claims are back in the state that the API server has."""
    for binding in plan.static:
        yield volume_event(binding.volume, volumes.volume(binding.volume.name))
    for provisioning in plan.provision:
        yield claim_event(provisioning.claim, volumes.claim(provisioning.claim.key))


def claim_retry_event(claim: Claim) -> ClusterEvent:
    """Requeues the pods that wait for a claim which did not change."""
    keys = _keys_by_name(CLAIM, claim, claim)
    return ClusterEvent("PersistentVolumeClaim", UPDATE, claim.namespace, claim.name, object=claim, interest_keys=keys)


def attachment_event(before: VolumeAttachment | None, after: VolumeAttachment | None) -> ClusterEvent | None:
    """Updates change the status only, which no plugin reads."""
    return _added_or_deleted("VolumeAttachment", before, after) if before is None or after is None else None


def namespace_event(before: Namespace | None, after: Namespace | None) -> ClusterEvent | None:
    if before is None or after is None:
        return _added_or_deleted("Namespace", before, after)
    return _updated("Namespace", after, [(LABELS, before.metadata.labels != after.metadata.labels)])


def occupies_node(pod: Pod) -> bool:
    return pod.spec.node_name != "" and not pod.finished


def _volume_keys(before: Volume | None, after: Volume | None) -> tuple[InterestKey, ...]:
    """The keys of a volume: its name, its class, and the claim that it is or was reserved for."""
    found = [volume for volume in (before, after) if volume is not None]
    references = [volume.spec.claim_ref for volume in found if volume.spec.claim_ref is not None]
    claims = {f"{reference.namespace}/{reference.name}" for reference in references}
    classes = {volume.storage_class for volume in found}
    return _keys_by_name(VOLUME, before, after) + _keys(CLASS, classes) + _keys(CLAIM, claims)


def _keys_by_name(kind: str, before: ApiObject | None, after: ApiObject | None) -> tuple[InterestKey, ...]:
    return _keys(kind, {each.key for each in (before, after) if each is not None})


def _keys(kind: str, names: Iterable[str]) -> tuple[InterestKey, ...]:
    return tuple(InterestKey(kind, name) for name in sorted(names))


def _drivers(csi_node: CsiNode | None) -> set[str]:
    return set() if csi_node is None else {driver.name for driver in csi_node.spec.drivers or ()}


def _limit(reported: StorageCapacity) -> int:
    """Capacity that cannot be parsed counts as none."""
    try:
        limit = limit_of(reported)
    except QuantityError:
        limit = None
    return -1 if limit is None else limit


def _added_or_deleted(
    kind: str, before: ApiObject | None, after: ApiObject | None, keys: tuple[InterestKey, ...] = ()
) -> ClusterEvent | None:
    if after is not None:
        return ClusterEvent(kind, ADD, after.namespace, after.name, object=after, interest_keys=keys)
    if before is not None:
        return ClusterEvent(kind, DELETE, before.namespace, before.name, object=before, interest_keys=keys)
    return None


def _updated(
    kind: str, after: ApiObject, changed: Iterable[tuple[str, bool]], keys: tuple[InterestKey, ...] = ()
) -> ClusterEvent | None:
    fields = frozenset(name for name, has_changed in changed if has_changed)
    return ClusterEvent(kind, UPDATE, after.namespace, after.name, fields, after, keys) if fields else None
