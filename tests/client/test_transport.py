"""What is sent again and what never is, who asks, and how many at once."""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from mooring.api.errors import ApiError, Forbidden, ServiceUnavailable, TooManyRequests, Unauthorized
from mooring.api.kinds import NODE, POD
from mooring.client.access import Access
from mooring.client.contract import Client, Unreachable
from mooring.client.exec_plugin import InteractiveMode, PluginCommand, PluginFailed
from mooring.client.http import HttpClient
from mooring.client.transport import MAX_TOTAL_WAIT_SECONDS, RECONNECT_AFTER, RESENDS, RETRY_SPACING_SECONDS
from mooring.clock import SystemClock
from support.certificates import Pair, a_pair, server_tls
from support.http_conversations import RecordingClock, an_object, answer, answers_of, talking_to
from support.http_server import Handler, serving

# --- busy servers ---


def busy(code: int, *, after: str | None) -> Callable[[], web.Response]:
    reason = {429: "TooManyRequests", 503: "ServiceUnavailable"}.get(code, "InternalError")
    headers = {} if after is None else {"Retry_After": after}
    return lambda: answer({"kind": "Status", "reason": reason, "message": "busy"}, code, **headers)


@pytest.mark.parametrize("code", [429, 500, 503, 504])
async def test_a_busy_server_is_asked_again_when_it_says_so(code: int) -> None:
    clock = RecordingClock()
    answers = answers_of(busy(code, after="2"), busy(code, after="1000"), an_object)
    async with talking_to(answers, clock=clock) as client:
        await client.create(NODE, {})
    assert clock.waits == [2.0, 30.0]


@pytest.mark.parametrize(
    ("responses", "error", "waits"),
    [
        pytest.param([busy(429, after=None)], TooManyRequests, 0, id="it does not say when"),
        pytest.param([busy(503, after="Wed, 21 Oct 2026 07:28:00 GMT")], ServiceUnavailable, 0, id="it names a date"),
        pytest.param([busy(409, after="1")], ApiError, 0, id="it is not busy"),
        pytest.param([busy(429, after="1")] * (RESENDS + 1), TooManyRequests, RESENDS, id="it stays busy"),
        pytest.param(
            [busy(429, after="30")] * 9, TooManyRequests, MAX_TOTAL_WAIT_SECONDS / 30, id="it would take too long"
        ),
    ],
)
async def test_it_is_not_asked_again(
    responses: list[Callable[[], web.Response]], error: type[Exception], waits: int
) -> None:
    clock = RecordingClock()
    async with talking_to(answers_of(*responses), clock=clock) as client:
        with pytest.raises(error):
            await client.get(NODE, "n1")
    assert len(clock.waits) == waits


class GatheringClock(RecordingClock):
    """Wakes no sleeper before four sleep."""

    def __init__(self) -> None:
        super().__init__()
        self._all = asyncio.Barrier(4)

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        await self._all.wait()


async def test_requests_that_were_rejected_together_are_retried_one_after_the_other() -> None:
    clock = GatheringClock()
    async with talking_to(answers_of(*[busy(429, after="1")] * 4, *[an_object] * 4), clock=clock) as client:
        await asyncio.gather(*(client.get(NODE, "n1") for _ in range(4)))
    assert sorted(clock.waits) == pytest.approx(
        [1.0, 1.0 + RETRY_SPACING_SECONDS, 1.0 + 2 * RETRY_SPACING_SECONDS, 1.0 + 3 * RETRY_SPACING_SECONDS]
    )


# --- broken connections ---


Call = Callable[[Client], Awaitable[object]]

READ: Call = lambda client: client.get(NODE, "n1")  # noqa: E731  # a row of a table
WRITES: dict[str, Call] = {
    "create": lambda client: client.create(NODE, {}),
    "update": lambda client: client.update(NODE, {"metadata": {"name": "n1"}}),
    "delete": lambda client: client.delete(NODE, "n1"),
}


def hanging_up(counted: list[str], *, after_first: bool) -> Handler:
    """A server that takes a request and breaks the connection; perhaps after one good answer, so that it is kept."""

    async def handler(request: web.BaseRequest) -> web.Response:
        await request.read()
        counted.append(request.method)
        if after_first and len(counted) == 1:
            return an_object()
        assert request.transport is not None
        request.transport.abort()
        return an_object()

    return handler


