"""The process of a component: the listener of probes and metrics, and the renewal of its lease."""

import asyncio
import json

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer, make_mocked_request

from mooring.api.errors import BadRequest
from mooring.api.health import Query
from mooring.api.kinds import LEASE, VOLUME
from mooring.cli.process import ComponentRuntime, Monitoring, ProcessFailed, ProcessSettings, run_process
from mooring.client.access import Access
from mooring.client.transport import IN_FLIGHT
from mooring.control.election import Election, Timings
from mooring.control.feature_gates import DEFAULTS


def debug_pods(query: Query) -> bytes:
    if "pod" not in query:
        raise BadRequest("say whose")
    return json.dumps(dict(query)).encode()


def a_listener() -> Monitoring:
    return Monitoring({}, lambda: b"some_metric 1\n", {"/debug/pods": debug_pods})


async def test_from_this_machine_all_is_answered() -> None:
    listener = await a_listener().listen("127.0.0.1", 0)
    async with ClientSession(listener.url) as client:
        async with client.get("/debug/pods?pod=a/b") as answer:
            assert (answer.status, await answer.json()) == (200, {"pod": "a/b"})
        async with client.get("/debug/pods") as answer:
            assert (answer.status, (await answer.json())["message"]) == (400, "say whose")
        async with client.get("/debug/other") as answer:
            assert answer.status == 404
        async with client.post("/debug/pods?pod=a/b") as answer:
            assert answer.status == 405
    await listener.close()


@pytest.mark.parametrize(
    ("path", "peer", "want"),
    [
        pytest.param("/debug/pods?pod=a/b", "10.0.0.9", 403, id="another machine"),
        pytest.param("/debug/pods?pod=a/b", "127.0.0.1", 200, id="this machine"),
        pytest.param("/debug/pods?pod=a/b", "::1", 200, id="this machine, IPv6"),
        pytest.param("/debug/pods?pod=a/b", None, 403, id="no peer address"),
        pytest.param("/metrics", "10.0.0.9", 200, id="metrics are for scrapers"),
        pytest.param("/livez", "10.0.0.9", 200, id="probes are for the kubelet"),
    ],
)
async def test_documents_that_name_pods_stay_on_the_machine(path: str, peer: str | None, want: int) -> None:
    request = make_mocked_request("GET", path).clone(remote=peer)
    assert (await a_listener().handle(request)).status == want


class BusyComponent:
    """Has twice as many requests in flight as its client sends at once, and none of them is answered."""

    name = "busy"
    ready = True

    def __init__(self, runtime: ComponentRuntime, renewed: asyncio.Event) -> None:
        self._client = runtime.client
        self._renewed = renewed

    async def run(self) -> None:
        requests = [asyncio.create_task(self._client.get(VOLUME, f"pv-{n}")) for n in range(2 * IN_FLIGHT)]
        await self._renewed.wait()
        for request in requests:
            request.cancel()


async def test_lease_is_renewed_while_the_component_waits_for_its_own_requests() -> None:
    leases, renewed, volumes = LEASE.path(namespace="kube-system"), asyncio.Event(), VOLUME.path()
    renewals, over = 0, asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        nonlocal renewals
        if request.path.startswith(volumes):
            await over.wait()
        if not request.path.startswith(leases):
            return web.json_response({"kind": "Namespace", "metadata": {"name": "default", "resourceVersion": "1"}})
        if request.method == "GET":
            status = {"kind": "Status", "code": 404, "reason": "NotFound", "details": {"name": "busy"}}
            return web.json_response(status, status=404)
        renewals += request.method == "PATCH"
        if renewals == 3:
            renewed.set()
        metadata = {"name": "busy", "namespace": "kube-system", "resourceVersion": str(renewals + 1)}
        return web.json_response({"kind": "Lease", "metadata": metadata, "spec": (await request.json())["spec"]})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server:
        election = Election("busy", "kube-system", Timings(lease_duration=2, renew_deadline=1.0, retry_period=0.1))
        settings = ProcessSettings("busy", Access(str(server.make_url("")).rstrip("/")), DEFAULTS, election, None)
        with pytest.raises(ProcessFailed, match="Lost the leader lease"):
            async with asyncio.timeout(20.0):
                await run_process(settings, lambda runtime: BusyComponent(runtime, renewed), greeting="is busy")
        over.set()

    assert renewed.is_set()
