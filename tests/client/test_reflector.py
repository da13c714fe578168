"""The conversation with the server, request by request, in virtual time."""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from mooring.api.errors import BadRequest, Expired, Forbidden, Invalid, NotFound, NotSupported, ServiceUnavailable
from mooring.api.kinds import DEVICE_TAINT_RULE, POD, STORAGE_CAPACITY, Kind
from mooring.api.views.meta import ApiObject, Meta
from mooring.api.views.pods import Pod
from mooring.client.cache import Cache, StaleListing
from mooring.client.contract import ObjectList, Unreachable, WatchEvent, WatchEventType
from mooring.client.informer import MAX_BACKOFF_SECONDS, REFLECTOR_FAILED, Reflector
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock
from support.builders import a_pod
from support.fake_api_server import FakeApiServer
from support.fake_client import FakeClient

#: Longer than any pause: whatever was to be tried again has been.
LONG = 12 * MAX_BACKOFF_SECONDS

Step = WatchEvent[Pod] | Exception


class ScriptedClient(FakeClient):
    """Answers each watch with the next script: its events, then its error or a clean end. The last one never ends."""

    def __init__(self, *scripts: Sequence[Step], listings: Sequence[ObjectList[Pod]] = ()) -> None:
        super().__init__(FakeApiServer())
        self._scripts = list(scripts)
        self._listings = list(listings)

    async def list(self, kind: Any, **_: str) -> ObjectList[Any]:  # noqa: ANN401 - one kind is scripted
        self._request(f"list {kind.plural}")
        return self._listings.pop(0)

    async def watch(self, kind: Any, *, after: str | None, **_: str) -> AsyncGenerator[WatchEvent[Any], None]:  # noqa: ANN401
        self._request(f"watch {kind.plural} after {after}")
        for step in self._scripts.pop(0):
            if isinstance(step, Exception):
                raise step
            yield step
        if not self._scripts:
            await asyncio.Event().wait()


def added(name: str, version: int) -> WatchEvent[Pod]:
    return WatchEvent(WatchEventType.ADDED, a_pod(name=name, version=str(version)))


def modified(name: str, version: int) -> WatchEvent[Pod]:
    return WatchEvent(WatchEventType.MODIFIED, a_pod(name=name, version=str(version)))


def deleted(name: str, version: int) -> WatchEvent[Pod]:
    return WatchEvent(WatchEventType.DELETED, a_pod(name=name, version=str(version)))


def bookmark(version: int, *, initial_end: bool = False) -> WatchEvent[Pod]:
    return WatchEvent(WatchEventType.BOOKMARK, Pod(metadata=Meta(resource_version=str(version))), initial_end)


def listed(version: int) -> WatchEvent[Pod]:
    return bookmark(version, initial_end=True)


class Outcome:
    def __init__(self) -> None:
        self.held: dict[str, str] = {}
        self.delivered: list[str] = []
        self.requests: list[str] = []
        self.synced = False
        self.not_served = False
        self.pauses: list[float] = []


def reflect(client: FakeClient, *, seconds: float = LONG, seed: int = 0, kind: Kind[Any] = POD) -> Outcome:
    """Let a reflector work for a while and look at what came of it."""

    async def main(clock: VirtualClock) -> Outcome:
        outcome = Outcome()

        def notify(before: Pod | None, after: Pod | None) -> None:
            old, new = (pod.metadata.resource_version if pod else "-" for pod in (before, after))
            outcome.delivered.append(f"{(before or after or a_pod()).name} {old} {new}")

        cache: Cache[Pod] = Cache(notify)
        recording = _RecordingClock(clock, outcome.pauses)
        reflector = Reflector(client, kind, cache, clock=recording, rng=random.Random(seed))
        try:
            async with asyncio.timeout(seconds):
                await reflector.run()
        except TimeoutError:
            pass
        outcome.held = {pod.name: pod.metadata.resource_version for pod in cache.items()}
        outcome.requests = client.requests
        outcome.synced = reflector.listed.is_set()
        outcome.not_served = reflector.not_served
        return outcome

    return virtual_time.run_in_virtual_time(main)


