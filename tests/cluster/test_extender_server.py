"""The extender's port: who gets in, what is taken, and what is said to the rest."""

import asyncio
import json
import random
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from mooring import __version__
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.clock import SystemClock
from mooring.cluster import extender_server
from mooring.cluster.extender_server import (
    ExtenderCredentials,
    ExtenderServer,
    ExtenderServerSettings,
    InvalidExtenderCredentials,
)
from mooring.control.component import Context
from mooring.scheduler.extender.component import NOT_READY, Extender, Reply
from mooring.scheduler.extender.protocol import ExtenderSettings
from mooring.server.http.host_guard import is_loopback
from support.builders import pod_body
from support.certificates import Pair, a_pair
from support.fake_api_server import FakeApiServer
from support.fake_client import FakeClient

POD = {"Pod": pod_body(), "NodeNames": ["n1"]}


@asynccontextmanager
async def opened(credentials: ExtenderCredentials | None = None) -> AsyncIterator[tuple[str, ExtenderServer]]:
    door = ExtenderServer(ExtenderServerSettings("127.0.0.1", 0, credentials), SystemClock(), random.Random(0))
    listener = await door.open()
    try:
        yield listener.url, door
    finally:
        await listener.close()


@asynccontextmanager
async def an_extender() -> AsyncIterator[Extender]:
    """Of an empty cluster."""
    clock, rng = SystemClock(), random.Random(0)
    client = FakeClient(FakeApiServer())
    informers = Informers(client, clock, rng)
    extender = Extender(
        Context(client, informers, EventRecorder(client, clock, "x", rng), clock, rng), ExtenderSettings()
    )
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(informers.run()), group.create_task(extender.run())]
        while not extender.ready:  # noqa: ASYNC110  readiness is asked for, as a probe would
            await asyncio.sleep(0.01)
        yield extender
        for task in tasks:
            task.cancel()


async def post(
    url: str, body: bytes, *, tls: ssl.SSLContext | bool = True, kind: str = "application/json"
) -> tuple[int, str]:
    headers = {"Content-Type": kind}
    async with aiohttp.ClientSession() as session, session.post(url, data=body, ssl=tls, headers=headers) as answer:
        return answer.status, await answer.text()


def error(answer: tuple[int, str]) -> str:
    assert answer[0] == 200
    return str(json.loads(answer[1])["Error"])


async def test_a_call_is_answered() -> None:
    async with opened() as (url, door), an_extender() as extender:
        assert error(await post(f"{url}/filter", json.dumps(POD).encode())) == NOT_READY
        door.set_handler(extender.call)
        code, body = await post(f"{url}/filter", json.dumps(POD).encode())
        assert (code, json.loads(body)["NodeNames"]) == (200, ["n1"])
        code, body = await post(f"{url}/prioritize", json.dumps(POD).encode())
        assert (code, json.loads(body)) == (200, [{"Host": "n1", "Score": 0}])


async def test_what_is_not_a_call() -> None:
    async with opened() as (url, _), aiohttp.ClientSession() as session:
        async with session.get(f"{url}/filter") as answer:
            assert answer.status == 405
        assert await post(f"{url}/delete", b"{}") == (
            404,
            "404 page not found: calls go to /filter, /prioritize, /preempt, /bind\n",
        )
        assert error(await post(f"{url}/bind", b"{}", kind="text/plain")) == "the body must be application/json"
        assert (await post(f"{url}/prioritize", b"{}", kind="text/plain"))[0] == 415


async def test_it_says_of_which_version_it_is() -> None:
    async with opened() as (url, _), aiohttp.ClientSession() as session:
        async with session.get(f"{url}/version") as answer:
            assert (answer.status, await answer.json()) == (200, {"gitVersion": f"v{__version__}"})
        assert await post(f"{url}/version", b"{}") == (405, "method not allowed\n")


async def test_bodies_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extender_server, "LIMIT_BYTES", 1000)
    async with opened() as (url, _):
        told = error(await post(f"{url}/filter", b" " * 1001))
        assert told == "the body is larger than 1000 bytes: set nodeCacheCapable to true"
        assert (await post(f"{url}/prioritize", b" " * 1001))[0] == 413


async def test_bodies_have_to_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extender_server, "BODY_SECONDS", 0.05)
    async with opened() as (url, _):
        host, _, port = url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"POST /filter HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
        async with asyncio.timeout(10):
            answer = (await reader.readuntil(b'"}')).decode()
        writer.close()
        await writer.wait_closed()
        assert "the body did not arrive within 0.05 seconds" in answer


async def test_a_caller_that_hangs_up_ends_the_call() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def waiting(verb: str, body: bytes) -> Reply:
        begun.set()
        try:
            return await asyncio.Future()
        finally:
            ended.set()

    async with opened() as (url, door):
        door.set_handler(waiting)
        calling = asyncio.create_task(post(f"{url}/bind", b"{}"))
        async with asyncio.timeout(10):
            await begun.wait()
            calling.cancel()
            await ended.wait()


