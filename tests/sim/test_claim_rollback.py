"""Unused claims in the way, while everybody fails: a half-bound pod, a refused pod, every crash point, random faults.

After each write: nothing loses its volume that a pod may have used. At the end: the pod runs, nothing is marked any
more, and the driver has exactly the volumes that the API knows.
"""

import os
import random
from itertools import combinations, count

import pytest

from mooring.sim.faults import CALM, BadCall, Crash, Fault, FaultPlan, Trouble
from mooring.sim.hazards import draw
from mooring.sim.trial import Trial, check
from sim.claim_rollback_trials import PROVISIONER, ROUGH, TWINS, half_bound, refused
from sim.test_crash_points import struck
from sim.trials import BINDER, NODES, SCHEDULER, seeds

#: `make soak` tries every request and all pairs of crash points; otherwise every so many-th.
SOAK = "MOORING_SIM_SEEDS" in os.environ
DOWN = 2.0
#: How many writes each makes until the pod runs, at least: an enumeration that ends before has missed the work.
WRITES = {SCHEDULER: 10, BINDER: 22, PROVISIONER: 18, NODES: 6}


def strikes(trial: Trial, *faults: Fault) -> bool:
    return struck(check(trial, seed=1, plan=FaultPlan(faults, 0.01)))


@pytest.mark.req("T39", "T40")
def test_a_pod_that_was_given_half_of_its_volumes_runs_elsewhere() -> None:
    check(half_bound(), seed=1, plan=CALM)


@pytest.mark.req("T41")
def test_a_pod_that_its_node_refused_runs_elsewhere() -> None:
    outcome = check(refused(), seed=1, plan=CALM)
    (pod,) = outcome.facts.pods.values()
    assert pod.spec.node_name == "node-2"


@pytest.mark.req("T40", "R2")
@pytest.mark.parametrize("who", WRITES)
def test_a_crash_after_any_write_is_made_good(who: str) -> None:
    step = 1 if SOAK or who == BINDER else 3
    points = next(n for n in count(1, step) if not strikes(half_bound(), Crash(who, n, DOWN))) - 1
    assert points >= WRITES[who], "fewer writes than the work takes: the crashes missed it"


@pytest.mark.req("T41")
@pytest.mark.parametrize("who", [SCHEDULER, BINDER, NODES])
def test_a_crash_after_any_write_is_made_good_when_a_node_refuses(who: str) -> None:
    points = next(n for n in count(1) if not strikes(refused(), Crash(who, n, DOWN))) - 1
    assert points >= 3, "fewer writes than the work takes: the crashes missed it"


@pytest.mark.req("T40")
@pytest.mark.parametrize(("one", "other"), list(combinations(WRITES, 2)))
def test_two_may_crash_at_any_two_points(one: str, other: str) -> None:
    pairs = [(a, b) for a in range(1, WRITES[one] + 1) for b in range(1, WRITES[other] + 1)]
    for first, second in pairs if SOAK else random.Random(f"{one} {other}").sample(pairs, 2):
        strikes(half_bound(), Crash(one, first, DOWN), Crash(other, second, 3 * DOWN))


@pytest.mark.req("T40")
@pytest.mark.parametrize("who", [BINDER, SCHEDULER])
@pytest.mark.parametrize("trouble", [Trouble.OVERTAKEN, Trouble.LOST_ANSWER])
def test_any_single_request_may_go_wrong(who: str, trouble: Trouble) -> None:
    step = 1 if SOAK else 5
    points = next(n for n in count(step, step) if not strikes(half_bound(), BadCall(who, n, trouble))) - 1
    assert points >= 5, "fewer requests than the work takes"


@pytest.mark.req("T39", "T40", "T41", "R2")
@pytest.mark.parametrize("seed", seeds(6))
def test_whatever_goes_wrong_the_pod_runs_in_the_end(seed: int) -> None:
    trial = (refused if seed % 2 else half_bound)(rough=30.0, settle=280.0)
    check(trial, seed=seed, plan=draw(seed, ROUGH))


@pytest.mark.req("T40", "R2")
@pytest.mark.parametrize("seed", [*seeds(4), 33, 96])
def test_two_of_each_do_no_harm(seed: int) -> None:
    """Seed 33: a controller that has not heard of the end of a rollback lets go of the volume that was chosen since.
    Seed 96: a node agent that has not heard of it refuses the pod for good.
    """
    trial = (refused if seed % 2 else half_bound)(rough=30.0, settle=280.0)
    check(trial, seed=seed, plan=draw(seed, TWINS))
