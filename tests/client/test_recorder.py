import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from mooring.api.errors import AlreadyExists, Forbidden, ServiceUnavailable
from mooring.api.kinds import EVENT, NODE, POD, Kind
from mooring.api.names import check_dns1123_subdomain
from mooring.client.contract import Unreachable, V
from mooring.client.event_series import BURST, COMBINED, SIMILAR
from mooring.client.recorder import (
    FLUSH_SECONDS,
    MAX_ATTEMPTS,
    MAX_QUEUED_EVENTS,
    NORMAL,
    WARNING,
    WRITERS,
    EventRecorder,
)
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock
from support.builders import a_node, a_pod
from support.builders.objects import Body
from support.fake_api_server import FakeApiServer
from support.fake_client import FakeClient

#: Longer than all tries of an event together.
LONG = 120.0


class Stage:
    """A recorder at work on a small server, in virtual time."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.api = FakeApiServer()
        self.client = FakeClient(self.api)
        self.recorder = EventRecorder(self.client, clock, "default-scheduler", random.Random(0))

    def events(self, namespace: str = "") -> list[Body]:
        return self.api.list(EVENT, namespace)

    def writes(self) -> list[str]:
        return self.client.requests


def on_stage(scenario: Callable[[Stage], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        stage = Stage(clock)
        running = asyncio.create_task(stage.recorder.run())
        await scenario(stage)
        assert not running.done()
        running.cancel()

    virtual_time.run_in_virtual_time(main)


def test_an_event_is_written_as_kubectl_expects_it() -> None:
    async def scenario(stage: Stage) -> None:
        pod = a_pod(name="web-0", namespace="shop", uid="u1", version="7")
        stage.recorder.record(pod, POD, NORMAL, "Scheduled", "Successfully assigned shop/web-0 to node-1")
        await stage.clock.sleep(1)
        (event,) = stage.events("shop")
        stem, _, digits = event["metadata"]["name"].rpartition(".")
        assert stem == "web-0"
        assert int(digits, 16) > 0
        written = {field: event[field] for field in event if field not in ("metadata", "apiVersion", "kind")}
        assert written == {
            "involvedObject": {
                "kind": "Pod",
                "apiVersion": "v1",
                "namespace": "shop",
                "name": "web-0",
                "uid": "u1",
                "resourceVersion": "7",
            },
            "type": "Normal",
            "reason": "Scheduled",
            "message": "Successfully assigned shop/web-0 to node-1",
            "source": {"component": "default-scheduler"},
            "reportingComponent": "default-scheduler",
            "reportingInstance": "",
            "count": 1,
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:00Z",
        }

    on_stage(scenario)


def test_events_about_objects_without_a_namespace_are_in_default() -> None:
    async def scenario(stage: Stage) -> None:
        stage.recorder.record(a_node(name="node-1"), NODE, NORMAL, "RegisteredNode", "Node node-1 is here")
        await stage.clock.sleep(1)
        (event,) = stage.events("default")
        assert "namespace" not in event["involvedObject"]

    on_stage(scenario)


def test_repeats_are_counted_on_the_event_that_exists() -> None:
    async def scenario(stage: Stage) -> None:
        for _ in range(3):
            stage.recorder.record(a_pod(), POD, WARNING, "FailedScheduling", "0/3 nodes are available")
            await stage.clock.sleep(60)
        stage.recorder.record(a_pod(), POD, WARNING, "FailedScheduling", "0/4 nodes are available")
        await stage.clock.sleep(1)
        assert sorted((event["message"][:3], event["count"]) for event in stage.events()) == [("0/3", 3), ("0/4", 1)]
        repeated = next(event for event in stage.events() if event["count"] == 3)
        assert repeated["firstTimestamp"] == "2026-01-01T00:00:00Z"
        assert repeated["lastTimestamp"] == "2026-01-01T00:02:00Z"

    on_stage(scenario)


def test_an_event_that_the_server_deleted_is_created_again() -> None:
    async def scenario(stage: Stage) -> None:
        stage.recorder.record(a_pod(), POD, WARNING, "FailedScheduling", "no")
        await stage.clock.sleep(7200)
        stage.api.delete(EVENT, "default", stage.events()[0]["metadata"]["name"])
        stage.recorder.record(a_pod(), POD, WARNING, "FailedScheduling", "no")
        await stage.clock.sleep(1)
        (event,) = stage.events()
        assert event["count"] == 1
        assert event["firstTimestamp"] == "2026-01-01T02:00:00Z"

    on_stage(scenario)


def test_a_write_that_finds_no_answer_is_tried_again() -> None:
    async def scenario(stage: Stage) -> None:
        stage.client.failures = [Unreachable("reset by peer"), ServiceUnavailable("busy")]
        stage.recorder.record(a_pod(), POD, NORMAL, "Scheduled", "yes")
        await stage.clock.sleep(LONG)
        assert len(stage.events()) == 1
        assert stage.writes() == ["create events"] * 3

    on_stage(scenario)


class LosesAnswers(FakeClient):
    """Writes what it is asked to, and breaks the connection before the answer."""

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        made = await super().create(kind, body, namespace=namespace)
        if len(self.requests) == 1:
            raise Unreachable("reset by peer")
        return made


def test_an_event_is_not_written_twice_after_a_lost_response() -> None:
    async def main(clock: VirtualClock) -> None:
        client = LosesAnswers(FakeApiServer())
        recorder = EventRecorder(client, clock, "test", random.Random(0))
        running = asyncio.create_task(recorder.run())
        for _ in range(2):
            recorder.record(a_pod(), POD, NORMAL, "Scheduled", "yes")
            await clock.sleep(LONG)
        running.cancel()
        (event,) = client.api.list(EVENT)
        assert event["count"] == 2

    virtual_time.run_in_virtual_time(main)


def test_an_event_name_that_already_exists_is_replaced() -> None:
    async def scenario(stage: Stage) -> None:
        stage.client.failures = [AlreadyExists("taken")]
        stage.recorder.record(a_pod(), POD, NORMAL, "Scheduled", "yes")
        await stage.clock.sleep(1)
        assert len(stage.events()) == 1

    on_stage(scenario)


@pytest.mark.parametrize(
    ("failures", "tries"),
    [
        pytest.param([Forbidden("the namespace is being terminated")], 1, id="refused for good"),
        pytest.param([Unreachable("no answer")] * MAX_ATTEMPTS, MAX_ATTEMPTS, id="unreachable for too long"),
    ],
)
def test_an_event_that_cannot_be_written_is_given_up_and_the_next_one_is_not(
    failures: list[Exception], tries: int
) -> None:
    async def scenario(stage: Stage) -> None:
        stage.client.failures = list(failures)
        stage.recorder.record(a_pod(name="unlucky"), POD, NORMAL, "Scheduled", "yes")
        await stage.clock.sleep(LONG)
        stage.recorder.record(a_pod(name="lucky"), POD, NORMAL, "Scheduled", "yes")
        await stage.clock.sleep(LONG)
        assert [event["involvedObject"]["name"] for event in stage.events()] == ["lucky"]
        assert len(stage.writes()) == tries + 1

    on_stage(scenario)


def test_recording_never_blocks_and_a_full_queue_drops_the_oldest_event() -> None:
    async def scenario(stage: Stage) -> None:
        for number in range(MAX_QUEUED_EVENTS + 2):
            stage.recorder.record(a_pod(name=f"pod-{number}"), POD, NORMAL, "Scheduled", "yes")
        assert stage.recorder.lost == 2
        await stage.clock.sleep(LONG)
        written = {event["involvedObject"]["name"] for event in stage.events()}
        assert len(written) == MAX_QUEUED_EVENTS
        assert not {"pod-0", "pod-1"} & written

    on_stage(scenario)


class Slow(FakeClient):
    """Takes a second for every answer, and much longer about one pod; knows how many it was asked for at once."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(FakeApiServer())
        self._clock = clock
        self._asked = 0
        self.at_once = 0

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        self._asked += 1
        self.at_once = max(self.at_once, self._asked)
        await self._clock.sleep(30 if body["involvedObject"]["name"] == "slow" else 1)
        self._asked -= 1
        return await super().create(kind, body, namespace=namespace)

    def recorded(self) -> list[tuple[str, str]]:
        written = sorted(self.api.list(EVENT), key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [(event["involvedObject"]["name"], event["reason"]) for event in written]


def with_slow_answers(scenario: Callable[[EventRecorder, Slow, VirtualClock], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        client = Slow(clock)
        recorder = EventRecorder(client, clock, "test", random.Random(0))
        running = asyncio.create_task(recorder.run())
        await scenario(recorder, client, clock)
        assert not running.done()
        running.cancel()

    virtual_time.run_in_virtual_time(main)


def test_a_slow_answer_holds_up_only_what_happened_to_the_same_object() -> None:
    async def scenario(recorder: EventRecorder, client: Slow, clock: VirtualClock) -> None:
        for reason in ("First", "Second"):
            for name in ("slow", "quick", "other"):
                recorder.record(a_pod(name=name), POD, NORMAL, reason, "yes")
        await clock.sleep(3)
        assert sorted(client.recorded()) == [
            (name, reason) for name in ("other", "quick") for reason in ("First", "Second")
        ]
        await clock.sleep(60)
        for name in ("slow", "quick", "other"):
            assert [reason for about, reason in client.recorded() if about == name] == ["First", "Second"]

    with_slow_answers(scenario)


def test_many_events_are_written_at_once_but_not_all() -> None:
    async def scenario(recorder: EventRecorder, client: Slow, clock: VirtualClock) -> None:
        for number in range(10 * WRITERS):
            recorder.record(a_pod(name=f"pod-{number}"), POD, NORMAL, "Scheduled", "yes")
        await clock.sleep(10.5)
        assert len(client.recorded()) == 10 * WRITERS
        assert client.at_once == WRITERS

    with_slow_answers(scenario)


def test_flush_writes_the_last_events_within_its_timeout() -> None:
    async def scenario(recorder: EventRecorder, client: Slow, clock: VirtualClock) -> None:
        began = clock.monotonic()
        await recorder.flush()
        assert clock.monotonic() == began, "there was nothing to write"
        recorder.record(a_pod(name="quick"), POD, NORMAL, "Last", "words")
        await recorder.flush()
        assert client.recorded() == [("quick", "Last")]
        assert clock.monotonic() == began + 1
        recorder.record(a_pod(name="slow"), POD, NORMAL, "Last", "words")
        with capture_logs() as logs:
            await recorder.flush()
        assert clock.monotonic() == began + 1 + FLUSH_SECONDS
        assert [(line["event"], line["count"]) for line in logs] == [("events dropped at shutdown", 1)]

    with_slow_answers(scenario)


def test_an_object_is_not_buried_under_events() -> None:
    async def scenario(stage: Stage) -> None:
        for number in range(BURST + 5):
            stage.recorder.record(a_pod(name="noisy"), POD, WARNING, f"Failed{number}", "again")
        stage.recorder.record(a_pod(name="quiet"), POD, WARNING, "Failed", "attempt 0")
        await stage.clock.sleep(1)
        about = [event["involvedObject"]["name"] for event in stage.events()]
        assert (about.count("noisy"), about.count("quiet")) == (BURST, 1)

    on_stage(scenario)


def test_messages_that_keep_changing_are_one_event_with_the_latest_of_them() -> None:
    async def scenario(stage: Stage) -> None:
        for number in range(SIMILAR + 4):
            stage.recorder.record(a_pod(name="noisy"), POD, WARNING, "Failed", f"attempt {number}")
        await stage.clock.sleep(1)
        [combined] = [event for event in stage.events() if event["message"].startswith(COMBINED)]
        assert (combined["message"], combined["count"]) == (f"{COMBINED}attempt {SIMILAR + 3}", 5)
        assert len(stage.events()) == SIMILAR

    on_stage(scenario)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("web-0", id="short"),
        pytest.param("x" * 253, id="as long as a name may be"),
        pytest.param("x" * 235 + "." + "y" * 17, id="cut at a dot"),
    ],
)
def test_names_of_events_are_names(name: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.recorder.record(a_pod(name=name), POD, NORMAL, "Scheduled", "yes")
        await stage.clock.sleep(1)
        (event,) = stage.events()
        assert check_dns1123_subdomain(event["metadata"]["name"]) == []

    on_stage(scenario)


def test_recorders_of_one_world_do_not_take_each_others_names() -> None:
    async def scenario(stage: Stage) -> None:
        other = EventRecorder(stage.client, stage.clock, "kubelet", random.Random(1))
        running = asyncio.create_task(other.run())
        for recorder in (stage.recorder, other):
            recorder.record(a_pod(), POD, NORMAL, "Same", "moment")
        await stage.clock.sleep(1)
        assert sorted(event["source"]["component"] for event in stage.events()) == ["default-scheduler", "kubelet"]
        assert stage.writes() == ["create events"] * 2
        running.cancel()

    on_stage(scenario)
