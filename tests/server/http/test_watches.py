"""Watches over a real connection: framing, batches, time-outs, errors, readers that stop reading."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
from aiohttp import ClientResponse, ClientSession
from structlog.testing import capture_logs

from mooring.api.errors import BadRequest, Expired, ServiceUnavailable
from mooring.server.contract import StreamEvent, WatchOptions
from mooring.server.http import watches
from mooring.server.http.handler import RequestHandler
from mooring.server.http.listener import Listener
from support.server.stub_api import CONFIG, RAW, StoppedClock, StubApi

WATCH = "/api/v1/namespaces/default/configmaps?watch=1"
ADDED = StreamEvent("ADDED", RAW)
BOOKMARK = StreamEvent("BOOKMARK", b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"9"}}')


async def line(answer: ClientResponse) -> dict[str, Any]:
    async with asyncio.timeout(2):
        return msgspec.json.decode(await answer.content.readline(), type=dict[str, Any])


async def test_headers_come_at_once(admin: ClientSession, clock: StoppedClock) -> None:
    async with asyncio.timeout(2), admin.get(WATCH) as answer:
        assert (answer.status, answer.content_type) == (200, "application/json")
        assert answer.headers["Transfer-Encoding"] == "chunked"


async def test_one_line_per_event(admin: ClientSession, api: StubApi) -> None:
    api.watch_events = (ADDED, StreamEvent("DELETED", RAW), None, BOOKMARK, None)
    query = "allowWatchBookmarks=true&resourceVersion=3&labelSelector=a&timeoutSeconds=90"
    async with admin.get(f"{WATCH}&{query}") as answer:
        assert await line(answer) == {"type": "ADDED", "object": CONFIG}
        assert await line(answer) == {"type": "DELETED", "object": CONFIG}
        assert (await line(answer))["object"]["metadata"] == {"resourceVersion": "9"}
    wanted = WatchOptions(labels="a", resource_version="3", bookmarks=True, bookmark_every=60, ends_after=90)
    assert api.calls["watch"][0][2] == wanted


async def test_a_batch_is_one_chunk(listener: Listener, api: StubApi) -> None:
    api.watch_events = (ADDED, ADDED, ADDED, None)
    reader, writer = await asyncio.open_connection(listener.host, listener.port)
    writer.write(f"GET {WATCH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admin-token\r\n\r\n".encode())
    async with asyncio.timeout(2):
        await reader.readuntil(b"\r\n\r\n")
        size = int(await reader.readline(), 16)
        assert (await reader.readexactly(size)).count(b"\n") == 3
    writer.close()
    await writer.wait_closed()


async def test_a_large_batch_is_not_held_back(admin: ClientSession, api: StubApi) -> None:
    large = StreamEvent("ADDED", b'"' + b"x" * 100_000 + b'"')
    api.watch_events = (large,)
    async with admin.get(WATCH) as answer:
        assert len((await line(answer))["object"]) == 100_000


async def test_the_client_says_how_long(admin: ClientSession, api: StubApi, clock: StoppedClock) -> None:
    api.watch_events = (ADDED, None)
    async with admin.get(f"{WATCH}&timeoutSeconds=7") as answer:
        assert (await line(answer))["type"] == "ADDED"
        assert clock.slept == [7]
        clock.ring()
        async with asyncio.timeout(2):
            assert await answer.read() == b""
    assert api.watches_closed == 1


async def test_otherwise_half_an_hour_to_an_hour(admin: ClientSession, clock: StoppedClock) -> None:
    for _ in range(5):
        async with admin.get(WATCH):
            pass
    assert all(1800 <= seconds <= 3600 for seconds in clock.slept)
    assert len(set(clock.slept)) == 5


@pytest.mark.parametrize("error", [Expired("too old resource version: 1 (5)"), ServiceUnavailable("closing")])
async def test_an_error_is_the_last_line(
    admin: ClientSession, api: StubApi, error: Expired | ServiceUnavailable
) -> None:
    api.watch_events = (ADDED, error)
    async with admin.get(WATCH) as answer:
        assert (await line(answer))["type"] == "ADDED"
        last = await line(answer)
        assert await answer.read() == b""
    assert (last["type"], last["object"]["kind"], last["object"]["code"]) == ("ERROR", "Status", error.code)
    assert (last["object"]["reason"], last["object"]["message"]) == (error.reason, error.message)


async def test_expired_version_is_an_error_event(admin: ClientSession, api: StubApi) -> None:
    api.refusal = Expired("too old resource version: 1 (5)")
    async with admin.get(f"{WATCH}&resourceVersion=1") as answer:
        assert answer.status == 200
        last = await line(answer)
        assert await answer.read() == b""
    assert (last["type"], last["object"]["code"], last["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_a_wrong_request_is_an_ordinary_failure(admin: ClientSession, api: StubApi) -> None:
    api.refusal = BadRequest("unable to parse requirement")
    async with admin.get(WATCH) as answer:
        assert (answer.status, (await answer.json())["reason"]) == (400, "BadRequest")


async def test_the_unexpected_ends_the_stream_and_is_logged(admin: ClientSession, api: StubApi) -> None:
    api.watch_events = (ADDED, RuntimeError("the secret is 42"))
    with capture_logs() as logs:
        async with admin.get(WATCH) as answer:
            assert (await line(answer))["type"] == "ADDED"
            last = await line(answer)
            assert await answer.read() == b""
    assert (last["type"], last["object"]["code"]) == ("ERROR", 500)
    assert "secret" not in str(last)
    assert [str(entry["exc_info"]) for entry in logs if entry["log_level"] == "error"] == ["the secret is 42"]


async def test_disconnect_ends_watch(admin: ClientSession, api: StubApi) -> None:
    api.watch_events = (ADDED, None)
    answer = await admin.get(WATCH)
    await line(answer)
    answer.close()
    await api.closed()


async def test_client_that_stops_reading_is_closed(listener: Listener, api: StubApi) -> None:
    """The source is not read on: what the sockets do not take stays with the store."""
    api.watch_events = (StreamEvent("ADDED", b'"' + b"x" * 200_000 + b'"'), None) * 200
    with capture_logs() as logs:
        _, writer = await asyncio.open_connection(listener.host, listener.port, limit=1024)
        writer.write(f"GET {WATCH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admin-token\r\n\r\n".encode())
        await api.closed()
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == ["watch closed: client too slow"]
    writer.transport.abort()


async def test_all_watches_can_be_ended(admin: ClientSession, api: StubApi, handler: RequestHandler) -> None:
    api.watch_events = (ADDED, None)
    async with admin.get(WATCH) as one, admin.get(WATCH) as other:
        await line(one)
        await line(other)
        handler.end_watches()
        async with asyncio.timeout(2):
            assert (await one.read(), await other.read()) == (b"", b"")
    assert api.watches_closed == 2


async def test_a_table_watch_describes_its_columns_once(admin: ClientSession, api: StubApi) -> None:
    api.watch_events = (ADDED, StreamEvent("MODIFIED", RAW), None)
    async with admin.get(WATCH, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}) as answer:
        first, second = await line(answer), await line(answer)
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["object"]["columnDefinitions"] is None
    assert [row["cells"] for row in second["object"]["rows"]] == [["a", 1, "60s"]]


async def test_a_metadata_watch(admin: ClientSession, api: StubApi) -> None:
    api.watch_events = (ADDED, BOOKMARK, None)
    headers = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
    async with admin.get(WATCH, headers=headers) as answer:
        assert set((await line(answer))["object"]) == {"kind", "apiVersion", "metadata"}
        assert (await line(answer))["object"] == {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": "9"},
        }


async def test_writes_are_batched_with_many_watches(
    admin: ClientSession, api: StubApi, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events during the pause share one write; the first event is not delayed."""
    monkeypatch.setattr(watches, "BATCHING_THRESHOLD", 2)
    api.watch_events = (ADDED, None)
    async with AsyncExitStack() as open_watches:
        for _ in range(4):
            answer = await open_watches.enter_async_context(admin.get("/api/v1/namespaces/default/configmaps?watch=1"))
            await answer.content.readline()
    pauses = [seconds for seconds in clock.slept if seconds < watches.MIN_LIFETIME_SECONDS]
    assert pauses == [3 * watches.PAUSE_PER_WATCH_SECONDS, 4 * watches.PAUSE_PER_WATCH_SECONDS]
