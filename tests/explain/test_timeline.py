"""The scheduler's attempts in words.

Stories rebuilt from what a cluster keeps.
"""

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, POD, POD_GROUP, Kind
from mooring.api.views.meta import ApiObject
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.timeline import (
    FieldWriters,
    ObjectTimeline,
    TimelineEntry,
    attempt_line,
    object_timeline,
    pods_to_ask,
)
from mooring.scheduler.attempt_log import Attempt, Attempts, RejectionSummary, VolumeAssignment
from mooring.scheduler.metrics import Result
from mooring.volumes.holds import objects as marks
from support.builders import Body, attachment_body, claim_body, claim_ref, pod_body, volume_body
from support.builders.groups import member_body, pod_group_body
from support.explain.clusters import event_body, listed

#: 2026-01-02T03:04:05Z.
AT = 1_767_323_045.25
FULL = RejectionSummary("NodeResourcesFit", "Insufficient cpu", 5, ("n1", "n2", "n3"))
TAINTED = RejectionSummary("TaintToleration", "node(s) had untolerated taint(s)", 1, ("n9",))


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
            "attempt 1: no feasible node of 6: n1, n2, n3 and 2 more (Insufficient cpu), n9 (node(s) had untolerated "
            "taint(s))",
            id="no node",
        ),
        pytest.param(
            Attempt(AT, "uid", 3, 6, Result.UNSCHEDULABLE, objections=(RejectionSummary("P", "no such claim", 6),)),
            "attempt 3: no feasible node of 6: no such claim",
            id="refused as a whole",
        ),
        pytest.param(
            Attempt(AT, "uid", 1, 6, Result.UNSCHEDULABLE, objections=(TAINTED,) * 8, omitted=2),
            f"attempt 1: no feasible node of 6: {', '.join(['n9 (node(s) had untolerated taint(s))'] * 6)} and 4 "
            "more reasons",
            id="many reasons",
        ),
        pytest.param(
            Attempt(AT, "uid", 1, 0, Result.UNSCHEDULABLE), "attempt 1: no feasible node of 0", id="no nodes at all"
        ),
        pytest.param(
            Attempt(AT, "uid", 2, 6, Result.UNSCHEDULABLE, objections=(TAINTED,), nominated="n4"),
            "attempt 2: no feasible node of 6: n9 (node(s) had untolerated taint(s)); preempting pods on n4",
            id="after preemption",
        ),
        pytest.param(
            placed(), "attempt 1: selected n1, the only feasible node of 6; bound after 250 ms", id="one node"
        ),
        pytest.param(
            placed(number=2, woken_by="Node n1 was added", objections=(TAINTED,), seconds=12.34),
            "attempt 2 (requeued: Node n1 was added): selected n1, the only feasible node of 6; "
            "rejected: n9 (node(s) had untolerated taint(s)); bound after 12.3 s",
            id="woken",
        ),
        pytest.param(
            placed(feasible=5, score=312.0, runner_up="n2", runner_up_score=290.4),
            "attempt 1: selected n1 among 5 of 6 feasible nodes: score 312, runner-up n2 290; bound after 250 ms",
            id="before another",
        ),
        pytest.param(
            placed(feasible=5, score=312.0, runner_up="n2", runner_up_score=290.4, volume_policy="Pack"),
            "attempt 1: selected n1 among 5 of 6 feasible nodes: score 312, runner-up n2 290, volumes by Pack; bound "
            "after 250 ms",
            id="with the policy for volumes",
        ),
        pytest.param(
            placed(feasible=5, score=312.31, runner_up="n2", runner_up_score=312.24),
            "attempt 1: selected n1 among 5 of 6 feasible nodes: score 312.31, runner-up n2 312.24; bound after 250 ms",
            id="hardly before another",
        ),
        pytest.param(
            placed(feasible=5, score=312.0, runner_up="n2", runner_up_score=312.0),
            "attempt 1: selected n1 among 5 of 6 feasible nodes, at random: n2 had the same score; bound after 250 ms",
            id="among equals",
        ),
        pytest.param(
            placed(result=None, supplies=(VolumeAssignment("default/a", "disk"), VolumeAssignment("default/b"))),
            "attempt 1: selected n1, the only feasible node of 6; default/a gets disk, "
            "default/b gets a new volume; is being bound",
            id="binding",
        ),
        pytest.param(
            placed(result=Result.ERROR, message="context deadline exceeded", seconds=600.0),
            "attempt 1: selected n1, the only feasible node of 6; failed after 600.0 s: context deadline exceeded",
            id="failed",
        ),
    ],
)
def test_an_attempt_is_one_line(attempt: Attempt, want: str) -> None:
    assert attempt_line(attempt) == want


def objects(*documents: object) -> ClusterObjects:
    found = ClusterObjects()
    for document in documents:
        found.add(document)
    return found


