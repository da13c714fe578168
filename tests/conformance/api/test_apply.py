"""Server-side apply on kube-apiserver and on ours: the same configurations, with equal responses and field managers."""

import random
import ssl
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession, TCPConnector

from mooring.clock import SystemClock
from mooring.server.api import ApiServer
from mooring.server.auth.access import AlwaysAllow
from mooring.server.auth.authenticator import Authenticator, StaticTokens
from mooring.server.contract import User
from mooring.server.http.handler import RequestHandler
from mooring.server.http.listener import listen
from mooring.store.watch_cache import MemoryStore
from support.conformance.control_plane import ControlPlane

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
CONFIGS = "/api/v1/namespaces/default/configmaps"
SETS = "/apis/apps/v1/namespaces/default/statefulsets"
TOKEN = "ours"


@pytest.fixture
async def ours() -> AsyncIterator[ClientSession]:
    """Our server in this process, on a socket."""
    clock = SystemClock()
    api = ApiServer(MemoryStore(), clock, random.Random(0))
    manager = Authenticator(StaticTokens({TOKEN: User("admin", ("system:masters",))}))
    shell = RequestHandler(api, authenticator=manager, access=AlwaysAllow(), clock=clock, rng=random.Random(0))
    listener = await listen(shell.handle, "127.0.0.1", 0, None)
    async with ClientSession(listener.url, headers={"Authorization": f"Bearer {TOKEN}"}) as session:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        async with session.post("/api/v1/namespaces", json=namespace) as response:
            assert response.status == 201
        yield session
    shell.end_watches()
    await listener.close()


@pytest.fixture
async def theirs(kube: ControlPlane) -> AsyncIterator[ClientSession]:
    headers = {"Authorization": f"Bearer {kube.token}"}
    connector = TCPConnector(ssl=ssl.create_default_context(cadata=kube.authority))
    async with ClientSession(kube.url, headers=headers, connector=connector) as session:
        yield session


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} | ({"data": data} if data else {})


