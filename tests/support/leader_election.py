"""Several instances that compete for a lease, in virtual time, over a network with faults drawn from a seed.

The API server is the real one on a memory store. An instance can be frozen: nothing of it runs, its sleeps and the
responses it waits for arrive when it resumes, while time passes. `LeaderLog` records which instance leads when.
"""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, cast

from mooring.api.errors import ServiceUnavailable
from mooring.api.kinds import LEASE, NAMESPACE, Kind
from mooring.api.patches.contract import Patch
from mooring.api.views.core import Lease
from mooring.client.contract import Client, Unreachable
from mooring.cluster.local_client import LocalClient
from mooring.control.election import Timings
from mooring.control.leader_election import lead, new_identity
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.store.watch_cache import MemoryStore
from mooring.whatif.virtual_time import VirtualClock

T = TypeVar("T")

NAME, WHERE = "mooring-test", "kube-system"


class Span(NamedTuple):
    begins: float
    ends: float


def end_of(spans: Sequence[Span], now: float) -> float | None:
    """The end of the span that contains the time."""
    return next((span.ends for span in spans if span.begins <= now < span.ends), None)


@dataclass
class InstanceFaults:
    """The faults of one instance."""

    frozen: list[Span] = field(default_factory=list)
    #: No request reaches the server.
    cut_off: list[Span] = field(default_factory=list)
    #: Requests reach the server, and responses are lost.
    unheard: list[Span] = field(default_factory=list)
    #: Probability that a request fails, in one of several ways, while the network is up.
    flaky: float = 0.0
    #: Maximum latency of requests and of responses, and the additional latency of slow responses.
    longest_way: float = 0.0
    slow_answers: float = 0.0


class Act(NamedTuple):
    instance: str
    began: float
    ended: float


