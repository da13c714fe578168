"""Pods that their node turned down: counted and told, once, if this scheduler chose the node."""

from typing import Final

import pytest

from builders import node_body, pod_body
from mooring.api.kinds import NODE, POD
from mooring.scheduler.rejection_watch import REJECTED
from scheduler.test_metrics import Scraped, scraped
from scheduler.worlds import SmallWorld

TOTAL: Final = "mooring_scheduler_kubelet_rejections_total"
OUT_OF_CPU: Final = {"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough cpu"}}


def counted(seen: Scraped, reason: str = "OutOfcpu") -> float:
    return seen.counted(TOTAL, reason=reason)


def test_a_pod_that_its_node_turns_down_is_counted_and_told_why() -> None:
    async def scenario(world: SmallWorld, seen: Scraped) -> None:
        world.put(NODE, node_body(name="n1"))
        world.put(POD, pod_body(name="theirs", node="n1", scheduler="another"))
        world.put(POD, pod_body(name="ours", scheduler="second"))
        await world.settle()
        world.change(POD, "ours", OUT_OF_CPU, subresource="status")
        await world.settle()
        # It stays failed, and is one rejection however often it is seen.
        world.change(POD, "ours", {"metadata": {"labels": {"seen": "again"}}})
        await world.settle()
        assert counted(seen) == 1
        [told] = world.recorder.messages(REJECTED)
        assert told == (
            "node n1 turned the pod down (OutOfcpu): there was not enough cpu left when it arrived; "
            "pods of other schedulers are on the node (1 of another), which may have been given the same room; "
            "the pod stays failed: its owner makes another, which is placed anew"
        )

    scraped(scenario)


@pytest.mark.parametrize("end", ["runs first", "was put there by hand", "is another scheduler's", "goes"])
def test_other_pods_are_none_of_its_business(end: str) -> None:
    async def scenario(world: SmallWorld, seen: Scraped) -> None:
        world.put(NODE, node_body(name="n1"))
        by_hand = end != "runs first" and end != "goes"
        scheduler = "another" if end == "is another scheduler's" else "default-scheduler"
        world.put(POD, pod_body(name="p", node="n1" if by_hand else "", scheduler=scheduler))
        await world.settle()
        if end == "runs first":
            world.change(POD, "p", {"status": {"phase": "Running"}}, subresource="status")
            await world.settle()
        if end == "goes":
            world.delete(POD, "p")
        else:
            world.change(POD, "p", OUT_OF_CPU, subresource="status")
        await world.settle()
        assert counted(seen) == 0
        assert world.recorder.messages(REJECTED) == []

    scraped(scenario)


def test_room_that_a_rejected_pod_took_is_free_again() -> None:
    """The next pod is judged by what is really there: the other scheduler's pod, and not the one turned down."""

    async def scenario(world: SmallWorld, seen: Scraped) -> None:
        world.put(NODE, node_body(name="n1", allocatable={"cpu": "4"}))
        world.put(POD, pod_body(name="first", requests={"cpu": "3"}))
        await world.settle()
        world.put(POD, pod_body(name="theirs", node="n1", scheduler="another", requests={"cpu": "2"}))
        world.change(POD, "first", OUT_OF_CPU, subresource="status")
        await world.settle()
        world.put(POD, pod_body(name="large", requests={"cpu": "3"}))
        world.put(POD, pod_body(name="small", requests={"cpu": "2"}))
        await world.settle()
        assert (world.node_of("large"), world.node_of("small")) == ("", "n1")

    scraped(scenario)
