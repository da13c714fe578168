"""The page over HTTP: what is answered to whom, and how the stream of frames behaves."""

import asyncio
import json
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from mooring.client.contract import Unreachable
from mooring.clock import SystemClock
from mooring.server.http.listener import listen
from mooring.web.server import Application, Guard, assets
from mooring.web.session import WHOLE_CLUSTER, SessionPool, ViewScope
from support.fake_client import FakeClient
from support.web_scene import TOKEN, Scene, shown, small, thousand

HEADERS = {"Authorization": f"Bearer {TOKEN}"}


def origin(address: str) -> str:
    return address.partition("/#")[0]


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def site() -> AsyncIterator[str]:
    async with shown(small()) as address:
        yield origin(address)


class Tab:
    """A reader of the stream."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def frame(self) -> dict[str, Any]:
        """The next one that is no heartbeat."""
        async with asyncio.timeout(10):
            while True:
                line = await self._response.content.readuntil(b"\n")
                if line.strip():
                    found: dict[str, Any] = json.loads(line)
                    return found


@asynccontextmanager
async def tab(http: aiohttp.ClientSession, site: str, query: str = "") -> AsyncIterator[Tab]:
    # A whole picture is one line, longer than aiohttp's readers expect.
    async with http.get(f"{site}/api/frames{query}", headers=HEADERS, read_bufsize=1 << 26) as response:
        assert response.status == 200
        yield Tab(response)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        pytest.param("/", {}, 200, id="the page itself has no secrets"),
        pytest.param("/assets/page.js", {}, 200, id="nor has what it is made of"),
        pytest.param("/assets/../serving.py", {}, 404, id="a way out of the folder"),
        pytest.param("/assets/%2e%2e/serving.py", {}, 404, id="the same, encoded"),
        pytest.param("/elsewhere", HEADERS, 404, id="a path that is not there"),
        pytest.param("/api/frames", {}, 401, id="no token"),
        pytest.param("/api/frames", {"Authorization": "Bearer wrong"}, 401, id="a wrong token"),
        pytest.param("/api/frames?token=" + TOKEN, {}, 401, id="the token in the query, where logs would see it"),
        pytest.param("/api/explanations/default/analytics", {}, 401, id="an explanation without a token"),
        pytest.param("/", {"Host": "evil.example.com"}, 421, id="another host, even for the page"),
        pytest.param("/api/frames", HEADERS | {"Host": "evil.example.com"}, 421, id="another host with the token"),
        pytest.param("/api/frames", HEADERS | {"Sec-Fetch-Site": "cross-site"}, 403, id="from another site"),
        pytest.param("/api/explanations/default/missing", HEADERS, 404, id="a pod that is not there"),
        pytest.param("/api/explanations/nonsense", HEADERS, 404, id="no namespace"),
        pytest.param("/api/", HEADERS, 404, id="nothing asked"),
    ],
)
async def test_status_per_path_and_headers(
    http: aiohttp.ClientSession, site: str, path: str, headers: dict[str, str], status: int
) -> None:
    async with http.get(site + path, headers=headers) as response:
        assert response.status == status
        assert response.headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert "Access-Control-Allow-Origin" not in response.headers
        assert "Set-Cookie" not in response.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
async def test_the_page_only_reads(http: aiohttp.ClientSession, site: str, method: str) -> None:
    async with http.request(method, f"{site}/api/frames", headers=HEADERS) as response:
        assert response.status == 405


async def test_every_asset_is_served_with_its_type(http: aiohttp.ClientSession, site: str) -> None:
    assert {"index.html", "page.js", "page.css", "mooring.svg"} <= set(assets())
    for name, asset in assets().items():
        async with http.get(f"{site}/assets/{name}") as response:
            assert (response.status, response.content_type) == (200, asset.content_type)
            assert await response.read() == asset.body


async def test_a_whole_picture_comes_first_and_changes_after(http: aiohttp.ClientSession) -> None:
    scene = small()
    async with shown(scene) as address, tab(http, origin(address)) as reader:
        whole = await reader.frame()
        assert whole["whole"]
        assert sorted(row["id"] for row in whole["rows"]["nodes"]) == ["node-1", "node-2", "node-3"]
        assert whole["rows"]["notices"] == []
        scene.node("node-4")
        change = await reader.frame()
        assert change["number"] == whole["number"] + 1
        assert [row["id"] for row in change["rows"]["nodes"]] == ["node-4"]


async def test_a_tab_goes_on_where_it_left_off(http: aiohttp.ClientSession) -> None:
    scene = small()
    async with shown(scene) as address:
        async with tab(http, origin(address)) as reader:
            whole = await reader.frame()
        scene.node("node-4")
        await asyncio.sleep(0.3)
        scene.node("node-5")
        async with tab(http, origin(address), f"?epoch={whole['epoch']}&number={whole['number']}") as reader:
            first, second = await reader.frame(), await reader.frame()
        named = [[row["id"] for row in frame["rows"]["nodes"]] for frame in (first, second)]
        assert named == [["node-4"], ["node-5"]]
        assert "whole" not in first


@pytest.mark.parametrize(
    "query", ["?epoch=other&number=0", "?epoch=&number=", "?number=-5", "?number=9999999999999999"]
)
async def test_stream_restarts_from_a_snapshot_after_a_gap(http: aiohttp.ClientSession, site: str, query: str) -> None:
    async with tab(http, site, query) as reader:
        assert (await reader.frame())["whole"]


async def test_all_tabs_see_the_same(http: aiohttp.ClientSession) -> None:
    scene = small()
    async with shown(scene) as address:
        site = origin(address)
        async with tab(http, site) as one, tab(http, site) as two:
            assert await one.frame() == await two.frame()
            scene.node("node-4")
            assert await one.frame() == await two.frame()


async def test_forbidden_kinds_are_reported(http: aiohttp.ClientSession) -> None:
    async with shown(small(), refused=("persistentvolumes",)) as address, tab(http, origin(address)) as reader:
        whole = await reader.frame()
        [notice] = whole["rows"]["notices"]
        assert (notice["id"], notice["state"]) == ("persistentvolumes", "forbidden")
        assert 'User "reader" cannot list' in notice["text"]
        assert whole["rows"]["volumes"] == []
        assert whole["rows"]["nodes"] != []


async def test_one_namespace_can_be_looked_at_alone(http: aiohttp.ClientSession) -> None:
    scene = small()
    scene.pod("other", namespace="elsewhere")
    async with shown(scene, focus=ViewScope(namespace="elsewhere")) as address, tab(http, origin(address)) as reader:
        rows = (await reader.frame())["rows"]
    assert [row["id"] for row in rows["pods"]] == ["elsewhere/other"]
    assert len(rows["pools"]) == 2, "storage is not namespaced"


async def explained(http: aiohttp.ClientSession, site: str, pod: str) -> dict[str, Any]:
    async with http.get(f"{site}/api/explanations/{pod}", headers=HEADERS) as response:
        assert response.status == 200
        found: dict[str, Any] = await response.json()
        return found


async def test_a_waiting_pod_is_explained(http: aiohttp.ClientSession, site: str) -> None:
    found = await explained(http, site, "default/analytics")
    assert not found["ok"]
    assert "3 node(s) did not have enough free storage" in found["verdict"]
    [group] = found["groups"]
    assert (group["count"], group["nodes"]) == (3, ["node-1", "node-2", "node-3"])
    assert {reason["plugin"] for reason in group["reasons"]} == {"VolumeBinding"}


async def test_a_thousand_nodes_are_explained_in_groups(http: aiohttp.ClientSession) -> None:
    async with shown(thousand()) as address:
        found = await explained(http, origin(address), "default/batch-1")
    assert sum(group["count"] for group in found["groups"]) == 1000
    assert len(found["groups"]) <= 3
    assert all(len(group["nodes"]) <= 60 for group in found["groups"])


async def test_an_explanation_says_what_it_could_not_see(http: aiohttp.ClientSession) -> None:
    async with shown(small(), refused=("csinodes",)) as address:
        found = await explained(http, origin(address), "default/analytics")
    assert any("csinodes could not be listed" in note for note in found["notes"])


@asynccontextmanager
async def application(scene: Scene, **options: float) -> AsyncIterator[tuple[str, SessionPool]]:
    """With patience of its own."""
    linger = options.pop("linger", 30.0)
    sessions = SessionPool(FakeClient(scene), WHOLE_CLUSTER, clock=SystemClock(), rng=random.Random(1), linger=linger)
    made = Application(sessions, Guard(TOKEN), clock=SystemClock(), **options)
    listener = await listen(made.handle, "127.0.0.1", 0, None)
    try:
        yield listener.url, sessions
    finally:
        made.close()
        await listener.close()
        await sessions.close()


async def test_informers_run_only_while_a_stream_is_open(http: aiohttp.ClientSession) -> None:
    async with application(small(), linger=0.05) as (site, sessions):
        async with http.get(site) as response:
            assert response.status == 200
        assert not sessions.open
        async with tab(http, site) as reader:
            await reader.frame()
            assert sessions.open
        async with asyncio.timeout(5):
            while sessions.open:  # noqa: ASYNC110  # the server reports no event when a stream ends
                await asyncio.sleep(0.02)


async def test_idle_stream_sends_keepalives(http: aiohttp.ClientSession) -> None:
    async with (
        application(small(), heartbeat=0.05) as (site, _),
        http.get(f"{site}/api/frames", headers=HEADERS, read_bufsize=1 << 20) as response,
        asyncio.timeout(5),
    ):
        assert json.loads(await response.content.readuntil(b"\n"))["whole"]
        assert await response.content.readuntil(b"\n") == b"\n"


async def test_a_reader_that_takes_nothing_is_cut_off() -> None:
    scene = Scene()
    for number in range(3000):  # Far more than sockets hold by themselves.
        said = {"type": "PodScheduled", "status": "False", "message": "x" * 4000}
        scene.pod(f"pod-{number}", conditions=(said,))
    async with application(scene, drain=0.3) as (site, _):
        with socket.create_connection((urlsplit(site).hostname, urlsplit(site).port)) as sleepy:
            sleepy.settimeout(5)
            request = f"GET /api/frames HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            sleepy.send(request.encode())
            await asyncio.sleep(2.5)
            taken = await asyncio.to_thread(_drained, sleepy)
    assert taken < 12_000_000


def _drained(connection: socket.socket) -> int:
    """How much comes before the connection ends."""
    taken = 0
    try:
        while part := connection.recv(1 << 20):
            taken += len(part)
    except ConnectionResetError:
        return taken
    return taken


async def test_too_many_tabs_are_sent_away(
    http: aiohttp.ClientSession, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.web.server.MAX_STREAMS", 1)
    async with tab(http, site) as reader:
        await reader.frame()
        async with http.get(f"{site}/api/frames", headers=HEADERS) as response:
            assert response.status == 503


async def test_unreachable_api_server_is_reported_until_it_answers(http: aiohttp.ClientSession) -> None:
    scene = small()
    async with shown(scene) as address, tab(http, origin(address)) as reader:
        await reader.frame()
        scene.interrupt(Unreachable("connection refused"))
        told = (await reader.frame())["rows"]["notices"]
        assert {row["state"] for row in told} == {"unreachable"}
        taken_back: set[str] = set()
        while taken_back != {row["id"] for row in told}:
            taken_back |= set((await reader.frame())["gone"]["notices"])
