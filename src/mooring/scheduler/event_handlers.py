"""Informer handlers of nodes and storage, for the scheduler and the extender.

They keep the snapshot current and report each change as a `ClusterEvent`. Pods are their caller's: subscribe to them
last, so that they find the volumes and nodes that they use.
"""

from collections.abc import Callable
from typing import TypeVar

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api import kinds
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.control.component import Context
from mooring.control.feature_gates import CSI_STORAGE_CAPACITY
from mooring.scheduler import cluster_events
from mooring.scheduler.cluster_events import ClusterEvent
from mooring.scheduler.snapshot.snapshot import Snapshot

log: FilteringBoundLogger = structlog.get_logger(__name__)

V = TypeVar("V", bound=ApiObject)

#: Applies an update; returns what cannot be parsed, if anything.
Observe = Callable[[V | None, V | None], str | None]
OnEvent = Callable[[ClusterEvent | None], None]


def log_invalid(kind: Kind[V], item: V | None, error: str | None) -> None:
    """Log that part of an object is ignored; `error` is empty for a valid object."""
    if error and item is not None:
        log.warning("object ignored in part: invalid value", kind=kind.kind, object=item.key, error=error)


async def follow_nodes_and_storage(context: Context, snapshot: Snapshot, on_event: OnEvent | None = None) -> None:
    """Subscribe in the order of dependencies: nodes, what drivers report, then the volumes and claims charged to it."""
    volumes = snapshot.volumes

    async def follow(
        kind: Kind[V],
        observe: Observe[V],
        event: Callable[[V | None, V | None], ClusterEvent | None],
        cached: Callable[[str], V | None] | None = None,
    ) -> None:
        def handle(before: V | None, after: V | None) -> None:
            # Compared is what decisions were made on: the cached object, reservations included.
            was = before if before is None or cached is None else cached(before.key)
            log_invalid(kind, after, observe(before, after))
            if on_event is not None:
                on_event(event(was, after))

        await context.informers.of(kind).subscribe(handle)

    await follow(kinds.NODE, snapshot.observe_node, cluster_events.node_event)
    await follow(kinds.STORAGE_CLASS, volumes.observe_class, cluster_events.class_event)
    await follow(kinds.CSI_NODE, volumes.observe_csi_node, cluster_events.csi_node_event)
    if context.gates.enabled(CSI_STORAGE_CAPACITY):
        await follow(kinds.STORAGE_CAPACITY, volumes.observe_capacity, cluster_events.capacity_event)
        capacity = context.informers.of(kinds.STORAGE_CAPACITY)
        if capacity.not_served:
            log.warning("storage capacity not checked until the API server serves CSIStorageCapacity")
        volumes.provisioners.ignores_capacity = lambda: capacity.not_served
    else:
        volumes.provisioners.ignores_capacity = lambda: True
    await follow(kinds.CSI_DRIVER, volumes.observe_driver, cluster_events.driver_event)
    await follow(kinds.VOLUME, volumes.observe_volume, cluster_events.volume_event, cached=volumes.volume)
    await follow(kinds.CLAIM, volumes.observe_claim, cluster_events.claim_event, cached=volumes.claim)
    await follow(kinds.VOLUME_ATTACHMENT, volumes.observe_attachment, cluster_events.attachment_event)
