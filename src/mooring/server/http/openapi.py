"""OpenAPI v3, as much of it as `kubectl apply`, `kubectl create -f` and `kubectl explain` ask for.

kubectl looks up each kind to learn whether the server checks fields itself; finding the `fieldValidation` parameter
on its PATCH, it sends the object and lets the server judge. `explain` reads the schemas. No operation describes its
body, so kubectl makes its three-way merges with the types it was built with, which it knows better than any schema.
Documents are made when somebody first asks for one.

Of OpenAPI v2 there is one empty document, in the protobuf form that kubectl alone asks for: it looks there for kinds
it did not find in v3, and without any document it would complain of that instead of saying "no matches for kind".
"""

from functools import partial
from typing import Any, Final

import msgspec

from mooring.api.kinds import GROUP_VERSIONS, KINDS, Kind
from mooring.api.views.meta import ApiObject
from mooring.server.http.documents import Document
from mooring.server.http.negotiation import OPENAPI_V2
from mooring.server.http.openapi_schemas import schemas
from mooring.server.http.version import GIT_VERSION

#: The index names each document by its hash, so a copy never goes stale.
_FOREVER: Final = "public, immutable"

_FIELD_VALIDATION: Final = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}


def openapi_documents() -> dict[tuple[str, ...], Document]:
    """By path segments: the index `/openapi/v3` and one document per group version below it."""
    places = {"/".join(place := _place(*served)): ("openapi", "v3", *place) for served in GROUP_VERSIONS}
    documents = {
        path: Document(partial(_group_version, *served), cache_control=_FOREVER)
        for path, served in zip(places.values(), GROUP_VERSIONS, strict=True)
    }

    def index() -> bytes:
        hashes = {place: documents[path].fingerprint for place, path in places.items()}
        urls = {place: {"serverRelativeURL": f"/openapi/v3/{place}?hash={hash_}"} for place, hash_ in hashes.items()}
        return msgspec.json.encode({"paths": urls})

    return {("openapi", "v3"): Document(index, cache_control="no-cache, private"), **documents}


def empty_openapi_v2() -> Document:
    """`openapi.v2.Document` with nothing but swagger = 1 and info = 2 {title = 1, version = 2}."""
    info = _text(1, "Kubernetes") + _text(2, GIT_VERSION)
    return Document(_text(1, "2.0") + _bytes(2, info), media_type=OPENAPI_V2)


def _text(number: int, text: str) -> bytes:
    return _bytes(number, text.encode())


def _bytes(number: int, content: bytes) -> bytes:
    """A length-delimited protobuf field; both numbers fit one byte each here."""
    return bytes((number << 3 | 2, len(content))) + content


def _place(group: str, version: str) -> tuple[str, ...]:
    return ("apis", group, version) if group else ("api", version)


def _group_version(group: str, version: str) -> bytes:
    kinds = [kind for kind in KINDS if (kind.group, kind.version) == (group, version)]
    return msgspec.json.encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": GIT_VERSION},
            "paths": {kind.path(namespace="{namespace}", name="{name}"): _operations(kind) for kind in kinds},
            "components": {"schemas": schemas(kinds)},
        }
    )


def _operations(kind: Kind[ApiObject]) -> dict[str, Any]:
    """No request body is described: kubectl then takes its built-in types for the three-way merge."""
    return {
        "patch": {
            "parameters": [_FIELD_VALIDATION],
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        }
    }
