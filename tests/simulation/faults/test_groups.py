"""Gangs under faults: each gets all volumes of its quorum or none, whatever crashes, and none is left half-way.

Pairs of crashes are in `test_group_crash_pairs`.
"""

from itertools import count

import pytest

from mooring.volumes.holds import group_objects
from simulation.guards.test_crash_points import fault_occurred
from support.simulation.fault_scenario import check, run
from support.simulation.faults import (
    NO_FAULTS,
    BadCall,
    BadWatch,
    Crash,
    FaultPlan,
    RequestFault,
    WatchFault,
    draw,
)
from support.simulation.group_scenarios import COORDINATOR, FAULT_LIMITS, PROVISIONER, REFUSALS, ContendedGangs, Gangs
from support.simulation.scenarios import BINDER, SCHEDULER, seeds

pytestmark = pytest.mark.req("G2.committed")

EXISTING = Gangs(((3, 3, True),))
PROVISIONED = Gangs(((3, 3, False),))
#: The provisioner holds a volume for a gang whose quorum is placed.
HELD_WITHOUT_NEED = 1159
#: The provisioner's first read of the coordinator's Lease gets a 403.
LEASE_REFUSED = 1574
#: A scheduler plans a member with another volume than the one that an earlier leader's record commits to it.
PLANNED_OTHERWISE = 1372


@pytest.mark.parametrize("gangs", [EXISTING, PROVISIONED, Gangs(((3, 2, True), (2, 2, False)), short=True)])
def test_gangs_run_whole_without_faults(gangs: Gangs) -> None:
    check(gangs.scenario(), seed=0, plan=NO_FAULTS)


@pytest.mark.parametrize("seed", seeds(20))
def test_gangs_run_whole_or_not_at_all_under_random_faults(seed: int) -> None:
    """G59, and invariants I1 to I11 and I13 of the specification."""
    check(Gangs.drawn(seed).scenario(), seed=seed, plan=draw(seed, FAULT_LIMITS))


@pytest.mark.parametrize("seed", sorted({*seeds(6), HELD_WITHOUT_NEED, LEASE_REFUSED}))
def test_gangs_run_whole_or_not_at_all_after_refusals(seed: int) -> None:
    """Any request of the components above is refused, cut or garbled."""
    check(Gangs.drawn(seed).scenario(), seed=seed, plan=draw(seed, REFUSALS))


@pytest.mark.parametrize("seed", sorted({*seeds(10), PLANNED_OTHERWISE}))
def test_gangs_that_compete_wait_only_without_a_place(seed: int) -> None:
    """I12 and I15: gangs for which there is not enough."""
    check(ContendedGangs.drawn(seed).scenario(), seed=seed, plan=draw(seed, FAULT_LIMITS))


@pytest.mark.parametrize("watch", range(1, 8))
def test_gang_without_a_record_runs_when_the_coordinator_observes_something_late(watch: int) -> None:
    """The scheduler may not read the coordinator's Lease, and writes no record: the held volumes alone lead to the
    gang, by their claims and pods."""
    late = (
        BadCall(SCHEDULER, 2, RequestFault.REFUSED, code=403),
        BadWatch(COORDINATOR, watch, 0, WatchFault.STALLED, seconds=4.0),
    )
    result = check(PROVISIONED.scenario(), seed=1, plan=FaultPlan(late))
    assert fault_occurred(result), "the Lease was read"


@pytest.mark.parametrize("gangs", [EXISTING, PROVISIONED], ids=["existing volumes", "provisioned volumes"])
@pytest.mark.parametrize("bytes_", [200, 450, 700])
def test_gang_too_large_for_one_record_runs(gangs: Gangs, bytes_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of one member fits, one of two, or one of all of them if the names of their nodes are short."""
    monkeypatch.setattr(group_objects, "MAX_RECORD_BYTES", bytes_)
    check(gangs.scenario(), seed=1, plan=NO_FAULTS)


@pytest.mark.slow
@pytest.mark.parametrize("gangs", [EXISTING, PROVISIONED], ids=["existing volumes", "provisioned volumes"])
@pytest.mark.parametrize("instance", [SCHEDULER, COORDINATOR, PROVISIONER, BINDER])
def test_crash_after_any_write_is_recovered(gangs: Gangs, instance: str) -> None:
    """C1 to C14: the end is the same as without the crash."""
    if gangs is EXISTING and instance == PROVISIONER:
        pytest.skip("it writes nothing for existing volumes")
    for number in count(1):
        result = check(gangs.scenario(), seed=1, plan=FaultPlan((Crash(instance, number, 3.0),), 0.01))
        if not fault_occurred(result):
            break
    assert number > 3, "the crashes missed the work"


@pytest.mark.parametrize("seed", range(2))
def test_same_seed_has_the_same_end(seed: int) -> None:
    """I14"""
    plan = draw(seed, FAULT_LIMITS)
    first, second = (run(Gangs.drawn(seed).scenario(), seed=seed, plan=plan) for _ in range(2))

    assert list(first.history.writes()) == list(second.history.writes())
