"""Shrinking removes the faults that a failure does not need."""

from collections.abc import Iterable

import pytest

from support.simulation.fault_scenario import shrink
from support.simulation.faults import FaultPlan, Pause


def plan(names: str, *, latency: float = 0.0) -> FaultPlan:
    return FaultPlan(tuple(Pause(name, 0.0, 1.0) for name in names), latency)


def names(of: FaultPlan) -> str:
    return "".join(pause.instance for pause in of.of(Pause))


@pytest.mark.parametrize(
    "needed",
    [
        pytest.param("", id="fails anyway"),
        pytest.param("a", id="the first"),
        pytest.param("z", id="the last"),
        pytest.param("kl", id="two together"),
        pytest.param("amz", id="three apart"),
        pytest.param("abcdefghijklmnopqrstuvwxyz", id="all"),
    ],
)
def test_shrink_keeps_only_needed_faults(needed: Iterable[str]) -> None:
    found = shrink(plan("abcdefghijklmnopqrstuvwxyz"), lambda candidate: set(needed) <= set(names(candidate)))
    assert names(found) == "".join(needed)


def test_shrink_removes_latency_if_not_needed() -> None:
    assert shrink(plan("ab", latency=1.0), lambda candidate: "a" in names(candidate)) == plan("a")
    with_it = shrink(plan("ab", latency=1.0), lambda candidate: "a" in names(candidate) and candidate.latency > 0)
    assert with_it == plan("a", latency=1.0)


def test_shrink_stops_after_max_runs_with_a_failing_plan() -> None:
    runs = 0

    def fails(candidate: FaultPlan) -> bool:
        nonlocal runs
        runs += 1
        return {"a", "z"} <= set(names(candidate))

    found = shrink(plan("abcdefghijklmnopqrstuvwxyz"), fails, max_runs=10)
    assert runs <= 10
    assert {"a", "z"} <= set(names(found))
