"""The selected node of a claim: cleared for rescheduling, or claimed for immediate binding in a node deployment."""

from dataclasses import dataclass
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api import well_known
from mooring.api.errors import ApiError, Conflict, NotFound
from mooring.api.kinds import CLAIM
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject
from mooring.api.views.storage import Claim, StorageClass
from mooring.backoff import exponential_backoff
from mooring.client.contract import Client, Unreachable
from mooring.client.live_reads import get_or_none
from mooring.csi.contract import DriverError
from mooring.provisioner.provision.create import DriverContext
from mooring.provisioner.provision.request import ProvisioningPlan
from mooring.provisioner.provision.topology import Term, term
from mooring.provisioner.settings import NodeDeployment, ProvisioningFailure

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Conflicts in a row after which `clear_selected_node` raises.
MAX_ATTEMPTS: Final = 3


async def live_claim(client: Client, uid: str, known: ApiObject | None) -> Claim | None:
    """The claim with this uid from the API server, None if it does not exist; `known` has its name."""
    if known is None:
        return None
    return await get_or_none(client, CLAIM, known.name, namespace=known.namespace, uid=uid)


@dataclass
class _NodeClaim:
    """Conflicts so far, and when the next attempt is due."""

    conflicts: int
    due: float


class NodeClaimer:
    """Node deployment with immediate binding: writes this node into claims without a selected node.

    Each attempt waits for a random delay that grows with every conflict, so that nodes do not all write at once. The
    patch carries the claim's resourceVersion: the first node wins. A node without free capacity writes nothing.
    """

    def __init__(self, context: DriverContext) -> None:
        self._context = context
        self._client = context.client
        self._clock = context.clock
        self._pending: dict[str, _NodeClaim] = {}

    def forget(self, uid: str) -> None:
        self._pending.pop(uid, None)

    async def try_claim(self, claim: Claim, storage_class: StorageClass) -> float | None:
        """Claim this node if its delay is over. Returns the seconds until the next attempt, None if none is needed."""
        deployment = self._context.driver.settings.node_deployment
        assert deployment is not None, "only a node deployment claims nodes"
        pending = self._pending.get(claim.uid)
        if pending is None:
            pending = self._pending[claim.uid] = _NodeClaim(0, self._clock.monotonic() + self._delay(deployment, 0))
        wait = pending.due - self._clock.monotonic()
        if wait > 0:
            return wait
        try:
            plan = self._context.plan(claim.assumed_on(deployment.node), storage_class)
            excluded = not await self._fits(plan, storage_class)
        except ProvisioningFailure:
            # Without allowed topologies the failure is the same on all nodes: the attempt records it in an event.
            excluded = bool(storage_class.allowed_topologies)
        if excluded or await self._select_node(claim, deployment.node):
            self.forget(claim.uid)
            return None
        pending.conflicts += 1
        pending.due = self._clock.monotonic() + self._delay(deployment, pending.conflicts)
        return pending.due - self._clock.monotonic()

    def _delay(self, deployment: NodeDeployment, conflicts: int) -> float:
        longest = exponential_backoff(deployment.base_delay, deployment.max_delay, conflicts + 1)
        return max(longest - self._context.component.rng.random() * deployment.base_delay, 0.0)

    async def _fits(self, plan: ProvisioningPlan, storage_class: StorageClass) -> bool:
        if not plan.request.required_bytes:
            return True
        where = plan.request.accessibility
        segments: list[Term | None] = [term(each.segments) for each in where.requisite] if where is not None else [None]
        for segment in segments:
            try:
                capacity = await self._context.calls.get_capacity(storage_class.parameters, segment)
            except DriverError as error:
                log.info("capacity unknown; node claimed without check", error=str(error))
                return True
            if plan.request.required_bytes <= capacity.available_bytes:
                return True
        return False

    async def _select_node(self, claim: Claim, node: str) -> bool:
        version = claim.metadata.resource_version
        metadata = {"resourceVersion": version, "annotations": {well_known.SELECTED_NODE: node}}
        try:
            await self._client.patch(CLAIM, claim.name, MergePatch({"metadata": metadata}), namespace=claim.namespace)
        except NotFound:
            return True
        except (ApiError, Unreachable) as error:
            log.debug("node claim lost: conflict", claim=claim.key, error=str(error))
            return False
        return True


async def clear_selected_node(client: Client, about: ApiObject, node: str) -> bool:
    """Remove the selected node from the claim; False if another node has been selected since.

    Decided on a live read and written with its resourceVersion. Raises ApiError and Unreachable.
    """
    for left in reversed(range(MAX_ATTEMPTS)):
        claim = await get_or_none(client, CLAIM, about.name, namespace=about.namespace, uid=about.uid)
        if claim is None or claim.selected_node is None:
            return True
        if claim.selected_node != node:
            return False
        none = {well_known.SELECTED_NODE: None, well_known.SELECTED_NODE_DRAFT: None}
        version = claim.metadata.resource_version
        patch = MergePatch({"metadata": {"resourceVersion": version, "annotations": none}})
        try:
            await client.patch(CLAIM, claim.name, patch, namespace=claim.namespace)
        except Conflict:
            if not left:
                raise
        else:
            log.info("selected node cleared", claim=claim.key, node=node)
            return True
    raise AssertionError("the last attempt returns or raises")
