"""The three ways of Sieve (Sun et al., OSDI 2022) to make a controller see what it does not expect, for every one.

stale state         a component crashes and starts again against an API server whose watch cache is behind: what it did
                    itself, and what others did since, has not happened yet for it
intermediate state  a component crashes between any two writes: what is left half done must be completed or undone
unobserved state    watch events are skipped: objects change and change back, or are deleted and made again under their
                    name, between two observations

All of them over the whole control plane at work (`plane_trials`). Components without writes of their own in that world
are restarted by nothing and left out where a crash is what is tried.
"""

import os
import random
from typing import Final

import pytest

from mooring.coordinator.component import Coordinator
from mooring.nodeagent.attacher import Attacher
from mooring.provisioner.component import Provisioner
from mooring.sim.faults import BadWatch, Crash, FaultPlan, WatchTrouble
from mooring.sim.history import Noted
from mooring.sim.trial import Outcome, check
from sim.plane_trials import COMPONENTS, plane
from sim.trials import BINDER, NODES, PROTECTION, SCHEDULER, SETS

#: `make soak` tries each component with several seeds, `make test` all components with one plan per seed.
SOAK: Final = "MOORING_SIM_SEEDS" in os.environ
SEEDS: Final = range(int(os.environ.get("MOORING_SIM_SEEDS", "1")))
#: The controllers of the brief, and those of workloads that write in this world.
CONTROLLERS: Final = (
    *(SCHEDULER, BINDER, PROTECTION, Provisioner.name, Coordinator.name, NODES, Attacher.name, SETS),
    *("attachdetach-controller", "replicaset-controller", "deployment-controller", "daemonset-controller"),
    *("disruption-controller", "ephemeral-volume-controller", "garbage-collector", "namespace-controller"),
    *("taint-eviction-controller", "service-account-controller"),
)
#: Seconds an API server is behind.
STALE: Final = 3.0


def noted(outcome: Outcome, what: str) -> set[str]:
    return {entry.who for entry in outcome.history.entries if isinstance(entry, Noted) and what in entry.what}


def groups(seed: int) -> list[tuple[str, ...]]:
    """Who is struck together: each for itself in a soak, some at a time otherwise."""
    if SOAK:
        return [(who,) for who in CONTROLLERS]
    rng = random.Random(f"sieve {seed}")
    order = rng.sample(CONTROLLERS, len(CONTROLLERS))
    return [tuple(order[start::3]) for start in range(3)]


CASES: Final = [pytest.param(seed, who, id=f"{seed}-{who[0]}") for seed in SEEDS for who in groups(seed)]


def test_all_controllers_that_write_are_tried() -> None:
    assert set(CONTROLLERS) <= set(COMPONENTS)
    assert {who for seed in SEEDS for group in groups(seed) for who in group} == set(CONTROLLERS)


@pytest.mark.parametrize(("seed", "who"), CASES)
def test_stale_state(seed: int, who: tuple[str, ...]) -> None:
    """Started again against an API server that is up to forty writes behind."""
    rng = random.Random(f"stale {seed} {who}")
    crashes = [
        Crash(one, rng.randint(1, 6), rng.choice((0.01, 1.0)), behind=rng.randint(1, 40), stale=STALE) for one in who
    ]
    outcome = check(plane(), seed=seed, plan=FaultPlan(tuple(crashes), rng.choice((0.0, 0.02))))
    assert noted(outcome, "as of revision"), "nothing was restarted behind a stale cache"


@pytest.mark.parametrize(("seed", "who"), CASES)
def test_intermediate_state(seed: int, who: tuple[str, ...]) -> None:
    """Two crashes of each, after any of its writes; every single one is tried in `test_crash_points`, `test_rollback`
    and `provisioner/test_crash_points`."""
    rng = random.Random(f"intermediate {seed} {who}")
    crashes = [Crash(one, write, 1.0) for one in who for write in rng.sample(range(1, 13), 2)]
    outcome = check(plane(), seed=seed, plan=FaultPlan(tuple(crashes), rng.choice((0.0, 0.02))))
    assert noted(outcome, "crashed"), "nothing crashed"


@pytest.mark.parametrize(("seed", "who"), CASES)
def test_unobserved_state(seed: int, who: tuple[str, ...]) -> None:
    """Each of its watches skips some seconds of events, while users delete, make again, change and change back."""
    rng = random.Random(f"unobserved {seed} {who}")
    skipped = [
        BadWatch(one, watch, rng.randint(0, 25), WatchTrouble.SKIPPED, seconds=rng.choice((1.0, 6.0, 15.0)))
        for one in who
        for watch in range(1, 13)
    ]
    outcome = check(plane(churn=True), seed=seed, plan=FaultPlan(tuple(skipped), rng.choice((0.0, 0.02))))
    assert noted(outcome, WatchTrouble.SKIPPED.value), "no event was skipped"