def test_attempts_stand_among_what_else_happened() -> None:
    pod = pod_body(name="web", uid="new")
    pod["metadata"]["creationTimestamp"] = "2026-01-02T03:04:05Z"
    kept = Attempts("default/web", (placed(pod_uid="old"), placed(pod_uid="new", at=AT + 60)))
    tale = object_timeline(POD, "default/web", objects(pod), FieldWriters(), [kept])
    assert tale is not None
    assert [(each.at, each.text.partition(":")[0], each.source) for each in tale.entries] == [
        ("2026-01-02T03:04:05Z", "was created", "metadata"),
        ("2026-01-02T03:04:05.250000Z", "attempt 1 (of an earlier object with this name)", "scheduler"),
        ("2026-01-02T03:05:05.250000Z", "attempt 1", "scheduler"),
    ]
    assert tale.attempts == (kept,)


def test_the_timeline_of_a_deleted_pod_comes_from_the_attempt_log() -> None:
    tale = object_timeline(POD, "default/web", objects(), FieldWriters(), [Attempts("default/web", (placed(),))])
    assert tale is not None
    assert tale.verdict == "There is no pod default/web any more; these are the records about it."
    assert object_timeline(POD, "default/web", objects(), FieldWriters(), [Attempts("default/web", ())]) is None


def test_of_a_claim_the_pods_that_mount_it_are_asked_for() -> None:
    pods = [pod_body(name=f"p{number}", claims=["data"]) for number in range(5)]
    seen = objects(claim_body(name="data"), pod_body(name="a", claims=["other"]), *pods)
    assert pods_to_ask(CLAIM, "default/data", seen) == ("default/p0", "default/p1", "default/p2")
    assert pods_to_ask(POD, "default/gone", seen) == ("default/gone",)


def timeline_of(*documents: Body, kind: Kind[ApiObject] = POD, key: str = "default/web") -> ObjectTimeline | None:
    objects, writers = ClusterObjects(), FieldWriters()
    for document in documents:
        objects.add(document)
        writers.add(document)
    return object_timeline(kind, key, objects, writers)


def entries(*documents: Body, kind: Kind[ApiObject] = POD, key: str = "default/web") -> tuple[TimelineEntry, ...]:
    found = timeline_of(*documents, kind=kind, key=key)
    assert found is not None
    return found.entries


def at(second: int) -> str:
    return f"2026-01-02T03:04:{second:02d}Z"


def event(name: str, about: Body, *, first: int, last: int | None = None, count: int = 1, **more: str) -> Body:
    meta = about["metadata"]
    involved = {"kind": about["kind"], "apiVersion": "v1", "name": meta["name"], "uid": meta.get("uid", "")}
    if "namespace" in meta:
        involved["namespace"] = meta["namespace"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": involved | {key: value for key, value in more.items() if key == "uid"},
        "reason": more.get("reason", "Scheduled"),
        "message": more.get("message", "done"),
        "source": {"component": "default-scheduler"},
        "firstTimestamp": at(first),
        "lastTimestamp": at(first if last is None else last),
        "count": count,
    }


def created(body: Body, second: int) -> Body:
    body["metadata"]["creationTimestamp"] = at(second)
    return body


POD_BODY = created(pod_body(name="web", uid="web-uid", claims=["data"], phase="Running", node="n1"), 1)


def test_events_conditions_and_dates_are_sorted_by_time() -> None:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": at(9)}
    pod = created(pod_body(name="web", uid="web-uid", phase="Running", node="n1", conditions=[condition]), 1)
    lines = entries(event("e", pod, first=3, message="Successfully assigned"), pod)
    assert [(each.at, each.text, each.source) for each in lines] == [
        (at(1), "was created", "metadata"),
        (at(3), "Scheduled: Successfully assigned", "event"),
        (at(9), "Ready became True", "condition"),
    ]
    assert lines[1].component == "default-scheduler"


def test_entries_of_one_second_are_sorted_by_step() -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": at(1)}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(1)}
    pod = created(pod_body(name="web", uid="web-uid", phase="Running", node="n1", conditions=[ready, scheduled]), 1)
    lines = entries(event("e", pod, first=1, message="Successfully assigned"), pod)
    assert [each.text for each in lines] == [
        "was created",
        "PodScheduled became True",
        "Scheduled: Successfully assigned",
        "Ready became True",
    ]


def test_a_repeated_event_is_one_entry() -> None:
    failed = event("e", POD_BODY, first=3, last=50, count=7, reason="FailedScheduling", message="0/3 nodes")
    line = next(each for each in entries(POD_BODY, failed) if each.source == "event")
    assert (line.times, line.until) == (7, at(50))


