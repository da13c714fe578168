"""Pods whose volumes take long say which node they are expected on."""

import asyncio

import pytest

from mooring.api.errors import ApiError, Conflict
from mooring.api.kinds import POD
from mooring.api.views.pods import Pod
from mooring.scheduler.binding import binder
from mooring.scheduler.binding.binder import NOMINATE_AFTER_SECONDS
from scheduler.binding.test_binder import Bound
from support.builders import pod_body
from support.scheduler.cluster import SmallWorld, in_world


def nominated(world: SmallWorld) -> str:
    return str(world.body(POD, "pod-1")["status"].get("nominatedNodeName", ""))


@pytest.mark.parametrize(
    ("trouble", "seen"),
    [
        pytest.param("", "n1", id="no trouble"),
        pytest.param("before", "", id="the server is away"),
        pytest.param("after", "n1", id="the answer gets lost"),
        pytest.param(Conflict("the UID in the precondition"), "", id="another pod has the name"),
    ],
)
def test_slow_binding_writes_nominated_node(trouble: str | ApiError, seen: str) -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        task = await one.start()
        world.client.faults["patch pods"] = [trouble]
        await world.clock.sleep(NOMINATE_AFTER_SECONDS - 1)
        assert nominated(world) == ""
        await world.clock.sleep(1)
        assert nominated(world) == seen
        await world.clock.sleep(NOMINATE_AFTER_SECONDS * 2)
        assert world.client.writes.count("patch pods/pod-1/status") == 1

        world.finish_binding("claim-1", "volume-1")
        assert await task == ""
        assert world.node_of("pod-1") == "n1"

    in_world(scenario)


def test_nominated_nodes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binder, "MAX_NOMINATED_PODS", 1)

    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        first = await one.start()
        other: Pod = world.put(POD, pod_body(name="pod-2", claims=["claim-1"]))
        second = asyncio.create_task(one.binder.bind(other, one.static))
        await world.clock.sleep(NOMINATE_AFTER_SECONDS + 1)
        assert world.client.writes.count("patch pods/pod-1/status") == 1
        assert world.client.writes.count("patch pods/pod-2/status") == 0
        world.finish_binding("claim-1", "volume-1")
        assert await first == ""
        await second

    in_world(scenario)
