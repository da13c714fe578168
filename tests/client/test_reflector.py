"""The conversation with the server, request by request, in virtual time."""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from builders import a_pod
from client.tiny_api import TinyApi
from client.tiny_client import TinyClient
from mooring.api.errors import BadRequest, Expired, Forbidden, Invalid, NotFound, NotImplementedHere, ServiceUnavailable
from mooring.api.kinds import POD, STORAGE_CAPACITY, Kind
from mooring.api.views.meta import Meta
from mooring.api.views.pod import Pod
from mooring.client.cache import Cache, StaleListing
from mooring.client.contract import Change, Listing, Unreachable, WatchEvent
from mooring.client.reflector import LONGEST_PAUSE, REFLECTOR_FAILED, Reflector
from mooring.sim import loop
from mooring.sim.loop import VirtualClock

#: Longer than any pause: whatever was to be tried again has been.
LONG = 12 * LONGEST_PAUSE

Step = WatchEvent[Pod] | Exception


class ScriptedClient(TinyClient):
    """Answers each watch with the next script: its events, then its error or a clean end. The last one never ends."""

    def __init__(self, *scripts: Sequence[Step], listings: Sequence[Listing[Pod]] = ()) -> None:
        super().__init__(TinyApi())
        self._scripts = list(scripts)
        self._listings = list(listings)

    async def list(self, kind: Any, **_: str) -> Listing[Any]:  # noqa: ANN401 - one kind is scripted
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
    return WatchEvent(Change.ADDED, a_pod(name=name, version=str(version)))


def modified(name: str, version: int) -> WatchEvent[Pod]:
    return WatchEvent(Change.MODIFIED, a_pod(name=name, version=str(version)))


def deleted(name: str, version: int) -> WatchEvent[Pod]:
    return WatchEvent(Change.DELETED, a_pod(name=name, version=str(version)))


def bookmark(version: int, *, initial_end: bool = False) -> WatchEvent[Pod]:
    return WatchEvent(Change.BOOKMARK, Pod(metadata=Meta(resource_version=str(version))), initial_end)


def listed(version: int) -> WatchEvent[Pod]:
    return bookmark(version, initial_end=True)


class Outcome:
    def __init__(self) -> None:
        self.held: dict[str, str] = {}
        self.told: list[str] = []
        self.requests: list[str] = []
        self.synced = False
        self.absent = False
        self.pauses: list[float] = []


def reflect(client: TinyClient, *, seconds: float = LONG, seed: int = 0, kind: Kind[Any] = POD) -> Outcome:
    """Let a reflector work for a while and look at what came of it."""

    async def main(clock: VirtualClock) -> Outcome:
        outcome = Outcome()

        def tell(before: Pod | None, after: Pod | None) -> None:
            old, new = (pod.metadata.resource_version if pod else "-" for pod in (before, after))
            outcome.told.append(f"{(before or after or a_pod()).name} {old} {new}")

        cache: Cache[Pod] = Cache(tell)
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
        outcome.absent = reflector.absent
        return outcome

    return loop.run(main)


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
    assert outcome.told == ["b - 5", "a - 3", "a 3 8"]
    assert outcome.requests == ["watch pods after None"]
    assert outcome.synced


def test_what_changes_while_the_list_is_streamed_is_told_once_in_its_newest_form() -> None:
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
    assert reflect(ScriptedClient(script)).told == ["a - 8", "c - 5"]


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(Invalid("sendInitialEvents is forbidden"), id="invalid"),
        pytest.param(BadRequest("unknown parameter"), id="bad request"),
        pytest.param(NotImplementedHere("no streaming lists"), id="not implemented"),
    ],
)
def test_a_server_that_does_not_stream_lists_is_listed_and_watched(refusal: Exception) -> None:
    pod = a_pod(name="a", version="3")
    client = ScriptedClient([refusal], [modified("a", 9)], listings=[Listing((pod,), "7")])
    outcome = reflect(client)
    assert outcome.told == ["a - 3", "a 3 9"]
    assert outcome.requests == ["watch pods after None", "list pods", "watch pods after 7"]
    assert outcome.pauses == []


def test_a_server_that_refused_to_stream_is_not_asked_again() -> None:
    listings = [Listing((a_pod(name="a", version="3"),), "7"), Listing((), "12")]
    outcome = reflect(ScriptedClient([Invalid("no")], [Expired("too old")], [], listings=listings))
    assert outcome.requests[2:] == ["watch pods after 7", "list pods", "watch pods after 12"]
    assert outcome.told == ["a - 3", "a 3 -"]


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


