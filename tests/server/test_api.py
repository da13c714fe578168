"""The whole server in the simulated world: no sockets, no threads, and time that costs nothing."""

import random

import pytest

from mooring.api.errors import ServerTimeout
from mooring.api.kinds import NAMESPACE, POD
from mooring.server.api import ApiServer
from mooring.server.contract import ListOptions, Target, WatchOptions, WriteOptions
from mooring.store.watch_cache import MemoryStore
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock
from support.builders import pod_body
from support.server.harness import TEST_USER, decoded


async def life(clock: VirtualClock) -> tuple[list[str], float]:
    api = ApiServer(MemoryStore(), clock, random.Random(7))
    await api.create(TEST_USER, Target(NAMESPACE), {"metadata": {"name": "default"}}, WriteOptions())
    pods = Target(POD, "default")
    stream = await api.watch(TEST_USER, pods, WatchOptions())
    await clock.sleep(3600)
    await api.create(TEST_USER, pods, pod_body(name="a"), WriteOptions())
    seen: list[str] = []
    async for batch in stream:
        seen += [decoded(event.body)["metadata"]["creationTimestamp"] for event in batch]
        if seen:
            break
    await stream.aclose()
    with pytest.raises(ServerTimeout):
        await api.list(TEST_USER, pods, ListOptions(resource_version="99"))
    return seen, clock.monotonic()


def test_an_hour_and_a_time_out_take_no_time() -> None:
    seen, seconds = virtual_time.run_in_virtual_time(life)
    assert seen == ["2026-01-01T01:00:00Z"]
    assert seconds == pytest.approx(3603.0, abs=0.1)
