"""Who may ask a plain-HTTP listener: by name, by origin, and that no listener is without the check."""

import random

import aiohttp
import pytest
from aiohttp import web

from mooring.cli.process import Monitoring
from mooring.clock import SystemClock
from mooring.cluster.extender_server import ExtenderServer, ExtenderServerSettings
from mooring.server.http.host_guard import HostGuard, is_cross_site
from mooring.server.http.listener import Listener, listen
from mooring.web.server import PageSettings, page
from support.fake_api_server import FakeApiServer
from support.fake_client import FakeClient


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        pytest.param("127.0.0.1:7444", True, id="loopback"),
        pytest.param("[::1]:7444", True, id="loopback in IPv6"),
        pytest.param("localhost:7444", True, id="localhost"),
        pytest.param("LOCALHOST", True, id="localhost, shouted"),
        pytest.param("192.0.2.7:80", True, id="an address cannot be rebound"),
        pytest.param("page.example.com", True, id="a name that was allowed"),
        pytest.param("metrics.mooring-system.svc:10251", True, id="a Service of the cluster"),
        pytest.param("metrics.svc.example.com", False, id="a name that looks like a Service"),
        pytest.param("evil.example.com:7444", False, id="a name that leads here"),
        pytest.param("localhost.evil.example.com", False, id="a name that looks like ours"),
        pytest.param("127.0.0.1.evil.example.com", False, id="a name that begins like an address"),
        pytest.param("", False, id="none"),
        pytest.param("[", False, id="nonsense"),
    ],
)
def test_unknown_host_is_rejected(host: str, ours: bool) -> None:
    assert HostGuard(("page.example.com", ".svc")).knows_host(host) is ours


@pytest.mark.parametrize(
    ("site", "foreign"),
    [("", False), ("same-origin", False), ("none", False), ("cross-site", True), ("same-site", True)],
)
def test_cross_site_requests_are_rejected(site: str, foreign: bool) -> None:
    assert is_cross_site(site) is foreign


HERE = {"Host": "127.0.0.1:10251"}


@pytest.mark.parametrize(
    ("method", "headers", "code"),
    [
        pytest.param("GET", HERE, None, id="a client that is no browser"),
        pytest.param("POST", {**HERE, "Origin": "http://127.0.0.1:10251"}, None, id="the listener's own page"),
        pytest.param("POST", {**HERE, "Origin": "http://evil.example.com"}, 403, id="another origin"),
        pytest.param("POST", {**HERE, "Origin": "http://127.0.0.1:8000"}, 403, id="another port of this machine"),
        pytest.param("POST", {**HERE, "Origin": "null"}, 403, id="a sandboxed frame"),
        pytest.param("GET", {**HERE, "Sec-Fetch-Site": "cross-site"}, 403, id="a script of another site"),
        pytest.param(
            "GET",
            {**HERE, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
            None,
            id="a link that was followed",
        ),
        pytest.param(
            "POST",
            {**HERE, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
            403,
            id="a form of another site",
        ),
        pytest.param("GET", {"Host": "evil.example.com", "Origin": "http://evil.example.com"}, 421, id="rebinding"),
    ],
)
def test_sec_fetch_site_is_checked(method: str, headers: dict[str, str], code: int | None) -> None:
    refused = HostGuard().refusal(method, headers)
    assert (refused and refused[0]) == code


async def asked(listener: Listener | str, path: str, **headers: str) -> int:
    url = listener if isinstance(listener, str) else listener.url
    async with aiohttp.ClientSession() as client, client.get(f"{url}{path}", headers=headers) as answer:
        return answer.status


@pytest.mark.parametrize(
    ("headers", "refusal"),
    [
        pytest.param({"Host": "evil.example.com"}, 421, id="DNS rebinding"),
        pytest.param({"Sec-Fetch-Site": "cross-site"}, 403, id="another site"),
        pytest.param({"Origin": "http://evil.example.com"}, 403, id="another origin"),
    ],
)
async def test_every_plain_listener_has_the_guard(headers: dict[str, str], refusal: int) -> None:
    async def hello(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="hello")

    monitoring = Monitoring({}, lambda: b"", {"/debug/attempts": lambda _: b"{}"})
    door = ExtenderServer(ExtenderServerSettings("127.0.0.1", 0), SystemClock(), random.Random(0))
    listeners = [
        (await listen(hello, "127.0.0.1", 0, None), "/"),
        (await monitoring.listen("127.0.0.1", 0), "/debug/attempts"),
        (await monitoring.listen("127.0.0.1", 0), "/metrics"),
        (await door.open(), "/version"),
    ]
    try:
        for listener, path in listeners:
            assert await asked(listener, path) == 200
            assert await asked(listener, path, **headers) == refusal
    finally:
        for listener, _ in listeners:
            await listener.close()
    settings = PageSettings("secret")
    async with page(FakeClient(FakeApiServer()), settings, clock=SystemClock(), rng=random.Random(1)) as address:
        site = address.partition("/#")[0]
        assert await asked(site, "/") == 200
        assert await asked(site, "/", **headers) == refusal


async def test_metrics_beyond_loopback_answer_to_names_of_the_cluster() -> None:
    listener = await Monitoring({}, lambda: b"").listen("0.0.0.0", 0)
    try:
        url = f"http://127.0.0.1:{listener.port}"
        assert await asked(url, "/metrics", Host="mooring-scheduler-metrics.mooring-system.svc:10251") == 200
        assert await asked(url, "/metrics", Host="10.0.0.7:10251") == 200
        assert await asked(url, "/metrics", Host="evil.example.com") == 421
    finally:
        await listener.close()
