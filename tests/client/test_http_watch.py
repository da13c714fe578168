"""The HTTP client's watches: a stream of lines, and all the ways it can end."""

import asyncio
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from aiohttp import web

from mooring.api.errors import Expired, TooManyRequests
from mooring.api.kinds import NODE, POD
from mooring.client.contract import Client, Unreachable, WatchEvent, WatchEventType
from mooring.client.http import MAX_LINE_BYTES
from support.http_conversations import Recorder, answer, answers_of, talking_to
from support.http_server import Handler


async def events(client: Client, *, after: str | None = "1") -> list[WatchEvent[Any]]:
    """All events of a watch up to its clean end."""
    async with aclosing(client.watch(POD, after=after)) as watching:
        return [event async for event in watching]


def line(change: str, body: object) -> bytes:
    return msgspec.json.encode({"type": change, "object": body}) + b"\n"


def a_pod_at(version: int, **metadata: object) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": "p", "resourceVersion": str(version)} | metadata}


def streaming(*chunks: bytes, abort: bool = False) -> Handler:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            # Let the chunk go out by itself.
            await asyncio.sleep(0.001)
        if abort and request.transport is not None:
            request.transport.abort()
        return response

    return handler


async def test_events_may_be_cut_anywhere() -> None:
    stream = line("ADDED", a_pod_at(5)) + line("MODIFIED", a_pod_at(6)) + line("DELETED", a_pod_at(7))
    cut = [stream[:7], stream[7:90], stream[90:]]
    async with talking_to(streaming(*cut)) as client:
        found = await events(client)
    assert [(event.change, event.object.metadata.resource_version) for event in found] == [
        (WatchEventType.ADDED, "5"),
        (WatchEventType.MODIFIED, "6"),
        (WatchEventType.DELETED, "7"),
    ]


async def test_the_bookmark_that_ends_a_list_is_marked_and_others_are_not() -> None:
    end = {"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}}
    chunks = [line("BOOKMARK", end), line("BOOKMARK", {"metadata": {"resourceVersion": "10"}})]
    # An object may carry the annotation for reasons of its own.
    chunks.append(line("ADDED", a_pod_at(11, annotations={"k8s.io/initial-events-end": "true"})))
    async with talking_to(streaming(*chunks)) as client:
        found = await events(client, after=None)
    assert [event.initial_end for event in found] == [True, False, False]


async def test_a_large_object_fits_into_a_line() -> None:
    large = a_pod_at(5, annotations={"note": "x" * 1_500_000})
    async with talking_to(streaming(line("ADDED", large))) as client:
        (event,) = await events(client)
    assert len(event.object.metadata.annotations["note"]) == 1_500_000


def status(code: int, reason: str) -> dict[str, object]:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "as you see"}


@pytest.mark.parametrize(
    ("handler", "error"),
    [
        pytest.param(streaming(line("ERROR", status(410, "Expired"))), Expired, id="an event says expired"),
        pytest.param(streaming(line("ERROR", status(410, "Gone"))), Expired, id="an event says gone"),
        pytest.param(streaming(line("ERROR", status(429, "TooManyRequests"))), TooManyRequests, id="another error"),
        pytest.param(streaming(line("SURPRISE", a_pod_at(5))), Unreachable, id="unknown event type"),
        pytest.param(streaming(line("ADDED", {"metadata": 5})), Unreachable, id="malformed object"),
        pytest.param(streaming(b"{]\n"), Unreachable, id="not JSON"),
        pytest.param(streaming(b'{"type":"ADD'), Unreachable, id="the end within a line"),
        pytest.param(streaming(line("ADDED", a_pod_at(5)), abort=True), Unreachable, id="a broken connection"),
        pytest.param(streaming(b"x" * (MAX_LINE_BYTES + 1)), Unreachable, id="a line without end"),
    ],
)
async def test_a_watch_ends_with_what_went_wrong(handler: Handler, error: type[Exception]) -> None:
    async with talking_to(handler) as client:
        with pytest.raises(error):
            await events(client)


async def test_a_watch_may_be_refused_before_it_begins() -> None:
    async with talking_to(answers_of(lambda: answer(status(410, "Expired"), 410))) as client:
        with pytest.raises(Expired):
            await events(client)


async def test_a_watch_that_does_not_begin_in_time_is_unreachable() -> None:
    async def never(request: web.BaseRequest) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with talking_to(never, timeout=0.05) as client:
        with pytest.raises(Unreachable, match=r"no response within 0\.05 s .* \(WATCH /api/v1/pods\)"):
            await events(client)


async def test_a_watch_that_has_begun_may_be_silent_for_longer_than_a_request_may_take() -> None:
    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(0.15)
        await response.write(line("ADDED", a_pod_at(5)))
        return response

    async with talking_to(slow, timeout=0.05) as client:
        assert len(await events(client)) == 1


async def test_closing_breaks_off_a_watch_and_refuses_what_follows() -> None:
    async def silent(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()
        return response

    async with talking_to(silent) as client:
        watching = asyncio.create_task(events(client))
        await asyncio.sleep(0.05)
        await client.close()
        with pytest.raises(Unreachable):
            await watching
        with pytest.raises(RuntimeError, match="after it was closed"):
            await client.get(NODE, "n1")
        await client.close()


@pytest.mark.parametrize(
    ("after", "want"),
    [
        pytest.param(
            None, {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}, id="with the list first"
        ),
        pytest.param("17", {"resourceVersion": "17"}, id="after a version"),
    ],
)
async def test_watches_ask_for_bookmarks(after: str | None, want: dict[str, str]) -> None:
    recorder = Recorder()
    async with talking_to(recorder) as client:
        with pytest.raises(Unreachable):
            await events(client, after=after)
    (asked,) = recorder.asked
    assert asked[1:3] == ("/api/v1/pods", {"watch": "true", "allowWatchBookmarks": "true"} | want)
