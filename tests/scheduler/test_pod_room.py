"""`mooring.scheduler.room`: what a pod lacks on a node while others leave and come back."""

import numpy as np

from mooring.api.pod_requests import PODS, Requests
from mooring.scheduler.room import NO_NEEDS, Need, NodeRoom, Room


def asking(cpu: int, memory: int = 0) -> Requests:
    return Requests({"cpu": cpu, "memory": memory}, cpu, memory)


def a_room(*, pods: float = 0, cpu: float = 0) -> NodeRoom:
    """So much is missing on the second of two nodes."""
    needs = (Need(PODS, "Too many pods", np.array([-9.0, pods])), Need("cpu", "no cpu", np.array([-9.0, cpu])))
    return Room(needs).on(1)


def test_whoever_leaves_makes_room() -> None:
    room = a_room(pods=1, cpu=3)
    assert room.against() == ("Too many pods", "no cpu")
    room.leave([asking(2)])
    assert room.against() == ("no cpu",)
    room.leave([asking(2)])
    assert room.against() == ()


def test_one_after_the_other_comes_back_while_there_is_room() -> None:
    room = a_room(cpu=1)
    room.leave([asking(1), asking(3), asking(2)])
    assert room.take_back() == [True, True, False]
    assert not room.take(asking(2))
    assert room.take(asking(1)), "one of the two that were left"


def test_every_pod_takes_a_place_even_one_that_asks_for_nothing() -> None:
    room = a_room(pods=1)
    room.leave([asking(0), asking(0)])
    assert room.take_back() == [True, False]


def test_where_nobody_counts_there_is_always_room() -> None:
    room = NO_NEEDS.on(5)
    room.leave([asking(1)])
    assert (room.against(), room.take(asking(99))) == ((), True)