def stateful_set(name: str, *containers: dict[str, Any], **spec: object) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": list(containers)}}
    selector = {"matchLabels": {"a": "b"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": spec | {"selector": selector, "serviceName": "s", "template": template},
    }


Request = tuple[str, str, str, dict[str, Any]]


def applied(path: str, manager: str, body: dict[str, Any], *, name: str = "", force: bool = False) -> Request:
    query = f"fieldManager={manager}" + ("&force=true" if force else "")
    return "PATCH", f"{path}/{name or body['metadata']['name']}?{query}", APPLY, body


def updated(path: str, manager: str, body: dict[str, Any]) -> Request:
    return "PATCH", f"{path}?fieldManager={manager}", MERGE, body


WEB = {"name": "web", "image": "i", "ports": [{"containerPort": 80}], "resources": {"requests": {"cpu": "1000m"}}}
SIDECAR = {"name": "web", "env": [{"name": "E", "value": "1"}]}
LOG = {"name": "log", "image": "j", "resources": {"limits": {"memory": "1Gi"}}}

STORIES: dict[str, list[Request]] = {
    "create and repeat": [applied(CONFIGS, "m1", config("a", x="1"))] * 2,
    "drop a field": [applied(CONFIGS, "m1", config("b", x="1", y="2")), applied(CONFIGS, "m1", config("b", x="1"))],
    "one conflict, then force, then let go": [
        applied(CONFIGS, "m1", config("c", x="1", y="1")),
        applied(CONFIGS, "m2", config("c", x="2")),
        applied(CONFIGS, "m2", config("c", x="2", z="3"), force=True),
        applied(CONFIGS, "m1", config("c", y="5")),
    ],
    "several conflicts": [
        applied(CONFIGS, "m1", config("d", x="1", y="1")),
        applied(CONFIGS, "m2", config("d", x="2", y="2")),
    ],
    "shared until both let go": [
        applied(CONFIGS, "m1", config("e", x="1", k="1")),
        applied(CONFIGS, "m2", config("e", x="1", l="1")),
        applied(CONFIGS, "m1", config("e", k="1")),
        applied(CONFIGS, "m2", config("e", l="1")),
    ],
    "an updater takes over": [
        applied(CONFIGS, "m1", config("f", x="1", y="1")),
        updated(f"{CONFIGS}/f", "u1", {"data": {"x": "9", "z": "1"}}),
        applied(CONFIGS, "m1", config("f", x="1", y="1")),
    ],
    "owners cleared": [
        applied(CONFIGS, "m1", config("g", x="1")),
        updated(f"{CONFIGS}/g", "u1", {"metadata": {"managedFields": [{}]}}),
        applied(CONFIGS, "m2", config("g", x="2")),
    ],
    "labels and finalizers": [
        applied(CONFIGS, "m1", config("h") | {"metadata": {"name": "h", "labels": {"a": "b"}, "finalizers": ["x/y"]}}),
        applied(CONFIGS, "m2", config("h") | {"metadata": {"name": "h", "labels": {"c": "d"}, "finalizers": ["x/z"]}}),
        applied(CONFIGS, "m1", config("h")),
    ],
    "containers of two managers": [
        applied(SETS, "m1", stateful_set("i", WEB, replicas=2)),
        applied(SETS, "m2", stateful_set("i", LOG, SIDECAR)),
        applied(SETS, "m1", stateful_set("i", WEB, replicas=3)),
        applied(SETS, "m2", stateful_set("i", SIDECAR)),
    ],
    "a scaler owns replicas": [
        applied(SETS, "m1", stateful_set("j", WEB, replicas=2)),
        updated(f"{SETS}/j/scale", "s", {"spec": {"replicas": 5}}),
        applied(SETS, "m1", stateful_set("j", WEB, replicas=2)),
    ],
    "an atomic selector": [
        applied(SETS, "m1", stateful_set("k", WEB)),
        applied(SETS, "m2", {**stateful_set("k", WEB), "spec": {"selector": {"matchLabels": {"c": "d"}}}}),
    ],
    "status": [
        applied(SETS, "m1", stateful_set("l", WEB)),
        applied(SETS, "m1", {**stateful_set("l", WEB), "status": {"replicas": 1}}, name="l/status"),
    ],
    "no name": [applied(CONFIGS, "m1", {"apiVersion": "v1", "kind": "ConfigMap"}, name="m")],
    "another name": [applied(CONFIGS, "m1", config("n"), name="m")],
    "another kind": [applied(CONFIGS, "m1", {"apiVersion": "v1", "kind": "Secret"}, name="m")],
    "no kind": [applied(CONFIGS, "m1", {"metadata": {"name": "m"}})],
    "owners of its own making": [
        applied(CONFIGS, "m1", {**config("m"), "metadata": {"name": "m", "managedFields": [{"manager": "x"}]}})
    ],
    "no manager": [applied(CONFIGS, "", config("m"))],
    "a uid without an object": [applied(CONFIGS, "m1", {**config("m"), "metadata": {"name": "m", "uid": "x"}})],
    "status of what is not there": [applied(SETS, "m1", stateful_set("q", WEB), name="q/status")],
}


@pytest.mark.parametrize("story", [pytest.param(story, id=name) for name, story in STORIES.items()])
async def test_apply_responses_are_equal(ours: ClientSession, theirs: ClientSession, story: list[Request]) -> None:
    for request in story:
        assert await response_of(ours, request) == await response_of(theirs, request)


async def response_of(server: ClientSession, request: Request) -> tuple[int, dict[str, Any]]:
    method, path, media_type, body = request
    headers = {"Content-Type": media_type}
    async with server.request(method, path, data=msgspec.json.encode(body), headers=headers) as response:
        return response.status, without_identity(await response.json())


def without_identity(obj: dict[str, Any]) -> dict[str, Any]:
    """Without uids, versions and times, which differ between any two servers."""
    if obj["kind"] == "Status":
        return {key: obj.get(key) for key in ("reason", "message", "details")}
    metadata = {key: value for key, value in obj["metadata"].items() if key not in ("uid", "resourceVersion")}
    metadata.pop("creationTimestamp", None)
    for entry in metadata.get("managedFields", ()):
        del entry["time"]
    return obj | {"metadata": metadata}