class _RecordingClock:
    def __init__(self, clock: VirtualClock, pauses: list[float]) -> None:
        self._clock = clock
        self._pauses = pauses

    def now(self) -> float:
        return self._clock.now()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        self._pauses.append(seconds)
        await self._clock.sleep(seconds)


def test_one_request_gives_the_list_and_what_follows() -> None:
    outcome = reflect(ScriptedClient([added("b", 5), added("a", 3), listed(7), modified("a", 8)]))
    assert outcome.delivered == ["b - 5", "a - 3", "a 3 8"]
    assert outcome.requests == ["watch pods after None"]
    assert outcome.synced


def test_changes_while_the_list_is_streamed_are_delivered_once_in_their_newest_form() -> None:
    script = [
        added("a", 3),
        added("b", 4),
        added("c", 5),
        bookmark(5),
        modified("a", 8),
        deleted("b", 9),
        added("a", 3),
        added("b", 4),
        listed(9),
    ]
    assert reflect(ScriptedClient(script)).delivered == ["a - 8", "c - 5"]


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(Invalid("sendInitialEvents is forbidden"), id="invalid"),
        pytest.param(BadRequest("unknown parameter"), id="bad request"),
        pytest.param(NotSupported("no streaming lists"), id="not implemented"),
    ],
)
def test_a_server_that_does_not_stream_lists_is_listed_and_watched(refusal: Exception) -> None:
    pod = a_pod(name="a", version="3")
    client = ScriptedClient([refusal], [modified("a", 9)], listings=[ObjectList((pod,), "7")])
    outcome = reflect(client)
    assert outcome.delivered == ["a - 3", "a 3 9"]
    assert outcome.requests == ["watch pods after None", "list pods", "watch pods after 7"]
    assert outcome.pauses == []


def test_a_server_that_refused_to_stream_is_not_asked_again() -> None:
    listings = [ObjectList((a_pod(name="a", version="3"),), "7"), ObjectList((), "12")]
    outcome = reflect(ScriptedClient([Invalid("no")], [Expired("too old")], [], listings=listings))
    assert outcome.requests[2:] == ["watch pods after 7", "list pods", "watch pods after 12"]
    assert outcome.delivered == ["a - 3", "a 3 -"]


@pytest.mark.parametrize(
    ("news", "version"),
    [
        pytest.param([modified("a", 9)], 9, id="an event"),
        pytest.param([bookmark(20)], 20, id="a bookmark"),
        pytest.param([], 7, id="the list"),
    ],
)
@pytest.mark.parametrize("end", [Unreachable("reset by peer"), ServiceUnavailable("busy"), None])
def test_a_broken_stream_goes_on_after_the_last_version_seen(
    news: list[Step], version: int, end: Exception | None
) -> None:
    first: list[Step] = [added("a", 3), listed(7), *news]
    outcome = reflect(ScriptedClient([*first, end] if end else first, [modified("a", 30)]))
    assert outcome.requests == ["watch pods after None", f"watch pods after {version}"]
    assert outcome.held == {"a": "30"}
    assert len(outcome.pauses) == (1 if end else 0)


def test_objects_deleted_between_watches_are_delivered_after_the_version_expired() -> None:
    outcome = reflect(
        ScriptedClient(
            [added("a", 3), added("b", 4), added("c", 5), listed(7), Unreachable("gone")],
            [Expired("too old resource version: 7 (40)")],
            [added("b", 41), added("c", 5), added("d", 42), listed(50)],
        )
    )
    assert outcome.delivered[3:] == ["a 3 -", "b 4 41", "d - 42"]
    assert outcome.requests[1:] == ["watch pods after 7", "watch pods after None"]


