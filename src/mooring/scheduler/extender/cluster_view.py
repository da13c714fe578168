"""What the extender sees of the cluster: the scheduler's snapshot, as far as decisions about volumes read it.

Fed by informers. Nodes and pods are needed for slots and limits; what other plugins look at, kube-scheduler knows.
"""

from collections.abc import Callable
from typing import TypeVar

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.kinds import (
    CLAIM,
    CSI_DRIVER,
    CSI_NODE,
    NODE,
    POD,
    STORAGE_CAPACITY,
    STORAGE_CLASS,
    VOLUME,
    VOLUME_ATTACHMENT,
    Kind,
)
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod
from mooring.client.cache import Tell
from mooring.control.component import Context
from mooring.control.feature_gates import CSI_STORAGE_CAPACITY
from mooring.scheduler.snapshot import Snapshot

log: FilteringBoundLogger = structlog.get_logger(__name__)

V = TypeVar("V", bound=ApiObject)

#: Takes a change in and answers with what is wrong with the object, if anything is.
Observe = Callable[[V | None, V | None], str | None]


async def follow(context: Context, snapshot: Snapshot, *, pods: Tell[Pod], claims: Tell[Claim]) -> None:
    """Keep the snapshot as the cluster is; `pods` and `claims` hear of those as well. Returns when all that is listed
    has been taken in."""
    volumes = snapshot.volumes
    await _feed(context, NODE, snapshot.observe_node)
    await _feed(context, STORAGE_CLASS, volumes.observe_class)
    await _feed(context, CSI_NODE, volumes.observe_csi_node)
    if context.gates.enabled(CSI_STORAGE_CAPACITY):
        # Without its driver and its capacity objects, a class counts as having room everywhere.
        await _feed(context, CSI_DRIVER, volumes.observe_driver)
        await _feed(context, STORAGE_CAPACITY, volumes.observe_capacity)
    await _feed(context, VOLUME, volumes.observe_volume)
    await _feed(context, CLAIM, volumes.observe_claim)
    await _feed(context, VOLUME_ATTACHMENT, volumes.observe_attachment)
    await _feed(context, POD, snapshot.observe_pod)
    await context.informers.of(POD).subscribe(pods)
    await context.informers.of(CLAIM).subscribe(claims)


async def _feed(context: Context, kind: Kind[V], observe: Observe[V]) -> None:
    def tell(before: V | None, after: V | None) -> None:
        problem = observe(before, after)
        if problem and after is not None:
            log.warning("counted without what cannot be understood", kind=kind.kind, key=after.key, problem=problem)

    await context.informers.of(kind).subscribe(tell)
