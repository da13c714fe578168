"""Who the client says it is, over real TLS on the loopback interface."""

import ssl
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from aiohttp import web

from mooring.api.kinds import NODE
from mooring.client.access import Access, Impersonation
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from support.certificates import Pair, a_pair, server_tls
from support.http_server import serving


@pytest.fixture(scope="module")
def pair() -> Pair:
    return a_pair()


@pytest.fixture(scope="module")
def tls(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A server that shows the pair and asks for the same one."""
    return server_tls(tmp_path_factory.mktemp("tls"), pair, trusting=pair)


async def introduce(access: Access) -> Mapping[str, str]:
    """What a server that answers with it has learnt about the client."""
    client = HttpClient(access, component="test", clock=SystemClock())
    try:
        return (await client.get(NODE, "me")).metadata.labels
    finally:
        await client.close()


async def echo_identity(request: web.BaseRequest) -> web.Response:
    """Respond with every header that identifies the client, and the name in its certificate."""
    learnt: dict[str, Any] = {}
    for name, value in request.headers.items():
        if name.lower().startswith(("authorization", "impersonate-", "accept-encoding")):
            learnt[name] = f"{learnt[name]}, {value}" if name in learnt else value
    if shown := request.get_extra_info("peercert"):
        learnt["certificate"] = shown["subject"][0][0][1]
    me = {"name": "me", "resourceVersion": "1", "labels": learnt}
    return web.Response(body=msgspec.json.encode({"metadata": me}))


GZIP = {"Accept-Encoding": "gzip, deflate"}


@pytest.mark.parametrize(
    ("shown", "learnt"),
    [
        pytest.param({}, GZIP, id="anonymous"),
        pytest.param({"token": "secret"}, GZIP | {"Authorization": "Bearer secret"}, id="a token"),
        pytest.param(
            {"username": "jürgen", "password": "p:w"},
            GZIP | {"Authorization": "Basic asO8cmdlbjpwOnc="},
            id="a password",
        ),
        pytest.param(
            {"impersonation": Impersonation("jane", "u1", ("a", "b"), (("acme.com/Scope%", ("x", "y")),))},
            GZIP
            | {
                "Impersonate-User": "jane",
                "Impersonate-Uid": "u1",
                "Impersonate-Group": "a, b",
                "Impersonate-Extra-acme.com%2FScope%25": "x, y",
            },
            id="impersonation",
        ),
        pytest.param({"compression": False}, {}, id="compression off"),
    ],
)
async def test_what_the_server_learns(
    pair: Pair, tls: ssl.SSLContext, shown: dict[str, Any], learnt: dict[str, str]
) -> None:
    async with serving(echo_identity, tls) as address:
        assert await introduce(Access(address, authority=pair.certificate, **shown)) == learnt


async def test_a_certificate_is_shown_beside_a_token(pair: Pair, tls: ssl.SSLContext) -> None:
    async with serving(echo_identity, tls) as address:
        access = Access(address, authority=pair.certificate, certificate=pair.certificate, key=pair.key, token="t")
        learnt = await introduce(access)
    assert learnt == GZIP | {"Authorization": "Bearer t", "certificate": "mooring test"}


async def test_a_server_may_go_unchecked_and_may_have_another_name(pair: Pair, tls: ssl.SSLContext) -> None:
    async with serving(echo_identity, tls) as address:
        assert await introduce(Access(address, insecure=True))
        elsewhere = address.replace("127.0.0.1", "localhost")
        assert await introduce(Access(elsewhere, authority=pair.certificate, server_name="127.0.0.1"))


async def test_secrets_are_never_shown_over_plain_http() -> None:
    async with serving(echo_identity) as address:
        assert await introduce(Access(address, token="secret")) == GZIP
        assert await introduce(Access(address, username="me", password="secret")) == GZIP


def test_secrets_do_not_show() -> None:
    access = Access("https://here", token="secret", password="secret", key="secret", proxy="http://me:secret@proxy")
    assert "secret" not in repr(access)
