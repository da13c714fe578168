"""Which claims' volumes are held: those that can be had by halves, while somebody is there to decide about them.

A pod with one volume to bind gets it at once, without hold and without a record. So does every claim while no
coordinator is alive: a held volume that nobody commits would keep its pod waiting for ever.
"""

from mooring.api import keys
from mooring.api.kinds import CLAIM, POD, STORAGE_CLASS
from mooring.api.views.claim import Claim
from mooring.client.contract import Client
from mooring.client.indexes import POD_BY_CLAIM
from mooring.client.informer import Informers
from mooring.clock import Clock
from mooring.control.lease_watch import LeaseWatch


class HoldPolicy:
    def __init__(self, client: Client, clock: Clock, informers: Informers, *, namespace: str, enabled: bool) -> None:
        """Where it is not enabled, nothing is held any more; what was held before is driven to its end."""
        self._enabled = enabled
        self._coordinator = LeaseWatch(client, clock, name=keys.COORDINATOR_LEASE, namespace=namespace)
        self._claims = informers.of(CLAIM)
        self._classes = informers.of(STORAGE_CLASS)
        self._pods = informers.of(POD) if enabled else None
        if self._pods is not None:
            self._pods.add_index(*POD_BY_CLAIM)

    async def wants(self, claim: Claim) -> bool:
        """Whether the claim's volume is to be held."""
        return self._partly(claim) and await self.coordinated()

    async def coordinated(self) -> bool:
        """Whether somebody is there who decides about held volumes."""
        return self._enabled and await self._coordinator.live()

    def _partly(self, claim: Claim) -> bool:
        """A pod waits for this claim and for another one of the kind. What is not known yet is taken for it: a node is
        selected for a pod and its claims only once somebody has seen them."""
        if self._pods is None or not self._unbound(claim):
            return False
        waiting = [pod for pod in self._pods.by_index(POD_BY_CLAIM.name, claim.key) if pod.waits]
        others = {key for pod in waiting for key in pod.claim_keys} - {claim.key}
        return not waiting or any(other is None or self._unbound(other) for other in map(self._claims.get, others))

    def _unbound(self, claim: Claim) -> bool:
        storage_class = self._classes.get(claim.storage_class)
        is_delayed = storage_class is not None and storage_class.delayed
        return is_delayed and not claim.spec.volume_name
