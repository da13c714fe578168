import asyncio

import pytest

from mooring.api.errors import ServiceUnavailable
from mooring.api.kinds import POD
from mooring.scheduler.component import UNSCHEDULABLE, PodConditions
from support.builders import pod_body
from support.scheduler.cluster import SmallWorld, in_world

WRITE = "patch pods/pod-1/status"
OTHER = {"type": "Ready", "status": "False"}


def conditions(world: SmallWorld) -> list[dict[str, str]]:
    found = world.body(POD, "pod-1")["status"].get("conditions", [])
    assert isinstance(found, list)
    return found


def test_the_condition_is_written_once_and_again_only_when_it_says_something_new() -> None:
    async def scenario(world: SmallWorld) -> None:
        told = PodConditions(world.context)
        pod = world.put(POD, pod_body(conditions=[OTHER]))
        await world.settle()
        task = asyncio.create_task(told.run())
        for message in ("no room", "no room", "no volumes"):
            told.set(pod, UNSCHEDULABLE, message)
            await world.settle()
        assert world.client.writes == [WRITE, WRITE]
        by_type = {one["type"]: one for one in conditions(world)}
        assert by_type["Ready"] == OTHER, "what others wrote stays"
        assert by_type["PodScheduled"] == {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "no volumes",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        task.cancel()

    in_world(scenario)


def test_of_several_notes_about_a_pod_the_last_counts() -> None:
    async def scenario(world: SmallWorld) -> None:
        told = PodConditions(world.context)
        pod = world.put(POD, pod_body())
        await world.settle()
        for message in ("one", "two", "three"):
            told.set(pod, UNSCHEDULABLE, message)
        task = asyncio.create_task(told.run())
        await world.settle()
        assert [one["message"] for one in conditions(world)] == ["three"]
        assert world.client.writes == [WRITE]
        task.cancel()

    in_world(scenario)


@pytest.mark.parametrize("became", ["placed", "deleted", "made anew"])
def test_condition_of_bound_pod_is_not_written(became: str) -> None:
    async def scenario(world: SmallWorld) -> None:
        told = PodConditions(world.context)
        pod = world.put(POD, pod_body())
        await world.settle()
        if became == "placed":
            world.api.bind("default", "pod-1", {"metadata": {"uid": pod.uid}, "target": {"name": "n1"}})
        else:
            world.delete(POD, "pod-1")
        if became == "made anew":
            world.put(POD, pod_body())
        await world.settle()
        told.set(pod, UNSCHEDULABLE, "no room")
        task = asyncio.create_task(told.run())
        await world.settle()
        assert world.client.writes == []
        task.cancel()

    in_world(scenario)


def test_a_busy_server_is_asked_again_and_a_deleted_pod_is_not() -> None:
    async def scenario(world: SmallWorld) -> None:
        told = PodConditions(world.context)
        pod = world.put(POD, pod_body())
        await world.settle()
        task = asyncio.create_task(told.run())
        world.client.faults["patch pods"] = [ServiceUnavailable("busy")]
        told.set(pod, UNSCHEDULABLE, "no room")
        await world.settle()
        assert [one["message"] for one in conditions(world)] == ["no room"]

        told.set(pod, UNSCHEDULABLE, "still no room")
        world.delete(POD, "pod-1")
        await world.settle(100)
        assert len(world.client.writes) == 3
        task.cancel()

    in_world(scenario)
