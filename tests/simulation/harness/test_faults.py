"""Fault plans: drawn from seeds, printed as Python, and without the faults that are left out."""

import pytest

from support.simulation import faults
from support.simulation.faults import (
    BadCall,
    BadWatch,
    Crash,
    Deletion,
    DuplicateInstance,
    FaultLimits,
    FaultPlan,
    Pause,
    RequestFault,
    draw,
)

MANY = FaultLimits(
    instances=("scheduler", "binder"),
    bad_calls=5,
    bad_watches=5,
    bad_writes=5,
    rpc_instances=("provisioner",),
    bad_rpcs=5,
    crashes=5,
    leader_changes=3,
    pauses=5,
    restarts=3,
    duplicates=("scheduler",),
    deletable=(("pods", "default/a"), ("pods", "default/b")),
    deletions=2,
    claims=("default/c",),
    volume_deletions=1,
    bindable=("v", "w"),
    foreign_bindings=2,
)


def test_seed_determines_the_plan() -> None:
    assert draw(7, MANY) == draw(7, MANY)
    assert len({draw(seed, MANY) for seed in range(50)}) == 50


def test_every_kind_of_fault_is_drawn() -> None:
    drawn = {type(fault) for seed in range(30) for fault in draw(seed, MANY).faults}
    # Standby is no fault: plans of election tests name the components that are elected.
    assert drawn == set(faults.Fault.__args__) - {faults.Standby}


def test_no_fault_is_drawn_without_limits() -> None:
    assert all(draw(seed, FaultLimits(instances=())).faults == () for seed in range(10))


def test_printed_plan_is_python() -> None:
    for seed in range(20):
        plan = draw(seed, MANY)
        assert eval(str(plan), vars(faults)) == plan


@pytest.mark.parametrize(
    ("start", "stop", "left"),
    [pytest.param(0, 1, "bcd", id="the first"), pytest.param(1, 3, "ad", id="two in the middle")],
)
def test_plan_without_consecutive_faults(start: int, stop: int, left: str) -> None:
    plan = FaultPlan(tuple(Pause(instance, 0.0, 1.0) for instance in "abcd"), latency=0.5)
    shorter = plan.without(start, stop)
    assert "".join(fault.instance for fault in shorter.of(Pause)) == left
    assert shorter.latency == plan.latency


def test_faults_are_found_by_kind() -> None:
    crash, bad = Crash("a", 1, 0.0), BadCall("a", 1, RequestFault.LOST_ANSWER)
    plan = FaultPlan((crash, bad, DuplicateInstance("a", 0.0), Deletion("pods", "x", 1)))
    assert [*plan.of(Crash)] == [crash]
    assert [*plan.of(BadCall)] == [bad]
    assert [*plan.of(BadWatch)] == []
