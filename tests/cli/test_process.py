"""The listener of probes and metrics: who is shown what a component keeps."""

import json

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import make_mocked_request

from mooring.api.errors import BadRequest
from mooring.api.health import Query
from mooring.cli.process import Monitoring


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
