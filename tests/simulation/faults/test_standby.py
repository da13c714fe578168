"""The leader of a component ends after any of its writes and never comes back: its standby finishes the work."""

from itertools import count
from typing import Final

import pytest

from simulation.guards.test_crash_points import MIXED
from support.simulation.fault_scenario import FaultScenario, check
from support.simulation.faults import Crash, FaultPlan, Standby
from support.simulation.history import Noted, Written
from support.simulation.mixtures import PROVISIONER as STAND_INS
from support.simulation.rollback_scenarios import COORDINATOR, PROVISIONER, Squeeze
from support.simulation.scenarios import BINDER, SCHEDULER

pytestmark = pytest.mark.slow

#: Longer than any run.
FOR_GOOD: Final = 1e9
#: One volume of two is rolled back on the first node: every component of the hold protocol takes part. Faults last
#: until the pod runs; a lease expires within the time to settle.
HELD: Final = Squeeze().scenario(fault_seconds=25.0, settle=120.0)


def standby_took_over(scenario: FaultScenario, instance: str, write: int) -> bool:
    """Run the scenario, in which the leader ends after this write; False if it never wrote that often."""
    plan = FaultPlan((Standby(instance), Crash(instance, write, FOR_GOOD)), 0.01)
    entries = check(scenario, seed=1, plan=plan).history.entries
    ended = next((n for n, entry in enumerate(entries) if isinstance(entry, Noted) and "crashed" in entry.what), None)
    if ended is None:
        return False
    later = {entry.author for entry in entries[ended:] if isinstance(entry, Written)}
    assert instance not in later, "the leader still wrote after its end"
    assert f"{instance}-2" in later, "the standby never wrote"
    return True


@pytest.mark.req("T35.every-write")
@pytest.mark.parametrize(("instance", "least"), [(PROVISIONER, 35), (COORDINATOR, 8), (SCHEDULER, 11), (BINDER, 14)])
def test_standby_finishes_held_volumes_after_the_leader_ended_at_any_write(instance: str, least: int) -> None:
    points = next(n for n in count(1) if not standby_took_over(HELD, instance, n)) - 1
    assert points >= least, "fewer writes than the work takes: the leader was not ended at all of them"


@pytest.mark.req("T35.every-write")
@pytest.mark.parametrize(("instance", "least"), [(SCHEDULER, 8), (BINDER, 20), (STAND_INS, 3)])
def test_standby_finishes_provisioning_after_the_leader_ended_at_any_write(instance: str, least: int) -> None:
    points = next(n for n in count(1) if not standby_took_over(MIXED, instance, n)) - 1
    assert points >= least, "fewer writes than the work takes: the leader was not ended at all of them"