def test_claims_volumes_and_attachments_belong_to_the_story() -> None:
    claim = created(claim_body(name="data", uid="data-uid", volume="disk", bound=True, phase="Bound"), 2)
    volume = created(volume_body(name="disk", claim_ref=claim_ref(name="data", uid="data-uid"), phase="Bound"), 4)
    volume["status"]["lastPhaseTransitionTime"] = at(6)
    attached = created(attachment_body(volume="disk", node="n1"), 7)
    other = created(volume_body(name="other"), 5)
    lines = entries(POD_BODY, claim, volume, attached, other)
    assert [(each.about.partition("/")[0], each.text) for each in lines] == [
        ("pod", "was created"),
        ("pvc", "was created"),
        ("pv", "was created"),
        ("pv", "became Bound"),
        ("volumeattachment", "was created"),
    ]


def test_a_held_volume_is_listed_before_it_is_bound() -> None:
    notes = {
        marks.CLAIM: "default/data",
        marks.NODE: "n1",
        marks.SINCE: at(8),
        marks.ATTEMPT: "2",
        marks.REASON: "n1 has no room for its sibling",
        well_known.VOLUME_CREATED_AT: at(7),
        well_known.PROVISIONED_BY: "disks.example.com",
    }
    claim = claim_body(name="data", uid="data-uid", selected_node="n1")
    found = timeline_of(POD_BODY, claim, volume_body(name="disk", annotations=notes))
    assert found is not None
    told_of = {each.text: each for each in found.entries}
    assert told_of["is held for default/data on n1, attempt 2"].at == at(8)
    assert told_of["its storage was provisioned"].component == "disks.example.com"
    assert found.now == (
        "pvc/default/data: its selected node is n1",
        "pv/disk: is being rolled back: n1 has no room for its sibling",
    )


def test_the_last_write_of_every_field_manager_is_listed_with_its_fields() -> None:
    pod = pod_body(name="web", uid="web-uid")
    many = {f"f:field{number}": {} for number in range(6)}
    pod["metadata"]["managedFields"] = [
        {"manager": "kube-scheduler", "time": at(2), "fieldsV1": {"f:spec": {"f:nodeName": {}}}},
        {"manager": "kubelet", "time": at(3), "subresource": "status", "fieldsV1": {"f:status": many}},
    ]
    assert [(each.component, each.text) for each in entries(pod)] == [
        ("kube-scheduler", "last wrote spec.nodeName"),
        ("kubelet", "last wrote (status) status.field0, status.field1, status.field2, status.field3 and 2 more"),
    ]


def test_a_deleted_pod_is_known_by_its_events() -> None:
    found = timeline_of(event("e", POD_BODY, first=3))
    assert found is not None
    assert found.verdict == "There is no pod default/web any more; these are the records about it."
    assert len(found.entries) == 1


def test_events_of_an_earlier_pod_of_the_name_say_so() -> None:
    [line] = [each for each in entries(POD_BODY, event("e", POD_BODY, first=3, uid="old")) if each.source == "event"]
    assert line.text == "Scheduled (of an earlier object with this name): done"


def test_a_claim_has_a_story_of_its_own() -> None:
    claim = created(claim_body(name="data", uid="data-uid", phase="Pending"), 2)
    found = timeline_of(claim, POD_BODY, kind=CLAIM, key="default/data")
    assert found is not None
    assert (found.subject, found.verdict) == ("pvc/default/data", "Claim default/data is Pending.")
    assert [each.about for each in found.entries] == ["pvc/default/data"]


def test_an_unknown_object_without_events_has_no_timeline() -> None:
    assert timeline_of(event("e", pod_body(name="other"), first=1)) is None


def test_timeline_of_a_group_has_its_members_and_its_condition() -> None:
    created = {"creationTimestamp": "2026-11-02T10:00:00Z"}
    condition = {
        "type": "PodGroupInitiallyScheduled",
        "status": "True",
        "reason": "Scheduled",
        "lastTransitionTime": "2026-11-02T10:00:09Z",
    }
    group = pod_group_body(conditions=[condition])
    pod = member_body(name="g-0", node="n1", claims=["data"])
    claim = claim_body(name="data")
    for body in (group, pod, claim):
        body["metadata"] |= created
    held = event_body(group, "GroupHolding", "volumes are held until 3 members have theirs", at="2026-11-02T10:00:05Z")
    held["involvedObject"]["apiVersion"] = "scheduling.k8s.io/v1beta1"
    objects = listed(group, pod, claim, held, pod_body(name="other"))
    told = object_timeline(POD_GROUP, "default/g", objects, FieldWriters())
    assert told is not None
    assert told.verdict == "PodGroup default/g has 1 bound members, minCount 3."
    assert [(entry.about, entry.code) for entry in told.entries] == [
        ("pod/default/g-0", "Created"),
        ("podgroup/default/g", "Created"),
        ("pvc/default/data", "Created"),
        ("podgroup/default/g", "GroupHolding"),
        ("podgroup/default/g", "PodGroupInitiallyScheduled"),
    ]
    of_pod = object_timeline(POD, "default/g-0", objects, FieldWriters())
    assert of_pod is not None
    assert [entry.code for entry in of_pod.entries if entry.about == "podgroup/default/g"] == [
        "Created",
        "GroupHolding",
        "PodGroupInitiallyScheduled",
    ]
