"""CSIStorageCapacity objects as external-provisioner writes them, so that any scheduler can use them.

Pure: what an object of ours looks like, which entry it stands for, and what would have to change in it.
"""

from typing import Any, Final, NamedTuple

import msgspec

from mooring.api import keys, quantity
from mooring.api.quantity import QuantityError
from mooring.api.timestamps import from_time
from mooring.api.views.meta import Amount, OwnerReference
from mooring.api.views.storage import StorageCapacity
from mooring.api.views.volume import Volume
from mooring.csi.contract import Capacity, Code, DriverError
from mooring.provisioner.segments import Segment
from mooring.provisioner.topology_terms import UINT32, term
from mooring.provisioner.volume_object import size

DRIVER_LABEL: Final = "csi.storage.k8s.io/drivername"
MANAGED_BY_LABEL: Final = "csi.storage.k8s.io/managed-by"
MANAGER: Final = "external-provisioner"
NAME_PREFIX: Final = "csisc-"
#: Kubernetes' limit for label values.
LONGEST_LABEL: Final = 63

_FNV_OFFSET: Final = 2166136261
_FNV_PRIME: Final = 16777619


class Entry(NamedTuple):
    """What one object stands for."""

    segment: Segment
    storage_class: str


class Publisher(NamedTuple):
    """Whose objects they are. Two publishers with the same value would fight over them."""

    driver: str
    managed_by: str
    owner: OwnerReference | None = None

    @property
    def labels(self) -> dict[str, str]:
        return {DRIVER_LABEL: self.driver, MANAGED_BY_LABEL: self.managed_by}

    @property
    def selector(self) -> str:
        return ",".join(f"{key}={value}" for key, value in self.labels.items())


def entry_of(found: StorageCapacity) -> Entry | None:
    """None for a selector that no publisher writes."""
    topology = found.node_topology
    if topology is None or topology.match_expressions:
        return None
    return Entry(term(topology.match_labels), found.storage_class_name)


def checked(said: Capacity) -> Capacity:
    """The answer, if it can be one; a driver that says nonsense has said nothing. Raises DriverError."""
    if said.available_bytes < 0 or (said.maximum_volume_bytes or 0) < 0:
        raise DriverError(Code.UNAVAILABLE, f"the driver says that less than nothing is free: {said}")
    return said


def body(entry: Entry, publisher: Publisher, said: Capacity, polled_at: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "generateName": NAME_PREFIX,
        "labels": publisher.labels,
        "annotations": {keys.CAPACITY_POLLED_AT: polled_at},
    }
    if publisher.owner is not None:
        metadata["ownerReferences"] = [owner_body(publisher.owner)]
    fields = {"capacity": _amount(said.available_bytes), "maximumVolumeSize": _amount(said.maximum_volume_bytes)}
    return {
        "metadata": metadata,
        "nodeTopology": {"matchLabels": dict(entry.segment)},
        "storageClassName": entry.storage_class,
    } | {field: value for field, value in fields.items() if value is not None}


def changes(found: StorageCapacity, publisher: Publisher, said: Capacity | None) -> dict[str, Any]:
    """What would have to change, as a merge patch without the version; empty where all is right.

    `said=None` is a driver that says nothing any more: the object stays and promises nothing.
    """
    wanted = (None, None) if said is None else (said.available_bytes, said.maximum_volume_bytes)
    changed: dict[str, Any] = {}
    for field, before, after in (
        ("capacity", found.capacity, wanted[0]),
        ("maximumVolumeSize", found.maximum_volume_size, wanted[1]),
    ):
        if not _same(before, after):
            changed[field] = _amount(after)
    owner = publisher.owner
    owners = found.metadata.owner_references
    if owner is not None and all(each.uid != owner.uid for each in owners):
        changed["metadata"] = {"ownerReferences": [owner_body(each) for each in (*owners, owner)]}
    return changed


def shows(found: StorageCapacity | None, moment: float) -> bool:
    """Whether an object says that the driver was asked after a moment."""
    asked = _moment(found.metadata.annotations.get(keys.CAPACITY_POLLED_AT)) if found is not None else None
    return asked is not None and asked > moment


def made_at(volume: Volume) -> float | None:
    """When the driver had made a volume, as its provisioner noted."""
    return _moment(volume.metadata.annotations.get(keys.VOLUME_CREATED_AT))


def _moment(text: str | None) -> float | None:
    try:
        return None if text is None else from_time(text)
    except ValueError:
        return None


def owner_body(owner: OwnerReference) -> dict[str, Any]:
    said: dict[str, Any] = msgspec.to_builtins(owner)
    return {field: value for field, value in said.items() if value}


def managed_by(node: str = "") -> str:
    """`external-provisioner`, with the node where there is one publisher per node; never longer than a label."""
    whole = f"{MANAGER}-{node}" if node else MANAGER
    if len(whole) <= LONGEST_LABEL:
        return whole
    room = LONGEST_LABEL - 10 - len(node)
    if room > 0:
        return f"{MANAGER[:room]}-{_fnv1a_32(MANAGER):08x}-{node}"
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
    value = _FNV_OFFSET
    for byte in text.encode():
        value = (value ^ byte) * _FNV_PRIME % UINT32
    return value
