"""What is promised to one pod is promised to no other, and given back when nothing comes of it.

There are exactly as many volumes as pods: a volume promised twice is a conflict, and one whose promise is never taken
back leaves a pod waiting for ever.
"""

import random

import pytest

from mooring.api.kinds import CLAIM, EVENT, VOLUME
from mooring.cluster.bootstrap import Layout
from mooring.sim.faults import FaultPlan, Pause
from mooring.sim.hazards import Hazards, draw
from mooring.sim.history import History
from mooring.sim.trial import check
from sim.mixtures import Ask, Mixture
from sim.trials import BINDER, SCHEDULER, Crowd, seeds

#: Whatever can become of a write, and of the one who writes.
WRITES = Hazards((SCHEDULER,), bad_calls=12, bad_watches=4, bad_writes=6, crashes=3, pauses=1, calls=30, all_writes=80)


def exact_fit(seed: int) -> Crowd:
    """Pods for all volumes of three nodes, at once or one after the other."""
    rng = random.Random(f"exact fit {seed}")
    each = rng.randint(1, 3)
    return Crowd(Layout(nodes=3, local_volumes=each), ((5,),) * (3 * each), rng.choice((0.0, 0.05, 0.3)))


def refusals(history: History) -> list[str]:
    """What the scheduler said of pods it had decided on and could not bind."""
    said = [
        EVENT.decode(entry.change.after.value)
        for entry in history.writes()
        if entry.change.after is not None and entry.kind is EVENT
    ]
    return [
        event.message for event in said if "binding" in event.message.lower() and event.reason == "FailedScheduling"
    ]


@pytest.mark.req("T13.later-decisions")
@pytest.mark.parametrize("latency", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("seed", seeds(4))
def test_no_volume_is_promised_twice(seed: int, latency: float) -> None:
    """Nothing is confirmed for a while: all decisions but the first are made on promises."""
    crowd = exact_fit(seed)
    slow = Pause(BINDER, at=0.0, seconds=8.0)
    outcome = check(crowd.trial(all_run=True), seed=seed, plan=FaultPlan((slow,), latency))
    given = [entry.key for entry in outcome.history.writes() if entry.who == SCHEDULER and entry.kind is VOLUME]
    assert len(given) == len(set(given)) == len(crowd.pods)
    assert refusals(outcome.history) == []


@pytest.mark.req("T13")
@pytest.mark.parametrize("seed", seeds(9))
def test_what_came_to_nothing_is_there_for_others(seed: int) -> None:
    check(exact_fit(seed).trial(all_run=True), seed=seed, plan=draw(seed, WRITES))


@pytest.mark.req("T13")
@pytest.mark.parametrize("seed", seeds(6))
def test_nodes_promised_for_volumes_to_be_made_are_kept_or_given_back(seed: int) -> None:
    """Each pod needs one of the volumes, and a new one beside it."""
    pods = tuple((Ask("local", 5), Ask("of-node", 1)) for _ in range(6))
    mixture = Mixture(Layout(nodes=3, zones=2, local_volumes=2), pods, 0.0)
    outcome = check(mixture.trial(all_run=True), seed=seed, plan=draw(seed, WRITES))
    chosen = [entry.key for entry in outcome.history.writes() if entry.who == SCHEDULER and entry.kind is CLAIM]
    assert {f"default/claim-{number}-1" for number in range(6)} <= set(chosen)
