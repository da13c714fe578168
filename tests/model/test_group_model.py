"""A pod with several claims gets all volumes on one node, or stays schedulable; it is never stuck on some of them."""

import os
from typing import Final

import pytest

from support.model.exploration import dead_ends, explore
from support.model.group_model import Claim, GroupModel, State, half_committed

DYNAMIC: Final = Claim()
STATIC: Final = Claim(static=True)

GROUPS: Final = [
    pytest.param((DYNAMIC, DYNAMIC), {1: "B"}, id="one of two does not fit on A"),
    pytest.param((STATIC, DYNAMIC), {1: "B"}, id="a static and a provisioned volume, which does not fit on A"),
    pytest.param((DYNAMIC, DYNAMIC), {}, id="both fit everywhere"),
    *(
        [
            pytest.param((DYNAMIC, DYNAMIC, DYNAMIC), {2: "B"}, id="one of three does not fit on A"),
            pytest.param((STATIC, DYNAMIC, DYNAMIC), {2: "B"}, id="three, one of them static"),
        ]
        if "MOORING_SOAK_SECONDS" in os.environ
        else []
    ),
]


@pytest.mark.req("R1.reachable")
@pytest.mark.parametrize(("claims", "only_on"), GROUPS)
def test_pod_can_start_from_every_state(claims: tuple[Claim, ...], only_on: dict[int, str]) -> None:
    model = GroupModel(only_on=only_on)
    stuck, way = dead_ends(State(claims), model.successors, lambda state: bool(state.pod))
    assert not stuck, f"{stuck} states, the nearest after: " + "; ".join(way)


@pytest.mark.req("T38.commit")
@pytest.mark.parametrize(("claims", "only_on"), GROUPS)
def test_all_volumes_or_none_are_committed(claims: tuple[Claim, ...], only_on: dict[int, str]) -> None:
    explored = explore(State(claims), GroupModel(only_on=only_on).successors, half_committed)
    assert not explored.violation, str(explored)


def test_without_rollback_the_pod_gets_stuck() -> None:
    """Kubernetes without the hold protocol; shows that the tests above can fail."""
    model = GroupModel(rolls_back=False, only_on={1: "B"})
    stuck, way = dead_ends(State((DYNAMIC, DYNAMIC)), model.successors, lambda state: bool(state.pod))
    assert stuck, "the second claim cannot be provisioned on A"
    assert way == ["claim 0 selects A"]
