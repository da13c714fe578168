"""The shell with the real verbs behind it, on a memory store: what no stand-in can show."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import ClientResponse, ClientSession

from mooring.api import kinds
from mooring.clock import SystemClock
from mooring.server.api import ApiServer
from mooring.server.auth.access import AlwaysAllow
from mooring.server.auth.authenticator import Authenticator, StaticTokens
from mooring.server.contract import Target, User, WriteOptions
from mooring.server.http.handler import RequestHandler
from mooring.server.http.listener import listen
from mooring.store.state import Limits
from mooring.store.watch_cache import MemoryStore
from support.builders import pod_body
from support.protobuf_encoder import envelope
from support.server.stub_api import StoppedClock

ADMIN = User("admin", ("system:masters",))
CONFIGS = "/api/v1/namespaces/default/configmaps"
WATCH_LIST = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

Body = dict[str, Any]


@pytest.fixture
async def client() -> AsyncIterator[ClientSession]:
    """Watches last until the test is over: the shell's clock is stopped."""
    store, rng = MemoryStore(history=Limits(changes=3, bytes=1 << 20)), random.Random(1)
    api = ApiServer(store, SystemClock(), rng)
    await api.create(ADMIN, Target(kinds.NAMESPACE), {"metadata": {"name": "default"}}, WriteOptions())
    authenticator = Authenticator(StaticTokens({"t": ADMIN}))
    handler = RequestHandler(api, authenticator=authenticator, access=AlwaysAllow(), clock=StoppedClock(), rng=rng)
    listener = await listen(handler.handle, "127.0.0.1", 0, None)
    async with ClientSession(listener.url, headers={"Authorization": "Bearer t"}) as session:
        yield session
    handler.end_watches()
    await listener.close()
    await store.close()


async def created(client: ClientSession, name: str, **fields: object) -> Body:
    async with client.post(CONFIGS, json={"metadata": {"name": name}} | fields) as answer:
        assert answer.status == 201
        body: Body = await answer.json()
    return body


async def event(answer: ClientResponse) -> Body:
    async with asyncio.timeout(2):
        return msgspec.json.decode(await answer.content.readline(), type=Body)


def version(body: Body) -> int:
    return int(body["metadata"]["resourceVersion"])


async def test_a_watch_replays_what_came_later_and_goes_on(client: ClientSession) -> None:
    first = await created(client, "a")
    await created(client, "b")
    async with client.get(f"{CONFIGS}?watch=1&resourceVersion={version(first)}") as watch:
        added = await event(watch)
        async with client.delete(f"{CONFIGS}/a") as answer:
            assert answer.status == 200
        deleted = await event(watch)
    assert [(found["type"], found["object"]["metadata"]["name"]) for found in (added, deleted)] == [
        ("ADDED", "b"),
        ("DELETED", "a"),
    ]
    assert version(deleted["object"]) > version(added["object"]) > version(first)


async def test_a_streamed_list_ends_with_a_bookmark(client: ClientSession) -> None:
    await created(client, "a")
    async with client.get(f"{CONFIGS}?watch=1&{WATCH_LIST}") as watch:
        assert (await event(watch))["type"] == "ADDED"
        bookmark = await event(watch)
    assert (bookmark["type"], bookmark["object"]["kind"]) == ("BOOKMARK", "ConfigMap")
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_version_that_is_no_longer_kept(client: ClientSession) -> None:
    first = await created(client, "a")
    for name in "bcdef":
        await created(client, name)
    async with client.get(f"{CONFIGS}?watch=1&resourceVersion={version(first)}") as watch:
        assert watch.status == 200
        last = await event(watch)
        assert await watch.read() == b""
    assert (last["type"], last["object"]["code"], last["object"]["reason"]) == ("ERROR", 410, "Expired")


@pytest.mark.parametrize("query", ["watch=1&sendInitialEvents=true", "watch=1&resourceVersionMatch=NotOlderThan"])
async def test_half_a_streamed_list_is_invalid(client: ClientSession, query: str) -> None:
    async with client.get(f"{CONFIGS}?{query}") as answer:
        assert (answer.status, (await answer.json())["reason"]) == (422, "Invalid")


