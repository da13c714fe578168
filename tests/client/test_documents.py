"""Listing kinds as plain documents: pages, what a list says once, and what a reader may not see."""

from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web

from mooring.api.errors import ApiError, Expired, Forbidden, NotFound, Unauthorized
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, Kind
from mooring.api.views.meta import ApiObject
from mooring.client.access import Access
from mooring.client.contract import Unreachable
from mooring.client.documents import ListedDocuments, UnlistedKind, list_documents
from support.http_conversations import RecordingClock, answer
from support.http_server import Handler, serving


def page(*names: str, continued: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": "7"} | ({"continue": continued} if continued else {})
    return {"kind": "NodeList", "metadata": metadata, "items": [{"metadata": {"name": name}} for name in names]}


def answering(responses: Mapping[str, object]) -> Handler:
    """By path, with `?continue=` where a page is not the first; ApiErrors are responses as such."""

    async def handler(request: web.BaseRequest) -> web.Response:
        rest = f"?continue={request.query['continue']}" if "continue" in request.query else ""
        whole = "" if "limit" in request.query else "?whole"
        body = responses[f"{request.path}{rest}{whole}"]
        return answer(body.to_status(), body.code) if isinstance(body, ApiError) else answer(body)

    return handler


async def listed(responses: Mapping[str, object], *kinds: Kind[ApiObject], namespace: str = "shop") -> ListedDocuments:
    async with serving(answering(responses)) as address:
        return await list_documents(
            Access(address), kinds, component="test", clock=RecordingClock(), namespace=namespace
        )


def names(found: ListedDocuments) -> list[str]:
    return [document["metadata"]["name"] for document in found.documents]


async def test_items_say_of_themselves_what_their_list_says() -> None:
    found = await listed({"/apis/storage.k8s.io/v1/storageclasses": page("fast")}, STORAGE_CLASS)
    assert found.documents == (
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}},
    )
    assert found.unseen == ()


async def test_unknown_fields_are_kept() -> None:
    item = {"metadata": {"name": "n1", "managedFields": [{"manager": "x"}]}, "spec": {"unheardOf": 1}}
    found = await listed({"/api/v1/nodes": page() | {"items": [item]}}, NODE)
    assert found.documents == ({"apiVersion": "v1", "kind": "Node"} | item,)


async def test_every_page_is_read() -> None:
    responses = {"/api/v1/nodes": page("n1", continued="c1"), "/api/v1/nodes?continue=c1": page("n2")}
    assert names(await listed(responses, NODE)) == ["n1", "n2"]


async def test_a_server_that_forgot_the_first_page_is_asked_for_the_whole() -> None:
    responses = {
        "/api/v1/nodes": page("n1", continued="c1"),
        "/api/v1/nodes?continue=c1": Expired("too old"),
        "/api/v1/nodes?whole": page("n1", "n3"),
    }
    assert names(await listed(responses, NODE)) == ["n1", "n3"]


async def test_kinds_keep_their_order() -> None:
    responses = {"/api/v1/nodes": page("n1"), "/api/v1/pods": page("p1")}
    assert names(await listed(responses, POD, NODE)) == ["p1", "n1"]


async def test_a_null_list_is_an_empty_one() -> None:
    assert (await listed({"/api/v1/nodes": page() | {"items": None}}, NODE)).documents == ()


@pytest.mark.parametrize(
    ("responses", "kind", "namespace", "want", "words"),
    [
        pytest.param(
            {"/api/v1/nodes": Forbidden("no nodes for you")},
            NODE,
            "shop",
            UnlistedKind(NODE, "no nodes for you"),
            "nodes: no nodes for you",
            id="a kind without namespaces",
        ),
        pytest.param(
            {
                "/api/v1/persistentvolumeclaims": Forbidden("not everywhere"),
                "/api/v1/namespaces/shop/persistentvolumeclaims": page("data"),
            },
            CLAIM,
            "shop",
            UnlistedKind(CLAIM, "not everywhere", "shop"),
            "persistentvolumeclaims outside of shop: not everywhere",
            id="one namespace is allowed",
        ),
        pytest.param(
            {
                "/api/v1/persistentvolumeclaims": Forbidden("not everywhere"),
                "/api/v1/namespaces/shop/persistentvolumeclaims": Forbidden("not there either"),
            },
            CLAIM,
            "shop",
            UnlistedKind(CLAIM, "not there either"),
            "persistentvolumeclaims: not there either",
            id="not even the namespace",
        ),
        pytest.param(
            {"/api/v1/persistentvolumeclaims": Forbidden("not everywhere")},
            CLAIM,
            "",
            UnlistedKind(CLAIM, "not everywhere"),
            "persistentvolumeclaims: not everywhere",
            id="no namespace to fall back to",
        ),
        pytest.param(
            {"/api/v1/nodes": NotFound("the server could not find the requested resource")},
            NODE,
            "shop",
            UnlistedKind(NODE, "not served by the API server"),
            "nodes: not served by the API server",
            id="a kind the server does not know",
        ),
    ],
)
async def test_what_cannot_be_seen_is_named(
    responses: dict[str, object], kind: Kind[ApiObject], namespace: str, want: UnlistedKind, words: str
) -> None:
    found = await listed(responses, kind, namespace=namespace)
    assert found.unseen == (want,)
    assert str(want) == words
    assert names(found) == (["data"] if want.seen_in else [])


async def test_unauthorized_is_raised() -> None:
    with pytest.raises(Unauthorized):
        await listed({"/api/v1/nodes": Unauthorized("who are you")}, NODE)


async def test_an_answer_that_is_no_list_is_as_good_as_none() -> None:
    with pytest.raises(Unreachable, match="malformed response"):
        await listed({"/api/v1/nodes": {"items": 5}}, NODE)
