"""Assumed volumes: never assumed for two pods, and restored when binding fails.

There are exactly as many volumes as pods: a volume assumed twice is a conflict, and one that is never restored leaves
a pod pending.
"""

import random

import pytest

from mooring.api.kinds import CLAIM, EVENT, VOLUME
from mooring.cluster.bootstrap import Layout
from support.simulation.fault_scenario import check
from support.simulation.faults import FaultLimits, FaultPlan, Pause, draw
from support.simulation.history import History
from support.simulation.mixtures import ClaimRequest, Mixture
from support.simulation.scenarios import BINDER, SCHEDULER, Crowd, seeds

#: All faults of writes and of the scheduler.
WRITES = FaultLimits(
    (SCHEDULER,), bad_calls=12, bad_watches=4, bad_writes=6, crashes=3, pauses=1, calls=30, all_writes=80
)


def exact_fit(seed: int) -> Crowd:
    """Pods for all volumes of three nodes, at once or one after the other."""
    rng = random.Random(f"exact fit {seed}")
    each = rng.randint(1, 3)
    return Crowd(Layout(nodes=3, local_volumes=each), ((5,),) * (3 * each), rng.choice((0.0, 0.05, 0.3)))


def refusals(history: History) -> list[str]:
    """Events of pods whose binding failed."""
    events = [
        EVENT.decode(entry.change.after.value)
        for entry in history.writes()
        if entry.change.after is not None and entry.kind is EVENT
    ]
    return [
        event.message for event in events if "binding" in event.message.lower() and event.reason == "FailedScheduling"
    ]


@pytest.mark.req("T13.later-decisions")
@pytest.mark.parametrize("latency", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("seed", seeds(4))
def test_no_volume_is_assumed_twice(seed: int, latency: float) -> None:
    """The PV controller is paused: all decisions but the first depend on assumed volumes."""
    crowd = exact_fit(seed)
    slow = Pause(BINDER, at=0.0, seconds=8.0)
    result = check(crowd.scenario(all_run=True), seed=seed, plan=FaultPlan((slow,), latency))
    given = [entry.key for entry in result.history.writes() if entry.author == SCHEDULER and entry.kind is VOLUME]
    assert len(given) == len(set(given)) == len(crowd.pods)
    assert refusals(result.history) == []


@pytest.mark.req("T13.restored")
@pytest.mark.parametrize("seed", seeds(9))
def test_volume_of_failed_binding_is_available_again(seed: int) -> None:
    check(exact_fit(seed).scenario(all_run=True), seed=seed, plan=draw(seed, WRITES))


@pytest.mark.req("T13.restored")
@pytest.mark.parametrize("seed", seeds(6))
def test_assumed_selected_nodes_are_written_or_restored(seed: int) -> None:
    """Each pod needs one of the existing volumes and a provisioned one."""
    pods = tuple((ClaimRequest("local", 5), ClaimRequest("of-node", 1)) for _ in range(6))
    mixture = Mixture(Layout(nodes=3, zones=2, local_volumes=2), pods, 0.0)
    result = check(mixture.scenario(all_run=True), seed=seed, plan=draw(seed, WRITES))
    chosen = [entry.key for entry in result.history.writes() if entry.author == SCHEDULER and entry.kind is CLAIM]
    assert {f"default/claim-{number}-1" for number in range(6)} <= set(chosen)
