"""The end-to-end list of the topology design while controllers crash, requests fail and watches break.

Each case runs in its own cluster, so that a crash can follow every write of every controller.
"""

from collections.abc import Iterable
from functools import partial
from itertools import count

import msgspec
import pytest

from mooring.api.kinds import POD
from mooring.cluster.bootstrap import Layout
from support.scenarios.design_list import CASES, Case
from support.simulation.cluster import FAULTS_STOPPED
from support.simulation.fault_scenario import FaultScenario, check
from support.simulation.faults import Crash, FaultLimits, FaultPlan, draw
from support.simulation.history import Noted
from support.simulation.invariants import ALWAYS, Facts, Subject, Violation, apart
from support.simulation.mixtures import PROVISIONER
from support.simulation.scenarios import BINDER, NODES, SCHEDULER, SETS, create_objects, seeds

CONTROLLERS = (SCHEDULER, BINDER, SETS, PROVISIONER)
WITH_ALL = pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
DOWN = 2.0

#: Mostly crashes, and other faults so that restarted controllers find partial state.
CRASHES = FaultLimits(
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
    """The expected number of pods runs on allowed nodes, and the others are pending.

    Of two that must share a node with one volume, it depends on the crashes which one got it.
    """
    running = {pod.name: pod.spec.node_name for pod in facts.pods.values() if pod.status.phase == "Running"}
    waiting = [pod.name for pod in facts.pods.values() if not pod.spec.node_name]
    there = len(running) == len(case.runs) and len(waiting) == len(case.waits)
    if not there or not set(running.values()) <= set(case.nodes):
        text = f"{running} run and {waiting} wait, where {case.runs} should run on {case.nodes}"
        yield Violation("as designed", text, tuple(Subject(POD, key) for key in facts.pods))


def scenario(case: Case) -> FaultScenario:
    return FaultScenario(
        Layout(local_volumes=0),
        partial(create_objects, case.objects, 0.0),
        rules=(*ALWAYS, apart),
        expect=partial(as_designed, case),
    )


@pytest.mark.slow
@pytest.mark.req("T43.crashes")
@WITH_ALL
@pytest.mark.parametrize("instance", CONTROLLERS)
def test_crash_between_any_two_writes_does_not_change_result(case: Case, instance: str) -> None:
    for write in count(1):
        result = check(scenario(case), seed=1, plan=FaultPlan((Crash(instance, write, DOWN),), 0.01))
        if not any(entry.what != FAULTS_STOPPED for entry in result.history.entries if isinstance(entry, Noted)):
            return


@pytest.mark.req("T43.crashes")
@WITH_ALL
@pytest.mark.parametrize("seed", seeds(4))
def test_design_list_result_under_random_faults(case: Case, seed: int) -> None:
    check(scenario(case), seed=seed, plan=draw(seed, CRASHES))


@pytest.mark.req("T43.crashes")
@pytest.mark.parametrize("seed", seeds(8))
def test_statefulsets_run_after_repeated_crashes(seed: int) -> None:
    """All cases with StatefulSets whose pods can all run, in one cluster."""
    sets = [case for case in CASES if case.name in ("apart", "together", "fallback")]
    limits = msgspec.structs.replace(CRASHES, crashes=14, writes=16)

    def all_run(facts: Facts) -> Iterable[Violation]:
        running = {pod.name for pod in facts.pods.values() if pod.status.phase == "Running"}
        if missing := {name for case in sets for name in case.runs} - running:
            yield Violation("the sets come up", f"{missing} do not run", tuple(Subject(POD, key) for key in facts.pods))

    bodies = [body for case in sets for body in case.objects]
    together = FaultScenario(
        Layout(local_volumes=0),
        partial(create_objects, bodies, 0.0),
        rules=(*ALWAYS, apart),
        expect=all_run,
        fault_seconds=60.0,
    )
    check(together, seed=seed, plan=draw(seed, limits))
