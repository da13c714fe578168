"""From a plan under which something fails to a small one under which it still does.

Greedy: larger pieces are left out first, then smaller ones, as long as the failure stays. Not the smallest plan there
is, but one from which no single fault can go.
"""

from collections.abc import Callable
from typing import Final

from mooring.sim.faults import FaultPlan

#: Runs of the world a shrink may cost: enough for plans of thirty faults, some seconds for small worlds.
MOST_RUNS: Final = 150


def shrink(plan: FaultPlan, still_fails: Callable[[FaultPlan], bool], *, most_runs: int = MOST_RUNS) -> FaultPlan:
    """The plan with all faults left out that the failure does not need; the run without latency if that fails too."""
    runs = 0

    def fails(candidate: FaultPlan) -> bool:
        nonlocal runs
        runs += 1
        return runs <= most_runs and still_fails(candidate)

    if plan.latency and fails(calmer := FaultPlan(plan.faults)):
        plan = calmer
    size = max(len(plan.faults) // 2, 1)
    while plan.faults and runs < most_runs:
        smaller = _leave_out(plan, size, fails)
        if smaller is None:
            if size == 1:
                break
            size //= 2
        else:
            plan = smaller
            size = min(size, max(len(plan.faults), 1))
    return plan


def _leave_out(plan: FaultPlan, size: int, fails: Callable[[FaultPlan], bool]) -> FaultPlan | None:
    """The first failing plan with so many faults in a row less; None when all are needed."""
    for start in range(0, len(plan.faults), size):
        candidate = plan.without(start, start + size)
        if fails(candidate):
            return candidate
    return None
