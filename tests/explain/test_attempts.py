"""The scheduler's attempts in words."""

import pytest

from builders import claim_body, pod_body
from mooring.api.kinds import CLAIM, POD
from mooring.explain.attempts import told
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.timeline import Traces, story, tried_for
from mooring.scheduler.attempt_log import Attempt, Attempts, Objection, Supply
from mooring.scheduler.metrics import Result

#: 2026-01-02T03:04:05Z.
AT = 1_767_323_045.25
FULL = Objection("NodeResourcesFit", "Insufficient cpu", 5, ("n1", "n2", "n3"))
TAINTED = Objection("TaintToleration", "node(s) had untolerated taint(s)", 1, ("n9",))


def placed(**more: object) -> Attempt:
    attempt = Attempt(AT, "uid", 1, 6, result=Result.SCHEDULED, node="n1", feasible=1, seconds=0.25)
    for name, value in more.items():
        setattr(attempt, name, value)
    return attempt


@pytest.mark.parametrize(
    ("attempt", "want"),
    [
        pytest.param(
            Attempt(AT, "uid", 1, 6, Result.UNSCHEDULABLE, objections=(FULL, TAINTED)),
            "attempt 1: no node of 6: n1, n2, n3 and 2 more (Insufficient cpu), n9 (node(s) had untolerated taint(s))",
            id="no node",
        ),
        pytest.param(
            Attempt(AT, "uid", 3, 6, Result.UNSCHEDULABLE, objections=(Objection("P", "no such claim", 6),)),
            "attempt 3: no node of 6: no such claim",
            id="refused as a whole",
        ),
        pytest.param(
            Attempt(AT, "uid", 1, 6, Result.UNSCHEDULABLE, objections=(TAINTED,) * 8, omitted=2),
            f"attempt 1: no node of 6: {', '.join(['n9 (node(s) had untolerated taint(s))'] * 6)} and 4 reasons more",
            id="many reasons",
        ),
        pytest.param(Attempt(AT, "uid", 1, 0, Result.UNSCHEDULABLE), "attempt 1: no node of 0", id="no nodes at all"),
        pytest.param(
            Attempt(AT, "uid", 2, 6, Result.UNSCHEDULABLE, objections=(TAINTED,), nominated="n4"),
            "attempt 2: no node of 6: n9 (node(s) had untolerated taint(s)); others are to make way on n4",
            id="after preemption",
        ),
        pytest.param(placed(), "attempt 1: chose n1, the only one of 6; bound after 250 ms", id="one node"),
        pytest.param(
            placed(number=2, woken_by="Node n1 was added", objections=(TAINTED,), seconds=12.34),
            "attempt 2, because Node n1 was added: chose n1, the only one of 6; "
            "not n9 (node(s) had untolerated taint(s)); bound after 12.3 s",
            id="woken",
        ),
        pytest.param(
            placed(feasible=5, score=312.0, runner_up="n2", runner_up_score=290.4),
            "attempt 1: chose n1 among 5 of 6 nodes that would do, with 312 points before n2 with 290; "
            "bound after 250 ms",
            id="before another",
        ),
        pytest.param(
            placed(feasible=5, score=312.31, runner_up="n2", runner_up_score=312.24),
            "attempt 1: chose n1 among 5 of 6 nodes that would do, with 312.31 points before n2 with 312.24; "
            "bound after 250 ms",
            id="hardly before another",
        ),
        pytest.param(
            placed(feasible=5, score=312.0, runner_up="n2", runner_up_score=312.0),
            "attempt 1: chose n1 among 5 of 6 nodes that would do, by lot: n2 had as many points; bound after 250 ms",
            id="among equals",
        ),
        pytest.param(
            placed(result=None, supplies=(Supply("default/a", "disk"), Supply("default/b"))),
            "attempt 1: chose n1, the only one of 6; default/a is to get disk, "
            "default/b is to get a volume that is made; is being bound",
            id="binding",
        ),
        pytest.param(
            placed(result=Result.ERROR, message="context deadline exceeded", seconds=600.0),
            "attempt 1: chose n1, the only one of 6; failed after 600.0 s: context deadline exceeded",
            id="failed",
        ),
    ],
)
def test_an_attempt_is_one_line(attempt: Attempt, want: str) -> None:
    assert told(attempt) == want


def objects(*documents: object) -> ClusterObjects:
    found = ClusterObjects()
    for document in documents:
        found.add(document)
    return found


def test_attempts_stand_among_what_else_happened() -> None:
    pod = pod_body(name="web", uid="new")
    pod["metadata"]["creationTimestamp"] = "2026-01-02T03:04:05Z"
    kept = Attempts("default/web", (placed(pod_uid="old"), placed(pod_uid="new", at=AT + 60)))
    tale = story(POD, "default/web", objects(pod), Traces(), [kept])
    assert tale is not None
    assert [(each.at, each.text.partition(":")[0], each.source) for each in tale.happenings] == [
        ("2026-01-02T03:04:05Z", "was created", "metadata"),
        ("2026-01-02T03:04:05.250000Z", "attempt 1 (of an earlier one of the name)", "scheduler"),
        ("2026-01-02T03:05:05.250000Z", "attempt 1", "scheduler"),
    ]
    assert tale.attempts == (kept,)


def test_a_pod_that_is_gone_is_told_of_from_what_the_scheduler_remembers() -> None:
    tale = story(POD, "default/web", objects(), Traces(), [Attempts("default/web", (placed(),))])
    assert tale is not None
    assert tale.verdict == "There is no pod default/web any more; this is what was told of it."
    assert story(POD, "default/web", objects(), Traces(), [Attempts("default/web", ())]) is None


def test_of_a_claim_the_pods_that_mount_it_are_asked_for() -> None:
    pods = [pod_body(name=f"p{number}", claims=["data"]) for number in range(5)]
    seen = objects(claim_body(name="data"), pod_body(name="a", claims=["other"]), *pods)
    assert tried_for(CLAIM, "default/data", seen) == ("default/p0", "default/p1", "default/p2")
    assert tried_for(POD, "default/gone", seen) == ("default/gone",)
