"""The dashboard on Kubernetes: lists and watches, kube-scheduler's events, and a reader's permissions."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import pytest

from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.web.server import PageSettings, page
from support.builders import claim_body, class_body, node_body, pod_body, volume_body
from support.conformance.control_plane import ControlPlane
from support.conformance.waiting import TIMEOUT_SECONDS

TOKEN: Final = "conformance"
HEADERS: Final = {"Authorization": f"Bearer {TOKEN}"}

Rows = dict[str, dict[str, Any]]


class Screen:
    """The state of a browser tab: all received frames, applied."""

    def __init__(self, stream: aiohttp.StreamReader) -> None:
        self._stream = stream
        self.tables: dict[str, Rows] = {}

    async def until(self, holds: Callable[[dict[str, Rows]], object]) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not self.tables or not holds(self.tables):
                line = await self._stream.readuntil(b"\n")
                if line.strip():
                    self._apply(json.loads(line))

    def _apply(self, frame: dict[str, Any]) -> None:
        for table, rows in frame["rows"].items():
            self.tables.setdefault(table, {}).update({row["id"]: row for row in rows})
        for table, ids in frame.get("gone", {}).items():
            for each in ids:
                self.tables[table].pop(each, None)


@asynccontextmanager
async def looked_at(kube: ControlPlane) -> AsyncIterator[tuple[str, Screen]]:
    clock = SystemClock()
    client = HttpClient(kube.access, component="page", clock=clock)
    async with page(client, PageSettings(TOKEN), clock=clock, rng=random.Random(1)) as address:
        site = address.partition("/#")[0]
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{site}/api/frames", headers=HEADERS, read_bufsize=1 << 26) as response,
        ):
            yield site, Screen(response.content)
    await client.close()


@pytest.mark.level("k")
async def test_dashboard_shows_kube_scheduler_decisions(start_kube: Callable[[], ControlPlane]) -> None:
    kube = start_kube()
    client = HttpClient(kube.access, component="tester", clock=SystemClock())
    for name in ("n1", "n2"):
        await client.create(NODE, node_body(name=name, zone="zone-a"))
    await client.create(STORAGE_CLASS, class_body())
    await client.create(VOLUME, volume_body(name="v1", node="n1"))
    for name, size in (("data", "5Gi"), ("huge", "1Ti")):
        await client.create(CLAIM, claim_body(name=name, size=size), namespace="default")
    with kube.controllers("persistentvolume-binder-controller"), kube.scheduler():
        async with looked_at(kube) as (site, screen):
            await screen.until(lambda tables: len(tables["nodes"]) == 2)
            assert screen.tables["notices"] == {}
            assert screen.tables["volumes"]["v1"]["place"] == {
                "level": "node",
                "zone": "zone-a",
                "node": "n1",
                "nodes": 1,
            }
            await client.create(POD, pod_body(name="goes", claims=["data"]), namespace="default")
            await client.create(POD, pod_body(name="waits", claims=["huge"]), namespace="default")
            await screen.until(lambda tables: tables["pods"].get("default/goes", {}).get("node") == "n1")
            await screen.until(lambda tables: tables["pods"].get("default/waits", {}).get("why"))
            await screen.until(lambda tables: tables["volumes"]["v1"]["state"] == "bound")
            await screen.until(
                lambda tables: (
                    {"Scheduled", "FailedScheduling"} <= {row["reason"] for row in tables["happenings"].values()}
                )
            )
            # Their events are of events.k8s.io/v1, which has the time in another field.
            assert all(row["at"] > 1e9 for row in screen.tables["happenings"].values())
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{site}/api/explanations/default/waits", headers=HEADERS) as response,
            ):
                explanation = await response.json()
            assert explanation["verdict"].startswith(
                "default/waits would not fit: 0/2 nodes are available: 2 node(s) didn't find"
            )
    await client.close()