def test_the_list_after_a_long_absence_is_asked_for_at_once() -> None:
    """A server that restarts costs the pauses until it answers, and none because its history begins anew."""
    away: list[Step] = [Unreachable("connection refused")]
    outcome = reflect(
        ScriptedClient([listed(7), *away], away, away, away, [Expired("too old")], [added("a", 41), listed(50)])
    )
    assert outcome.held == {"a": "41"}
    assert len(outcome.pauses) == 4


def test_pause_is_short_after_the_answer_of_a_server_that_restarted_soon_after_a_list() -> None:
    """A scheduler that waited as long as for an absent server placed pods by Nodes of nine seconds ago."""
    away = [Unreachable("gone")]
    outcome = reflect(ScriptedClient([listed(7), *away], away, [Expired("too old")], [added("a", 41), listed(50)]))
    assert outcome.held == {"a": "41"}
    assert len(outcome.pauses) == 3
    assert outcome.pauses[1] >= 1.6
    assert outcome.pauses[2] < 1.6


@pytest.mark.parametrize(
    "scripts",
    [
        pytest.param(
            [[listed(7), Expired("too old")], *[[listed(9), Expired("too old")]] * 3, []], id="after each list"
        ),
        pytest.param([[listed(7), Unreachable("gone")], *[[Expired("too old")]] * 3, []], id="instead of a list"),
    ],
)
def test_a_server_that_keeps_no_version_is_not_asked_in_a_rush(scripts: list[list[Step]]) -> None:
    assert len(reflect(ScriptedClient(*scripts)).pauses) == 4


def test_an_event_that_shows_a_gap_leads_to_a_new_list() -> None:
    outcome = reflect(
        ScriptedClient(
            [added("a", 3), added("b", 4), listed(7), modified("a", 9), modified("b", 8)],
            [added("a", 9), added("b", 8), listed(9)],
        )
    )
    assert outcome.held == {"a": "9", "b": "8"}
    assert outcome.delivered == ["a - 3", "b - 4", "a 3 9", "b 4 8"]


def test_a_list_that_breaks_off_is_worth_nothing() -> None:
    outcome = reflect(ScriptedClient([added("a", 3), Unreachable("reset by peer")], [added("b", 4), listed(7)]))
    assert outcome.delivered == ["b - 4"]


def test_a_stream_that_ends_before_the_list_is_complete_is_not_asked_for_until_there_is_one() -> None:
    listings = [ObjectList((a_pod(name="b", version="4"),), "7")]
    outcome = reflect(
        ScriptedClient([added("a", 3)], [Unreachable("gone")], [Expired("too old")], [listed(9)], listings=listings)
    )
    assert outcome.delivered == ["b - 4", "b 4 -"]
    follow = "watch pods after 7"
    assert outcome.requests == ["watch pods after None", "list pods", follow, follow, "watch pods after None"]


def test_pauses_double_with_every_failure_and_stay_within_their_jitter() -> None:
    client = FakeClient(FakeApiServer())
    client.failures = [Unreachable("connection refused")] * 6
    pauses = reflect(client, seconds=600).pauses
    assert len(pauses) == 6
    for pause, least in zip(pauses, [0.8, 1.6, 3.2, 5.0, 5.0, 5.0], strict=True):
        assert least <= pause <= 2 * least


def test_pauses_are_short_again_after_news() -> None:
    broken: list[Step] = [Unreachable("reset by peer")]
    outcome = reflect(
        ScriptedClient(broken, broken, [listed(7), *broken], [added("a", 8), *broken], broken, [added("b", 9)])
    )
    assert max(outcome.pauses[2:4]) < 1.6
    assert outcome.pauses[4] >= 1.6


def test_a_watch_that_ends_at_once_without_news_is_not_asked_again_in_a_rush() -> None:
    outcome = reflect(ScriptedClient([listed(7)], [], [], [added("a", 8)]))
    assert len(outcome.pauses) == 2
    assert outcome.held == {"a": "8"}


