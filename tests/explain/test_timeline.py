"""Stories rebuilt from what a cluster keeps."""

from builders import Body, attachment_body, claim_body, claim_ref, pod_body, volume_body
from mooring.api import keys
from mooring.api.kinds import CLAIM, POD, Kind
from mooring.api.views.meta import ApiObject
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.timeline import Happening, Story, Traces, story
from mooring.volumes.holds import objects as marks


def told(*documents: Body, kind: Kind[ApiObject] = POD, key: str = "default/web") -> Story | None:
    objects, traces = ClusterObjects(), Traces()
    for document in documents:
        objects.add(document)
        traces.add(document)
    return story(kind, key, objects, traces)


def happenings(*documents: Body, kind: Kind[ApiObject] = POD, key: str = "default/web") -> tuple[Happening, ...]:
    found = told(*documents, kind=kind, key=key)
    assert found is not None
    return found.happenings


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


def test_events_conditions_and_dates_are_told_in_order() -> None:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": at(9)}
    pod = created(pod_body(name="web", uid="web-uid", phase="Running", node="n1", conditions=[condition]), 1)
    lines = happenings(event("e", pod, first=3, message="Successfully assigned"), pod)
    assert [(each.at, each.text, each.source) for each in lines] == [
        (at(1), "was created", "metadata"),
        (at(3), "Scheduled: Successfully assigned", "event"),
        (at(9), "Ready became True", "condition"),
    ]
    assert lines[1].who == "default-scheduler"


def test_what_happens_within_a_second_is_told_as_it_goes() -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": at(1)}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(1)}
    pod = created(pod_body(name="web", uid="web-uid", phase="Running", node="n1", conditions=[ready, scheduled]), 1)
    lines = happenings(event("e", pod, first=1, message="Successfully assigned"), pod)
    assert [each.text for each in lines] == [
        "was created",
        "PodScheduled became True",
        "Scheduled: Successfully assigned",
        "Ready became True",
    ]


def test_what_went_on_for_a_while_is_told_once() -> None:
    failed = event("e", POD_BODY, first=3, last=50, count=7, reason="FailedScheduling", message="0/3 nodes")
    line = next(each for each in happenings(POD_BODY, failed) if each.source == "event")
    assert (line.times, line.until) == (7, at(50))


def test_claims_volumes_and_attachments_belong_to_the_story() -> None:
    claim = created(claim_body(name="data", uid="data-uid", volume="disk", bound=True, phase="Bound"), 2)
    volume = created(volume_body(name="disk", claim_ref=claim_ref(name="data", uid="data-uid"), phase="Bound"), 4)
    volume["status"]["lastPhaseTransitionTime"] = at(6)
    attached = created(attachment_body(volume="disk", node="n1"), 7)
    other = created(volume_body(name="other"), 5)
    lines = happenings(POD_BODY, claim, volume, attached, other)
    assert [(each.about.partition("/")[0], each.text) for each in lines] == [
        ("pod", "was created"),
        ("pvc", "was created"),
        ("pv", "was created"),
        ("pv", "became Bound"),
        ("volumeattachment", "was created"),
    ]


def test_a_held_volume_is_told_of_before_it_is_the_claims() -> None:
    notes = {
        marks.CLAIM: "default/data",
        marks.NODE: "n1",
        marks.SINCE: at(8),
        marks.ATTEMPT: "2",
        marks.REASON: "n1 has no room for its sibling",
        keys.VOLUME_CREATED_AT: at(7),
        keys.PROVISIONED_BY: "disks.example.com",
    }
    claim = claim_body(name="data", uid="data-uid", selected_node="n1")
    found = told(POD_BODY, claim, volume_body(name="disk", annotations=notes))
    assert found is not None
    told_of = {each.text: each for each in found.happenings}
    assert told_of["is held for default/data on n1, attempt 2"].at == at(8)
    assert told_of["its storage was made"].who == "disks.example.com"
    assert found.now == (
        "pvc/default/data: a volume is to be made for n1",
        "pv/disk: is being rolled back: n1 has no room for its sibling",
    )


def test_the_last_write_of_every_writer_is_told_with_its_fields() -> None:
    pod = pod_body(name="web", uid="web-uid")
    many = {f"f:field{number}": {} for number in range(6)}
    pod["metadata"]["managedFields"] = [
        {"manager": "kube-scheduler", "time": at(2), "fieldsV1": {"f:spec": {"f:nodeName": {}}}},
        {"manager": "kubelet", "time": at(3), "subresource": "status", "fieldsV1": {"f:status": many}},
    ]
    assert [(each.who, each.text) for each in happenings(pod)] == [
        ("kube-scheduler", "last wrote spec.nodeName"),
        ("kubelet", "last wrote (status) status.field0, status.field1, status.field2, status.field3 and 2 more"),
    ]


def test_a_pod_that_is_gone_is_known_by_what_was_told_of_it() -> None:
    found = told(event("e", POD_BODY, first=3))
    assert found is not None
    assert found.verdict == "There is no pod default/web any more; this is what was told of it."
    assert len(found.happenings) == 1


def test_events_of_an_earlier_pod_of_the_name_say_so() -> None:
    [line] = [each for each in happenings(POD_BODY, event("e", POD_BODY, first=3, uid="old")) if each.source == "event"]
    assert line.text == "Scheduled (of an earlier one of the name): done"


def test_a_claim_has_a_story_of_its_own() -> None:
    claim = created(claim_body(name="data", uid="data-uid", phase="Pending"), 2)
    found = told(claim, POD_BODY, kind=CLAIM, key="default/data")
    assert found is not None
    assert (found.subject, found.verdict) == ("pvc/default/data", "Claim default/data is Pending.")
    assert [each.about for each in found.happenings] == ["pvc/default/data"]


def test_where_nothing_was_told_there_is_no_story() -> None:
    assert told(event("e", pod_body(name="other"), first=1)) is None