@pytest.mark.parametrize("after_first", [False, True], ids=["a new connection", "a kept connection"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_a_write_that_may_have_been_received_is_not_sent_again(write: Call, after_first: bool) -> None:
    output: list[str] = []
    async with talking_to(hanging_up(output, after_first=after_first)) as client:
        if after_first:
            await READ(client)
            output[:] = ["GET"]
        with pytest.raises(Unreachable, match=r"the connection to http://127\.0\.0\.1:\d+ broke"):
            await write(client)
    assert len(output) == 1 + after_first


async def test_a_read_is_sent_once_more_after_a_refused_connection() -> None:
    clock = RecordingClock()
    client = HttpClient(Access("http://127.0.0.1:1"), component="test", clock=clock)
    with pytest.raises(Unreachable, match="connection refused"):
        await READ(client)
    assert clock.waits == [RECONNECT_AFTER]
    for write in WRITES.values():
        with pytest.raises(Unreachable, match="connection refused"):
            await write(client)
    assert clock.waits == [RECONNECT_AFTER]
    await client.close()


# --- how many at once ---


async def test_requests_wait_for_their_turn_and_watches_do_not_count() -> None:
    here, most = 0, 0
    go = asyncio.Event()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal here, most
        if "watch" in request.query:
            stream = web.StreamResponse()
            await stream.prepare(request)
            await asyncio.Event().wait()
        here += 1
        most = max(most, here)
        if here == 3:
            go.set()
        await go.wait()
        here -= 1
        return an_object()

    async with serving(handler) as address:
        client = HttpClient(Access(address), component="test", clock=SystemClock(), in_flight=3)

        async def watch() -> None:
            async with aclosing(client.watch(POD, after="1")) as events:
                await anext(events)

        watches = [asyncio.create_task(watch()) for _ in range(5)]
        async with asyncio.timeout(5):
            await asyncio.gather(*(client.get(NODE, "n1") for _ in range(20)))
        assert most == 3
        await client.close()
        assert {type(each) for each in await asyncio.gather(*watches, return_exceptions=True)} == {Unreachable}


# --- who asks ---


@pytest.fixture(scope="module")
def pair() -> Pair:
    return a_pair()


@pytest.fixture
def tls(pair: Pair, tmp_path: Path) -> ssl.SSLContext:
    return server_tls(tmp_path, pair, trusting=pair)


UNKNOWN = {"kind": "Status", "reason": "Unauthorized", "message": "Unauthorized"}


class ConnectionLimiter:
    """Lets in who shows a token it knows."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = set(tokens)
        self.seen: list[tuple[str, str]] = []

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        shown = request.get_extra_info("peercert")
        self.seen.append((token, shown["subject"][0][0][1] if shown else ""))
        if token not in self.tokens:
            return answer(UNKNOWN, 401)
        if "watch" not in request.query:
            return an_object()
        line = msgspec.json.encode({"type": "ADDED", "object": {"metadata": {"name": "p", "resourceVersion": "5"}}})
        return web.Response(body=line + b"\n")


async def test_a_token_that_was_renewed_meanwhile_is_tried_once(
    pair: Pair, tls: ssl.SSLContext, tmp_path: Path
) -> None:
    file, door = tmp_path / "token", ConnectionLimiter("new")
    file.write_text("old")
    async with serving(door, tls) as address:
        access = Access(address, authority=pair.certificate, token_file=file)
        client = HttpClient(access, component="test", clock=RecordingClock())
        with pytest.raises(Unauthorized):
            await client.create(NODE, {})
        assert [token for token, _ in door.seen] == ["old"], "the same token again would be refused again"
        file.write_text("new")
        await client.create(NODE, {})
        await client.close()


class ExecPluginFile:
    """A plugin that prints the status in a file, and counts how often."""

    def __init__(self, folder: Path) -> None:
        self._status, self._runs, self._program = folder / "status", folder / "runs", folder / "plugin"
        self._program.write_text(f"#!/bin/sh\necho run >> {self._runs}\ncat {self._status}\n")
        self._program.chmod(0o755)

    def says(self, **status: str) -> None:
        said = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
        self._status.write_text(json.dumps(said))

    @property
    def runs(self) -> int:
        return self._runs.read_text().count("run")

    def access(self, address: str, pair: Pair) -> Access:
        plugin = PluginCommand(str(self._program), interactive_mode=InteractiveMode.NEVER)
        return Access(address, authority=pair.certificate, plugin=plugin)


@pytest.fixture
def plugin_file(tmp_path: Path) -> ExecPluginFile:
    return ExecPluginFile(tmp_path)


async def test_a_plugin_is_asked_again_when_its_token_is_refused(
    pair: Pair, tls: ssl.SSLContext, plugin_file: ExecPluginFile
) -> None:
    door = ConnectionLimiter("first", "second")
    plugin_file.says(token="first")
    async with serving(door, tls) as address:
        client = HttpClient(plugin_file.access(address, pair), component="test", clock=RecordingClock())
        await asyncio.gather(*(client.get(NODE, "n1") for _ in range(5)))
        assert plugin_file.runs == 1
        door.tokens.remove("first")
        plugin_file.says(token="second")
        await asyncio.gather(*(client.create(NODE, {}) for _ in range(5)))
        async with aclosing(client.watch(POD, after="1")) as events:
            assert (await anext(events)).object.name == "p"
        assert plugin_file.runs == 2
        door.tokens.clear()
        door.seen.clear()
        with pytest.raises(Unauthorized):
            await client.get(NODE, "n1")
        assert len(door.seen) == 1, "the plugin had nothing else to show"
        await client.close()


async def test_a_watch_asks_the_plugin_again_too(pair: Pair, tls: ssl.SSLContext, plugin_file: ExecPluginFile) -> None:
    door = ConnectionLimiter("first")
    plugin_file.says(token="first")
    async with serving(door, tls) as address:
        client = HttpClient(plugin_file.access(address, pair), component="test", clock=RecordingClock())
        await client.get(NODE, "n1")
        door.tokens = {"second"}
        plugin_file.says(token="second")
        async with aclosing(client.watch(POD, after="1")) as events:
            assert (await anext(events)).object.name == "p"
        await client.close()


async def test_a_new_certificate_means_new_connections_and_lets_the_old_ones_end(
    tmp_path: Path, pair: Pair, plugin_file: ExecPluginFile
) -> None:
    first, second = a_pair(name="first"), a_pair(name="second")
    tls = server_tls(tmp_path, pair, trusting=Pair(first.certificate + second.certificate, ""))
    door = ConnectionLimiter("one")
    slow = asyncio.Event()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        answered = await door(request)
        if request.path.endswith("slow"):
            await slow.wait()
        return answered

    plugin_file.says(token="one", clientCertificateData=first.certificate, clientKeyData=first.key)
    async with serving(handler, tls) as address:
        client = HttpClient(plugin_file.access(address, pair), component="test", clock=RecordingClock())
        under_way = asyncio.create_task(client.get(NODE, "slow"))
        await client.get(NODE, "n1")
        door.tokens.add("two")
        door.tokens.remove("one")
        plugin_file.says(token="two", clientCertificateData=second.certificate, clientKeyData=second.key)
        await client.get(NODE, "n1")
        slow.set()
        assert (await under_way).name == "x"
        await client.get(NODE, "n1")
        await client.close()
    assert [name for _, name in door.seen] == ["first", "first", "first", "second", "second"]


async def test_a_plugin_may_return_a_certificate_that_is_none(
    pair: Pair, tls: ssl.SSLContext, plugin_file: ExecPluginFile
) -> None:
    plugin_file.says(clientCertificateData=a_pair().certificate, clientKeyData=a_pair().key)
    client = HttpClient(plugin_file.access("https://127.0.0.1:1", pair), component="test", clock=RecordingClock())
    with pytest.raises(PluginFailed, match="the certificate or key of the credential is broken"):
        await client.get(NODE, "n1")
    await client.close()


async def test_an_expired_client_certificate_is_named_in_an_unauthorized_error(
    pair: Pair, tls: ssl.SSLContext, tmp_path: Path
) -> None:
    old = a_pair(begins=timedelta(days=-2), ends=timedelta(days=-1))
    # As kube-apiserver: TLS accepts every client, and the certificate is judged afterwards.
    unjudging = server_tls(tmp_path, pair)
    async with serving(ConnectionLimiter(), unjudging) as address:
        access = Access(address, authority=pair.certificate, certificate=old.certificate, key=old.key)
        client = HttpClient(access, component="test", clock=SystemClock())
        with pytest.raises(Unauthorized, match=r"^Unauthorized: the client certificate .* expired on 20..-..-..: get"):
            await client.get(NODE, "n1")
        await client.close()
        good = Access(address, authority=pair.certificate, certificate=pair.certificate, key=pair.key)
        client = HttpClient(good, component="test", clock=SystemClock())
        with pytest.raises(Unauthorized, match=r"^Unauthorized$"):
            await client.get(NODE, "n1")
        await client.close()


async def test_the_observer_gets_every_forbidden_response() -> None:
    output: list[str] = []

    async def refuse(_: web.BaseRequest) -> web.Response:
        body = Forbidden("User cannot").to_status()
        return web.Response(status=403, body=msgspec.json.encode(body), content_type="application/json")

    async with serving(refuse) as url:
        client = HttpClient(
            Access(url), component="test", clock=SystemClock(), refused=lambda error: output.append(error.message)
        )
        with pytest.raises(Forbidden):
            await client.list(POD)
        with pytest.raises(Forbidden):
            async for _ in client.watch(POD, after=None):
                pass
        await client.close()
    assert output == ["User cannot", "User cannot"]
