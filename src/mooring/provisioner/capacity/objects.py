"""CSIStorageCapacity objects as external-provisioner writes them, and the index of desired and existing ones. Pure.

One object is desired for every topology segment and every StorageClass of the driver that waits for a consumer, and
for every template of a node group (`templates`).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mooring.api import quantity, well_known
from mooring.api.quantity import QuantityError
from mooring.api.times import time_or_none
from mooring.api.views.meta import Amount, OwnerReference
from mooring.api.views.storage import StorageCapacity, StorageClass, Volume
from mooring.csi.contract import Capacity, Code, DriverError
from mooring.provisioner.capacity.segments import Segment
from mooring.provisioner.provision.request import size
from mooring.provisioner.provision.topology import FNV_OFFSET, FNV_PRIME, UINT32, term

DRIVER_LABEL: Final = "csi.storage.k8s.io/drivername"
MANAGED_BY_LABEL: Final = "csi.storage.k8s.io/managed-by"
MANAGER: Final = "external-provisioner"
NAME_PREFIX: Final = "csisc-"
#: Kubernetes' limit for label values.
MAX_LABEL_LENGTH: Final = 63


class CapacityKey(NamedTuple):
    """What one object describes."""

    segment: Segment
    storage_class: str


class TemplateCapacity(NamedTuple):
    """Expected capacity of a class on a new node of a node group."""

    node_group: str
    capacity: Capacity


class PublisherIdentity(NamedTuple):
    """Owner of the published objects. Two publishers with the same identity would overwrite each other's objects."""

    driver: str
    managed_by: str
    owner: OwnerReference | None = None

    @property
    def labels(self) -> dict[str, str]:
        return {DRIVER_LABEL: self.driver, MANAGED_BY_LABEL: self.managed_by}

    @property
    def selector(self) -> str:
        return ",".join(f"{key}={value}" for key, value in self.labels.items())


def entry_of(found: StorageCapacity) -> CapacityKey | None:
    """None for a node selector that publishers do not write."""
    topology = found.node_topology
    if topology is None or topology.match_expressions:
        return None
    return CapacityKey(term(topology.match_labels), found.storage_class_name)


def validated(reported: Capacity) -> Capacity:
    """The reported capacity. Raises DriverError if it is negative."""
    if reported.available_bytes < 0 or (reported.maximum_volume_bytes or 0) < 0:
        raise DriverError(Code.UNAVAILABLE, f"the driver reported a negative capacity: {reported}")
    return reported


def body(entry: CapacityKey, publisher: PublisherIdentity, reported: Capacity, polled_at: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "generateName": NAME_PREFIX,
        "labels": publisher.labels,
        "annotations": {well_known.CAPACITY_POLLED_AT: polled_at},
    }
    return _body(entry, publisher, reported, metadata)


def template_body(entry: CapacityKey, publisher: PublisherIdentity, template: TemplateCapacity) -> dict[str, Any]:
    """Object for nodes that do not exist yet. No driver was polled."""
    labels = publisher.labels | {well_known.CAPACITY_NODE_GROUP: template.node_group}
    return _body(entry, publisher, template.capacity, {"generateName": NAME_PREFIX, "labels": labels})


def _body(
    entry: CapacityKey, publisher: PublisherIdentity, reported: Capacity, metadata: dict[str, Any]
) -> dict[str, Any]:
    if publisher.owner is not None:
        metadata["ownerReferences"] = [owner_body(publisher.owner)]
    fields = {
        "capacity": _amount(reported.available_bytes),
        "maximumVolumeSize": _amount(reported.maximum_volume_bytes),
    }
    return {
        "metadata": metadata,
        "nodeTopology": {"matchLabels": dict(entry.segment)},
        "storageClassName": entry.storage_class,
    } | {field: value for field, value in fields.items() if value is not None}


