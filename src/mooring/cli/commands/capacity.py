"""`mooring capacity`: CSIStorageCapacity objects, one row per segment and class.

In-flight volumes are counted by the same library as in the scheduler.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, cast

import click
import msgspec

from mooring.api import quantity, well_known
from mooring.api.kinds import CLAIM, LEASE, NODE, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME, Kind
from mooring.api.views.core import Lease, Node
from mooring.api.views.meta import Meta, View
from mooring.api.views.storage import Claim, StorageCapacity, StorageClass, Volume
from mooring.cli import terminal
from mooring.cli.options import access_of, kubeconfig_options, namespace_option, output_option
from mooring.cli.runtime import api_errors_as, run_event_loop
from mooring.cli.terminal import NONE, ClusterUnavailable, age, segment_text
from mooring.client.access import Access
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.explain.volume_candidates import quantity_text
from mooring.volumes.decider import Provisioners
from mooring.volumes.topology import TopologyIndex

#: In the server's logs.
NAME: Final = "mooring-capacity"


@click.command()
@kubeconfig_options
@namespace_option("Show only CSIStorageCapacity objects of this namespace.  [default: all]")
@click.option("--driver", default="", help="Show only capacity of this CSI driver.")
@click.option("--storage-class", default="", help="Show only capacity of this StorageClass.")
@output_option("text", "wide", "json", "yaml")
def capacity(kubeconfig: str, context: str, namespace: str, driver: str, storage_class: str, output: str) -> None:
    """Show the CSIStorageCapacity objects of any Kubernetes cluster, one line per segment and class.

    IN FLIGHT is the size of claims with a selected node whose volume is not provisioned yet. LAST CHANGED is when the
    driver reported the capacity, LAST POLLED when its publisher last polled all segments; a stock external-provisioner
    does not record the latter.

    Exit codes: 0; 2 when flags or kubeconfig are wrong; 3 when the cluster cannot be read.
    """
    access = access_of(kubeconfig, context)
    with api_errors_as(ClusterUnavailable):
        listed = run_event_loop(_list(access, namespace))
    of_driver = [row for row in rows(listed) if driver in ("", row.driver)]
    _show([row for row in of_driver if storage_class in ("", row.storage_class)], output)


async def _list(access: Access, namespace: str) -> "Listed":
    dated = cast("Kind[DatedCapacity]", replace(STORAGE_CAPACITY, view=DatedCapacity))
    client = HttpClient(access, component=NAME, clock=SystemClock())
    try:
        capacities = await client.list(dated, namespace=namespace)
        return Listed(
            capacities.items,
            (await client.list(STORAGE_CLASS)).items,
            (await client.list(NODE)).items,
            (await client.list(CLAIM)).items,
            (await client.list(VOLUME)).items,
            (await client.list(LEASE, namespace=namespace, labels=MANAGED_BY_LABEL)).items,
        )
    finally:
        await client.close()


def _show(shown: Sequence["Row"], output: str) -> None:
    if terminal.echo_document(shown, output):
        return
    if not shown:
        click.echo("No CSIStorageCapacity objects found: no driver reports capacity here.", err=True)
        return
    for line in terminal.table(table(shown, now=SystemClock().now(), wide=output == "wide")):
        click.echo(line)


DRIVER_LABEL: Final = "csi.storage.k8s.io/drivername"
MANAGED_BY_LABEL: Final = "csi.storage.k8s.io/managed-by"


class FieldsManager(View, frozen=True, gc=False):
    time: str | None = None


class DatedMeta(Meta, frozen=True, gc=False):
    managed_fields: tuple[FieldsManager, ...] = ()


class DatedCapacity(StorageCapacity, frozen=True, gc=False):
    """With managed fields, which no component needs."""

    metadata: DatedMeta = DatedMeta()


class Listed(msgspec.Struct, frozen=True):
    """The objects that the report is made from."""

    capacities: tuple[DatedCapacity, ...] = ()
    classes: tuple[StorageClass, ...] = ()
    nodes: tuple[Node, ...] = ()
    claims: tuple[Claim, ...] = ()
    volumes: tuple[Volume, ...] = ()
    leases: tuple[Lease, ...] = ()


class Row(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Times are RFC 3339 in UTC, amounts as Kubernetes writes them; absent where the object has none."""

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
    #: Of an object for nodes that do not exist yet.
    node_group: str | None = None


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
    polls = {_provisioner_of(lease.metadata): lease.spec.renew_time for lease in listed.leases}
    made = [_row(found, provisioners, topology, polls) for found in listed.capacities]
    return sorted(made, key=lambda row: (row.driver, row.storage_class, sorted(row.segment.items()), row.name))


def _row(
    found: DatedCapacity,
    provisioners: Provisioners,
    topology: TopologyIndex,
    polls: dict[tuple[str, str, str], str | None],
) -> Row:
    room = provisioners.capacity.segment(found.key)
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
        capacity=None if found.capacity is None else quantity_text(found.capacity),
        maximum_volume_size=None if found.maximum_volume_size is None else quantity_text(found.maximum_volume_size),
        in_flight=room.charged if room is not None else 0,
        last_changed=_changed(found),
        last_polled=polls.get(_provisioner_of(found.metadata)),
        owner=f"{owner.kind}/{owner.name}" if owner is not None else None,
        managed_by=labels.get(MANAGED_BY_LABEL),
        node_group=found.node_group or None,
    )


def _provisioner_of(meta: Meta) -> tuple[str, str, str]:
    return meta.namespace, meta.labels.get(DRIVER_LABEL, ""), meta.labels.get(MANAGED_BY_LABEL, "")


def _changed(found: DatedCapacity) -> str | None:
    """From the publisher's annotation, else from managed fields, else the creation timestamp."""
    said = found.metadata.annotations.get(well_known.CAPACITY_POLLED_AT)
    noted = [each.time for each in found.metadata.managed_fields if each.time is not None]
    return said or max(noted, default=None) or found.metadata.creation_timestamp


#: Instead of the number of nodes.
TEMPLATE: Final = "template"
STORAGE: Final = ("DRIVER", "CLASS", "SEGMENT", "NODES", "CAPACITY", "MAX SIZE", "IN FLIGHT")
HEADINGS: Final = (*STORAGE, "LAST CHANGED", "LAST POLLED", "OWNER")
WIDE_HEADINGS: Final = (*HEADINGS, "NAMESPACE", "NAME", "MANAGED BY")


def table(shown: Iterable[Row], *, now: float, wide: bool) -> list[tuple[str, ...]]:
    """Headings and cells; times as ages, as kubectl shows them."""
    lines: list[tuple[str, ...]] = [WIDE_HEADINGS if wide else HEADINGS]
    for row in shown:
        cells = (
            row.driver or NONE,
            row.storage_class,
            segment_text(row.segment),
            TEMPLATE if row.node_group else str(row.nodes),
            row.capacity or NONE,
            row.maximum_volume_size or NONE,
            quantity.canonical(f"{row.in_flight // 1024}Ki") if row.in_flight % 1024 == 0 else str(row.in_flight),
            age(row.last_changed, now),
            age(row.last_polled, now),
            row.owner or NONE,
        )
        lines.append((*cells, row.namespace, row.name, row.managed_by or NONE) if wide else cells)
    return lines
