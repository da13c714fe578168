"""Rows of the dashboard: flat, in bytes and epoch seconds, replaced as a whole; and where storage is accessible from.
Pure.

A location is the smallest of node, rack, zone and cluster that contains all nodes that can access the storage; a
selector on zone labels alone means the zone.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from mooring.api import quantity, selectors, well_known
from mooring.api.node_selectors import NodeSelector, NodeSelectorTerm
from mooring.api.quantity import QuantityError
from mooring.api.selectors import SelectorError
from mooring.api.times import from_time
from mooring.api.views.core import Node
from mooring.api.views.meta import Amount, LabelSelectorView
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, StorageCapacity, StorageClass, Volume
from mooring.explain.cluster_objects import lost_since
from mooring.volumes.binding import HoldState, hold_state
from mooring.volumes.holds import objects as marks
from mooring.volumes.topology import TopologyIndex

_ZONES: Final = frozenset({well_known.ZONE, well_known.ZONE_BETA})
_REGIONS: Final = frozenset({well_known.REGION, well_known.REGION_BETA})


class StorageLocation(msgspec.Struct, frozen=True, omit_defaults=True):
    """`level` is node, rack, zone, cluster or nowhere; names are given as far as they are fixed by it."""

    level: str
    zone: str = ""
    rack: str = ""
    node: str = ""
    #: How many nodes reach it.
    nodes: int = 0


NOWHERE: Final = StorageLocation("nowhere")


class LocationIndex:
    """The nodes, and what encloses them. `version` moves whenever a place may have become another."""

    def __init__(self, *, rack_label: str = well_known.RACK) -> None:
        self._rack_label = rack_label
        self._topology = TopologyIndex()
        self._answers: dict[NodeSelector | None, StorageLocation] = {}
        self._answered = 0

    @property
    def version(self) -> int:
        return self._topology.version

    def observe(self, before: Node | None, after: Node | None) -> None:
        if after is not None:
            self._topology.put(after.name, after.metadata.labels)
        elif before is not None:
            self._topology.remove(before.name)

    def zone(self, labels: Mapping[str, str]) -> str:
        return labels.get(well_known.ZONE) or labels.get(well_known.ZONE_BETA, "")

    def rack(self, labels: Mapping[str, str]) -> str:
        return labels.get(self._rack_label, "")

    def of(self, selector: NodeSelector | None) -> StorageLocation:
        """The place of what the nodes matching a selector reach; None is what every node reaches."""
        if self._answered != self._topology.version:
            self._answers.clear()
            self._answered = self._topology.version
        known = self._answers.get(selector)
        if known is None:
            known = self._answers[selector] = self._enclosing(selector)
        return known

    def of_segment(self, segment: LabelSelectorView | None) -> StorageLocation:
        """The place of a CSIStorageCapacity: no selector is nowhere, an empty one is everywhere."""
        if segment is None:
            return NOWHERE
        try:
            wanted = selectors.label_selector_from_view(segment).requirements
        except SelectorError:
            return NOWHERE  # No server of ours takes such an object, and no node would match it.
        return self.of(NodeSelector((NodeSelectorTerm(wanted),)) if wanted else None)

    def _enclosing(self, selector: NodeSelector | None) -> StorageLocation:
        names = tuple(self._topology.names(self._topology.matching(selector)))
        count = len(names)
        if selector is None:
            return StorageLocation("cluster", nodes=count)
        if not names:
            return NOWHERE
        spoken = {one.key for term in selector.terms for one in term.expressions}
        by_name = any(term.fields for term in selector.terms)
        labels = [self._topology.labels(name) for name in names]
        zone = _only(self.zone(one) for one in labels)
        rack = _only(self.rack(one) for one in labels)
        if by_name or not spoken <= _ZONES | _REGIONS | {self._rack_label}:
            if count == 1:
                return StorageLocation("node", zone or "", rack or "", names[0], 1)
            if rack and zone is not None:
                return StorageLocation("rack", zone, rack, nodes=count)
        elif self._rack_label in spoken and rack and zone is not None:
            return StorageLocation("rack", zone, rack, nodes=count)
        if zone and not spoken <= _REGIONS:
            return StorageLocation("zone", zone, nodes=count)
        return StorageLocation("cluster", nodes=count)


def _only(values: Iterable[str]) -> str | None:
    """The one value all have in common; None where they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


