"""Servers that cannot be reached, for real, and the one sentence people get for each."""

import asyncio
import errno
import os
import socket
import ssl
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509

from mooring.api.kinds import NODE
from mooring.client import transport
from mooring.client.access import Access
from mooring.client.contract import Unreachable
from mooring.client.diagnosis import explain_failure
from mooring.client.http import HttpClient
from support.certificates import Pair, a_pair, server_tls
from support.http_conversations import Conversation, RecordingClock, an_object, listening
from support.http_server import serving

DAY = timedelta(days=1)


async def complaint(access: Access, *, timeout: float = 5.0) -> str:
    """What a client says that cannot reach its server."""
    client = HttpClient(access, component="test", clock=RecordingClock(), timeout=timeout)
    try:
        with pytest.raises(Unreachable) as error:
            await client.get(NODE, "n1")
    finally:
        await client.close()
    assert error.value.__cause__ is not None
    assert "\n" not in str(error.value)
    return str(error.value)


# --- certificates ---


def shaking_hands(tls: ssl.SSLContext) -> Conversation:
    """Says what it does not like about a client, as every TLS library but asyncio's does, and waits for it to go."""

    async def conversation(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        output, to_say = ssl.MemoryBIO(), ssl.MemoryBIO()
        side = tls.wrap_bio(output, to_say, server_side=True)
        while data := await reader.read(10_000):
            output.write(data)
            with suppress(ssl.SSLError):
                side.do_handshake()
            writer.write(to_say.read())

    return conversation


async def fail_on_request(request: web.BaseRequest) -> web.Response:
    raise AssertionError("the client talked to a server it must not trust")


@pytest.fixture(scope="module")
def good() -> Pair:
    return a_pair()


@pytest.mark.parametrize(
    ("shown", "trusted", "text"),
    [
        pytest.param(
            a_pair(begins=-2 * DAY, ends=-DAY),
            "itself",
            "certificate has expired: renew that of ADDRESS, or set this machine's clock",
            id="expired",
        ),
        pytest.param(
            a_pair(begins=DAY, ends=2 * DAY),
            "itself",
            "certificate is not valid yet: that of ADDRESS is from the future, or this machine's clock is wrong",
            id="not yet valid",
        ),
        pytest.param(
            a_pair(),
            a_pair(name="another authority").certificate,
            "certificate verify failed: the CA in the kubeconfig did not sign the certificate of ADDRESS: "
            "is it a kubeconfig of this very cluster?",
            id="another CA",
        ),
        pytest.param(
            a_pair(),
            a_pair().certificate,
            "certificate verify failed: the CA in the kubeconfig did not sign the certificate of ADDRESS: "
            "is it a kubeconfig of this very cluster?",
            id="another CA of the same name",
        ),
        pytest.param(
            a_pair(),
            "",
            "certificate verify failed: no CA that this machine trusts signed the certificate of ADDRESS: "
            "add the cluster's certificate-authority to the kubeconfig",
            id="no CA",
        ),
        pytest.param(
            a_pair(hosts=[x509.DNSName("elsewhere")]),
            "itself",
            "certificate verify failed: the certificate of ADDRESS is not for 127.0.0.1: "
            "use an address it names, or set tls-server-name in the kubeconfig",
            id="another host",
        ),
    ],
)
async def test_certificates_that_cannot_be_trusted(tmp_path: Path, shown: Pair, trusted: str, text: str) -> None:
    async with serving(fail_on_request, server_tls(tmp_path, shown)) as address:
        authority = shown.certificate if trusted == "itself" else trusted
        assert await complaint(Access(address, authority=authority)) == f"{text} (GET /api/v1/nodes/n1)".replace(
            "ADDRESS", address
        )


async def test_a_name_the_certificate_does_not_have(tmp_path: Path, good: Pair) -> None:
    async with serving(fail_on_request, server_tls(tmp_path, good)) as address:
        access = Access(address, authority=good.certificate, server_name="kubernetes")
        assert f"the certificate of {address} is not for kubernetes" in await complaint(access)


@pytest.mark.parametrize(
    ("ours", "text"),
    [
        pytest.param(
            a_pair(name="late", begins=-2 * DAY, ends=-DAY), "our client certificate, it has expired", id="expired"
        ),
        pytest.param(a_pair(name="a stranger"), "our client certificate, another authority signed it", id="another CA"),
        pytest.param(None, "our client certificate, there is none", id="none"),
    ],
)
async def test_servers_that_do_not_like_ours(tmp_path: Path, good: Pair, ours: Pair | None, text: str) -> None:
    trusting = Pair(good.certificate + (ours.certificate if ours and "expired" in text else ""), "")
    tls = server_tls(tmp_path, good, trusting=trusting, required=True)
    async with listening(shaking_hands(tls)) as where:
        address = f"https://{where}"
        access = Access(address, authority=good.certificate)
        if ours is not None:
            access = Access(address, authority=good.certificate, certificate=ours.certificate, key=ours.key)
        assert await complaint(access) == (
            f"{address} does not accept {text}: get a new kubeconfig (GET /api/v1/nodes/n1)"
        )


# --- sockets ---


async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(1000):
        pass


async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1000)
    writer.transport.abort()


