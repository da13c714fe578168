"""Through proxies that stand on the loopback interface, to servers with and without TLS."""

import asyncio
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from mooring.api.kinds import NODE
from mooring.client.access import Access
from mooring.client.contract import Unreachable
from mooring.client.http import HttpClient
from support.certificates import Pair, a_pair, server_tls
from support.http_conversations import RecordingClock, an_object, listening
from support.http_server import serving


class Proxy:
    """HTTP proxy that requires a password and records the CONNECT requests."""

    def __init__(self, *, answer: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> None:
        self._answer = answer
        self.asked: list[str] = []
        self.passwords: list[str] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode().splitlines()
        self.asked.append(lines[0])
        self.passwords += [line for line in lines if line.lower().startswith("proxy-authorization")]
        method, target, _ = lines[0].split()
        address = target if method == "CONNECT" else urlsplit(target).netloc
        if not self._answer.startswith(b"HTTP/1.1 200"):
            writer.write(self._answer)
            return
        host, _, port = address.rpartition(":")
        there, onward = await asyncio.open_connection(host, int(port))
        if method == "CONNECT":
            writer.write(self._answer)
        else:
            onward.write(head)
        await asyncio.gather(pump(reader, onward), pump(there, writer))


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(10_000):
            sink.write(data)
            await sink.drain()
    finally:
        sink.close()


async def api(request: web.BaseRequest) -> web.Response:
    assert request.headers.get("Proxy-Authorization") is None, "that is for the proxy"
    return an_object()


async def ask(access: Access) -> None:
    client = HttpClient(access, component="test", clock=RecordingClock())
    try:
        for _ in range(2):
            await client.get(NODE, "n1")
    finally:
        await client.close()


@pytest.fixture(scope="module")
def pair() -> Pair:
    return a_pair()


@pytest.fixture
def tls(pair: Pair, tmp_path: Path) -> ssl.SSLContext:
    return server_tls(tmp_path, pair)


async def test_a_tunnel_through_a_plain_proxy(pair: Pair, tls: ssl.SSLContext) -> None:
    proxy = Proxy()
    async with serving(api, tls) as address, listening(proxy) as where:
        await ask(Access(address, authority=pair.certificate, proxy=f"http://{where}"))
    assert proxy.asked == [f"CONNECT {address.removeprefix('https://')} HTTP/1.1"], "one tunnel, used twice"
    assert proxy.passwords == []


async def test_a_password_in_the_address_is_shown_to_the_proxy(pair: Pair, tls: ssl.SSLContext) -> None:
    proxy = Proxy()
    async with serving(api, tls) as address, listening(proxy) as where:
        await ask(Access(address, authority=pair.certificate, proxy=f"http://me:secret@{where}"))
    assert proxy.passwords == ["Proxy-Authorization: Basic bWU6c2VjcmV0"]


async def test_a_tunnel_through_a_proxy_that_speaks_tls(pair: Pair, tls: ssl.SSLContext) -> None:
    """The proxy's certificate is judged as the server's is, by the cluster's authority: so does kubectl."""
    proxy = Proxy()
    async with serving(api, tls) as address, listening(proxy, tls) as where:
        await ask(Access(address, authority=pair.certificate, proxy=f"https://{where}"))
    assert proxy.asked == [f"CONNECT {address.removeprefix('https://')} HTTP/1.1"]


async def test_a_plain_server_behind_a_proxy(pair: Pair) -> None:
    proxy = Proxy()
    async with serving(api) as address, listening(proxy) as where:
        await ask(Access(address, proxy=f"http://{where}"))
    assert set(proxy.asked) == {f"GET {address}/api/v1/nodes/n1 HTTP/1.1"}


async def test_a_proxy_that_says_no() -> None:
    proxy = Proxy(answer=b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
    async with listening(proxy) as where:
        with pytest.raises(
            Unreachable, match=r"^the proxy http://127\.0\.0\.1:\d+ refused to connect: 407 Proxy"
        ) as no:
            await ask(Access("https://api:6443", proxy=f"http://me:secret@{where}"))
    assert "secret" not in str(no.value)


async def test_a_proxy_that_is_not_there() -> None:
    with pytest.raises(Unreachable, match=r"^cannot reach the proxy http://127\.0\.0\.1:1: .*HTTPS_PROXY right\?"):
        await ask(Access("https://api:6443", proxy="http://127.0.0.1:1"))
