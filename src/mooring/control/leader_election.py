"""Leader election on a Lease, and monitoring of another component's Lease. The rules are in `election`.

Behaves as client-go's election with `ReleaseOnCancel`, but stricter: the renew deadline counts from the last successful
renewal, not from the first failed one, and the holder stops as soon as it observes another holder. A Lease that is
deleted or edited by hand gives no protection until the holder has observed it.
"""

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import ApiError, Conflict, Forbidden, NotFound
from mooring.api.kinds import LEASE
from mooring.api.patches.contract import MergePatch
from mooring.api.times import from_time, to_micro_time
from mooring.api.views.core import Lease
from mooring.client.contract import Client, Unreachable
from mooring.clock import Clock
from mooring.control.election import LeaseRecord, LeaseWrite, Timings

log: FilteringBoundLogger = structlog.get_logger(__name__)

DEFAULT_TIMINGS: Final = Timings()


def new_identity(host: str, rng: random.Random) -> str:
    """`host_uuid` as upstream's components: unique to this process instance, not reused after a restart."""
    return f"{host}_{uuid.UUID(int=rng.getrandbits(128), version=4)}"


async def lead(
    client: Client,
    clock: Clock,
    rng: random.Random,
    *,
    name: str,
    namespace: str,
    identity: str,
    act: Callable[[], Awaitable[None]],
    timings: Timings = DEFAULT_TIMINGS,
    report: Callable[[bool], None] = lambda leads: None,
) -> None:
    """Acquire the Lease, run `act` while holding it, acquire again when it is lost, until cancelled.

    `act` is cancelled at the renew deadline and must then end within `lease_duration - renew_deadline`. Returns or
    raises when `act` does. The Lease is released on every exit, after `act` has ended. `report` is called with True
    before `act` starts and with False after it has ended.
    """
    elector = _Elector(client, clock, rng, name, namespace, identity, timings)
    try:
        while True:
            await elector.acquire()
            report(True)
            try:
                ended = await elector.lead(act)
            finally:
                report(False)
            if ended:
                return
    finally:
        await elector.release()


@dataclass
class _Elector:
    client: Client
    clock: Clock
    rng: random.Random
    name: str
    namespace: str
    identity: str
    timings: Timings

    def __post_init__(self) -> None:
        self._record = LeaseRecord(self.identity, self.timings)
        self._log = log.bind(lease=f"{self.namespace}/{self.name}", identity=self.identity)

    @property
    def _leads(self) -> bool:
        return self._record.leads(self.clock.monotonic())

    async def acquire(self) -> None:
        self._log.info("attempting to acquire leader lease")
        await self._try()
        while not self._leads:
            await self.clock.sleep(self._record.retry_delay(now=self.clock.monotonic(), chance=self.rng.random()))
            await self._try()
        self._log.info("acquired lease")

    async def lead(self, act: Callable[[], Awaitable[None]]) -> bool:
        """Run `act` while holding the Lease. Whether `act` returned by itself."""

        async def acting() -> None:
            await act()

        async with asyncio.TaskGroup() as group:
            # The deadline is a task of its own: a hung renewal request must not keep `act` running.
            term = group.create_task(self._term(), name="leader term")
            renewing = group.create_task(self._renew(), name="leader renewal")
            work = group.create_task(acting(), name="leader")
            finished, _ = await asyncio.wait((term, renewing, work), return_when=asyncio.FIRST_COMPLETED)
            for task in (work, renewing, term):
                task.cancel()
        if work in finished:
            return True
        self._log.warning("stopped leading", holder=self._record.holder)
        if self.clock.monotonic() >= self._record.exclusive_until:
            self._log.error("acted beyond lease duration; another instance may have acted concurrently")
        return False

    async def release(self) -> None:
        """Release the Lease if it is or may be held. Best effort: it expires by itself."""
        if self._record.may_hold_lease:
            await self._attempt(self._write_release, "lease not released")

    async def _term(self) -> None:
        while (left := self._record.renew_deadline_at - self.clock.monotonic()) > 0:
            await self.clock.sleep(left)

    async def _renew(self) -> None:
        # Scheduled from start to start: slow responses must not delay the next attempt.
        due = self._record.renews_from
        while self._leads:
            await self.clock.sleep(due - self.clock.monotonic())
            due = self.clock.monotonic() + self.timings.retry_period
            await self._try()

    async def _try(self) -> None:
        holder = self._record.holder
        await self._attempt(self._acquire_or_renew, "lease not acquired or renewed")
        if self._record.holder not in ("", holder, self._record.identity):
            self._log.info("new leader elected", holder=self._record.holder)

    async def _attempt(self, write: Callable[[], Awaitable[None]], failure: str) -> None:
        """Write by the known state while holding the Lease; otherwise, and after a conflict, read it first."""
        try:
            if self._record.can_renew_without_read:
                try:
                    return await write()
                except (Conflict, NotFound) as error:
                    self._log.info("lease changed", error=str(error))
            await self._read()
            await write()
        except (ApiError, Unreachable) as error:
            self._log.warning(failure, error=str(error))
        except TimeoutError:
            self._log.warning(failure, error=f"no response within {self.timings.request_timeout:g} s")

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(self.timings.request_timeout):
                lease = await self.client.get(LEASE, self.name, namespace=self.namespace)
        except NotFound:
            lease = None
        self._record.observe(lease, now=self.clock.monotonic())

    async def _acquire_or_renew(self) -> None:
        now = self.clock.monotonic()
        write = self._record.next_write(now=now, date=self._date())
        if write is not None:
            self._record.write_acknowledged(await self._send(write), sent=now)

    async def _write_release(self) -> None:
        write = self._record.release_write(date=self._date())
        if write is not None:
            self._record.observe(await self._send(write), now=self.clock.monotonic())
            self._log.info("released lease")

    async def _send(self, write: LeaseWrite) -> Lease:
        self._record.write_started()
        async with asyncio.timeout(self.timings.request_timeout):
            if write.version is None:
                body = {"metadata": {"name": self.name}, "spec": write.spec}
                return await self.client.create(LEASE, body, namespace=self.namespace)
            patch = MergePatch({"metadata": {"resourceVersion": write.version}, "spec": write.spec})
            return await self.client.patch(LEASE, self.name, patch, namespace=self.namespace)

    def _date(self) -> str:
        return to_micro_time(self.clock.now())