async def says_other_things(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1000)
    writer.write(b"220 mail.example.com ESMTP ready\r\n")


async def breaks_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1000)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")


@pytest.mark.parametrize(
    ("scheme", "conversation", "text"),
    [
        pytest.param(
            "http", says_nothing, "no response within 0.2 s from ADDRESS: is it overloaded or hanging?", id="silence"
        ),
        pytest.param(
            "https",
            says_nothing,
            "cannot connect to ADDRESS in time: is the address right, is a firewall in between?",
            id="silence instead of TLS",
        ),
        pytest.param(
            "http", hangs_up, "the connection to ADDRESS broke before the response was complete", id="hang-up"
        ),
        pytest.param(
            "http", breaks_off, "the connection to ADDRESS broke before the response was complete", id="truncated"
        ),
        pytest.param(
            "http",
            says_other_things,
            "ADDRESS does not speak HTTP: is the port right, or should it begin with https://?",
            id="mail",
        ),
        pytest.param(
            "https",
            says_other_things,
            "ADDRESS does not speak TLS: is the port right, or should it begin with http://?",
            id="mail instead of TLS",
        ),
    ],
)
async def test_servers_that_do_not_answer(
    monkeypatch: pytest.MonkeyPatch, scheme: str, conversation: Conversation, text: str
) -> None:
    monkeypatch.setattr(transport, "CONNECT_TIMEOUT", 0.1)
    async with listening(conversation) as where:
        address = f"{scheme}://{where}"
        said = await complaint(Access(address), timeout=0.2)
    assert said.startswith(text.replace("ADDRESS", address))
    assert said.endswith(" (GET /api/v1/nodes/n1)")


async def test_connection_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"https://127.0.0.1:{taken.getsockname()[1]}"
        assert await complaint(Access(address)) == (
            f"connection refused: is the API server running at {address}? (GET /api/v1/nodes/n1)"
        )


async def test_tls_meets_a_plain_api_server() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return an_object()

    async with serving(handler) as address:
        address = address.replace("http://", "https://")
        assert "does not speak TLS" in await complaint(Access(address))


# --- what a test machine cannot arrange ---


def connector_error(inner: OSError) -> aiohttp.ClientConnectorError:
    key = SimpleNamespace(host="api", port=6443, ssl=True, is_ssl=True)
    return aiohttp.ClientConnectorError(key, inner)  # type: ignore[arg-type]  # only its texts are asked for


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(
            connector_error(socket.gaierror(socket.EAI_NONAME, "Name or service not known")),
            "no such host: api (Name or service not known): is the server in the kubeconfig right?",
            id="no such name",
        ),
        pytest.param(
            connector_error(OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))),
            "no route to https://api:6443: is the network up?",
            id="no route",
        ),
        pytest.param(
            connector_error(TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))),
            "cannot connect to https://api:6443 in time: is the address right, is a firewall in between?",
            id="a firewall that swallows",
        ),
        pytest.param(
            ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
            "the connection to https://api:6443 broke before the response was complete",
            id="reset",
        ),
        pytest.param(
            OSError(errno.EMFILE, "Too many open files"),
            "no response from https://api:6443: Too many open files",
            id="anything else",
        ),
        pytest.param(aiohttp.ClientError(), "no response from https://api:6443: ClientError", id="nothing said"),
        pytest.param(
            ssl.SSLCertVerificationError(),
            "certificate verify failed: it cannot be trusted: check the certificate of https://api:6443",
            id="unknown verification error",
        ),
    ],
)
def test_sentences(error: Exception, text: str) -> None:
    assert explain_failure(error, Access("https://api:6443"), timeout=30.0) == text


def test_the_root_of_a_chain_is_found_and_a_loop_in_it_is_survived() -> None:
    outer, inner = aiohttp.ClientError(), ConnectionRefusedError()
    outer.__cause__, inner.__context__ = inner, outer
    assert explain_failure(outer, Access("https://api"), timeout=1.0).startswith("connection refused")
