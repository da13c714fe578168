"""Large requests leave the event loop, wait in a line that has an end, and are unpacked no further than the bound."""

import asyncio
import gzip
import random
import sys
import threading
import zlib
from collections.abc import AsyncIterator, Callable
from types import FrameType
from typing import Any

import msgspec
import pytest
import yaml
from aiohttp import ClientSession

from mooring.api import kinds
from mooring.api.errors import TooManyRequests
from mooring.clock import SystemClock
from mooring.server.api import ApiServer
from mooring.server.auth.access import AlwaysAllow
from mooring.server.auth.authenticator import Authenticator, StaticTokens
from mooring.server.contract import Target, User, WriteOptions
from mooring.server.http.bodies import LargeRequests, WorkerThread
from mooring.server.http.handler import RequestHandler
from mooring.server.http.listener import listen
from mooring.store.watch_cache import MemoryStore
from support.builders import pod_body
from support.server.stub_api import StoppedClock

ADMIN = User("admin", ("system:masters",))
CONFIGS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
JSON = "application/json"
YAML = "application/yaml"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


@pytest.fixture
async def client() -> AsyncIterator[ClientSession]:
    store, rng, worker = MemoryStore(), random.Random(1), WorkerThread()
    api = ApiServer(store, SystemClock(), rng, off_loop=worker)
    await api.create(ADMIN, Target(kinds.NAMESPACE), {"metadata": {"name": "default"}}, WriteOptions())
    authenticator = Authenticator(StaticTokens({"t": ADMIN}))
    handler = RequestHandler(
        api, authenticator=authenticator, access=AlwaysAllow(), clock=StoppedClock(), rng=rng, off_loop=worker
    )
    listener = await listen(handler.handle, "127.0.0.1", 0, None)
    async with ClientSession(listener.url, headers={"Authorization": "Bearer t"}) as session:
        yield session
    await listener.close()
    await store.close()
    worker.close()


def config(name: str, entries: int, value: str = "x") -> dict[str, Any]:
    data = {f"k{number}": value for number in range(entries)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, entries: int) -> dict[str, Any]:
    body = pod_body(name=name)
    body["spec"]["containers"][0]["env"] = [{"name": f"E{number}", "value": "x"} for number in range(entries)]
    return body


def encoded(value: object) -> bytes:
    return msgspec.json.encode(value)


async def sent(client: ClientSession, method: str, path: str, body: bytes, content_type: str) -> int:
    headers = {"Content-Type": content_type}
    async with client.request(method, path, data=body, headers=headers) as answer:
        await answer.read()
        return answer.status


