"""Two crashes in the life of a gang, one after the other: of two components, or of one component twice.

`make test` draws one pair for each case and component that crashes first, the PV controller left out; `make soak` runs
every pair: the first crash after each write, and the second after each write that follows in the run with the first.
"""

import random
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TypeVar

import pytest

from support.simulation.fault_scenario import ScenarioResult
from support.simulation.gangs.crash_pairs import (
    CASES,
    COMPONENTS,
    crash,
    crashes_during,
    first_crashes,
    outages,
    run_with,
    second_crashes,
)
from support.simulation.group_scenarios import PROVISIONER
from support.simulation.history import Effect, Noted
from support.simulation.scenarios import BINDER, SOAK

T = TypeVar("T")

pytestmark = pytest.mark.req("G2.committed")

#: A component that writes nothing in a case cannot crash there.
PAIRS = [
    pytest.param(name, component, id=f"{name}, {component} first")
    for name, case in CASES.items()
    for component in COMPONENTS
    if (case.pools or component != PROVISIONER) and (SOAK or component != BINDER)
]
#: Cases of an outage of the coordinator.
OUTAGES = list(CASES) if SOAK else ["G13 existing volumes", "G33 both kinds"]


@cache
def firsts_of(name: str) -> list[Effect]:
    return first_crashes(CASES[name])


def drawn(points: Sequence[T], purpose: str) -> Iterable[T]:
    """One of the points, or all of them."""
    return points if SOAK else [random.Random(purpose).choice(points)]


def assert_crashed_twice(result: ScenarioResult) -> None:
    notes = [entry.what for entry in result.history.entries if isinstance(entry, Noted)]
    assert sum("crashed after this write" in what for what in notes) == 2, notes


@pytest.mark.parametrize(("name", "component"), PAIRS)
def test_two_crashes_are_recovered(name: str, component: str) -> None:
    """G59 in pairs: the end is the same as without, and the driver's list equals the objects."""
    case = CASES[name]
    firsts = [point for point in firsts_of(name) if point.instance == component]
    assert len(firsts) >= 5, "fewer writes than the work takes"
    for first in drawn(firsts, f"first {name} {component}"):
        seconds = second_crashes(case, first)
        for second in drawn(seconds, f"second {name} {component}") if seconds else ():
            assert_crashed_twice(run_with(case, crash(first), crash(second)))


@pytest.mark.parametrize("name", OUTAGES)
def test_scheduler_crash_during_a_coordinator_outage_is_recovered(name: str) -> None:
    """G57 with a crash: what was begun is neither given at once nor given up before a coordinator is back."""
    case = CASES[name]
    for outage in drawn(outages(case), f"outage {name}"):
        for other in drawn(crashes_during(case, outage), f"during {name}"):
            assert_crashed_twice(run_with(case, outage, other, outage=True))
