"""Claims that no scheduler chooses a node for, where each node has its own provisioner: one of them offers its node.

An offer waits first, a random while that grows with every lost race, so that nodes do not all offer at once. It is
made by writing the node into the claim, under the claim's version: whoever writes first has it, and the claim comes
back as its own. A node that has no room says nothing and leaves the claim to others.
"""

from dataclasses import dataclass

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api import keys
from mooring.api.errors import ApiError, NotFound
from mooring.api.kinds import CLAIM
from mooring.api.patches.contract import MergePatch
from mooring.api.views.claim import Claim
from mooring.api.views.storage import StorageClass
from mooring.client.contract import Unreachable
from mooring.control.component import Context
from mooring.csi.contract import DriverError
from mooring.provisioner import planning
from mooring.provisioner.accessibility import Places
from mooring.provisioner.attempt import Refusal
from mooring.provisioner.calls import DriverCalls
from mooring.provisioner.planning import Plan
from mooring.provisioner.settings import NodeDeployment
from mooring.provisioner.topology_terms import Term, term

log: FilteringBoundLogger = structlog.get_logger(__name__)


@dataclass
class _Offer:
    """Lost races so far, and when the next try is due."""

    lost: int
    due: float


class Offers:
    def __init__(self, context: Context, driver: planning.Driver, calls: DriverCalls, places: Places) -> None:
        self._client = context.client
        self._clock = context.clock
        self._rng = context.rng
        self._driver = driver
        self._calls = calls
        self._places = places
        self._offers: dict[str, _Offer] = {}

    def forget(self, uid: str) -> None:
        self._offers.pop(uid, None)

    async def make(self, claim: Claim, storage_class: StorageClass) -> float | None:
        """Offer this node once its turn has come; the seconds until the next look, None where none is needed."""
        deployment = self._driver.settings.node_deployment
        assert deployment is not None, "only instances of one node offer it"
        offer = self._offers.get(claim.uid)
        if offer is None:
            offer = self._offers[claim.uid] = _Offer(0, self._clock.monotonic() + self._delay(deployment, 0))
        wait = offer.due - self._clock.monotonic()
        if wait > 0:
            return wait
        plan = planning.plan(claim.assumed_on(deployment.node), storage_class, self._driver, self._places, self._rng)
        if storage_class.allowed_topologies and isinstance(plan, Refusal):
            # SEEN: the class does not allow this node, or nothing can be made of the claim anywhere.
            self.forget(claim.uid)
            return None
        if isinstance(plan, Plan) and not await self._fits(plan, storage_class):
            self.forget(claim.uid)
            return None
        # SEEN: there is room, or something is wrong that the attempt will say in an event.
        if await self._take(claim, deployment.node):
            self.forget(claim.uid)
            return None
        offer.lost += 1
        offer.due = self._clock.monotonic() + self._delay(deployment, offer.lost)
        return offer.due - self._clock.monotonic()

    def _delay(self, deployment: NodeDeployment, lost: int) -> float:
        longest = min(deployment.base_delay * 2.0**lost, deployment.max_delay)
        return max(longest - self._rng.random() * deployment.base_delay, 0.0)

    async def _fits(self, plan: Plan, storage_class: StorageClass) -> bool:
        if not plan.request.required_bytes:
            return True
        where = plan.request.accessibility
        segments: list[Term | None] = [term(each.segments) for each in where.requisite] if where is not None else [None]
        for segment in segments:
            try:
                capacity = await self._calls.get_capacity(storage_class.parameters, segment)
            except DriverError as error:
                log.info("room not known, so it is tried", why=str(error))
                return True
            if plan.request.required_bytes <= capacity.available_bytes:
                return True
        return False

    async def _take(self, claim: Claim, node: str) -> bool:
        version = claim.metadata.resource_version
        marks = {"resourceVersion": version, "annotations": {keys.SELECTED_NODE: node}}
        try:
            await self._client.patch(CLAIM, claim.name, MergePatch({"metadata": marks}), namespace=claim.namespace)
        except NotFound:
            return True
        except (ApiError, Unreachable) as error:
            log.info("another node may have been faster", claim=claim.key, why=str(error))
            return False
        return True
