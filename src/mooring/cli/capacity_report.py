"""What `mooring capacity` shows: one row per CSIStorageCapacity, from listed objects.

Pure. What is in flight is counted by the library that the scheduler decides with, so that both say the same.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from mooring.api import keys, quantity
from mooring.api.durations import UNKNOWN, human_duration
from mooring.api.quantity import QuantityError
from mooring.api.timestamps import from_time
from mooring.api.views.claim import Claim
from mooring.api.views.lease import Lease
from mooring.api.views.meta import Amount, Meta, View
from mooring.api.views.node import Node
from mooring.api.views.storage import StorageCapacity, StorageClass
from mooring.api.views.volume import Volume
from mooring.volumes.provisioning import Provisioners
from mooring.volumes.topology import TopologyIndex

DRIVER_LABEL: Final = "csi.storage.k8s.io/drivername"
MANAGED_BY_LABEL: Final = "csi.storage.k8s.io/managed-by"
NONE: Final = "-"


class FieldsManager(View, frozen=True, gc=False):
    time: str | None = None


class DatedMeta(Meta, frozen=True, gc=False):
    managed_fields: tuple[FieldsManager, ...] = ()


class DatedCapacity(StorageCapacity, frozen=True, gc=False):
    """The object with the traces of its last change, which no component needs."""

    metadata: DatedMeta = DatedMeta()


class Listed(msgspec.Struct, frozen=True):
    """Everything the report is made from, as the server listed it."""

    capacities: tuple[DatedCapacity, ...] = ()
    classes: tuple[StorageClass, ...] = ()
    nodes: tuple[Node, ...] = ()
    claims: tuple[Claim, ...] = ()
    volumes: tuple[Volume, ...] = ()
    leases: tuple[Lease, ...] = ()


class Row(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Times are RFC 3339 in UTC, amounts as Kubernetes writes them; what nobody says is absent."""

    namespace: str
    name: str
    driver: str
    storage_class: str
    #: The labels of the nodes that reach the storage; none for all nodes.
    segment: dict[str, str]
    nodes: int
    capacity: str | None = None
    maximum_volume_size: str | None = None
    #: Bytes that volumes on their way will take.
    in_flight: int = 0
    last_changed: str | None = None
    last_polled: str | None = None
    owner: str | None = None
    managed_by: str | None = None


def rows(listed: Listed) -> list[Row]:
    """By driver, class and segment."""
    topology = TopologyIndex()
    for node in listed.nodes:
        topology.put(node.name, node.metadata.labels)
    provisioners = Provisioners(topology)
    for each in listed.classes:
        provisioners.observe_class(each.name, each)
    for found in listed.capacities:
        provisioners.observe_capacity(found.key, found)
    claims = {claim.uid: claim for claim in listed.claims}
    for volume in listed.volumes:
        reference = volume.spec.claim_ref
        provisioners.charges.volume(volume, claims.get(reference.uid) if reference is not None else None)
    for uid, claim in claims.items():
        provisioners.charges.claim(uid, claim)
    polls = {_whose(lease.metadata): lease.spec.renew_time for lease in listed.leases}
    made = [_row(found, provisioners, topology, polls) for found in listed.capacities]
    return sorted(made, key=lambda row: (row.driver, row.storage_class, sorted(row.segment.items()), row.name))


def _row(
    found: DatedCapacity,
    provisioners: Provisioners,
    topology: TopologyIndex,
    polls: dict[tuple[str, str, str], str | None],
) -> Row:
    room = provisioners.capacity.room(found.key)
    labels = found.metadata.labels
    owner = found.controller or next(iter(found.metadata.owner_references), None)
    selector = found.node_topology
    return Row(
        namespace=found.namespace,
        name=found.name,
        driver=provisioners.provisioner(found.storage_class_name) or labels.get(DRIVER_LABEL, ""),
        storage_class=found.storage_class_name,
        segment=dict(selector.match_labels) if selector is not None else {},
        nodes=topology.matching(room.segment).bit_count() if room is not None else 0,
        capacity=_amount(found.capacity),
        maximum_volume_size=_amount(found.maximum_volume_size),
        in_flight=room.charged if room is not None else 0,
        last_changed=_changed(found),
        last_polled=polls.get(_whose(found.metadata)),
        owner=f"{owner.kind}/{owner.name}" if owner is not None else None,
        managed_by=labels.get(MANAGED_BY_LABEL),
    )


def _whose(meta: Meta) -> tuple[str, str, str]:
    return meta.namespace, meta.labels.get(DRIVER_LABEL, ""), meta.labels.get(MANAGED_BY_LABEL, "")


def _amount(amount: Amount | None) -> str | None:
    if amount is None:
        return None
    try:
        return quantity.canonical(amount)
    except QuantityError:
        return str(amount)


def _changed(found: DatedCapacity) -> str | None:
    """What the publisher says, else what the server has noted, else when it was made."""
    said = found.metadata.annotations.get(keys.CAPACITY_POLLED_AT)
    noted = [each.time for each in found.metadata.managed_fields if each.time is not None]
    return said or max(noted, default=None) or found.metadata.creation_timestamp


HEADINGS: Final = (
    "DRIVER",
    "CLASS",
    "SEGMENT",
    "NODES",
    "CAPACITY",
    "MAX SIZE",
    "IN FLIGHT",
    "LAST CHANGED",
    "LAST POLLED",
    "OWNER",
)
WIDE_HEADINGS: Final = (*HEADINGS, "NAMESPACE", "NAME", "MANAGED BY")


def table(shown: Iterable[Row], *, now: float, wide: bool) -> list[tuple[str, ...]]:
    """Headings and cells; times as ages, as kubectl shows them."""
    lines: list[tuple[str, ...]] = [WIDE_HEADINGS if wide else HEADINGS]
    for row in shown:
        cells = (
            row.driver or NONE,
            row.storage_class,
            ",".join(f"{key}={value}" for key, value in sorted(row.segment.items())) or "(all nodes)",
            str(row.nodes),
            row.capacity or NONE,
            row.maximum_volume_size or NONE,
            quantity.canonical(f"{row.in_flight // 1024}Ki") if row.in_flight % 1024 == 0 else str(row.in_flight),
            _age(row.last_changed, now),
            _age(row.last_polled, now),
            row.owner or NONE,
        )
        lines.append((*cells, row.namespace, row.name, row.managed_by or NONE) if wide else cells)
    return lines


def _age(moment: str | None, now: float) -> str:
    if moment is None:
        return NONE
    try:
        return human_duration(now - from_time(moment))
    except ValueError:
        return UNKNOWN
