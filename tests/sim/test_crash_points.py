"""Every point at which a component can die, and every single request that can go wrong, one after the other.

Not drawn but enumerated: the n-th write, the n-th request, until there is no n-th. StatefulSets are crashed through in
`test_design_list_under_faults`.
"""

from itertools import count

import pytest

from mooring.cluster.bootstrap import LOCAL_CLASS, Layout
from mooring.sim.faults import BadCall, BadWrite, Crash, Deletion, Fault, FaultPlan, StoreTrouble, Trouble
from mooring.sim.history import Noted
from mooring.sim.trial import Outcome, Trial, check
from sim import trials
from sim.mixtures import PROVISIONER, Ask, Mixture
from sim.trials import BINDER, NODES, PROTECTION, SCHEDULER, Crowd

#: At once, each with several claims.
PODS = Crowd(Layout(nodes=2, local_volumes=4), pods=((5, 5), (5, 15)), pace=0.0).trial(all_run=True)
#: As few writes as there can be.
ONE_POD = Crowd(Layout(nodes=1, local_volumes=2), pods=((5, 5),), pace=0.0).trial(all_run=True)
#: At once, each with claims on existing volumes and on volumes to be made.
MIXED = Mixture(
    Layout(nodes=3, zones=2, local_volumes=2),
    pods=(
        (Ask("regional", 5), Ask(LOCAL_CLASS, 15)),
        (Ask("either", 5), Ask("either", 5), Ask("of-node", 1), Ask(LOCAL_CLASS, 5)),
    ),
    pace=0.0,
    existing=("node-1", "node-2", "node-3"),
).trial(all_run=True)
#: Neither too short for others to notice nor long enough for them to give up.
DOWN = 2.0


def strikes(trial: Trial, fault: Fault, *, latency: float = 0.01) -> bool:
    """Run a trial with one fault; whether it struck."""
    return struck(check(trial, seed=1, plan=FaultPlan((fault,), latency)))


def struck(outcome: Outcome) -> bool:
    """Only what goes wrong is noted, apart from the end of it."""
    return any(isinstance(entry, Noted) and entry.what != "calm" for entry in outcome.history.entries)


@pytest.mark.req("T15.crashes")
@pytest.mark.parametrize(("who", "least"), [(SCHEDULER, 6), (BINDER, 9), (NODES, 2)])
def test_a_crash_after_any_write_is_made_good(who: str, least: int) -> None:
    points = next(n for n in count(1) if not strikes(PODS, Crash(who, n, DOWN))) - 1
    assert points >= least, "fewer writes than the work takes: the crashes missed it"


@pytest.mark.req("T15.crashes")
@pytest.mark.parametrize(("who", "least"), [(SCHEDULER, 8), (BINDER, 20), (PROVISIONER, 3)])
def test_a_crash_after_any_write_is_made_good_when_volumes_are_made(who: str, least: int) -> None:
    points = next(n for n in count(1) if not strikes(MIXED, Crash(who, n, DOWN))) - 1
    assert points >= least, "fewer writes than the work takes: the crashes missed it"


@pytest.mark.parametrize("trouble", [Trouble.LOST_ANSWER, Trouble.OVERTAKEN, Trouble.UNAVAILABLE])
def test_any_single_request_of_a_provisioner_may_go_wrong(trouble: Trouble) -> None:
    points = next(n for n in count(1) if not strikes(MIXED, BadCall(PROVISIONER, n, trouble, 5.0))) - 1
    assert points >= 3, "fewer requests than the work takes"


def test_a_crash_of_volume_protection_after_any_write_is_made_good() -> None:
    crowd = trials.small_crowd(3)
    volumes = [victim for victim in crowd.deletable if victim[0] == "persistentvolumes"]
    deletions = tuple(Deletion(*victim, write=5 + n) for n, victim in enumerate(volumes[:3]))
    points = 0
    for n in count(1):
        outcome = check(crowd.trial(), seed=1, plan=FaultPlan((*deletions, Crash(PROTECTION, n, DOWN)), 0.01))
        if not any("crashed" in entry.what for entry in outcome.history.entries if isinstance(entry, Noted)):
            break
        points = n
    assert points >= 1


@pytest.mark.parametrize("second", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("first", [1, 2, 4, 6])
def test_scheduler_and_pv_controller_may_both_crash(first: int, second: int) -> None:
    check(PODS, seed=1, plan=FaultPlan((Crash(SCHEDULER, first, DOWN), Crash(BINDER, second, 3 * DOWN)), 0.01))


@pytest.mark.req("T16.api-error", "T16.conflict")
@pytest.mark.parametrize(
    ("who", "trouble"),
    [
        *(pytest.param(SCHEDULER, trouble, id=f"scheduler: {trouble.value}") for trouble in Trouble),
        pytest.param(BINDER, Trouble.LOST_ANSWER, id="PV controller: the answer got lost"),
        pytest.param(BINDER, Trouble.OVERTAKEN, id="PV controller: another writer was faster"),
    ],
)
def test_any_single_request_may_go_wrong(who: str, trouble: Trouble) -> None:
    points = next(n for n in count(1) if not strikes(ONE_POD, BadCall(who, n, trouble, 5.0))) - 1
    assert points >= 3, "fewer requests than the work takes"


@pytest.mark.parametrize("trouble", [pytest.param(trouble, id=trouble.value) for trouble in StoreTrouble])
def test_any_single_write_may_go_wrong_in_the_store(trouble: StoreTrouble) -> None:
    points = next(n for n in count(1) if not strikes(ONE_POD, BadWrite(n, trouble, 5.0))) - 1
    assert points >= 10, "fewer writes than a pod with two claims takes"
