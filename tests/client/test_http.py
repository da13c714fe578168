"""The HTTP client against servers that answer exactly what a test wants."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web

from client.wire_server import Handler, serving
from mooring import __version__
from mooring.api.errors import ApiError, Expired, Forbidden, NotFound, ServiceUnavailable, TooManyRequests
from mooring.api.kinds import CONFIG_MAP, NODE, POD, STATEFUL_SET
from mooring.api.patches.contract import MergePatch, StrategicPatch
from mooring.client.access import Access
from mooring.client.contract import Change, Client, Unreachable, WatchEvent
from mooring.client.http import RESENDS, HttpClient
from mooring.client.watch_lines import LONGEST_LINE


class PatientClock:
    """Waits by remembering how long."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


@asynccontextmanager
async def talking_to(
    handler: Handler, *, timeout: float = 5.0, clock: PatientClock | None = None
) -> AsyncIterator[HttpClient]:
    async with serving(handler) as address:
        client = HttpClient(Access(address), component="scheduler", clock=clock or PatientClock(), timeout=timeout)
        try:
            yield client
        finally:
            await client.close()


class Recorder:
    """Answers everything with one object and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        self.headers: list[dict[str, str]] = []
        self.connections: set[int] = set()

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        body = await request.read()
        decoded = msgspec.json.decode(body) if body else None
        self.asked.append((request.method, request.path, dict(request.query), decoded))
        self.headers.append(dict(request.headers))
        self.connections.add(id(request.transport))
        return an_object()


def an_object(name: str = "x", version: str = "1") -> web.Response:
    return answer({"metadata": {"name": name, "resourceVersion": version}})


def answer(body: object, status: int = 200, **headers: str) -> web.Response:
    encoded = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    return web.Response(body=encoded, status=status, headers={key.replace("_", "-"): v for key, v in headers.items()})


def answers_of(*responses: Callable[[], web.Response]) -> Handler:
    left = list(responses)

    async def handler(request: web.BaseRequest) -> web.Response:
        return left.pop(0)()

    return handler


# --- what is sent ---

Call = Callable[[Client], Awaitable[object]]


@pytest.mark.parametrize(
    ("call", "want"),
    [
        pytest.param(
            lambda client: client.get(STATEFUL_SET, "db", namespace="shop"),
            ("GET", "/apis/apps/v1/namespaces/shop/statefulsets/db", {}, None),
            id="get",
        ),
        pytest.param(
            lambda client: client.create(CONFIG_MAP, {"metadata": {"name": "x"}}, namespace="shop"),
            (
                "POST",
                "/api/v1/namespaces/shop/configmaps",
                {},
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}},
            ),
            id="create",
        ),
        pytest.param(
            lambda client: client.update(NODE, {"metadata": {"name": "n1"}}, subresource="status"),
            (
                "PUT",
                "/api/v1/nodes/n1/status",
                {},
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}},
            ),
            id="update",
        ),
        pytest.param(
            lambda client: client.patch(NODE, "n1", MergePatch({"spec": {}}), subresource="status"),
            ("PATCH", "/api/v1/nodes/n1/status", {}, {"spec": {}}),
            id="patch",
        ),
        pytest.param(
            lambda client: client.delete(NODE, "n1"),
            ("DELETE", "/api/v1/nodes/n1", {}, {"apiVersion": "v1", "kind": "DeleteOptions"}),
            id="delete",
        ),
        pytest.param(
            lambda client: client.delete(
                POD,
                "p",
                namespace="shop",
                uid="u1",
                resource_version="7",
                grace_seconds=0,
                propagation="Foreground",
            ),
            (
                "DELETE",
                "/api/v1/namespaces/shop/pods/p",
                {},
                {
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "preconditions": {"uid": "u1", "resourceVersion": "7"},
                    "gracePeriodSeconds": 0,
                    "propagationPolicy": "Foreground",
                },
            ),
            id="delete with everything",
        ),
        pytest.param(
            lambda client: client.bind("p", namespace="shop", uid="u1", node="n1"),
            (
                "POST",
                "/api/v1/namespaces/shop/pods/p/binding",
                {},
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": "p", "namespace": "shop", "uid": "u1"},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
                },
            ),
            id="bind",
        ),
        pytest.param(
            lambda client: client.list(POD, labels="app in (a,b),tier!=x+y", fields="spec.nodeName=n1"),
            (
                "GET",
                "/api/v1/pods",
                {"labelSelector": "app in (a,b),tier!=x+y", "fieldSelector": "spec.nodeName=n1"},
                None,
            ),
            id="list",
        ),
    ],
)
async def test_requests_look_as_kubernetes_wants_them(call: Call, want: tuple[object, ...]) -> None:
    recorder = Recorder()
    async with talking_to(recorder) as client:
        await call(client)
    assert recorder.asked == [want]


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


async def test_every_request_says_who_asks_and_patches_say_what_they_are() -> None:
    recorder = Recorder()
    async with talking_to(recorder) as client:
        await client.patch(NODE, "n1", StrategicPatch({}))
    (headers,) = recorder.headers
    assert headers["User-Agent"] == f"mooring/{__version__} (scheduler)"
    assert headers["Accept"] == "application/json"
    assert headers["Content-Type"] == "application/strategic-merge-patch+json"


async def test_connections_are_kept_and_used_again() -> None:
    recorder = Recorder()
    async with talking_to(recorder) as client:
        for _ in range(5):
            await client.get(NODE, "n1")
    assert len(recorder.connections) == 1


async def test_a_forgotten_namespace_is_a_bug_and_not_a_missing_object() -> None:
    recorder = Recorder()
    async with talking_to(recorder) as client:
        for call in (client.get(POD, "p"), client.create(POD, {}), client.patch(POD, "p", MergePatch({}))):
            with pytest.raises(ValueError, match="live in namespaces"):
                await call
    assert recorder.asked == []


# --- what comes back ---


@pytest.mark.parametrize(
    ("response", "error", "text"),
    [
        pytest.param(
            lambda: answer({"kind": "Status", "reason": "Forbidden", "message": "not you"}, 403),
            Forbidden,
            "not you",
            id="a status",
        ),
        pytest.param(lambda: answer("404 page not found\n", 404), NotFound, "404 page not found", id="plain text"),
        pytest.param(lambda: answer("", 500), ApiError, "answered 500 without a reason", id="nothing at all"),
        pytest.param(lambda: answer("", 302, Location="/login"), ApiError, "answered 302", id="a redirect"),
        pytest.param(lambda: answer("<html>"), Unreachable, "cannot be read", id="not JSON"),
        pytest.param(lambda: answer({"metadata": {"name": 5}}), Unreachable, "cannot be read", id="not an object"),
    ],
)
async def test_answers_become_errors(response: Callable[[], web.Response], error: type[Exception], text: str) -> None:
    async with talking_to(answers_of(response)) as client:
        with pytest.raises(error, match=text):
            await client.get(NODE, "n1")


async def test_an_empty_list_may_be_null() -> None:
    body = {"metadata": {"resourceVersion": "5"}, "items": None}
    async with talking_to(answers_of(lambda: answer(body))) as client:
        listing = await client.list(NODE)
    assert (listing.items, listing.resource_version) == ((), "5")


async def test_no_server_is_unreachable() -> None:
    client = HttpClient(Access("http://127.0.0.1:1"), component="test", clock=PatientClock())
    with pytest.raises(Unreachable, match=r"GET /api/v1/nodes/n1: .*127.0.0.1:1") as error:
        await client.get(NODE, "n1")
    assert error.value.__cause__ is not None
    await client.close()


async def test_no_answer_in_time_is_unreachable() -> None:
    async def never(request: web.BaseRequest) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with talking_to(never, timeout=0.05) as client:
        with pytest.raises(Unreachable, match="no answer in time"):
            await client.get(NODE, "n1")
        with pytest.raises(Unreachable, match="no answer in time"):
            await events(client)


async def test_an_answer_that_breaks_off_is_unreachable() -> None:
    async def breaks_off(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"{")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with talking_to(breaks_off) as client:
        with pytest.raises(Unreachable):
            await client.create(NODE, {})


# --- busy servers ---


def busy(code: int, *, after: str | None) -> Callable[[], web.Response]:
    reason = {429: "TooManyRequests", 503: "ServiceUnavailable"}.get(code, "InternalError")
    headers = {} if after is None else {"Retry_After": after}
    return lambda: answer({"kind": "Status", "reason": reason, "message": "busy"}, code, **headers)


@pytest.mark.parametrize("code", [429, 503])
async def test_a_busy_server_is_asked_again_when_it_says_so(code: int) -> None:
    clock = PatientClock()
    answers = answers_of(busy(code, after="2"), busy(code, after="1000"), an_object)
    async with talking_to(answers, clock=clock) as client:
        await client.create(NODE, {})
    assert clock.waits == [2.0, 30.0]


@pytest.mark.parametrize(
    ("responses", "error", "waits"),
    [
        pytest.param([busy(429, after=None)], TooManyRequests, 0, id="it does not say when"),
        pytest.param([busy(503, after="Wed, 21 Oct 2026 07:28:00 GMT")], ServiceUnavailable, 0, id="it names a date"),
        pytest.param([busy(500, after="1")], ApiError, 0, id="it is broken, not busy"),
        pytest.param([busy(429, after="1")] * (RESENDS + 1), TooManyRequests, RESENDS, id="it stays busy"),
    ],
)
async def test_it_is_not_asked_again(
    responses: list[Callable[[], web.Response]], error: type[Exception], waits: int
) -> None:
    clock = PatientClock()
    async with talking_to(answers_of(*responses), clock=clock) as client:
        with pytest.raises(error):
            await client.get(NODE, "n1")
    assert len(clock.waits) == waits


# --- watches ---


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
        (Change.ADDED, "5"),
        (Change.MODIFIED, "6"),
        (Change.DELETED, "7"),
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
        pytest.param(streaming(line("SURPRISE", a_pod_at(5))), Unreachable, id="a type nobody knows"),
        pytest.param(streaming(line("ADDED", {"metadata": 5})), Unreachable, id="an object nobody understands"),
        pytest.param(streaming(b"{]\n"), Unreachable, id="not JSON"),
        pytest.param(streaming(b'{"type":"ADD'), Unreachable, id="the end within a line"),
        pytest.param(streaming(line("ADDED", a_pod_at(5)), abort=True), Unreachable, id="a broken connection"),
        pytest.param(streaming(b"x" * (LONGEST_LINE + 1)), Unreachable, id="a line without end"),
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


# --- the end ---


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