async def test_internal_error_is_logged_and_answered_by_reference() -> None:
    async def broken(verb: str, body: bytes) -> Reply:
        raise RuntimeError("secret words")

    async with opened() as (url, door):
        door.set_handler(broken)
        with capture_logs() as logs:
            told = error(await post(f"{url}/filter", b"{}"))
            code, _ = await post(f"{url}/preempt", b"{}")
        assert "the server's log has the details under reference" in told
        assert "secret" not in told
        assert code == 500
        assert [line["event"] for line in logs] == ["unexpected error"] * 2


SERVER, CLIENT, STRANGER = a_pair(name="server"), a_pair(name="system:kube-scheduler"), a_pair(name="stranger")


def files(folder: Path, pair: Pair, name: str) -> tuple[Path, Path]:
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    certificate.write_text(pair.certificate)
    key.write_text(pair.key)
    return certificate, key


@pytest.fixture
def mutual(tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[tuple[str, ExtenderServer]]]:
    certificate, key = files(tmp_path, SERVER, "server")
    authority, _ = files(tmp_path, CLIENT, "client")
    return lambda *names: opened(ExtenderCredentials(certificate, key, authority, frozenset(names)))


def presenting(pair: Pair | None, folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=SERVER.certificate)
    if pair is not None:
        context.load_cert_chain(*files(folder, pair, "mine"))
    return context


@pytest.mark.req("T33.mutual-tls")
async def test_only_those_with_a_certificate_get_in(
    mutual: Callable[..., AbstractAsyncContextManager[tuple[str, ExtenderServer]]], tmp_path: Path
) -> None:
    async with mutual() as (url, _):
        assert url.startswith("https://")
        assert error(await post(f"{url}/filter", b"{}", tls=presenting(CLIENT, tmp_path))) == NOT_READY
        for pair in (None, STRANGER):
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await post(f"{url}/filter", b"{}", tls=presenting(pair, tmp_path))


@pytest.mark.req("T33.mutual-tls")
async def test_only_named_client_certificates_are_accepted(
    mutual: Callable[..., AbstractAsyncContextManager[tuple[str, ExtenderServer]]], tmp_path: Path
) -> None:
    mine = presenting(CLIENT, tmp_path)
    async with mutual("jane", "system:kube-scheduler") as (url, _):
        assert error(await post(f"{url}/filter", b"{}", tls=mine)) == NOT_READY
    async with mutual("jane") as (url, _):
        code, body = await post(f"{url}/filter", b"{}", tls=mine)
        assert (code, body) == (403, "the certificate's common name is none of those allowed to call\n")


@pytest.mark.parametrize(
    ("host", "loops"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("10.0.0.1", False), ("extender.example.com", False), ("", False)],
)  # fmt: skip
def test_what_is_loopback(host: str, loops: bool) -> None:
    assert is_loopback(host) is loops


@pytest.mark.req("T33.mutual-tls")
async def test_beyond_loopback_nothing_opens_without_it(tmp_path: Path) -> None:
    certificate, key = files(tmp_path, SERVER, "server")
    for credentials in (None, ExtenderCredentials(certificate, key)):
        with pytest.raises(InvalidExtenderCredentials, match=r"^0\.0\.0\.0 is not loopback, and callers can bind pods"):
            await ExtenderServer(
                ExtenderServerSettings("0.0.0.0", 0, credentials), SystemClock(), random.Random(0)
            ).open()
    ExtenderServerSettings("0.0.0.0", 0, ExtenderCredentials(certificate, key, certificate)).check()


async def test_certificates_that_are_none(tmp_path: Path) -> None:
    certificate, key = files(tmp_path, SERVER, "server")
    empty = tmp_path / "empty"
    empty.write_text("")
    for wrong, why in (
        (ExtenderCredentials(certificate, certificate), "are not a certificate and its key"),
        (ExtenderCredentials(tmp_path / "nowhere", key), "are not a certificate and its key"),
        (ExtenderCredentials(certificate, key, empty), "holds no certificates"),
        (ExtenderCredentials(certificate, key, tmp_path / "nowhere"), "holds no certificates"),
    ):
        with pytest.raises(InvalidExtenderCredentials, match=why):
            await ExtenderServer(ExtenderServerSettings("127.0.0.1", 0, wrong), SystemClock(), random.Random(0)).open()


async def test_renewed_certificates_are_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extender_server, "RENEWAL_SECONDS", 0.02)
    certificate, key = files(tmp_path, SERVER, "server")
    renewed = a_pair(name="renewed")

    async def shown(url: str) -> str:
        """The certificate that a new connection is served."""
        host, _, port = url.removeprefix("https://").partition(":")
        return await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)))

    async with opened(ExtenderCredentials(certificate, key)) as (url, door):
        running = asyncio.create_task(door.run())
        assert await shown(url) == SERVER.certificate
        with capture_logs() as logs:
            certificate.write_text(renewed.certificate)
            async with asyncio.timeout(10):
                while not logs:
                    await SystemClock().sleep(0.01)
            assert logs[0]["event"] == "renewed certificates rejected; keeping the previous ones"
            assert await shown(url) == SERVER.certificate
            key.write_text(renewed.key)
            async with asyncio.timeout(10):
                while logs[-1]["event"] != "certificates reloaded":
                    await SystemClock().sleep(0.01)
        assert await shown(url) == renewed.certificate
        running.cancel()