def changes(
    found: StorageCapacity, publisher: PublisherIdentity, reported: Capacity | None, *, node_group: str = ""
) -> dict[str, Any]:
    """Merge patch without the resourceVersion that brings the object up to date; empty if nothing differs.

    `reported=None` stands for a driver without a valid response: the object stays, without capacity. `node_group` is
    that of a template.
    """
    desired = (None, None) if reported is None else (reported.available_bytes, reported.maximum_volume_bytes)
    changed: dict[str, Any] = {}
    for field, before, after in (
        ("capacity", found.capacity, desired[0]),
        ("maximumVolumeSize", found.maximum_volume_size, desired[1]),
    ):
        if not _same(before, after):
            changed[field] = _amount(after)
    owner = publisher.owner
    owners = found.metadata.owner_references
    metadata: dict[str, Any] = {}
    if owner is not None and all(each.uid != owner.uid for each in owners):
        metadata["ownerReferences"] = [owner_body(each) for each in (*owners, owner)]
    if found.node_group != node_group:
        metadata["labels"] = {well_known.CAPACITY_NODE_GROUP: node_group or None}
    return changed | ({"metadata": metadata} if metadata else {})


def polled_at(found: StorageCapacity | None) -> float:
    """When GetCapacity was called for what the object has; 0.0 where that is not known."""
    asked = time_or_none(found.metadata.annotations.get(well_known.CAPACITY_POLLED_AT)) if found is not None else None
    return asked or 0.0


def created_at(volume: Volume) -> float | None:
    """When the driver had created the volume, from the provisioner's annotation."""
    return time_or_none(volume.metadata.annotations.get(well_known.VOLUME_CREATED_AT))


def owner_body(owner: OwnerReference) -> dict[str, Any]:
    reported: dict[str, Any] = msgspec.to_builtins(owner)
    return {field: value for field, value in reported.items() if value}


def managed_by(node: str = "") -> str:
    """Value of the managed-by label: `external-provisioner`, with the node name in a deployment per node."""
    whole = f"{MANAGER}-{node}" if node else MANAGER
    if len(whole) <= MAX_LABEL_LENGTH:
        return whole
    keep_length = MAX_LABEL_LENGTH - 10 - len(node)
    if keep_length > 0:
        return f"{MANAGER[:keep_length]}-{_fnv1a_32(MANAGER):08x}-{node}"
    return f"{MANAGER}-{_fnv1a_32(whole):08x}"


def _amount(count: int | None) -> str | None:
    return None if count is None else size(count)


def _same(before: Amount | None, after: int | None) -> bool:
    if before is None or after is None:
        return before is None and after is None
    try:
        return quantity.to_bytes(before) == after
    except QuantityError:
        return False


def _fnv1a_32(text: str) -> int:
    value = FNV_OFFSET
    for byte in text.encode():
        value = (value ^ byte) * FNV_PRIME % UINT32
    return value


class CapacityObjectCounts(NamedTuple):
    """Number of desired objects, of those that exist, and of existing objects that are not desired."""

    goal: int
    current: int
    obsolete: int


