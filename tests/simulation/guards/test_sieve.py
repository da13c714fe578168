"""The three patterns of Sieve (Sun et al., OSDI 2022) for perturbing a controller's view, for every controller.

stale state         a component crashes and restarts with an API server whose watch cache is behind: its own writes, and
                    later ones of others, are not visible yet
intermediate state  a component crashes between any two writes: partial work must be completed or undone
unobserved state    watch events are skipped: objects change and change back, or are deleted and recreated with the
                    same name, between two observations

All run the whole control plane, and every component gets these faults in a scenario in which it writes:
`control_plane_scenarios`, or `maintenance_scenarios` for those that write only there. Crashes are drawn from the writes
of a run without faults, so that each of them happens.
"""

import random
from collections import Counter
from functools import cache
from typing import Final

import pytest

from mooring.coordinator.component import Coordinator
from mooring.nodeagent.attacher import Attacher
from mooring.provisioner.component import Provisioner
from support.simulation.control_plane_scenarios import COMPONENTS, plane
from support.simulation.fault_scenario import ScenarioResult, check
from support.simulation.faults import NO_FAULTS, BadWatch, Crash, FaultPlan, WatchFault
from support.simulation.history import Noted
from support.simulation.maintenance_scenarios import MAINTAINERS, maintenance
from support.simulation.scenarios import BINDER, NODES, PROTECTION, SCHEDULER, SETS, SOAK, seeds

#: The components that write in this scenario.
CONTROLLERS: Final = (
    *(SCHEDULER, BINDER, PROTECTION, Provisioner.name, Coordinator.name, NODES, Attacher.name, SETS),
    *("attachdetach-controller", "replicaset-controller", "deployment-controller", "daemonset-controller"),
    *("disruption-controller", "ephemeral-volume-controller", "garbage-collector", "namespace-controller"),
    *("taint-eviction-controller", "service-account-controller", "clusterrole-aggregation-controller"),
    "standin-provisioner",
)
#: Seconds an API server is behind.
STALE: Final = 3.0
#: `make soak` tries each component alone, `make test` all components with few plans. A seed of the soak stands for one
#: run in the other suites; here it would be one of each component.
RUNS_PER_SEED: Final = len(COMPONENTS) if SOAK else 1
SEEDS: Final = range(seeds(1).start // RUNS_PER_SEED, -(-seeds(1).stop // RUNS_PER_SEED))
SCENARIOS: Final = {"plane": plane(), "churn": plane(churn=True), "maintenance": maintenance()}


def scenario_of(instances: tuple[str, ...], *, churn: bool = False) -> str:
    """The scenario in which these instances write."""
    return "maintenance" if instances[0] in MAINTAINERS else "churn" if churn else "plane"


@cache
def writes(scenario: str) -> Counter[str]:
    """How often each component writes in a run without faults."""
    result = check(SCENARIOS[scenario], seed=0, plan=NO_FAULTS)
    return Counter(effect.instance for effect in result.history.effects)


def noted(result: ScenarioResult, what: str) -> set[str]:
    return {entry.author for entry in result.history.entries if isinstance(entry, Noted) and what in entry.what}


def groups(seed: int) -> list[tuple[str, ...]]:
    """Components that get faults together: one at a time in a soak, otherwise a part of those of a scenario."""
    if SOAK:
        return [(instance,) for instance in (*CONTROLLERS, *MAINTAINERS)]
    rng = random.Random(f"sieve {seed}")
    order = rng.sample(CONTROLLERS, len(CONTROLLERS))
    rest = rng.sample(MAINTAINERS, len(MAINTAINERS))
    return [*(tuple(order[start::3]) for start in range(3)), *(tuple(rest[start::2]) for start in range(2))]


CASES: Final = [pytest.param(seed, instance, id=f"{seed}-{instance[0]}") for seed in SEEDS for instance in groups(seed)]


def test_every_component_is_covered() -> None:
    assert set(CONTROLLERS) == set(writes("plane")) == set(writes("churn"))
    assert set(MAINTAINERS) == set(writes("maintenance")) - set(CONTROLLERS)
    assert {*CONTROLLERS, *MAINTAINERS} == set(COMPONENTS)
    assert {instance for seed in SEEDS for group in groups(seed) for instance in group} == set(COMPONENTS)


@pytest.mark.parametrize(("seed", "instance"), CASES)
def test_controller_tolerates_stale_state(seed: int, instance: tuple[str, ...]) -> None:
    """Started again against an API server that is up to eighty writes behind, twice; and some watches are behind the
    others, so that a dependent is observed before its owner."""
    rng = random.Random(f"stale {seed} {instance}")
    scenario = scenario_of(instance, churn=True)
    most = writes(scenario)
    crashes = [
        Crash(one, write, rng.choice((0.01, 1.0)), behind=rng.randint(1, 80), stale=STALE)
        for one in instance
        # One in the first half of its writes: with these faults it may make fewer.
        for write in {rng.randint(1, min(6, (most[one] + 1) // 2)), rng.randint(1, min(20, most[one]))}
    ]
    stalled = [
        BadWatch(one, watch, rng.randint(0, 10), WatchFault.STALLED, seconds=rng.choice((STALE, 3 * STALE)))
        for one in instance
        for watch in rng.sample(range(1, 25), 8)
    ]
    plan = FaultPlan((*crashes, *stalled), rng.choice((0.0, 0.02)))
    result = check(SCENARIOS[scenario], seed=seed, plan=plan)
    assert noted(result, "as of revision") == set(instance), "each was restarted behind a stale cache"


@pytest.mark.parametrize(("seed", "instance"), CASES)
def test_controller_tolerates_intermediate_state(seed: int, instance: tuple[str, ...]) -> None:
    """Two crashes of each that writes twice, after any of its writes. Single crashes are in `test_crash_points`,
    `test_rollback` and `provisioner/test_crash_points`.
    """
    rng = random.Random(f"intermediate {seed} {instance}")
    scenario = scenario_of(instance)
    points = {one: range(1, min(12, writes(scenario)[one]) + 1) for one in instance}
    crashes = [
        Crash(one, write, 1.0) for one in instance for write in rng.sample(points[one], min(2, len(points[one])))
    ]
    plan = FaultPlan(tuple(crashes), rng.choice((0.0, 0.02)))
    result = check(SCENARIOS[scenario], seed=seed, plan=plan)
    assert noted(result, "crashed") == set(instance), "each crashed"


@pytest.mark.parametrize(("seed", "instance"), CASES)
def test_controller_tolerates_unobserved_state(seed: int, instance: tuple[str, ...]) -> None:
    """Each watch skips some seconds of events, while users delete, recreate, change and change back objects. The first
    two do so early: a component may have no other watches, and few events."""
    rng = random.Random(f"unobserved {seed} {instance}")
    skipped = [
        BadWatch(one, watch, rng.randint(0, most), WatchFault.SKIPPED, seconds=rng.choice((1.0, 6.0, 15.0)))
        for one in instance
        for watch, most in enumerate((2, 2, *(25,) * 10), start=1)
    ]
    plan = FaultPlan(tuple(skipped), rng.choice((0.0, 0.02)))
    result = check(SCENARIOS[scenario_of(instance, churn=True)], seed=seed, plan=plan)
    assert noted(result, WatchFault.SKIPPED.value), "events were skipped"
