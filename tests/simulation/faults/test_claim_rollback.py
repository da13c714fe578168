"""Claim rollback under faults: a half-bound pod, a rejected pod, every crash point, random faults.

After each write: no claim that a pod may have used is unbound. At the end: the pod runs, no claim is marked, and the
driver's volumes are those of the API.
"""

import random
from itertools import combinations, count

import pytest

from simulation.guards.test_crash_points import fault_occurred
from support.simulation.claim_rollback_scenarios import FAULT_LIMITS, PROVISIONER, WITH_DUPLICATES, half_bound, refused
from support.simulation.fault_scenario import FaultScenario, check
from support.simulation.faults import NO_FAULTS, BadCall, Crash, Fault, FaultPlan, RequestFault, draw
from support.simulation.scenarios import BINDER, NODES, SCHEDULER, SOAK, seeds

DOWN = 2.0
#: Minimum number of writes of each component until the pod runs: a shorter enumeration is incomplete.
WRITES = {SCHEDULER: 10, BINDER: 22, PROVISIONER: 18, NODES: 6}


def fails_with(scenario: FaultScenario, *faults: Fault) -> bool:
    return fault_occurred(check(scenario, seed=1, plan=FaultPlan(faults, 0.01)))


@pytest.mark.req("T39.dirty-before-use", "T40.unbound")
def test_half_bound_pod_runs_on_another_node() -> None:
    check(half_bound(), seed=1, plan=NO_FAULTS)


@pytest.mark.req("T41.replaced")
def test_rejected_pod_runs_on_another_node() -> None:
    result = check(refused(), seed=1, plan=NO_FAULTS)
    (pod,) = result.facts.pods.values()
    assert pod.spec.node_name == "node-2"


@pytest.mark.slow
@pytest.mark.req("T40.crashes", "T40.only-clean", "R2.crashes")
@pytest.mark.parametrize("instance", WRITES)
def test_crash_after_any_write_is_recovered(instance: str) -> None:
    # `make soak` tries every write, and every pair below.
    step = 1 if SOAK or instance == BINDER else 3
    points = next(n for n in count(1, step) if not fails_with(half_bound(), Crash(instance, n, DOWN))) - 1
    assert points >= WRITES[instance], "fewer writes than the work takes: the crashes missed it"


@pytest.mark.req("T41.crashes")
@pytest.mark.parametrize("instance", [SCHEDULER, BINDER, NODES])
def test_crash_is_recovered_when_node_rejects_pod(instance: str) -> None:
    points = next(n for n in count(1) if not fails_with(refused(), Crash(instance, n, DOWN))) - 1
    assert points >= 3, "fewer writes than the work takes: the crashes missed it"


@pytest.mark.req("T40.crashes")
@pytest.mark.parametrize(("one", "other"), list(combinations(WRITES, 2)))
def test_two_crashes_at_any_points_are_recovered(one: str, other: str) -> None:
    pairs = [(a, b) for a in range(1, WRITES[one] + 1) for b in range(1, WRITES[other] + 1)]
    for first, second in pairs if SOAK else random.Random(f"{one} {other}").sample(pairs, 2):
        fails_with(half_bound(), Crash(one, first, DOWN), Crash(other, second, 3 * DOWN))


@pytest.mark.req("T40.crashes")
@pytest.mark.parametrize("instance", [BINDER, SCHEDULER])
@pytest.mark.parametrize("effect", [RequestFault.OVERTAKEN, RequestFault.LOST_ANSWER])
def test_any_failed_request_is_recovered(instance: str, effect: RequestFault) -> None:
    step = 1 if SOAK else 5
    points = next(n for n in count(step, step) if not fails_with(half_bound(), BadCall(instance, n, effect))) - 1
    assert points >= 5, "fewer requests than the work takes"


@pytest.mark.req("T39.dirty-before-use", "T40.crashes", "T41.crashes", "R2.crashes")
@pytest.mark.parametrize("seed", seeds(6))
def test_pod_runs_after_random_faults(seed: int) -> None:
    scenario = (refused if seed % 2 else half_bound)(fault_seconds=30.0, settle=280.0)
    check(scenario, seed=seed, plan=draw(seed, FAULT_LIMITS))


@pytest.mark.req("T40.duplicates", "R2.crashes")
@pytest.mark.parametrize("seed", [*seeds(4), 33, 96])
def test_duplicate_instances_unbind_no_used_claim(seed: int) -> None:
    """Seed 33: a controller that has not observed the end of a rollback releases the volume bound since.
    Seed 96: a node agent that has not observed it rejects the pod permanently.
    """
    scenario = (refused if seed % 2 else half_bound)(fault_seconds=30.0, settle=280.0)
    check(scenario, seed=seed, plan=draw(seed, WITH_DUPLICATES))
