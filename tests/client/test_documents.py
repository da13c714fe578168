"""Listing kinds as plain documents: pages, what a list says once, and what a reader may not see."""

from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web

from client.conversations import PatientClock, answer
from client.wire_server import Handler, serving
from mooring.api.errors import ApiError, Expired, Forbidden, NotFound, Unauthorized
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, Kind
from mooring.api.views.meta import ApiObject
from mooring.client.access import Access
from mooring.client.contract import Unreachable
from mooring.client.documents import Listed, Unseen, list_documents


def page(*names: str, continued: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": "7"} | ({"continue": continued} if continued else {})
    return {"kind": "NodeList", "metadata": metadata, "items": [{"metadata": {"name": name}} for name in names]}


def answering(said: Mapping[str, object]) -> Handler:
    """By path, with `?continue=` where a page is not the first; ApiErrors are said as such."""

    async def handler(request: web.BaseRequest) -> web.Response:
        rest = f"?continue={request.query['continue']}" if "continue" in request.query else ""
        whole = "" if "limit" in request.query else "?whole"
        body = said[f"{request.path}{rest}{whole}"]
        return answer(body.to_status(), body.code) if isinstance(body, ApiError) else answer(body)

    return handler


async def listed(said: Mapping[str, object], *kinds: Kind[ApiObject], namespace: str = "shop") -> Listed:
    async with serving(answering(said)) as address:
        return await list_documents(Access(address), kinds, component="test", clock=PatientClock(), namespace=namespace)


def names(found: Listed) -> list[str]:
    return [document["metadata"]["name"] for document in found.documents]


async def test_items_say_of_themselves_what_their_list_says() -> None:
    found = await listed({"/apis/storage.k8s.io/v1/storageclasses": page("fast")}, STORAGE_CLASS)
    assert found.documents == (
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}},
    )
    assert found.unseen == ()


async def test_fields_nobody_knows_are_kept() -> None:
    item = {"metadata": {"name": "n1", "managedFields": [{"manager": "x"}]}, "spec": {"unheardOf": 1}}
    found = await listed({"/api/v1/nodes": page() | {"items": [item]}}, NODE)
    assert found.documents == ({"apiVersion": "v1", "kind": "Node"} | item,)


async def test_every_page_is_read() -> None:
    said = {"/api/v1/nodes": page("n1", continued="c1"), "/api/v1/nodes?continue=c1": page("n2")}
    assert names(await listed(said, NODE)) == ["n1", "n2"]


async def test_a_server_that_forgot_the_first_page_is_asked_for_the_whole() -> None:
    said = {
        "/api/v1/nodes": page("n1", continued="c1"),
        "/api/v1/nodes?continue=c1": Expired("too old"),
        "/api/v1/nodes?whole": page("n1", "n3"),
    }
    assert names(await listed(said, NODE)) == ["n1", "n3"]


async def test_kinds_keep_their_order() -> None:
    said = {"/api/v1/nodes": page("n1"), "/api/v1/pods": page("p1")}
    assert names(await listed(said, POD, NODE)) == ["p1", "n1"]


async def test_a_null_list_is_an_empty_one() -> None:
    assert (await listed({"/api/v1/nodes": page() | {"items": None}}, NODE)).documents == ()


@pytest.mark.parametrize(
    ("said", "kind", "namespace", "want", "words"),
    [
        pytest.param(
            {"/api/v1/nodes": Forbidden("no nodes for you")},
            NODE,
            "shop",
            Unseen(NODE, "no nodes for you"),
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
            Unseen(CLAIM, "not everywhere", "shop"),
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
            Unseen(CLAIM, "not there either"),
            "persistentvolumeclaims: not there either",
            id="not even the namespace",
        ),
        pytest.param(
            {"/api/v1/persistentvolumeclaims": Forbidden("not everywhere")},
            CLAIM,
            "",
            Unseen(CLAIM, "not everywhere"),
            "persistentvolumeclaims: not everywhere",
            id="no namespace to fall back to",
        ),
        pytest.param(
            {"/api/v1/nodes": NotFound("the server could not find the requested resource")},
            NODE,
            "shop",
            Unseen(NODE, "the server does not have them"),
            "nodes: the server does not have them",
            id="a kind the server does not know",
        ),
    ],
)
async def test_what_cannot_be_seen_is_named(
    said: dict[str, object], kind: Kind[ApiObject], namespace: str, want: Unseen, words: str
) -> None:
    found = await listed(said, kind, namespace=namespace)
    assert found.unseen == (want,)
    assert str(want) == words
    assert names(found) == (["data"] if want.seen_in else [])


async def test_a_stranger_is_told_so() -> None:
    with pytest.raises(Unauthorized):
        await listed({"/api/v1/nodes": Unauthorized("who are you")}, NODE)


async def test_an_answer_that_is_no_list_is_as_good_as_none() -> None:
    with pytest.raises(Unreachable, match="cannot be read"):
        await listed({"/api/v1/nodes": {"items": 5}}, NODE)