class PageRow(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`id` is unique in its table."""

    id: str


class NodeTableRow(PageRow, frozen=True):
    zone: str = ""
    rack: str = ""
    ready: bool = True
    #: Not ready beyond the grace period: its storage counts as out of reach, and its room as none.
    lost: bool = False
    cordoned: bool = False


class PoolRow(PageRow, frozen=True):
    """One CSIStorageCapacity: what is free of a pool, as seen by one class."""

    place: StorageLocation
    driver: str = ""
    #: What the volumes of several classes are taken from together.
    pool: str = ""
    storage_class: str = ""
    free: int = 0
    #: The largest volume that can be made, where that is less.
    largest: int | None = None


class VolumeRow(PageRow, frozen=True):
    """`state` is free, bound, held, rolling back, released or failed."""

    place: StorageLocation
    state: str
    size: int = 0
    driver: str = ""
    pool: str = ""
    storage_class: str = ""
    #: Whose it is, or for whom it is held.
    claim: str = ""
    #: The PodGroup that it is held for, and since when it is held.
    group: str = ""
    since: float | None = None
    #: Why it is rolled back, or failed.
    reason: str = ""
    deleting: bool = False


class ClaimRow(PageRow, frozen=True):
    phase: str = ""
    size: int = 0
    storage_class: str = ""
    volume: str = ""
    #: Chosen by the scheduler for a volume that is to be made.
    selected_node: str = ""
    deleting: bool = False


class PodRow(PageRow, frozen=True):
    """`waiting` is a pod without a node that has not finished."""

    node: str = ""
    phase: str = ""
    claims: tuple[str, ...] = ()
    waiting: bool = False
    #: The scheduler's last word on a waiting pod.
    why: str = ""
    since: float | None = None
    deleting: bool = False
    #: The PodGroup that it names.
    group: str = ""


FREE, HELD, ROLLING_BACK, BOUND = "free", "held", "rolling back", "bound"

#: States of a volume that no claim has yet, or never will.
_OPEN: Final = {HoldState.FREE: FREE, HoldState.HELD: HELD, HoldState.ROLLING_BACK: ROLLING_BACK}
#: Phases of a volume that still names its claim, but is of no use to it.
_GIVEN_UP: Final = {"Released": "released", "Failed": "failed"}


def node_row(node: Node, places: LocationIndex, now: float) -> NodeTableRow:
    ready = any(one.type == "Ready" and one.status == "True" for one in node.status.conditions)
    labels = node.metadata.labels
    lost = lost_since(node, now) is not None
    return NodeTableRow(node.name, places.zone(labels), places.rack(labels), ready, lost, node.spec.unschedulable)


def pool_row(capacity: StorageCapacity, place: StorageLocation, offered: StorageClass | None) -> PoolRow:
    largest = None if capacity.maximum_volume_size is None else size_of(capacity.maximum_volume_size)
    return PoolRow(
        capacity.key,
        place,
        driver=_maker(offered),
        pool=_pool(offered),
        storage_class=capacity.storage_class_name,
        free=size_of(capacity.capacity or 0),
        largest=largest,
    )


def volume_row(
    volume: Volume,
    place: StorageLocation,
    offered: StorageClass | None,
    holder: Claim | None,
    *,
    hold_namespace: str,
    group: str = "",
) -> VolumeRow:
    """`holder` is the claim that the volume is held for, where it is known, and `group` the key of its PodGroup."""
    notes = volume.metadata.annotations
    csi = volume.spec.csi
    state = volume_state(volume, hold_namespace=hold_namespace)
    held = state in (HELD, ROLLING_BACK)
    claim = notes.get(marks.CLAIM, "") if holder is None else holder.key
    made = csi is not None or well_known.PROVISIONED_BY in notes
    return VolumeRow(
        volume.name,
        place,
        state,
        size=size_of(volume.size),
        driver=_maker(offered) if csi is None else csi.driver,
        # Manually created volumes are grouped by their class.
        pool=_pool(offered) if made else volume.storage_class,
        storage_class=volume.storage_class,
        claim=claim if held else _claimant(volume),
        group=group if held else "",
        since=moment(notes.get(marks.SINCE)) if held else None,
        reason=notes.get(marks.REASON, "") or volume.status.message,
        deleting=volume.deleting,
    )


def volume_state(volume: Volume, *, hold_namespace: str) -> str:
    """The protocol's word on the volume while it has one; otherwise whether a claim has it, had it, or may have it."""
    state = hold_state(volume, hold_namespace=hold_namespace)
    if state is not HoldState.COMMITTED:
        return _OPEN[state]
    return _GIVEN_UP.get(volume.status.phase, BOUND)


def claim_row(claim: Claim) -> ClaimRow:
    return ClaimRow(
        claim.key,
        claim.status.phase,
        size_of(claim.request),
        claim.storage_class,
        claim.spec.volume_name,
        claim.selected_node or "",
        claim.deleting,
    )


def pod_row(pod: Pod) -> PodRow:
    waiting = not pod.spec.node_name and not pod.finished
    said = next((one.message for one in pod.status.conditions if one.type == "PodScheduled"), "")
    return PodRow(
        pod.key,
        pod.spec.node_name,
        pod.status.phase,
        tuple(pod.claim_keys),
        waiting,
        said if waiting else "",
        moment(pod.metadata.creation_timestamp),
        pod.deleting,
        pod.group_key,
    )


def size_of(amount: Amount) -> int:
    """In bytes; what cannot be read counts as nothing, as it does for the scheduler."""
    try:
        return quantity.to_bytes(amount)
    except QuantityError:
        return 0


def moment(text: str | None) -> float | None:
    try:
        return None if text is None else from_time(text)
    except ValueError:
        return None


def _claimant(volume: Volume) -> str:
    reference = volume.spec.claim_ref
    return "" if reference is None else f"{reference.namespace}/{reference.name}"


def _maker(offered: StorageClass | None) -> str:
    """The provisioner of a class; "" for kubernetes.io/no-provisioner."""
    return "" if offered is None or offered.provisioner == well_known.NO_PROVISIONER else offered.provisioner


def _pool(offered: StorageClass | None) -> str:
    return "" if offered is None else offered.metadata.annotations.get(well_known.CAPACITY_POOL, "")
