"""Verbs over HTTP: what reaches the Api, and how its answers go out."""

import gzip
import io
from typing import Any

import pytest
from aiohttp import ClientSession

from mooring.api import kinds
from mooring.api.errors import Forbidden
from mooring.api.patches.contract import MergePatch
from mooring.server.contract import DeleteOptions, ListOptions, Target, User, WriteOptions, Written
from mooring.server.http.bodies import LIMIT_BYTES
from support.server.stub_api import CONFIG, RAW, StubApi

CONFIGS = "/api/v1/namespaces/default/configmaps"
ADMIN = User("admin", ("system:masters", "system:authenticated"))
COLLECTION = Target(kinds.CONFIG_MAP, "default")
OBJECT = Target(kinds.CONFIG_MAP, "default", "a")
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
METADATA = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}


async def test_get(admin: ClientSession, api: StubApi) -> None:
    async with admin.get(f"{CONFIGS}/a?watch=1") as answer:
        assert (answer.status, await answer.read()) == (200, RAW)
    assert api.calls == {"get": [(ADMIN, OBJECT)]}


async def test_list(admin: ClientSession, api: StubApi) -> None:
    async with admin.get(f"{CONFIGS}?limit=500&labelSelector=a%3Db") as answer:
        assert await answer.json() == {
            "kind": "ConfigMapList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "9"},
            "items": [CONFIG],
        }
    assert api.calls == {"list": [(ADMIN, COLLECTION, ListOptions(labels="a=b", limit=500))]}


@pytest.mark.parametrize(("headers"), [{"Content-Type": "application/json"}, {}], ids=["JSON", "no media type"])
async def test_create(admin: ClientSession, api: StubApi, headers: dict[str, str]) -> None:
    api.written = Written(RAW, 201)
    # aiohttp would name a type for bytes; the official Python client sends none.
    async with admin.post(
        f"{CONFIGS}?fieldManager=me", data=b'{"data":{}}', headers=headers, skip_auto_headers=["Content-Type"]
    ) as answer:
        assert (answer.status, await answer.read()) == (201, RAW)
    assert api.calls == {"create": [(ADMIN, COLLECTION, {"data": {}}, WriteOptions(field_manager="me"))]}


async def test_update(admin: ClientSession, api: StubApi) -> None:
    async with admin.put(f"{CONFIGS}/a", json={"data": {}}, headers={"User-Agent": "lens/1 (x)"}) as answer:
        assert (answer.status, await answer.read()) == (200, RAW)
    assert api.calls == {"update": [(ADMIN, OBJECT, {"data": {}}, WriteOptions(field_manager="lens"))]}


async def test_patch_of_a_status(admin: ClientSession, api: StubApi) -> None:
    async with admin.patch(
        "/api/v1/nodes/n/status?dryRun=All&fieldManager=me",
        data=b'{"status":{}}',
        headers={"Content-Type": "application/merge-patch+json"},
    ) as answer:
        assert answer.status == 200
    target = Target(kinds.NODE, "", "n", "status")
    options = WriteOptions(dry_run=True, field_manager="me")
    assert api.calls == {"patch": [(ADMIN, target, MergePatch({"status": {}}), options)]}


@pytest.mark.parametrize(
    ("sent", "want"),
    [
        pytest.param({}, DeleteOptions(), id="nothing"),
        pytest.param({"headers": {"Content-Type": "application/json"}}, DeleteOptions(), id="a type and no body"),
        pytest.param({"json": {"propagationPolicy": "Background"}}, DeleteOptions(propagation="Background"), id="body"),
        pytest.param({"params": {"gracePeriodSeconds": "0"}}, DeleteOptions(grace_seconds=0), id="query"),
    ],
)
async def test_delete(admin: ClientSession, api: StubApi, sent: dict[str, Any], want: DeleteOptions) -> None:
    async with admin.delete(f"{CONFIGS}/a", **sent) as answer:
        assert (answer.status, await answer.read()) == (200, RAW)
    assert api.calls == {"delete": [(ADMIN, OBJECT, want)]}


async def test_the_answer_to_a_delete_is_never_a_table(admin: ClientSession, api: StubApi) -> None:
    api.written = Written(b'{"kind":"Status"}')
    async with admin.delete(f"{CONFIGS}/a", headers=TABLE) as answer:
        assert await answer.json() == {"kind": "Status"}


async def test_delete_of_a_collection(admin: ClientSession, api: StubApi) -> None:
    async with admin.delete(f"{CONFIGS}?labelSelector=a", json={"gracePeriodSeconds": 1}) as answer:
        assert (await answer.json())["items"] == [CONFIG]
    want = (ADMIN, COLLECTION, ListOptions(labels="a"), DeleteOptions(grace_seconds=1))
    assert api.calls == {"delete_collection": [want]}


@pytest.mark.parametrize(("subresource", "verb"), [("binding", "bind"), ("eviction", "evict")])
async def test_what_is_done_to_pods(admin: ClientSession, api: StubApi, subresource: str, verb: str) -> None:
    api.written = Written(b'{"kind":"Status","status":"Success"}', 201)
    body = {"metadata": {"name": "p"}}
    async with admin.post(f"/api/v1/namespaces/d/pods/p/{subresource}?fieldManager=s", json=body) as answer:
        assert (answer.status, (await answer.json())["status"]) == (201, "Success")
    target = Target(kinds.POD, "d", "p", subresource)
    assert api.calls == {verb: [(ADMIN, target, body, WriteOptions(field_manager="s"))]}


async def test_yaml_and_compressed_bodies(admin: ClientSession, api: StubApi) -> None:
    headers = {"Content-Type": "application/yaml", "Content-Encoding": "gzip"}
    async with admin.post(CONFIGS, data=gzip.compress(b"data: {k: v}"), headers=headers) as answer:
        assert answer.status == 200
    assert api.calls["create"][0][2] == {"data": {"k": "v"}}


