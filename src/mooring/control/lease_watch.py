"""Whether somebody is there: a look at the Lease that a component renews while it lives.

Asked of the server, and remembered for a moment. Not an election: whoever asks does not want the Lease.

A Lease counts for as long as it says after it was *seen* to change, by our own clock: dates in it are the holder's,
whose clock need not agree with ours. Only at the first look, when there is nothing to compare, the date decides; where
the clocks differ by much, a living holder is taken for gone until it renews again, two seconds later.
"""

from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import Forbidden, NotFound
from mooring.api.kinds import LEASE
from mooring.api.timestamps import from_time
from mooring.api.views.lease import Lease
from mooring.client.contract import Client
from mooring.clock import Clock

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: How long an answer counts; short against the duration of any lease.
LOOK_SECONDS: Final = 2.0


class LeaseWatch:
    def __init__(self, client: Client, clock: Clock, *, name: str, namespace: str) -> None:
        self._client = client
        self._clock = clock
        self._name = name
        self._namespace = namespace
        self._looked = float("-inf")
        self._live = False
        #: The Lease as last seen; None before the first look, or when there was none.
        self._seen: Lease | None = None
        #: Until when it counts, by our own clock.
        self._lasts_until = float("-inf")

    async def live(self) -> bool:
        """Whether the Lease has a holder and has not run out; not, where we may not look. Raises ApiError and
        Unreachable."""
        now = self._clock.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._live = await self._look()
            self._looked = now
        return self._live

    async def _look(self) -> bool:
        try:
            lease = await self._client.get(LEASE, self._name, namespace=self._namespace)
        except NotFound:
            self._seen = None
            return False
        except Forbidden as refusal:
            log.info("who holds the lease may not be seen", lease=self._name, why=refusal.message)
            return False
        known, self._seen = self._seen, lease
        spec = lease.spec
        if not spec.holder_identity or not spec.renew_time:
            return False
        now = self._clock.monotonic()
        if known is None:
            left = from_time(spec.renew_time) + spec.lease_duration_seconds - self._clock.now()
            # A date from the future is no reason to wait for longer than the lease lasts.
            self._lasts_until = now + min(left, spec.lease_duration_seconds)
        elif known.spec != spec:
            self._lasts_until = now + spec.lease_duration_seconds
        return now < self._lasts_until
