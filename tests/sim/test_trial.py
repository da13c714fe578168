"""Trials: what is broken is found, made small, and told."""

import asyncio
import itertools
from collections.abc import Iterable, Iterator

import msgspec
import pytest

from builders import claim_body, pod_body
from mooring.api.kinds import POD
from mooring.api.views.pod import Pod
from mooring.cluster.bootstrap import Layout
from mooring.control.queue import WorkQueue
from mooring.control.worker import work
from mooring.sim.facts import Facts, Step, Subject
from mooring.sim.faults import Crash, Deletion, FaultPlan, Twin
from mooring.sim.hazards import draw
from mooring.sim.invariants import Violation
from mooring.sim.story import difference
from mooring.sim.trial import Broken, Trial, check, run
from mooring.sim.world import World
from mooring.store.contract import Record, Revision
from scenarios import in_world
from sim.trials import BINDER, ROUGH, SCHEDULER


async def one_pod(world: World) -> None:
    await in_world.create(world, claim_body(), pod_body(claims=["claim-1"]))


def no_pod_goes(_: Facts, step: Step) -> Iterator[Violation]:
    """A rule that holds unless a user deletes the pod."""
    if step.after is None and isinstance(step.before, Pod):
        yield Violation("no pod goes", f"{step.before.key} went", (Subject(POD, step.before.key),))


SENSITIVE = Trial(Layout(), one_pod, rules=(no_pod_goes,))
DELETION = Deletion("pods", "default/pod-1", write=7)


def test_a_broken_rule_is_reported_with_seed_smallest_plan_and_story() -> None:
    drawn = draw(4, ROUGH)
    assert len(drawn.faults) > 5
    with pytest.raises(Broken) as caught:
        check(SENSITIVE, seed=4, plan=FaultPlan((*drawn.faults, DELETION), latency=0.2))
    lines = str(caught.value).splitlines()
    assert lines[:6] == [
        "no pod goes: default/pod-1 went",
        "seed 4, plan FaultPlan(",
        "    faults=(",
        "        Deletion(kind='pods', key='default/pod-1', write=7),",
        "    ),",
        "    latency=0.0,",
    ]
    story = "\n".join(lines[6:])
    for told in (
        "user                         create Pod default/pod-1: new",
        f"{SCHEDULER}            patch PersistentVolume local-node-",
        "spec.claimRef: – → default/claim-1",
        "says of PersistentVolumeClaim claim-1: Normal WaitForPodScheduled",
        "! deletes pods default/pod-1",
        "Pod default/pod-1: gone",
    ):
        assert told in story


def test_the_run_ends_with_the_write_that_broke_a_rule() -> None:
    outcome = run(SENSITIVE, seed=0, plan=FaultPlan((DELETION,)))
    last = [entry for entry in outcome.history.writes() if entry.kind is POD][-1]
    assert last.change.after is None
    assert last.at < 1.0


def test_what_must_be_true_at_the_end_is_asked_at_the_end() -> None:
    def no_claim_is_bound(facts: Facts) -> Iterable[Violation]:
        return [Violation("no claim is bound", key, ()) for key, claim in facts.claims.items() if claim.fully_bound]

    outcome = run(Trial(Layout(), one_pod, expect=no_claim_is_bound), seed=0, plan=FaultPlan())
    assert outcome.violation == Violation("no claim is bound", "default/claim-1", ())


def test_a_failing_component_is_a_broken_rule() -> None:
    async def fail(_: World) -> None:
        raise ZeroDivisionError

    violation = run(Trial(Layout(), fail), seed=0, plan=FaultPlan()).violation
    assert violation is not None
    assert violation.rule == "nobody fails"
    assert "ZeroDivisionError" in violation.text


def test_a_bug_that_a_worker_survived_is_a_broken_rule() -> None:
    async def reconcile(_: str) -> None:
        raise ZeroDivisionError

    async def work_badly(world: World) -> None:
        queue: WorkQueue[str] = WorkQueue(world.clock)
        queue.add("key")
        worker = asyncio.ensure_future(work(queue, reconcile, workers=1, name="bad"))
        await world.clock.sleep(0.001)
        worker.cancel()

    violation = run(Trial(Layout(), work_badly), seed=0, plan=FaultPlan()).violation
    assert violation is not None
    assert violation.rule == "no bugs"


def test_time_that_stands_still_is_a_broken_rule() -> None:
    async def spin(_: World) -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    violation = run(Trial(Layout(), spin), seed=0, plan=FaultPlan()).violation
    assert violation is not None
    assert violation.rule == "time goes on"


def test_an_instance_that_crashed_comes_back_and_works() -> None:
    outcome = check(Trial(Layout(), one_pod), seed=0, plan=FaultPlan((Crash(SCHEDULER, 1, 5.0),)))
    [bind] = [entry for entry in outcome.history.writes() if entry.verb == "bind"]
    assert bind.who == SCHEDULER
    assert 5.0 <= bind.at < 6.0


def test_a_twin_works_beside_the_first() -> None:
    twins = FaultPlan((Twin(BINDER, 0.0), Twin(SCHEDULER, 0.0)), latency=0.01)
    outcome = check(Trial(Layout(), one_pod), seed=0, plan=twins)
    writers = {entry.who for entry in outcome.history.writes()}
    assert {BINDER, f"{BINDER}-2", SCHEDULER} <= writers


def record(body: dict[str, object]) -> Record:
    return Record("/core/pods/default/p", msgspec.json.encode(body), Revision(1), Revision(1))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        pytest.param(None, {}, "new", id="created"),
        pytest.param({}, None, "gone", id="deleted"),
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
def test_a_write_is_told_in_one_line(
    before: dict[str, object] | None, after: dict[str, object] | None, told: str
) -> None:
    old, new = (None if body is None else record(body) for body in (before, after))
    assert difference(old, new) == told