class CapacityObjectIndex:
    """Fed with classes, segments and objects; each `observe_*` returns the keys whose objects may need a change."""

    def __init__(self, driver: str, *, for_immediate_binding: bool = False) -> None:
        self._driver = driver
        self._for_immediate_binding = for_immediate_binding
        self._classes: dict[str, StorageClass] = {}
        self._segments: frozenset[Segment] = frozenset()
        #: Desired objects of nodes that do not exist yet.
        self._templates: Mapping[CapacityKey, TemplateCapacity] = {}
        self._objects: dict[CapacityKey, dict[str, StorageCapacity]] = {}
        #: Objects with this publisher's labels and a node selector that it does not write.
        self._obsolete: dict[str, StorageCapacity] = {}

    def observe_class(self, before: StorageClass | None, after: StorageClass | None) -> set[CapacityKey]:
        name = (after or before or StorageClass()).name
        if after is not None and self._counts(after):
            self._classes[name] = after
        elif self._classes.pop(name, None) is None:
            return set()
        of_class = {entry for entry in (*self._objects, *self._templates) if entry.storage_class == name}
        return of_class | {CapacityKey(segment, name) for segment in self._segments}

    def observe_segments(self, current: frozenset[Segment]) -> set[CapacityKey]:
        changed, gone = current ^ self._segments, self._segments - current
        self._segments = current
        # Objects are not looked at when segments are only added, as by every node of a cluster that starts.
        removed = {entry for entry in self._objects if entry.segment in gone} if gone else set()
        return removed | {CapacityKey(segment, name) for segment in changed for name in self._classes}

    def observe_templates(self, current: Mapping[CapacityKey, TemplateCapacity]) -> set[CapacityKey]:
        before, self._templates = self._templates, current
        return {entry for entry in before.keys() | current.keys() if before.get(entry) != current.get(entry)}

    def observe_object(self, before: StorageCapacity | None, after: StorageCapacity | None) -> set[CapacityKey]:
        """A watch event. Returns the keys whose object is missing, obsolete or duplicated."""
        touched: set[CapacityKey] = set()
        for found, store in ((before, self.remove), (after, self.put)):
            if found is None:
                continue
            entry = entry_of(found)
            if entry is not None:
                store(entry, found)
                touched.add(entry)
            elif found is after:
                self._obsolete[found.name] = found
            else:
                self._obsolete.pop(found.name, None)
        return {entry for entry in touched if not self._settled(entry)}

    def put(self, entry: CapacityKey, found: StorageCapacity) -> None:
        """Also called with the response of an own write, which the watch shows only later.

        Then the informer's object takes its place, so that it is not in memory twice.
        """
        objects = self._objects.setdefault(entry, {})
        known = objects.get(found.name)
        if known is None or int(known.metadata.resource_version) <= int(found.metadata.resource_version):
            objects[found.name] = found

    def remove(self, entry: CapacityKey, found: StorageCapacity) -> None:
        objects = self._objects.get(entry, {})
        objects.pop(found.name, None)
        if not objects:
            self._objects.pop(entry, None)

    def desired(self) -> set[CapacityKey]:
        of_nodes = {CapacityKey(segment, name) for segment in self._segments for name in self._classes}
        return of_nodes | {entry for entry in self._templates if entry.storage_class in self._classes}

    def class_of(self, entry: CapacityKey) -> StorageClass | None:
        """The key's StorageClass; None if no object is desired for the key."""
        desired = entry.segment in self._segments or entry in self._templates
        return self._classes.get(entry.storage_class) if desired else None

    def in_pool_of(self, storage_class: str, entries: Iterable[CapacityKey]) -> set[CapacityKey]:
        """Those whose class takes its volumes from the same pool; all, if the class is not published."""
        of = self._classes.get(storage_class)
        if of is None:
            return set(entries)
        return {each for each in entries if self._classes[each.storage_class].capacity_pool == of.capacity_pool}

    def template_of(self, entry: CapacityKey) -> TemplateCapacity | None:
        """The capacity to publish without a driver call."""
        return self._templates.get(entry)

    def objects(self, entry: CapacityKey) -> list[StorageCapacity]:
        """The oldest first: duplicates of it are deleted."""
        found = self._objects.get(entry, {}).values()
        return sorted(found, key=lambda each: (each.metadata.creation_timestamp or "", each.name))

    def obsolete(self) -> list[StorageCapacity]:
        return list(self._obsolete.values())

    def of_segments(self, segments: Iterable[Segment]) -> set[CapacityKey]:
        """Keys of all classes in those of the segments that exist."""
        return {
            CapacityKey(segment, name) for segment in segments if segment in self._segments for name in self._classes
        }

    def of_class(self, storage_class: str) -> set[CapacityKey]:
        return {CapacityKey(segment, storage_class) for segment in self._segments if storage_class in self._classes}

    def counts(self) -> CapacityObjectCounts:
        desired = self.desired()
        current = sum(1 for entry in desired if entry in self._objects)
        existing = sum(len(objects) for objects in self._objects.values()) + len(self._obsolete)
        return CapacityObjectCounts(len(desired), current, existing - current)

    def _counts(self, storage_class: StorageClass) -> bool:
        # As external-provisioner: an unset mode counts, and for immediate classes no scheduler reads the capacity.
        mode_counts = self._for_immediate_binding or not storage_class.immediate
        return storage_class.provisioner == self._driver and mode_counts

    def _settled(self, entry: CapacityKey) -> bool:
        desired = self.class_of(entry) is not None
        return len(self._objects.get(entry, {})) == (1 if desired else 0)
