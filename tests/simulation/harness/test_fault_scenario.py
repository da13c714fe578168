"""Fault scenarios: violations are found, shrunk and reported."""

import asyncio
import itertools
from collections.abc import Iterable, Iterator

import msgspec
import pytest

from mooring.api.kinds import POD
from mooring.api.views.pods import Pod
from mooring.cluster.bootstrap import Layout
from mooring.control.workqueue import WorkQueue, work
from mooring.store.contract import Record, Revision
from support.builders import claim_body, pod_body
from support.scenarios import simulated
from support.simulation.cluster import SimulatedCluster
from support.simulation.fault_scenario import FaultScenario, InvariantViolated, check, run
from support.simulation.faults import Crash, Deletion, DuplicateInstance, FaultPlan, draw
from support.simulation.invariants import Facts, Step, Subject, Violation
from support.simulation.scenarios import BINDER, FAULT_LIMITS, SCHEDULER
from support.simulation.trace import difference


async def one_pod(cluster: SimulatedCluster) -> None:
    await simulated.create(cluster, claim_body(), pod_body(claims=["claim-1"]))


def no_pod_is_deleted(_: Facts, step: Step) -> Iterator[Violation]:
    """A rule that holds unless a user deletes the pod."""
    if step.after is None and isinstance(step.before, Pod):
        yield Violation("no pod is deleted", step.before.key, (Subject(POD, step.before.key),))


SENSITIVE = FaultScenario(Layout(), one_pod, rules=(no_pod_is_deleted,))
DELETION = Deletion("pods", "default/pod-1", write=7)


def test_violation_reports_seed_smallest_plan_and_trace() -> None:
    drawn = draw(4, FAULT_LIMITS)
    assert len(drawn.faults) > 5
    with pytest.raises(InvariantViolated) as caught:
        check(SENSITIVE, seed=4, plan=FaultPlan((*drawn.faults, DELETION), latency=0.2))
    lines = str(caught.value).splitlines()
    assert lines[:6] == [
        "no pod is deleted: default/pod-1",
        "seed 4, plan FaultPlan(",
        "    faults=(",
        "        Deletion(kind='pods', key='default/pod-1', write=7),",
        "    ),",
        "    latency=0.0,",
    ]
    trace = "\n".join(lines[6:])
    for line in (
        "user                         create Pod default/pod-1: created",
        f"{SCHEDULER}            patch PersistentVolume local-node-",
        "spec.claimRef: – → default/claim-1",
        "event for PersistentVolumeClaim claim-1: Normal WaitForPodScheduled",
        "! deletes pods default/pod-1",
        "Pod default/pod-1: deleted",
    ):
        assert line in trace


def test_run_ends_with_the_violating_write() -> None:
    result = run(SENSITIVE, seed=0, plan=FaultPlan((DELETION,)))
    last = [entry for entry in result.history.writes() if entry.kind is POD][-1]
    assert last.change.after is None
    assert last.at < 1.0


def test_expectation_is_checked_at_the_end() -> None:
    def no_claim_is_bound(facts: Facts) -> Iterable[Violation]:
        return [Violation("no claim is bound", key, ()) for key, claim in facts.claims.items() if claim.fully_bound]

    result = run(FaultScenario(Layout(), one_pod, expect=no_claim_is_bound), seed=0, plan=FaultPlan())
    assert result.violation == Violation("no claim is bound", "default/claim-1", ())


def test_failing_component_is_a_violation() -> None:
    async def fail(_: SimulatedCluster) -> None:
        raise ZeroDivisionError

    violation = run(FaultScenario(Layout(), fail), seed=0, plan=FaultPlan()).violation
    assert violation is not None
    assert violation.rule == "no component fails"
    assert "ZeroDivisionError" in violation.text


def test_logged_internal_error_is_a_violation() -> None:
    async def reconcile(_: str) -> None:
        raise ZeroDivisionError

    async def work_badly(cluster: SimulatedCluster) -> None:
        queue: WorkQueue[str] = WorkQueue(cluster.clock)
        queue.add("key")
        worker = asyncio.ensure_future(work(queue, reconcile, workers=1, name="bad"))
        await cluster.clock.sleep(0.001)
        worker.cancel()

    violation = run(FaultScenario(Layout(), work_badly), seed=0, plan=FaultPlan()).violation
    assert violation is not None
    assert violation.rule == "no bugs"


def test_busy_loop_without_time_is_a_violation() -> None:
    async def spin(_: SimulatedCluster) -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    violation = run(FaultScenario(Layout(), spin), seed=0, plan=FaultPlan()).violation
    assert violation is not None
    assert violation.rule == "time goes on"


def test_busy_loop_is_not_repeated_for_every_fault_of_its_plan() -> None:
    """Each such run costs as much as a hundred others."""
    runs = 0

    async def spin(cluster: SimulatedCluster) -> None:
        nonlocal runs
        runs += 1
        for _ in itertools.count():
            await asyncio.sleep(0)

    plan = FaultPlan(tuple(Crash(SCHEDULER, number, 5.0) for number in range(1, 40)))
    with pytest.raises(InvariantViolated, match="time goes on: 20000 rounds"):
        check(FaultScenario(Layout(), spin), seed=0, plan=plan)
    assert runs <= 8


def test_crashed_instance_restarts() -> None:
    result = check(FaultScenario(Layout(), one_pod), seed=0, plan=FaultPlan((Crash(SCHEDULER, 1, 5.0),)))
    [bind] = [entry for entry in result.history.writes() if entry.verb == "bind"]
    assert bind.author == SCHEDULER
    assert 5.0 <= bind.at < 6.0


def test_duplicate_instance_writes_too() -> None:
    duplicates = FaultPlan((DuplicateInstance(BINDER, 0.0), DuplicateInstance(SCHEDULER, 0.0)), latency=0.01)
    result = check(FaultScenario(Layout(), one_pod), seed=0, plan=duplicates)
    writers = {entry.author for entry in result.history.writes()}
    assert {BINDER, f"{BINDER}-2", SCHEDULER} <= writers


def record(body: dict[str, object]) -> Record:
    return Record("/core/pods/default/p", msgspec.json.encode(body), Revision(1), Revision(1))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(None, {}, "created", id="created"),
        pytest.param({}, None, "deleted", id="deleted"),
        pytest.param({"a": {"b": 1}}, {"a": {"b": 2}}, "a.b: 1 → 2", id="a field"),
        pytest.param({}, {"a": 1}, "a: – → 1", id="a new field"),
        pytest.param({"l": [1]}, {"l": [1, 2]}, "l[1]: – → 2", id="a list"),
        pytest.param(
            {"c": [{"type": "Ready", "status": "False", "reason": "Busy"}]},
            {"c": [{"type": "Ready", "status": "True"}]},
            "c[Ready]: False Busy → True",
            id="a condition",
        ),
        pytest.param({"metadata": {"generation": 1}}, {"metadata": {"generation": 2}}, "nothing", id="only counted"),
        pytest.param({"a": "x"}, {"a": "y" * 100}, f"a: x → {'y' * 39}…", id="a long value"),
        pytest.param(
            {}, {str(n): n for n in range(8)}, "; ".join(f"{n}: – → {n}" for n in range(6)) + "; and 2 more", id="many"
        ),
    ],
)
def test_difference_is_one_line(
    before: dict[str, object] | None, after: dict[str, object] | None, expected: str
) -> None:
    old, new = (None if body is None else record(body) for body in (before, after))
    assert difference(old, new) == expected
