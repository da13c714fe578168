"""Events in two forms over one storage."""

from contextlib import aclosing

import pytest

from mooring.api.kinds import EVENT, NEW_EVENT
from mooring.api.patches.contract import MergePatch
from mooring.server.contract import ListOptions, WatchOptions
from support.builders import Body
from support.server.harness import ABSENT, Harness, altered, begins, decoded, problems

NEW: Body = {
    "metadata": {"name": "a"},
    "eventTime": "2026-01-02T03:04:05.000000Z",
    "reportingController": "k8s.io/scheduler",
    "reportingInstance": "scheduler-1",
    "action": "Binding",
    "reason": "Scheduled",
    "regarding": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u"},
    "note": "assigned",
    "type": "Normal",
}
OLD: Body = {
    "metadata": {"name": "b"},
    "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u"},
    "message": "assigned",
    "reason": "Scheduled",
    "type": "Normal",
    "source": {"component": "scheduler"},
    "firstTimestamp": "2026-01-02T03:04:05Z",
    "lastTimestamp": "2026-01-02T03:04:06Z",
    "count": 2,
}


async def test_what_is_written_in_the_new_form_is_read_in_both(server: Harness) -> None:
    written = await server.create(NEW_EVENT, NEW)
    assert written["apiVersion"] == "events.k8s.io/v1"
    assert {field: written[field] for field in NEW if field != "metadata"} == {
        field: NEW[field] for field in NEW if field != "metadata"
    }
    old = await server.get(EVENT, "a")
    assert (old["apiVersion"], old["kind"]) == ("v1", "Event")
    assert (old["message"], old["involvedObject"], old["reportingComponent"]) == (
        "assigned",
        NEW["regarding"],
        "k8s.io/scheduler",
    )
    assert old["metadata"] == written["metadata"]
    assert await server.get(NEW_EVENT, "a") == written


async def test_what_is_written_in_the_old_form_is_read_in_both(server: Harness) -> None:
    await server.create(EVENT, OLD)
    [new] = await server.listed(NEW_EVENT)
    assert new["apiVersion"] == "events.k8s.io/v1"
    assert (new["note"], new["regarding"], new["deprecatedCount"]) == ("assigned", OLD["involvedObject"], 2)
    assert (new["deprecatedSource"], new["deprecatedLastTimestamp"]) == (
        {"component": "scheduler"},
        "2026-01-02T03:04:06Z",
    )


async def test_a_name_is_taken_in_both(server: Harness) -> None:
    await server.create(EVENT, OLD)
    assert (await server.update(NEW_EVENT, (await server.get(NEW_EVENT, "b"))))["metadata"]["name"] == "b"
    await server.delete(NEW_EVENT, "b")
    assert await server.listed(EVENT) == []


async def test_a_series_is_patched_in_the_new_form(server: Harness) -> None:
    await server.create(NEW_EVENT, NEW)
    series = {"count": 2, "lastObservedTime": "2026-01-02T03:05:05.000000Z"}
    await server.patch(NEW_EVENT, "a", MergePatch({"series": series}))
    assert (await server.get(EVENT, "a"))["series"] == series


async def test_each_watch_sees_its_own_form(server: Harness) -> None:
    for kind, field in ((EVENT, "message"), (NEW_EVENT, "note")):
        options = WatchOptions(resource_version=str(server.revision))
        async with aclosing(await server.watch(kind, options)) as stream:
            await server.create(NEW_EVENT, altered(NEW, ("metadata.name", kind.group or "core")))
            event = await anext(stream)
            assert event is not None
            body = decoded(event.body)
            assert (body["apiVersion"], body[field]) == (kind.api_version, "assigned")


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        pytest.param("regarding.name=p,regarding.kind=Pod", ["a", "b"], id="what it is about"),
        pytest.param("reportingController=k8s.io/scheduler", ["a"], id="who says so"),
        pytest.param("reason=Scheduled,type!=Normal", [], id="what and how bad"),
    ],
)
async def test_fields_of_the_new_form(server: Harness, selector: str, found: list[str]) -> None:
    await server.create(NEW_EVENT, NEW)
    await server.create(EVENT, OLD)
    listed = await server.listed(NEW_EVENT, ListOptions(fields=selector))
    assert [obj["metadata"]["name"] for obj in listed] == found


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(("eventTime", ABSENT), ["eventTime: Required value"], id="no time"),
        pytest.param(
            ("reportingController", ABSENT),
            ["reportingController: Required value", *["reportingController: Invalid value"] * 2],
            id="no reporter",
        ),
        pytest.param(("reportingInstance", ABSENT), ["reportingInstance: Required value"], id="no instance"),
        pytest.param(("action", ABSENT), ["action: Required value"], id="no action"),
        pytest.param(("reason", "x" * 129), ['reason: Invalid value: "": can have at most 128'], id="long reason"),
        pytest.param(("note", "x" * 1025), ['message: Invalid value: "": can have at most 1024'], id="long note"),
        pytest.param(("type", "Odd"), ['type: Invalid value: "": has invalid value: Odd'], id="odd type"),
        pytest.param(("deprecatedCount", 2), ['count: Invalid value: "": needs to be unset'], id="a count"),
        pytest.param(
            ("series", {"count": 1}),
            ['series.count: Invalid value: "": should be at least 2', "series.lastObservedTime: Required value"],
            id="half a series",
        ),
        pytest.param(
            ("regarding.namespace", ABSENT),
            [],
            id="about the cluster, in default",
        ),
    ],
)
async def test_a_new_event_must_be_whole(server: Harness, change: tuple[str, object], expected: list[str]) -> None:
    found = await problems(server.create(NEW_EVENT, altered(NEW, change)))
    assert begins(found, expected), found


async def test_only_the_series_of_a_new_event_changes(server: Harness) -> None:
    await server.create(NEW_EVENT, NEW)
    found = await problems(server.patch(NEW_EVENT, "a", MergePatch({"note": "other"})))
    assert found == ['message: Invalid value: "other": field is immutable']
    await server.patch(EVENT, "a", MergePatch({"message": "other"}))
    assert (await server.get(NEW_EVENT, "a"))["note"] == "other"
