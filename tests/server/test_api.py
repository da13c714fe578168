"""The whole server in the simulated world: no sockets, no threads, and time that costs nothing."""

import random

import pytest

from builders import pod_body
from mooring.api.errors import ServerTimeout
from mooring.api.kinds import NAMESPACE, POD
from mooring.server.api import ApiServer
from mooring.server.contract import ListOptions, Target, WatchOptions, WriteOptions
from mooring.sim import loop
from mooring.sim.loop import VirtualClock
from mooring.store.memory import MemoryStore
from server.harness import SOMEBODY, decoded


async def life(clock: VirtualClock) -> tuple[list[str], float]:
    api = ApiServer(MemoryStore(), clock, random.Random(7))
    await api.create(SOMEBODY, Target(NAMESPACE), {"metadata": {"name": "default"}}, WriteOptions())
    pods = Target(POD, "default")
    stream = await api.watch(SOMEBODY, pods, WatchOptions())
    await clock.sleep(3600)
    await api.create(SOMEBODY, pods, pod_body(name="a"), WriteOptions())
    seen: list[str] = []
    async for batch in stream:
        seen += [decoded(event.body)["metadata"]["creationTimestamp"] for event in batch]
        if seen:
            break
    await stream.aclose()
    with pytest.raises(ServerTimeout):
        await api.list(SOMEBODY, pods, ListOptions(resource_version="99"))
    return seen, clock.monotonic()


def test_an_hour_and_a_time_out_take_no_time() -> None:
    seen, seconds = loop.run(life)
    assert seen == ["2026-01-01T01:00:00Z"]
    assert seconds == pytest.approx(3603.0, abs=0.1)