class LeaderLog:
    """Records which instance leads when, and every overlap."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.acting: dict[str, float] = {}
        self.acts: list[Act] = []
        self.overlaps: list[tuple[float, str, str]] = []

    def enter(self, name: str) -> None:
        self.overlaps += [(self._clock.monotonic(), other, name) for other in self.acting]
        self.acting[name] = self._clock.monotonic()

    def leave(self, name: str) -> None:
        self.acts.append(Act(name, self.acting.pop(name), self._clock.monotonic()))


class FreezableClock:
    def __init__(self, clock: VirtualClock, frozen: Sequence[Span]) -> None:
        self._clock = clock
        self._frozen = frozen

    def now(self) -> float:
        return self._clock.now()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        await self.thaw()

    async def thaw(self) -> None:
        while (ends := end_of(self._frozen, self._clock.monotonic())) is not None:
            await self._clock.sleep(ends - self._clock.monotonic())


class FaultyClient:
    """The part of a `Client` that leader election uses, with faults. A cancelled request may still take effect."""

    def __init__(
        self, server: Client, clock: FreezableClock, air: VirtualClock, rng: random.Random, trouble: InstanceFaults
    ) -> None:
        self._server = server
        self._clock = clock
        self._air = air
        self._rng = rng
        self._trouble = trouble
        self._under_way: set[asyncio.Future[Any]] = set()
        self._read: list[Lease] = []
        self.disconnected = False
        #: When the last acknowledged write was sent.
        self.acknowledged = -math.inf

    async def get(self, kind: Kind[Lease], name: str, *, namespace: str = "") -> Lease:
        lease = await self._carry(lambda: self._server.get(kind, name, namespace=namespace))
        self._read.append(lease)
        return self._rng.choice(self._read[-3:]) if self._goes_wrong() else lease  # a server that lags behind

    async def create(self, kind: Kind[Lease], body: dict[str, Any], *, namespace: str = "") -> Lease:
        return await self._write(lambda: self._server.create(kind, body, namespace=namespace))

    async def patch(self, kind: Kind[Lease], name: str, patch: Patch, *, namespace: str = "") -> Lease:
        return await self._write(lambda: self._server.patch(kind, name, patch, namespace=namespace))

    async def clear(self) -> None:
        """Drop requests in flight."""
        for each in self._under_way:
            each.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _goes_wrong(self) -> bool:
        return self._rng.random() < self._trouble.flaky

    async def _write(self, request: Callable[[], Awaitable[T]]) -> T:
        sent = self._air.monotonic()
        answer = await self._carry(request)
        self.acknowledged = sent
        return answer

    async def _carry(self, request: Callable[[], Awaitable[T]]) -> T:
        carried = asyncio.ensure_future(self._there_and_back(request))
        self._under_way.add(carried)
        carried.add_done_callback(self._under_way.discard)
        carried.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            return await asyncio.shield(carried)
        finally:
            await self._clock.thaw()

    async def _there_and_back(self, request: Callable[[], Awaitable[T]]) -> T:
        fate = self._rng.choice(("refused", "vanishes", "answer lost", "late")) if self._goes_wrong() else "fine"
        await self._air.sleep(15 * self._rng.random() if fate == "late" else self._way())
        if fate == "vanishes" or self._down(self._trouble.cut_off):
            raise Unreachable("connection reset by peer")
        if fate == "refused":
            raise ServiceUnavailable("the server is currently unable to handle the request")
        try:
            answer = await request()
        finally:
            await self._air.sleep(self._way() + self._trouble.slow_answers)
        if fate == "answer lost" or self._down(self._trouble.cut_off) or self._down(self._trouble.unheard):
            raise Unreachable("connection reset by peer")
        return answer

    def _way(self) -> float:
        return self._trouble.longest_way * self._rng.random()

    def _down(self, spans: Sequence[Span]) -> bool:
        return self.disconnected or end_of(spans, self._air.monotonic()) is not None


class Instance:
    """One process of the component, and the ones that follow it after a restart."""

    def __init__(
        self, name: str, leader_log: LeaderLog, server: Client, air: VirtualClock, seed: int, trouble: InstanceFaults
    ) -> None:
        self.name = name
        self.reports: list[bool] = []
        self.winds_down = 0.0
        self._hall = leader_log
        self._server = server
        self._air = air
        self._rng = random.Random(f"{seed} {name}")
        self.trouble = trouble
        self._clock = FreezableClock(air, trouble.frozen)
        self.wire = self._new_wire()
        self._task: asyncio.Task[None] | None = None

    def start(self, timings: Timings | None = None) -> None:
        self.wire = self._new_wire()
        election = lead(
            cast("Client", self.wire),
            self._clock,
            self._rng,
            name=NAME,
            namespace=WHERE,
            identity=new_identity(self.name, self._rng),
            act=self.act,
            timings=timings or Timings(),
            report=self.reports.append,
        )
        self._task = asyncio.create_task(election, name=self.name)

    async def stop(self) -> None:
        """Stop gracefully."""
        assert self._task is not None
        assert not self._task.done()
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self.wire.clear()

    async def crash(self) -> None:
        self.wire.disconnected = True
        await self.stop()

    async def act(self) -> None:
        self._hall.enter(self.name)
        try:
            while True:
                await self._clock.sleep(0.7)
        finally:
            try:
                if self.winds_down:
                    await self._clock.sleep(self.winds_down)
            finally:
                self._hall.leave(self.name)

    def _new_wire(self) -> FaultyClient:
        return FaultyClient(self._server, self._clock, self._air, self._rng, self.trouble)


class Candidates:
    """Candidates of one lease and their API server."""

    def __init__(self, clock: VirtualClock, server: Client) -> None:
        self.clock = clock
        self.server = server
        self.leader_log = LeaderLog(clock)
        self.instances: dict[str, Instance] = {}

    @classmethod
    async def create(cls, clock: VirtualClock) -> "Candidates":
        server = LocalClient(ApiServer(MemoryStore(), clock, random.Random(0)), User("test", ("system:masters",)))
        await server.create(NAMESPACE, {"metadata": {"name": WHERE}})
        return cls(clock, server)

    def instance(self, name: str, *, seed: int = 0, trouble: InstanceFaults | None = None) -> Instance:
        self.instances[name] = Instance(
            name, self.leader_log, self.server, self.clock, seed, trouble or InstanceFaults()
        )
        return self.instances[name]

    async def lease(self) -> Lease:
        return await self.server.get(LEASE, NAME, namespace=WHERE)

    async def until(self, holds: Callable[[], bool], *, within: float) -> float:
        """Wait for the condition; returns the duration."""
        began = self.clock.monotonic()
        while not holds():
            assert self.clock.monotonic() < began + within, f"not within {within} s"
            await self.clock.sleep(0.01)
        return self.clock.monotonic() - began
