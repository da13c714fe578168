"""Which claims' volumes are held: those that can be had by halves, while somebody is there to decide about them.

A pod with one volume to bind gets it at once, without hold and without a record. So does every claim while no
coordinator is alive: a held volume that nobody commits would keep its pod waiting for ever.
"""

from typing import Final

from mooring.api import keys
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, LEASE, POD, STORAGE_CLASS
from mooring.api.timestamps import from_time
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.client.contract import Client
from mooring.client.indexes import POD_BY_CLAIM
from mooring.client.informer import Informers
from mooring.clock import Clock

#: How long an answer about the Lease counts; short against its duration.
LOOK_SECONDS: Final = 2.0
DELAYED: Final = "WaitForFirstConsumer"


class HoldPolicy:
    def __init__(self, client: Client, clock: Clock, informers: Informers, *, namespace: str) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._claims = informers.of(CLAIM)
        self._classes = informers.of(STORAGE_CLASS)
        self._pods = informers.of(POD)
        self._pods.add_index(*POD_BY_CLAIM)
        self._looked = float("-inf")
        self._alive = False

    async def wants(self, claim: Claim) -> bool:
        """Whether the claim's volume is to be held."""
        return self._partly(claim) and await self._coordinated()

    def _partly(self, claim: Claim) -> bool:
        """A pod waits for this claim and for another one of the kind."""
        if not self._unbound(claim):
            return False
        return any(
            other is not None and other.uid != claim.uid and self._unbound(other)
            for pod in self._pods.by_index(POD_BY_CLAIM.name, claim.key)
            if _waits(pod)
            for other in map(self._claims.get, pod.claim_keys)
        )

    def _unbound(self, claim: Claim) -> bool:
        storage_class = self._classes.get(claim.storage_class)
        is_delayed = storage_class is not None and storage_class.volume_binding_mode == DELAYED
        return is_delayed and not claim.spec.volume_name

    async def _coordinated(self) -> bool:
        now = self._clock.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._alive = await self._lease_is_held()
            self._looked = now
        return self._alive

    async def _lease_is_held(self) -> bool:
        try:
            lease = await self._client.get(LEASE, keys.COORDINATOR_LEASE, namespace=self._namespace)
        except NotFound:
            return False
        spec = lease.spec
        if not spec.holder_identity or not spec.renew_time:
            return False
        return from_time(spec.renew_time) + spec.lease_duration_seconds > self._clock.now()


def _waits(pod: Pod) -> bool:
    return not pod.spec.node_name and not pod.deleting
