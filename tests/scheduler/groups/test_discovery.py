"""Discovery of PodGroups while the scheduler runs, and what becomes of their pods where they cannot be read."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from mooring.api.errors import ApiError, Forbidden, NotFound, ServiceUnavailable
from mooring.api.kinds import NODE, POD, POD_GROUP, POD_GROUP_ALPHA, Kind
from mooring.client.contract import ObjectList, V, WatchEvent
from mooring.scheduler.component import Scheduler
from mooring.scheduler.groups.scheduling import DISCOVERY_SECONDS
from mooring.scheduler.plugins.gates import GROUP
from support.builders import node_body, pod_body
from support.builders.groups import member_body, pod_group_body
from support.scheduler.cluster import FaultyClient, SmallWorld, in_world


class Serving(FaultyClient):
    """Answers requests for PodGroups with `answers`, by kind; None is served."""

    answers: dict[Kind[Any], Callable[[], ApiError] | None]

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> ObjectList[V]:
        self._check(kind)
        return await super().list(kind, namespace=namespace, labels=labels, fields=fields)

    async def watch(
        self, kind: Kind[V], *, after: str | None, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent[V]]:
        self._check(kind)
        async for event in super().watch(kind, after=after, namespace=namespace, labels=labels, fields=fields):
            yield event

    def _check(self, kind: Kind[V]) -> None:
        answer = self.answers.get(kind)
        if answer is not None:
            raise answer()


def not_found() -> ApiError:
    return NotFound("the server could not find the requested resource")


def forbidden() -> ApiError:
    return Forbidden("podgroups is forbidden")


def unavailable() -> ApiError:
    return ServiceUnavailable("starting")


@contextlib.asynccontextmanager
async def scheduling(world: SmallWorld, **answers: Callable[[], ApiError] | None) -> AsyncIterator[Serving]:
    client = Serving(world.api)
    client.answers = {POD_GROUP: answers.get("beta"), POD_GROUP_ALPHA: answers.get("alpha")}
    world.client = client
    world.informers._client = client
    context = type(world.context)(client, world.informers, world.recorder, world.clock, world.context.rng)
    for name in ("n1", "n2", "n3"):
        world.put(NODE, node_body(name=name))
    scheduler = Scheduler(context)
    task = asyncio.create_task(scheduler.run())
    try:
        await world.settle()
        assert scheduler.ready, "no start waits for PodGroups"
        yield client
        assert not task.done()
    finally:
        task.cancel()


def nodes(world: SmallWorld) -> int:
    return sum(bool(world.node_of(f"g-{number}")) for number in range(3))


def put_gang(world: SmallWorld, kind: Kind[Any] = POD_GROUP) -> None:
    world.put(kind, pod_group_body() | {"apiVersion": kind.api_version})
    for number in range(3):
        world.put(POD, member_body(name=f"g-{number}"))


@pytest.mark.parametrize("answer", [not_found, forbidden], ids=["not served", "forbidden"])
def test_pods_of_groups_are_rejected_with_a_reason_and_evict_no_pod_where_pod_groups_cannot_be_read(
    answer: Callable[[], ApiError],
) -> None:
    """G68, G70: other pods are scheduled as ever."""

    async def scenario(world: SmallWorld) -> None:
        async with scheduling(world, beta=answer, alpha=answer):
            for name in ("single-1", "single-2", "single-3"):
                world.put(POD, pod_body(name=name, requests={"cpu": "3"}))
            await world.settle()
            world.put(POD, member_body(name="g-0", priority=10, requests={"cpu": "3"}))
            await world.settle(30)
            for name in ("single-1", "single-2", "single-3"):
                assert world.node_of(name)
                assert "deletionTimestamp" not in world.body(POD, name)["metadata"]
            assert not world.node_of("g-0")
            rejected = f"0/3 nodes are available: {GROUP}."
            assert world.recorder.messages("FailedScheduling") == [rejected]
            (condition,) = world.body(POD, "g-0")["status"]["conditions"]
            assert (condition["type"], condition["reason"]) == ("PodScheduled", "Unschedulable")
            assert condition["message"].startswith(rejected)

    in_world(scenario)


def test_alpha_version_is_used_where_beta_is_not_served() -> None:
    async def scenario(world: SmallWorld) -> None:
        async with scheduling(world, beta=not_found):
            put_gang(world, POD_GROUP_ALPHA)
            await world.settle(5)
            assert nodes(world) == 3

    in_world(scenario)


@pytest.mark.parametrize("answer", [not_found, forbidden], ids=["served later", "allowed later"])
def test_pod_groups_are_used_within_minutes_once_they_can_be_read(answer: Callable[[], ApiError]) -> None:
    """G69: without a restart; the pods that were rejected are scheduled with their group."""

    async def scenario(world: SmallWorld) -> None:
        async with scheduling(world, beta=answer, alpha=answer) as client:
            put_gang(world)
            await world.settle(30)
            assert nodes(world) == 0
            client.answers = {}
            await world.settle(DISCOVERY_SECONDS)
            assert nodes(world) == 3

    in_world(scenario)


def test_members_wait_while_the_api_server_does_not_answer() -> None:
    async def scenario(world: SmallWorld) -> None:
        async with scheduling(world, beta=unavailable, alpha=unavailable) as client:
            put_gang(world)
            world.put(POD, pod_body(name="single"))
            await world.settle(30)
            assert world.node_of("single")
            assert nodes(world) == 0
            assert not world.recorder.messages("FailedScheduling")
            client.answers = {}
            await world.settle(5)
            assert nodes(world) == 3

    in_world(scenario)


def test_pods_are_rejected_again_once_the_kind_is_no_longer_served() -> None:
    async def scenario(world: SmallWorld) -> None:
        async with scheduling(world) as client:
            world.put(POD_GROUP, pod_group_body())
            world.put(POD, member_body(name="g-0"))
            await world.settle(30)
            assert not world.recorder.messages("FailedScheduling")
            client.answers = {POD_GROUP: not_found, POD_GROUP_ALPHA: not_found}
            await world.settle(DISCOVERY_SECONDS)
            assert world.recorder.messages("FailedScheduling") == [f"0/3 nodes are available: {GROUP}."]

    in_world(scenario)
