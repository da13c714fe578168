"""Who the client says it is, over real TLS on the loopback interface."""

import ssl
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from client.certificates import Pair, a_pair
from client.wire_server import serving
from mooring.api.kinds import NODE
from mooring.client.access import TOKEN_AGE, Access, Token
from mooring.client.contract import Unreachable
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.sim.loop import VirtualClock, VirtualLoop


@pytest.fixture(scope="module")
def pair() -> Pair:
    return a_pair()


@pytest.fixture(scope="module")
def server_tls(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A server that shows the pair and asks for the same one."""
    file = tmp_path_factory.mktemp("tls") / "pair.pem"
    file.write_text(pair.certificate + pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=pair.certificate)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_cert_chain(file)
    return context


async def introduce(access: Access) -> Mapping[str, str]:
    """What a server that answers with it has learnt about the client."""
    client = HttpClient(access, component="test", clock=SystemClock())
    try:
        return (await client.get(NODE, "me")).metadata.labels
    finally:
        await client.close()


async def who_are_you(request: web.BaseRequest) -> web.Response:
    shown = request.get_extra_info("peercert")
    learnt = {
        "authorization": request.headers.get("Authorization", ""),
        "certificate": shown["subject"][0][0][1] if shown else "",
    }
    return web.Response(body=msgspec.json.encode({"metadata": {"name": "me", "labels": learnt}}))


async def test_a_token_and_a_certificate_are_shown(pair: Pair, server_tls: ssl.SSLContext) -> None:
    async with serving(who_are_you, server_tls) as address:
        known = Access(address, authority=pair.certificate, certificate=pair.certificate, key=pair.key, token="secret")
        assert await introduce(known) == {"authorization": "Bearer secret", "certificate": "mooring test"}
        nobody = Access(address, authority=pair.certificate)
        assert await introduce(nobody) == {"authorization": "", "certificate": ""}


async def test_a_server_nobody_vouches_for_is_not_talked_to(pair: Pair, server_tls: ssl.SSLContext) -> None:
    async with serving(who_are_you, server_tls) as address:
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await introduce(Access(address, authority=a_pair().certificate))
        with pytest.raises(Unreachable, match=r"certificate is not valid for 'kubernetes'|[Hh]ostname mismatch"):
            await introduce(Access(address, authority=pair.certificate, server_name="kubernetes"))
        assert await introduce(Access(address, insecure=True))


async def test_a_token_is_never_shown_over_plain_http() -> None:
    async with serving(who_are_you) as address:
        assert (await introduce(Access(address, token="secret")))["authorization"] == ""


def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    loop = VirtualLoop()
    token = Token(Access("https://here", token="fallback", token_file=file), VirtualClock(loop))
    assert token.current() == "first"
    file.write_text("second\n")
    assert token.current() == "first"
    loop.advance(TOKEN_AGE)
    assert token.current() == "second"
    file.unlink()
    loop.advance(TOKEN_AGE)
    assert token.current() == "second"
    loop.close()
