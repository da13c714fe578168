"""What the server remembers of requests."""

import asyncio
import gc
import random
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from aiohttp import ClientSession
from prometheus_client import CollectorRegistry

from mooring.api.kinds import POD, ROLE
from mooring.server.auth.authenticator import Authenticator, StaticTokens
from mooring.server.http.handler import RequestHandler
from mooring.server.http.monitoring import RequestRecord, RequestRecords, StoredObjects
from server.http.conftest import TOKENS
from support.server.policies import Policy
from support.server.stub_api import StoppedClock, StubApi

ABOUT_PODS = {"group": "", "version": "v1", "resource": "pods", "subresource": "", "component": "apiserver"}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def handler(api: StubApi, clock: StoppedClock, registry: CollectorRegistry) -> RequestHandler:
    return RequestHandler(
        api,
        authenticator=Authenticator(StaticTokens(TOKENS)),
        access=Policy(),
        clock=clock,
        rng=random.Random(1),
        records=RequestRecords(registry, clock),
    )


def total(registry: CollectorRegistry, verb: str, code: int, **labels: str) -> float | None:
    wanted = {"verb": verb, "dry_run": "", "code": str(code), "scope": "namespace", **ABOUT_PODS, **labels}
    return registry.get_sample_value("apiserver_request_total", wanted)


async def test_requests_are_counted_by_what_they_ask_for(admin: ClientSession, registry: CollectorRegistry) -> None:
    for _ in range(2):
        async with admin.get("/api/v1/namespaces/default/pods"):
            pass
    async with admin.post("/api/v1/namespaces/default/pods?dryRun=All", json={}):
        pass
    async with admin.get("/api/v1/pods"):
        pass
    async with admin.get("/api/v1/nothing"):
        pass
    assert total(registry, "LIST", 200) == 2
    assert total(registry, "POST", 200, scope="resource", dry_run="All") == 1
    assert total(registry, "LIST", 200, scope="cluster") == 1
    nothing = dict.fromkeys(("group", "version", "resource", "scope"), "")
    assert total(registry, "GET", 404, **nothing) == 1


async def test_duration_and_size_are_recorded(admin: ClientSession, registry: CollectorRegistry) -> None:
    async with admin.get("/api/v1/namespaces/default/pods") as answer:
        size = len(await answer.read())
    labels = {"verb": "LIST", "scope": "namespace", **ABOUT_PODS}
    async with admin.get("/version"):
        pass  # by now the first is recorded
    count = registry.get_sample_value("apiserver_request_duration_seconds_count", labels | {"dry_run": ""})
    assert count == 1
    assert registry.get_sample_value("apiserver_response_sizes_sum", labels) == size


async def test_an_apply_is_one(admin: ClientSession, registry: CollectorRegistry) -> None:
    headers = {"Content-Type": "application/apply-patch+yaml"}
    url = "/api/v1/namespaces/default/pods/a?fieldManager=me"
    async with admin.patch(url, data=b"{}", headers=headers) as answer:
        code = answer.status
    assert total(registry, "APPLY", code, scope="resource") == 1


async def test_watches_are_long_and_not_in_flight(admin: ClientSession, registry: CollectorRegistry) -> None:
    labels = {"verb": "WATCH", "scope": "namespace", **ABOUT_PODS}

    def under_way() -> tuple[float | None, float | None]:
        inflight = registry.get_sample_value("apiserver_current_inflight_requests", {"request_kind": "readOnly"})
        return registry.get_sample_value("apiserver_longrunning_requests", labels), inflight

    async with admin.get("/api/v1/namespaces/default/pods?watch=1"):
        assert under_way() == (1, 0)
    for _ in range(500):
        if under_way() == (0, 0):
            break
        await asyncio.sleep(0.01)
    assert under_way() == (0, 0)
    assert total(registry, "WATCH", 499) == 1


async def test_unknown_methods_share_one_series(admin: ClientSession, registry: CollectorRegistry) -> None:
    for method in ("PROPFIND", "TRACE"):
        async with admin.request(method, "/api/v1/pods"):
            pass
    nothing = dict.fromkeys(("group", "version", "resource", "scope"), "")
    assert total(registry, "OTHER", 405, **nothing) == 2


def _records(other_than: set[int]) -> set[int]:
    return {id(thing) for thing in gc.get_objects() if isinstance(thing, RequestRecord)} - other_than


async def test_request_has_no_reference_cycles(admin: ClientSession) -> None:
    gc.collect()
    gc.disable()
    try:
        before = _records(set())
        for path in ("/api/v1/namespaces/default/pods", "/api/v1/nothing", "/readyz"):
            async with admin.get(path) as answer:
                await answer.read()
        for _ in range(100):
            if not _records(before):
                break
            await asyncio.sleep(0.01)  # the server may still be about to return
        assert not _records(before)
    finally:
        gc.enable()


@pytest.fixture
def logged() -> Iterator[list[dict[str, Any]]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


async def test_every_request_leaves_a_line(admin: ClientSession, logged: list[dict[str, Any]]) -> None:
    async with admin.get("/api/v1/namespaces/default/pods?limit=5", headers={"User-Agent": "kubectl/v1"}):
        pass
    [line] = [line for line in logged if line["event"] == "request"]
    assert (line["verb"], line["uri"], line["code"]) == ("LIST", "/api/v1/namespaces/default/pods?limit=5", 200)
    assert (line["user"], line["agent"], line["client"]) == ("admin", "kubectl/v1", "127.0.0.1")
    assert line["log_level"] == "info"


async def test_tokens_are_not_logged(anonymous: ClientSession, logged: list[dict[str, Any]]) -> None:
    async with anonymous.get("/api/v1/pods", headers={"Authorization": "Bearer sesame-open"}) as answer:
        assert answer.status == 401
    assert "sesame" not in str(logged)


def test_objects_are_counted_at_scrape() -> None:
    registry = CollectorRegistry()
    counts = {POD.store_prefix(): 3, ROLE.store_prefix(): 2}
    registry.register(StoredObjects(lambda prefix: counts.get(prefix, 0)))
    assert registry.get_sample_value("apiserver_storage_objects", {"resource": "pods"}) == 3
    assert registry.get_sample_value("apiserver_storage_objects", {"resource": "roles.rbac.authorization.k8s.io"}) == 2
    assert registry.get_sample_value("apiserver_resource_objects", {"group": "", "resource": "pods"}) == 3