def test_what_was_deleted_while_nobody_looked_is_told_when_the_version_has_expired() -> None:
    outcome = reflect(
        ScriptedClient(
            [added("a", 3), added("b", 4), added("c", 5), listed(7), Unreachable("gone")],
            [Expired("too old resource version: 7 (40)")],
            [added("b", 41), added("c", 5), added("d", 42), listed(50)],
        )
    )
    assert outcome.told[3:] == ["a 3 -", "b 4 41", "d - 42"]
    assert outcome.requests[1:] == ["watch pods after 7", "watch pods after None"]


def test_the_list_after_a_long_absence_is_asked_for_at_once() -> None:
    """A server that restarts costs the pauses until it answers, and none because its history begins anew."""
    away: list[Step] = [Unreachable("connection refused")]
    outcome = reflect(
        ScriptedClient([listed(7), *away], away, away, away, [Expired("too old")], [added("a", 41), listed(50)])
    )
    assert outcome.held == {"a": "41"}
    assert len(outcome.pauses) == 4


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
    assert outcome.told == ["a - 3", "b - 4", "a 3 9", "b 4 8"]


def test_a_list_that_breaks_off_is_worth_nothing() -> None:
    outcome = reflect(ScriptedClient([added("a", 3), Unreachable("reset by peer")], [added("b", 4), listed(7)]))
    assert outcome.told == ["b - 4"]


def test_a_stream_that_ends_before_the_list_is_complete_is_not_asked_for_until_there_is_one() -> None:
    listings = [Listing((a_pod(name="b", version="4"),), "7")]
    outcome = reflect(
        ScriptedClient([added("a", 3)], [Unreachable("gone")], [Expired("too old")], [listed(9)], listings=listings)
    )
    assert outcome.told == ["b - 4", "b 4 -"]
    follow = "watch pods after 7"
    assert outcome.requests == ["watch pods after None", "list pods", follow, follow, "watch pods after None"]


def test_pauses_double_with_every_failure_and_stay_within_their_jitter() -> None:
    client = TinyClient(TinyApi())
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
    client = TinyClient(TinyApi())
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
    assert outcome.told == ["a - 30"]
    assert outcome.held == {"a": "30"}


def test_a_server_that_lost_its_history_ends_the_component() -> None:
    with pytest.raises(StaleListing, match="restart this component"):
        reflect(ScriptedClient([listed(30), Expired("too old")], *[[listed(9)]] * 10, []), seconds=600)


def test_reflector_lists_again_after_a_bug() -> None:
    """As in the function of an index, which the cache calls for every object."""
    told: list[str] = []

    async def main(clock: VirtualClock) -> None:
        def tell(before: Pod | None, after: Pod | None) -> None:
            told.append(after.name if after is not None else "")
            if told == ["a"]:
                raise LookupError("a bug")

        cache: Cache[Pod] = Cache(tell)
        client = ScriptedClient([added("a", 3), listed(7)], [added("a", 3), added("b", 4), listed(7)])
        reflector = Reflector(client, POD, cache, clock=clock, rng=random.Random(0))
        async with asyncio.TaskGroup() as group:
            running = group.create_task(reflector.run())
            await reflector.listed.wait()
            running.cancel()

    with capture_logs() as logs:
        loop.run(main)
    assert told[-1] == "b"
    assert [line["event"] for line in logs if line["log_level"] == "error"] == [REFLECTOR_FAILED]


UNKNOWN = NotFound("the server could not find the requested resource")


def said(logs: Sequence[Any]) -> list[tuple[str, str]]:
    return [(line["log_level"], line["consequence"]) for line in logs if "does not serve" in line["event"]]


def test_a_server_without_the_kind_is_waited_for_and_people_are_told_once() -> None:
    with capture_logs() as logs:
        outcome = reflect(ScriptedClient([UNKNOWN], [UNKNOWN], [UNKNOWN], [added("a", 3), listed(3)]))
    assert outcome.held == {"a": "3"}
    assert (outcome.synced, outcome.absent) == (True, False)
    assert said(logs) == [("error", "waiting until it does")]


def test_it_does_not_count_as_listed_while_it_is_waited_for() -> None:
    outcome = reflect(ScriptedClient([UNKNOWN], [UNKNOWN], [UNKNOWN], [UNKNOWN], [UNKNOWN], []), seconds=5)
    assert (outcome.synced, outcome.absent) == (False, True)


def test_what_older_servers_lack_counts_as_listed() -> None:
    with capture_logs() as logs:
        scripts = [[UNKNOWN] for _ in range(20)]
        outcome = reflect(ScriptedClient(*scripts, []), kind=STORAGE_CAPACITY)
    assert (outcome.synced, outcome.absent, outcome.held) == (True, True, {})
    assert said(logs) == [("error", "doing without")]