#: How long a result is reused; short compared to any lease duration.
POLL_INTERVAL_SECONDS: Final = 2.0


class LeaseMonitor:
    """Whether another component is active: reads the Lease that it renews, without acquiring it.

    A Lease is valid for its duration after it was *observed* to change, by this process's clock. Only at the first read
    the timestamp decides; if the clocks differ much, an active holder counts as inactive until its next renewal.
    """

    def __init__(self, client: Client, clock: Clock, *, name: str, namespace: str) -> None:
        self._client = client
        self._clock = clock
        self._name = name
        self._namespace = namespace
        self._polled_at = float("-inf")
        #: The Lease as last read; None before the first read or when not found.
        self._seen: Lease | None = None
        #: Monotonic time.
        self._lasts_until = float("-inf")
        #: Whether there was a read, successful or not.
        self._has_read = False

    async def is_held(self) -> bool:
        """Whether the Lease has a holder and has not expired. One that is not readable any more expires, too; one that
        never was is not held, from the second read on: the first 403 is raised. Raises ApiError and Unreachable."""
        now = self._clock.monotonic()
        if now - self._polled_at >= POLL_INTERVAL_SECONDS:
            await self._read()
            self._polled_at = now
        return self._clock.monotonic() < self._lasts_until

    async def announces(self, annotation: str) -> bool:
        """Whether the Lease is held, and its holder has announced itself under the annotation: with its identity, so
        that an announcement does not outlive its author."""
        if not await self.is_held() or self._seen is None:
            return False
        return self._seen.metadata.annotations.get(annotation) == self._seen.spec.holder_identity

    async def _read(self) -> None:
        is_first, self._has_read = not self._has_read, True
        try:
            lease = await self._client.get(LEASE, self._name, namespace=self._namespace)
        except NotFound:
            self._seen, self._lasts_until = None, float("-inf")
            return
        except Forbidden as refusal:
            log.info("lease not readable", lease=f"{self._namespace}/{self._name}", error=refusal.message)
            if is_first:
                raise
            return
        known, self._seen = self._seen, lease
        spec, now = lease.spec, self._clock.monotonic()
        if not spec.holder_identity or not spec.renew_time:
            self._lasts_until = float("-inf")
        elif known is None:
            left = from_time(spec.renew_time) + spec.lease_duration_seconds - self._clock.now()
            # A timestamp in the future does not extend the duration.
            self._lasts_until = now + min(left, spec.lease_duration_seconds)
        elif known.spec != spec:
            self._lasts_until = now + spec.lease_duration_seconds
