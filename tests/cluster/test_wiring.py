"""What a control plane shows of itself as a whole."""

import random
from collections.abc import Mapping
from typing import Any

from builders import pod_body
from client.tiny_api import TinyApi
from client.tiny_client import TinyClient
from mooring.api.kinds import EVENT, POD, Kind
from mooring.client.contract import V
from mooring.clock import Clock, SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.local_client import LocalClient
from mooring.cluster.wiring import ControlPlane, running
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.sim import loop
from mooring.sim.loop import VirtualClock
from mooring.store.memory import MemoryStore


def test_the_metrics_of_all_components_are_exposed_together() -> None:
    client = TinyClient(TinyApi())
    plane = ControlPlane(lambda _: client, Layout(), clock=SystemClock(), rng=random.Random(0))
    exposed = plane.metrics.expose().decode()
    assert 'scheduler_pending_pods{queue="active"} 0.0' in exposed
    assert 'workqueue_depth{name="pod_conditions"} 0.0' in exposed


class SlowToTell(LocalClient):
    """Somebody whose events take their time."""

    def __init__(self, api: ApiServer, clock: Clock) -> None:
        super().__init__(api, User("tester", ("system:masters",)))
        self._clock = clock

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        if kind is EVENT:
            await self._clock.sleep(1.0)
        return await super().create(kind, body, namespace=namespace)


def test_the_last_events_are_written_before_it_stops() -> None:
    async def main(clock: VirtualClock) -> None:
        api = ApiServer(MemoryStore(), clock, random.Random(0))
        client = SlowToTell(api, clock)
        async with running(ControlPlane(lambda _: client, Layout(nodes=0), clock=clock, rng=random.Random(0))):
            await client.create(POD, pod_body(name="last"), namespace="default")
            await clock.sleep(0.5)
        told = await client.list(EVENT, namespace="default")
        assert ("last", "FailedScheduling") in [(one.involved_object.name, one.reason) for one in told.items]

    loop.run(main)
