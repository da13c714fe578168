"""What the page is told of each object: flat rows, small enough to send thousands of.

Pure. Amounts are bytes, moments are seconds since the epoch. A row is replaced as a whole when anything in it changes.
Nothing here draws anything: that is the browser's work.
"""

from typing import Final

import msgspec

from mooring.api import keys, quantity
from mooring.api.quantity import QuantityError
from mooring.api.timestamps import from_time
from mooring.api.views.claim import Claim
from mooring.api.views.meta import Amount
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.storage import StorageCapacity, StorageClass
from mooring.api.views.volume import Volume
from mooring.volumes.holds import objects as marks
from mooring.volumes.plan import HoldState, hold_state
from mooring.web.places import Place, Places


class Row(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`id` is unique in its table."""

    id: str


class NodeRow(Row, frozen=True):
    zone: str = ""
    rack: str = ""
    ready: bool = True
    cordoned: bool = False


class PoolRow(Row, frozen=True):
    """One CSIStorageCapacity: what is free of a pool, as seen by one class."""

    place: Place
    driver: str = ""
    #: What the volumes of several classes are taken from together.
    pool: str = ""
    storage_class: str = ""
    free: int = 0
    #: The largest volume that can be made, where that is less.
    largest: int | None = None


class VolumeRow(Row, frozen=True):
    """`state` is free, bound, held, rolling back, released or failed."""

    place: Place
    state: str
    size: int = 0
    driver: str = ""
    pool: str = ""
    storage_class: str = ""
    #: Whose it is, or for whom it is held.
    claim: str = ""
    #: Why it is rolled back, or failed.
    reason: str = ""
    deleting: bool = False


class ClaimRow(Row, frozen=True):
    phase: str = ""
    size: int = 0
    storage_class: str = ""
    volume: str = ""
    #: Chosen by the scheduler for a volume that is to be made.
    selected_node: str = ""
    deleting: bool = False


class PodRow(Row, frozen=True):
    """`waiting` is a pod without a node that has not finished."""

    node: str = ""
    phase: str = ""
    claims: tuple[str, ...] = ()
    waiting: bool = False
    #: The scheduler's last word on a waiting pod.
    why: str = ""
    since: float | None = None
    deleting: bool = False


FREE, HELD, ROLLING_BACK, BOUND = "free", "held", "rolling back", "bound"

#: States of a volume that no claim has yet, or never will.
_OPEN: Final = {HoldState.FREE: FREE, HoldState.HELD: HELD, HoldState.ROLLING_BACK: ROLLING_BACK}
#: Phases of a volume that still names its claim, but is of no use to it.
_GIVEN_UP: Final = {"Released": "released", "Failed": "failed"}


def node_row(node: Node, places: Places) -> NodeRow:
    ready = any(one.type == "Ready" and one.status == "True" for one in node.status.conditions)
    labels = node.metadata.labels
    return NodeRow(node.name, places.zone(labels), places.rack(labels), ready, node.spec.unschedulable)


def pool_row(capacity: StorageCapacity, place: Place, offered: StorageClass | None) -> PoolRow:
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
    volume: Volume, place: Place, offered: StorageClass | None, holder: Claim | None, *, hold_namespace: str
) -> VolumeRow:
    """`holder` is the claim that the volume is held for, where it is known."""
    notes = volume.metadata.annotations
    csi = volume.spec.csi
    state = volume_state(volume, hold_namespace=hold_namespace)
    held = state in (HELD, ROLLING_BACK)
    whose = notes.get(marks.CLAIM, "") if holder is None else holder.key
    made = csi is not None or keys.PROVISIONED_BY in notes
    return VolumeRow(
        volume.name,
        place,
        state,
        size=size_of(volume.size),
        driver=_maker(offered) if csi is None else csi.driver,
        # Volumes that somebody made by hand are a kind of their own, told apart by their class.
        pool=_pool(offered) if made else volume.storage_class,
        storage_class=volume.storage_class,
        claim=whose if held else _claimant(volume),
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
    """Who makes the volumes of a class; nobody for volumes that are made by hand."""
    return "" if offered is None or offered.provisioner == keys.NO_PROVISIONER else offered.provisioner


def _pool(offered: StorageClass | None) -> str:
    return "" if offered is None else offered.metadata.annotations.get(keys.CAPACITY_POOL, "")
