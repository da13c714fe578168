"""A control plane with only the components a test names: real API server, store in memory, virtual time.

A scenario uses the API with a client that never fails. The components may get a flaky client, whose requests and
responses get lost.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, Unpack

from mooring.api.kinds import EVENT, NAMESPACE, Kind
from mooring.api.patches.contract import Patch
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client, Deletion, Unreachable
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.cluster.local_client import LocalClient
from mooring.control.component import Component, Context, run_together
from mooring.control.feature_gates import CLAIM_ROLLBACK, DEFAULTS, FeatureGates, FeatureRollout
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.store.watch_cache import MemoryStore
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock

P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V", bound=ApiObject)

Build = Callable[[Context], Component]
Connect = Callable[[ApiServer, User], Client]
#: Longer than every interval or backoff of a component.
LONG = 60.0


class FlakyClient(LocalClient):
    """Loses requests and responses: a write may or may not have taken effect."""

    def __init__(self, api: ApiServer, user: User, rng: random.Random, share: float) -> None:
        super().__init__(api, user)
        self._rng = rng
        self._share = share

    async def _maybe(self, call: Callable[P, Awaitable[T]], *given: P.args, **options: P.kwargs) -> T:
        lot = self._rng.random()
        if lot < self._share / 2:
            raise Unreachable("request lost")
        answer = await call(*given, **options)
        if lot < self._share:
            raise Unreachable("response lost")
        return answer

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        return await self._maybe(super().get, kind, name, namespace=namespace)

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        return await self._maybe(super().create, kind, body, namespace=namespace)

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        return await self._maybe(super().patch, kind, name, patch, namespace=namespace, subresource=subresource)

    async def delete(self, kind: Kind[V], name: str, *, namespace: str = "", **options: Unpack[Deletion]) -> None:
        await self._maybe(super().delete, kind, name, namespace=namespace, **options)


class Plane:
    """The API and the clock, as a scenario uses them."""

    def __init__(self, client: Client, clock: VirtualClock) -> None:
        self.client = client
        self.clock = clock

    async def create(self, kind: Kind[V], body: Mapping[str, Any]) -> V:
        return await self.client.create(kind, body, namespace=body["metadata"].get("namespace", ""))

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        return await self.client.get(kind, name, namespace=namespace or ("default" if kind.namespaced else ""))

    async def names(self, kind: Kind[V]) -> list[str]:
        return [item.name for item in (await self.client.list(kind)).items]

    async def pass_time(self, seconds: float = LONG) -> None:
        await self.clock.sleep(seconds)

    async def until(self, holds: Callable[[], Awaitable[bool]], *, within: float = LONG) -> float:
        """Wait until a condition holds; returns the simulated seconds, and fails after `within`."""
        begun = self.clock.monotonic()
        while not await holds():
            assert self.clock.monotonic() - begun < within, "the condition did not become true in time"
            await self.clock.sleep(0.05)
        return self.clock.monotonic() - begun

    async def events_about(self, name: str) -> list[str]:
        """`reason: message` of every event about an object, by first timestamp, reason and message."""
        listing = await self.client.list(EVENT)
        about = [event for event in listing.items if event.involved_object.name == name]
        sent = sorted((event.first_timestamp or "", event.reason, event.message) for event in about)
        return [f"{reason}: {message}" for _, reason, message in sent]


def flaky(share: float, *, seed: int = 0) -> Connect:
    """A client that loses this share of requests and responses."""
    return lambda server, user: FlakyClient(server, user, random.Random(seed), share)


def run_plane(
    builds: Sequence[Build],
    scenario: Callable[[Plane], Awaitable[T]],
    *,
    client: Connect = LocalClient,
    gates: FeatureGates = DEFAULTS,
    rollout: FeatureRollout | None = None,
) -> T:
    """Run the components with the given client, and the scenario with one that never fails."""

    async def main(clock: VirtualClock) -> T:
        rng = random.Random(0)
        server = ApiServer(MemoryStore(), clock, rng, claim_rollback=gates.enabled(CLAIM_ROLLBACK))
        user = User("tester", ("system:masters",))
        reliable = LocalClient(server, user)
        await reliable.create(NAMESPACE, {"metadata": {"name": "default"}})
        own = client(server, user)
        informers = Informers(own, clock, rng)
        recorder = EventRecorder(reliable, clock, "tester", rng)
        context = Context(own, informers, recorder, clock, rng, gates, rollout=rollout)
        components = [build(context) for build in builds]
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(informers.run()),
                group.create_task(recorder.run()),
                group.create_task(run_together(components)),
            ]
            plane = Plane(reliable, clock)
            await plane.until(lambda: _all_ready(components))
            result = await scenario(plane)
            for task in tasks:
                task.cancel()
        return result

    return virtual_time.run_in_virtual_time(main)


async def _all_ready(components: Sequence[Component]) -> bool:
    return all(component.ready for component in components)