#: By name: what is sent for so many entries, first what prepares it and last what is counted.
WRITES: dict[str, Callable[[int], list[tuple[str, str, bytes, str]]]] = {
    "create": lambda n: [("POST", CONFIGS, encoded(config(f"a{n}", n)), JSON)],
    "create of YAML": lambda n: [("POST", CONFIGS, yaml.safe_dump(config(f"a{n}", n)).encode(), YAML)],
    "create of a pod": lambda n: [("POST", PODS, encoded(pod(f"a{n}", n)), JSON)],
    "create of nonsense": lambda n: [
        ("POST", CONFIGS, encoded(config(f"a{n}", n) | {"metadata": {"name": "-"}}), JSON)
    ],
    "update": lambda n: [
        ("POST", CONFIGS, encoded(config(f"a{n}", 1)), JSON),
        ("PUT", f"{CONFIGS}/a{n}", encoded(config(f"a{n}", n)), JSON),
    ],
    "a small patch of a large object": lambda n: [
        ("POST", CONFIGS, encoded(config(f"a{n}", n)), JSON),
        ("PATCH", f"{CONFIGS}/a{n}", b'{"data":{"k1":"y"}}', MERGE),
    ],
    "merge patch": lambda n: [
        ("POST", CONFIGS, encoded(config(f"a{n}", 1)), JSON),
        ("PATCH", f"{CONFIGS}/a{n}", encoded({"data": config("", n)["data"]}), MERGE),
    ],
    "strategic patch": lambda n: [
        ("POST", PODS, encoded(pod(f"a{n}", 0)), JSON),
        ("PATCH", f"{PODS}/a{n}", encoded({"metadata": {"annotations": config("", n)["data"]}}), STRATEGIC),
    ],
    "JSON patch": lambda n: [
        ("POST", CONFIGS, encoded(config(f"a{n}", 1)), JSON),
        (
            "PATCH",
            f"{CONFIGS}/a{n}",
            encoded([{"op": "add", "path": f"/data/k{number}", "value": "x"} for number in range(n)]),
            JSON_PATCH,
        ),
    ],
    "apply of what is not there": lambda n: [
        ("PATCH", f"{CONFIGS}/a{n}?fieldManager=m", encoded(config(f"a{n}", n)), APPLY)
    ],
    "apply of what is there": lambda n: [
        ("PATCH", f"{CONFIGS}/a{n}?fieldManager=m", encoded(config(f"a{n}", n)), APPLY),
        ("PATCH", f"{CONFIGS}/a{n}?fieldManager=m", encoded(config(f"a{n}", n, "y")), APPLY),
    ],
    "apply against another's": lambda n: [
        ("PATCH", f"{CONFIGS}/a{n}?fieldManager=m", encoded(config(f"a{n}", n)), APPLY),
        ("PATCH", f"{CONFIGS}/a{n}?fieldManager=o", encoded(config(f"a{n}", n, "y")), APPLY),
    ],
    "a small apply of a large object": lambda n: [
        ("PATCH", f"{CONFIGS}/a{n}?fieldManager=m", encoded(config(f"a{n}", n)), APPLY),
        ("PATCH", f"{CONFIGS}/a{n}?fieldManager=o", encoded(config(f"a{n}", 1)), APPLY),
    ],
    "review": lambda n: [
        (
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            encoded({"metadata": {"labels": config("", n)["data"]}}),
            JSON,
        )
    ],
    "delete": lambda n: [("DELETE", f"{CONFIGS}/none", encoded({"preconditions": config("", n)["data"]}), JSON)],
}


@pytest.mark.parametrize("name", WRITES)
async def test_event_loop_work_is_independent_of_body_size(client: ClientSession, name: str) -> None:
    """Calls in this thread: the worker's are not among them, the server's and the client's are."""
    counts: list[int] = []
    for entries in (3000, 9000):
        *before, last = WRITES[name](entries)
        for request in before:
            assert await sent(client, *request) in (200, 201)
        assert await sent(client, *last) != 500
        counts.append(await calls_in_this_thread(client, last))
    few, many = counts
    assert many < few + 3000, counts


async def calls_in_this_thread(client: ClientSession, request: tuple[str, str, bytes, str]) -> int:
    counted = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        await sent(client, *request)
    finally:
        sys.setprofile(before)
    return counted


async def test_large_requests_run_in_worker_thread() -> None:
    worker = WorkerThread()
    assert await worker(threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await worker(lambda: 1 // 0)
    worker.close()


async def test_queue_of_large_requests_is_bounded() -> None:
    line, done = LargeRequests(max_concurrent=1, max_waiting=1), asyncio.Event()

    async def work() -> None:
        async with line.turn():
            await done.wait()

    working = [asyncio.create_task(work()) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequests) as refused:
        async with line.turn():
            pass
    assert refused.value.details is not None
    assert refused.value.details.retry_after_seconds == 1
    done.set()
    await asyncio.gather(*working)
    async with line.turn():
        pass


@pytest.mark.parametrize(
    ("body", "encoding", "code"),
    [
        pytest.param(gzip.compress(b" " * 30_000_000), "gzip", 413, id="a bomb"),
        pytest.param(gzip.compress(b"{}")[:-9], "gzip", 400, id="cut off"),
        pytest.param(b"{}", "gzip", 400, id="not packed"),
        pytest.param(b"{}", "br", 415, id="an encoding that is not accepted"),
        pytest.param(gzip.compress(encoded(config("z", 1))), "gzip", 201, id="packed"),
        pytest.param(zlib.compress(encoded(config("z", 1))), "deflate", 201, id="packed in another way"),
        pytest.param(encoded(config("z", 1)), "identity", 201, id="as it is"),
    ],
)
async def test_compressed_bodies(client: ClientSession, body: bytes, encoding: str, code: int) -> None:
    headers = {"Content-Encoding": encoding, "Content-Type": JSON}
    async with client.post(CONFIGS, data=body, headers=headers) as answer:
        assert answer.status == code
    assert await sent(client, "POST", CONFIGS, encoded(config("next", 1)), JSON) == 201