def test_a_watch_that_ends_at_once_with_news_goes_on_at_once() -> None:
    outcome = reflect(ScriptedClient([listed(7)], [added("a", 8)], [added("b", 9)]))
    assert outcome.pauses == []
    assert outcome.held == {"a": "8", "b": "9"}


def test_a_refusal_for_good_is_asked_again_all_the_same() -> None:
    client = FakeClient(FakeApiServer())
    client.failures = [Forbidden("pods is forbidden")] * 2
    assert reflect(client).synced


def test_a_listing_that_lags_is_asked_for_again() -> None:
    outcome = reflect(
        ScriptedClient(
            [added("a", 30), listed(30), Expired("too old")],
            [listed(9)],
            [added("a", 30), listed(31)],
        )
    )
    assert outcome.delivered == ["a - 30"]
    assert outcome.held == {"a": "30"}


def test_a_server_that_lost_its_history_ends_the_component() -> None:
    with pytest.raises(StaleListing, match="restart this component"):
        reflect(ScriptedClient([listed(30), Expired("too old")], *[[listed(9)]] * 10, []), seconds=600)


def test_reflector_lists_again_after_a_bug() -> None:
    """As in the function of an index, which the cache calls for every object."""
    delivered: list[str] = []
    reported: list[str] = []

    async def main(clock: VirtualClock) -> None:
        def notify(before: Pod | None, after: Pod | None) -> None:
            delivered.append(after.name if after is not None else "")
            if delivered == ["a"]:
                raise LookupError("a bug")

        cache: Cache[Pod] = Cache(notify)
        client = ScriptedClient([added("a", 3), listed(7)], [added("a", 3), added("b", 4), listed(7)])

        def report(name: str, error: Exception, about: ApiObject | None = None, kind: Kind[Any] | None = None) -> None:
            reported.append(f"{name}: {error!r}")

        reflector = Reflector(client, POD, cache, clock=clock, rng=random.Random(0), report=report)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(reflector.run())
            await reflector.listed.wait()
            running.cancel()

    with capture_logs() as logs:
        virtual_time.run_in_virtual_time(main)
    assert delivered[-1] == "b"
    assert reported == ["informer of pods: LookupError('a bug')"]
    assert [line["event"] for line in logs if line["log_level"] == "error"] == [REFLECTOR_FAILED]


UNKNOWN = NotFound("the server could not find the requested resource")


def not_served_warnings(logs: Sequence[Any]) -> list[tuple[str, str]]:
    return [(line["log_level"], line["consequence"]) for line in logs if "not served" in line["event"]]


def test_a_kind_that_is_not_served_is_retried_and_logged_once() -> None:
    with capture_logs() as logs:
        outcome = reflect(ScriptedClient([UNKNOWN], [UNKNOWN], [UNKNOWN], [added("a", 3), listed(3)]))
    assert outcome.held == {"a": "3"}
    assert (outcome.synced, outcome.not_served) == (True, False)
    assert not_served_warnings(logs) == [("error", "waiting until it is served")]


def test_it_does_not_count_as_listed_while_it_is_waited_for() -> None:
    outcome = reflect(ScriptedClient([UNKNOWN], [UNKNOWN], [UNKNOWN], [UNKNOWN], [UNKNOWN], []), seconds=5)
    assert (outcome.synced, outcome.not_served) == (False, True)


@pytest.mark.parametrize("kind", [STORAGE_CAPACITY, DEVICE_TAINT_RULE], ids=lambda kind: kind.kind)
def test_what_older_servers_lack_counts_as_listed(kind: Kind[ApiObject]) -> None:
    with capture_logs() as logs:
        scripts = [[UNKNOWN] for _ in range(20)]
        outcome = reflect(ScriptedClient(*scripts, []), kind=kind)
    assert (outcome.synced, outcome.not_served, outcome.held) == (True, True, {})
    assert not_served_warnings(logs) == [("error", "continuing without it")]
