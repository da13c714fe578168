"""The end-to-end list of the topology design while controllers crash, requests fail and watches break.

Each case is a world of its own, so that every write of every controller can be the last one of its incarnation.
"""

from collections.abc import Iterable
from functools import partial
from itertools import count

import msgspec
import pytest

from mooring.api.kinds import POD
from mooring.cluster.bootstrap import Layout
from mooring.sim.facts import Facts, Subject
from mooring.sim.faults import Crash, FaultPlan
from mooring.sim.hazards import Hazards, draw
from mooring.sim.history import Noted
from mooring.sim.invariants import ALWAYS, Violation, apart
from mooring.sim.trial import Trial, check
from scenarios.design_list import CASES, Case
from sim.mixtures import PROVISIONER
from sim.trials import BINDER, NODES, SCHEDULER, SETS, arrive, seeds

CONTROLLERS = (SCHEDULER, BINDER, SETS, PROVISIONER)
WITH_ALL = pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
DOWN = 2.0

#: Crashes most of all, and enough else for the restarted to find things half done.
CRASHES = Hazards(
    (*CONTROLLERS, SCHEDULER, BINDER, NODES),
    bad_calls=6,
    bad_watches=4,
    bad_writes=2,
    crashes=6,
    pauses=1,
    restarts=1,
    calls=20,
    writes=10,
)


def as_designed(case: Case, facts: Facts) -> Iterable[Violation]:
    """So many pods run where they may, and the others wait without a node.

    Of two that must share a node with one volume, it depends on the crashes which one got it.
    """
    running = {pod.name: pod.spec.node_name for pod in facts.pods.values() if pod.status.phase == "Running"}
    waiting = [pod.name for pod in facts.pods.values() if not pod.spec.node_name]
    there = len(running) == len(case.runs) and len(waiting) == len(case.waits)
    if not there or not set(running.values()) <= set(case.nodes):
        text = f"{running} run and {waiting} wait, where {case.runs} should run on {case.nodes}"
        yield Violation("as designed", text, tuple(Subject(POD, key) for key in facts.pods))


def trial(case: Case) -> Trial:
    return Trial(
        Layout(local_volumes=0),
        partial(arrive, case.objects, 0.0),
        rules=(*ALWAYS, apart),
        expect=partial(as_designed, case),
    )


@pytest.mark.req("T43")
@WITH_ALL
@pytest.mark.parametrize("who", CONTROLLERS)
def test_a_crash_between_any_two_writes_changes_nothing_in_the_end(case: Case, who: str) -> None:
    for write in count(1):
        outcome = check(trial(case), seed=1, plan=FaultPlan((Crash(who, write, DOWN),), 0.01))
        if not any(entry.what != "calm" for entry in outcome.history.entries if isinstance(entry, Noted)):
            return


@pytest.mark.req("T43")
@WITH_ALL
@pytest.mark.parametrize("seed", seeds(4))
def test_the_list_comes_out_as_designed_whatever_goes_wrong(case: Case, seed: int) -> None:
    check(trial(case), seed=seed, plan=draw(seed, CRASHES))


@pytest.mark.req("T43")
@pytest.mark.parametrize("seed", seeds(8))
def test_the_sets_come_up_although_every_controller_crashes_again_and_again(seed: int) -> None:
    """All cases with StatefulSets that can come up, in one cluster."""
    sets = [case for case in CASES if case.name in ("apart", "together", "fallback")]
    hazards = msgspec.structs.replace(CRASHES, crashes=14, writes=16)

    def all_run(facts: Facts) -> Iterable[Violation]:
        running = {pod.name for pod in facts.pods.values() if pod.status.phase == "Running"}
        if missing := {name for case in sets for name in case.runs} - running:
            yield Violation("the sets come up", f"{missing} do not run", tuple(Subject(POD, key) for key in facts.pods))

    bodies = [body for case in sets for body in case.objects]
    together = Trial(
        Layout(local_volumes=0), partial(arrive, bodies, 0.0), rules=(*ALWAYS, apart), expect=all_run, rough=60.0
    )
    check(together, seed=seed, plan=draw(seed, hazards))