async def test_a_body_that_is_not_what_its_encoding_says(admin: ClientSession, api: StubApi) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    async with admin.post(CONFIGS, data=b"plain", headers=headers) as answer:
        assert (answer.status, (await answer.json())["reason"]) == (400, "BadRequest")
    assert not api.calls


@pytest.mark.parametrize("path", [CONFIGS, "/api/v1/namespaces/default/nothing", "/nowhere"])
async def test_invalid_body_does_not_affect_next_request(admin: ClientSession, api: StubApi, path: str) -> None:
    """Whether the body was looked at or not, clients must not take the connection for a good one."""
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    for _ in range(5):
        async with admin.post(path, data=b"plain" * 1000, headers=headers) as answer:
            assert answer.status in (400, 404)
        async with admin.post(CONFIGS, json={}) as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    ("query", "force"),
    [
        pytest.param("", False, id="gently"),
        pytest.param("&force=false", False, id="explicitly gently"),
        pytest.param("&force=true", True, id="by force"),
    ],
)
async def test_server_side_apply(admin: ClientSession, api: StubApi, query: str, force: bool) -> None:
    headers = {"Content-Type": "application/apply-patch+yaml"}
    async with admin.patch(f"{CONFIGS}/a?fieldManager=me{query}", data=b"data: {a: b}", headers=headers) as answer:
        assert answer.status == 200
    options = WriteOptions(field_manager="me")
    assert api.calls == {"apply": [(ADMIN, OBJECT, {"data": {"a": "b"}}, options, force)]}


@pytest.mark.parametrize("compress", [False, True], ids=["large", "large once unpacked"])
async def test_bodies_beyond_the_bound(admin: ClientSession, api: StubApi, compress: bool) -> None:
    raw = b'{"data":"' + b"x" * LIMIT_BYTES + b'"}'
    data = io.BytesIO(gzip.compress(raw) if compress else raw)
    headers = {"Content-Type": "application/json"} | ({"Content-Encoding": "gzip"} if compress else {})
    async with admin.post(CONFIGS, data=data, headers=headers) as answer:
        status = await answer.json()
    assert (answer.status, status["reason"]) == (413, "RequestEntityTooLarge")
    assert "limit is 3145728" in status["message"]
    assert not api.calls


@pytest.mark.parametrize(
    ("method", "path", "headers", "code", "reason"),
    [
        pytest.param("POST", CONFIGS, {"Content-Type": "text/plain"}, 415, "UnsupportedMediaType", id="text"),
        pytest.param(
            "PATCH", f"{CONFIGS}/a", {"Content-Type": "application/json"}, 415, "UnsupportedMediaType", id="patch type"
        ),
        pytest.param(
            "PATCH",
            f"{CONFIGS}/a?force=true",
            {"Content-Type": "application/apply-patch+yaml"},
            422,
            "Invalid",
            id="apply without manager",
        ),
        pytest.param("POST", CONFIGS, {"Accept": "text/html"}, 406, "NotAcceptable", id="unreadable answer"),
        pytest.param("POST", f"{CONFIGS}?dryRun=x", {"Content-Type": "application/json"}, 422, "Invalid", id="option"),
        pytest.param("GET", f"{CONFIGS}?limit=x", {}, 400, "BadRequest", id="number"),
        pytest.param("GET", f"{CONFIGS}?includeObject=x", TABLE, 400, "BadRequest", id="includeObject"),
        pytest.param("GET", f"{CONFIGS}?watch=1&timeoutSeconds=x", {}, 400, "BadRequest", id="watch time"),
        pytest.param("GET", f"{CONFIGS}?watch=1", {"Upgrade": "websocket"}, 501, "NotImplemented", id="web socket"),
    ],
)
async def test_refused_before_the_api_is_asked(
    admin: ClientSession, api: StubApi, method: str, path: str, headers: dict[str, str], code: int, reason: str
) -> None:
    data = b"{}" if method != "GET" else None
    async with admin.request(method, path, data=data, headers=headers) as answer:
        assert (answer.status, (await answer.json())["reason"]) == (code, reason)
    assert not api.calls


async def test_warnings_become_headers(admin: ClientSession, api: StubApi) -> None:
    api.written = Written(RAW, 201, ('unknown field "spec.foo"', "a\r\nX-Evil: b \\ c", *["more"] * 20))
    async with admin.post(CONFIGS, json={}) as answer:
        warnings = answer.headers.getall("Warning")
    assert warnings[:2] == ['299 - "unknown field \\"spec.foo\\""', '299 - "a X-Evil: b \\\\ c"']
    assert len(warnings) == 16
    assert "X-Evil" not in answer.headers


async def test_long_warnings_are_cut(admin: ClientSession, api: StubApi) -> None:
    api.written = Written(RAW, 201, ("x" * 5000,))
    async with admin.post(CONFIGS, json={}) as answer:
        assert answer.headers["Warning"] == f'299 - "{"x" * 256}"'


async def test_errors_are_status_objects_for_table_clients(admin: ClientSession, api: StubApi) -> None:
    api.refusal = Forbidden("no")
    async with admin.get(CONFIGS, headers=TABLE) as answer:
        assert (answer.status, (await answer.json())["kind"]) == (403, "Status")


async def test_tables_and_metadata(admin: ClientSession) -> None:
    async with admin.get(CONFIGS, headers=TABLE) as answer:
        table = await answer.json()
    assert [row["cells"] for row in table["rows"]] == [["a", 1, "60s"]]
    async with admin.get(f"{CONFIGS}/a", headers=METADATA) as answer:
        assert (await answer.json())["kind"] == "PartialObjectMetadata"
