"""Fault plans: drawn from seeds, printed as Python, and short of what is left out."""

import pytest

from mooring.sim import faults
from mooring.sim.faults import BadCall, BadWatch, Crash, Deletion, FaultPlan, Pause, Trouble, Twin
from mooring.sim.hazards import Hazards, draw

MANY = Hazards(
    who=("scheduler", "binder"),
    bad_calls=5,
    bad_watches=5,
    bad_writes=5,
    callers=("provisioner",),
    bad_rpcs=5,
    crashes=5,
    pauses=5,
    restarts=3,
    twins=("scheduler",),
    deletable=(("pods", "default/a"), ("pods", "default/b")),
    deletions=2,
    claims=("default/c",),
    volume_deletions=1,
    takeable=("v", "w"),
    takings=2,
)


def test_a_seed_is_a_plan() -> None:
    assert draw(7, MANY) == draw(7, MANY)
    assert len({draw(seed, MANY) for seed in range(50)}) == 50


def test_every_kind_of_fault_is_drawn() -> None:
    drawn = {type(fault) for seed in range(30) for fault in draw(seed, MANY).faults}
    assert drawn == set(faults.Fault.__args__)


def test_nothing_is_drawn_where_nothing_may_go_wrong() -> None:
    assert all(draw(seed, Hazards(who=())).faults == () for seed in range(10))


def test_a_printed_plan_is_python() -> None:
    for seed in range(20):
        plan = draw(seed, MANY)
        assert eval(str(plan), vars(faults)) == plan


@pytest.mark.parametrize(
    ("start", "stop", "left"),
    [pytest.param(0, 1, "bcd", id="the first"), pytest.param(1, 3, "ad", id="two in the middle")],
)
def test_faults_are_left_out_in_rows(start: int, stop: int, left: str) -> None:
    plan = FaultPlan(tuple(Pause(who, 0.0, 1.0) for who in "abcd"), latency=0.5)
    shorter = plan.without(start, stop)
    assert "".join(fault.who for fault in shorter.of(Pause)) == left
    assert shorter.latency == plan.latency


def test_faults_are_found_by_kind() -> None:
    crash, bad = Crash("a", 1, 0.0), BadCall("a", 1, Trouble.LOST_ANSWER)
    plan = FaultPlan((crash, bad, Twin("a", 0.0), Deletion("pods", "x", 1)))
    assert [*plan.of(Crash)] == [crash]
    assert [*plan.of(BadCall)] == [bad]
    assert [*plan.of(BadWatch)] == []
