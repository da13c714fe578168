"""The HTTP client: what it sends, and what it makes of the answers."""

from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from mooring import __version__
from mooring.api.errors import ApiError, Forbidden, NotFound, PathNotFound
from mooring.api.kinds import CONFIG_MAP, NODE, POD, STATEFUL_SET
from mooring.api.patches.contract import MergePatch, StrategicPatch
from mooring.client.contract import Client, Unreachable
from support.http_conversations import Recorder, answer, answers_of, talking_to

# --- what is sent ---

Call = Callable[[Client], Awaitable[object]]


@pytest.mark.parametrize(
    ("call", "want"),
    [
        pytest.param(
            lambda client: client.get(STATEFUL_SET, "db", namespace="shop"),
            ("GET", "/apis/apps/v1/namespaces/shop/statefulsets/db", {}, None),
            id="get",
        ),
        pytest.param(
            lambda client: client.create(CONFIG_MAP, {"metadata": {"name": "x"}}, namespace="shop"),
            (
                "POST",
                "/api/v1/namespaces/shop/configmaps",
                {},
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}},
            ),
            id="create",
        ),
        pytest.param(
            lambda client: client.update(NODE, {"metadata": {"name": "n1"}}, subresource="status"),
            (
                "PUT",
                "/api/v1/nodes/n1/status",
                {},
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}},
            ),
            id="update",
        ),
        pytest.param(
            lambda client: client.patch(NODE, "n1", MergePatch({"spec": {}}), subresource="status"),
            ("PATCH", "/api/v1/nodes/n1/status", {}, {"spec": {}}),
            id="patch",
        ),
        pytest.param(
            lambda client: client.delete(NODE, "n1"),
            ("DELETE", "/api/v1/nodes/n1", {}, {"apiVersion": "v1", "kind": "DeleteOptions"}),
            id="delete",
        ),
        pytest.param(
            lambda client: client.delete(
                POD,
                "p",
                namespace="shop",
                uid="u1",
                resource_version="7",
                grace_seconds=0,
                propagation="Foreground",
            ),
            (
                "DELETE",
                "/api/v1/namespaces/shop/pods/p",
                {},
                {
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "preconditions": {"uid": "u1", "resourceVersion": "7"},
                    "gracePeriodSeconds": 0,
                    "propagationPolicy": "Foreground",
                },
            ),
            id="delete with everything",
        ),
        pytest.param(
            lambda client: client.bind("p", namespace="shop", uid="u1", node="n1"),
            (
                "POST",
                "/api/v1/namespaces/shop/pods/p/binding",
                {},
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": "p", "namespace": "shop", "uid": "u1"},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
                },
            ),
            id="bind",
        ),
        pytest.param(
            lambda client: client.evict("p", namespace="shop"),
            (
                "POST",
                "/api/v1/namespaces/shop/pods/p/eviction",
                {},
                {
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": {"name": "p", "namespace": "shop"},
                    "deleteOptions": {"apiVersion": "v1", "kind": "DeleteOptions"},
                },
            ),
            id="evict",
        ),
        pytest.param(
            lambda client: client.list(POD, labels="app in (a,b),tier!=x+y", fields="spec.nodeName=n1"),
            (
                "GET",
                "/api/v1/pods",
                {"labelSelector": "app in (a,b),tier!=x+y", "fieldSelector": "spec.nodeName=n1"},
                None,
            ),
            id="list",
        ),
    ],
)
async def test_requests_look_as_kubernetes_wants_them(call: Call, want: tuple[object, ...]) -> None:
    recorder = Recorder()
    async with talking_to(recorder) as client:
        await call(client)
    assert recorder.asked == [want]


async def test_requests_have_a_user_agent_and_patches_their_content_type() -> None:
    recorder = Recorder()
    async with talking_to(recorder) as client:
        await client.patch(NODE, "n1", StrategicPatch({}))
    (headers,) = recorder.headers
    assert headers["User-Agent"] == f"mooring/{__version__} (scheduler)"
    assert headers["Accept"] == "application/json"
    assert headers["Content-Type"] == "application/strategic-merge-patch+json"


async def test_connections_are_kept_and_used_again() -> None:
    recorder = Recorder()
    async with talking_to(recorder) as client:
        for _ in range(5):
            await client.get(NODE, "n1")
    assert len(recorder.connections) == 1


async def test_a_missing_namespace_argument_is_not_reported_as_not_found() -> None:
    recorder = Recorder()
    async with talking_to(recorder) as client:
        for call in (client.get(POD, "p"), client.create(POD, {}), client.patch(POD, "p", MergePatch({}))):
            with pytest.raises(ValueError, match="are namespaced"):
                await call
    assert recorder.asked == []


# --- what comes back ---


@pytest.mark.parametrize(
    ("response", "error", "text"),
    [
        pytest.param(
            lambda: answer({"kind": "Status", "reason": "Forbidden", "message": "not you"}, 403),
            Forbidden,
            "not you",
            id="a status",
        ),
        pytest.param(lambda: answer("404 page not found\n", 404), PathNotFound, "about the path", id="plain text"),
        pytest.param(
            lambda: answer({"reason": "NotFound", "message": "no such path", "details": {}}, 404),
            PathNotFound,
            "about the path",
            id="404 about the path",
        ),
        pytest.param(
            lambda: answer({"reason": "NotFound", "message": "gone", "details": {"name": "n1", "kind": "nodes"}}, 404),
            NotFound,
            "gone",
            id="404 about the object",
        ),
        pytest.param(lambda: answer({}), Unreachable, "malformed response", id="an empty object"),
        pytest.param(
            lambda: answer({"kind": "Status"}), Unreachable, "malformed response", id="a status for an object"
        ),
        pytest.param(lambda: answer("", 500), ApiError, "answered 500 without a reason", id="nothing at all"),
        pytest.param(lambda: answer("", 302, Location="/login"), ApiError, "answered 302", id="a redirect"),
        pytest.param(lambda: answer("<html>"), Unreachable, "malformed response", id="not JSON"),
        pytest.param(lambda: answer({"metadata": {"name": 5}}), Unreachable, "malformed response", id="not an object"),
    ],
)
async def test_answers_become_errors(response: Callable[[], web.Response], error: type[Exception], text: str) -> None:
    async with talking_to(answers_of(response)) as client:
        with pytest.raises(error, match=text):
            await client.get(NODE, "n1")


async def test_an_empty_list_may_be_null() -> None:
    body = {"metadata": {"resourceVersion": "5"}, "items": None}
    async with talking_to(answers_of(lambda: answer(body))) as client:
        listing = await client.list(NODE)
    assert (listing.items, listing.resource_version) == ((), "5")


async def test_an_answer_that_breaks_off_is_unreachable() -> None:
    async def breaks_off(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"{")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with talking_to(breaks_off) as client:
        with pytest.raises(Unreachable):
            await client.create(NODE, {})