async def test_a_table_watch(client: ClientSession) -> None:
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    async with client.get(f"{CONFIGS}?watch=1", headers=headers) as watch:
        await created(client, "a", data={"k": "v"})
        table = (await event(watch))["object"]
    assert [row["cells"][:2] for row in table["rows"]] == [["a", 1]]


async def test_a_body_without_kind_and_media_type(client: ClientSession) -> None:
    """The official Python client sends neither."""
    body = msgspec.json.encode({"metadata": {"name": "a"}})
    async with client.post(CONFIGS, data=body, skip_auto_headers=["Content-Type"]) as answer:
        assert (answer.status, (await answer.json())["kind"]) == (201, "ConfigMap")


@pytest.mark.parametrize(
    ("validation", "code", "warnings"),
    [
        pytest.param("Strict", 400, 0, id="strict"),
        pytest.param("Warn", 201, 1, id="warn"),
        pytest.param("Ignore", 201, 0, id="ignore"),
    ],
)
async def test_unknown_fields(client: ClientSession, validation: str, code: int, warnings: int) -> None:
    body = {"metadata": {"name": "a"}, "bogus": 1}
    async with client.post(f"{CONFIGS}?fieldValidation={validation}", json=body) as answer:
        assert answer.status == code
        told = answer.headers.getall("Warning", [])
    assert len(told) == warnings
    assert all('unknown field \\"bogus\\"' in text for text in told)


@pytest.mark.parametrize("version", ["policy/v1", "policy/v1beta1"])
async def test_go_clients_evict_in_protobuf(client: ClientSession, version: str) -> None:
    pods = "/api/v1/namespaces/default/pods"
    async with client.post(pods, json=pod_body(name="p", finalizers=["a.io/x"])) as answer:
        uid = (await answer.json())["metadata"]["uid"]
    sent: Body = {"apiVersion": version, "kind": "Eviction", "metadata": {"name": "p"}}
    for wanted, code in (("other", 409), (uid, 201)):
        body = envelope(sent | {"deleteOptions": {"preconditions": {"uid": wanted}}})
        headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
        async with client.post(f"{pods}/p/eviction", data=body, headers=headers) as answer:
            assert answer.status == code
    async with client.get(f"{pods}/p") as answer:
        assert "deletionTimestamp" in (await answer.json())["metadata"]


HEX = "0x" + "f" * 5000
DEEP = '{"f:a":' * 900 + "{}" + "}" * 900
PODS, REVISIONS = "/api/v1/namespaces/default/pods", "/apis/apps/v1/namespaces/default/controllerrevisions"


@pytest.mark.parametrize(
    ("path", "content_type", "body", "codes"),
    [
        pytest.param(PODS, "yaml", f"spec: {{activeDeadlineSeconds: {HEX}}}", {400}, id="a number"),
        pytest.param(PODS, "yaml", f"spec: {{overhead: {{cpu: {HEX}}}}}", {400}, id="an amount"),
        pytest.param(
            REVISIONS, "yaml", f"{{metadata: {{name: r}}, revision: 1, data: {{a: {HEX}}}}}", {201, 400}, id="any"
        ),
        pytest.param(
            CONFIGS, "json", f'{{"metadata":{{"managedFields":[{{"fieldsV1":{DEEP}}}]}}}}', {400}, id="nested"
        ),
        pytest.param(
            CONFIGS, "yaml", f'{{"metadata":{{"managedFields":[{{"fieldsV1":{DEEP}}}]}}}}', {400}, id="nested YAML"
        ),
    ],
)
async def test_numbers_and_nesting_beyond_reason_are_the_mistake_of_the_client(
    client: ClientSession, path: str, content_type: str, body: str, codes: set[int]
) -> None:
    headers = {"Content-Type": f"application/{content_type}"}
    async with client.post(path, data=body.encode(), headers=headers) as answer:
        assert answer.status in codes, await answer.text()
