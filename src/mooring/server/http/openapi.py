"""OpenAPI v3, as much of it as `kubectl apply` and `kubectl create -f` ask for.

kubectl looks up each kind to learn whether the server checks fields itself; finding the `fieldValidation` parameter
on its PATCH, it sends the object and lets the server judge. Schemas are not served, so `kubectl explain` does not
work yet, and kubectl merges with the types it was built with.

Of OpenAPI v2 there is one empty document, in the protobuf form that kubectl alone asks for: it looks there for kinds
it did not find in v3, and without any document it would complain of that instead of saying "no matches for kind".
"""

from typing import Any, Final

import msgspec

from mooring.api.kinds import GROUP_VERSIONS, KINDS, Kind
from mooring.api.views.meta import ApiObject
from mooring.server.http.documents import Document
from mooring.server.http.negotiation import OPENAPI_V2
from mooring.server.http.version import GIT_VERSION

#: The index names each document by its hash, so a copy never goes stale.
_FOREVER: Final = "public, immutable"

_FIELD_VALIDATION: Final = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}


def openapi_documents() -> dict[tuple[str, ...], Document]:
    """By path segments: the index `/openapi/v3` and one document per group version below it."""
    documents: dict[tuple[str, ...], Document] = {}
    index: dict[str, dict[str, str]] = {}
    for group, version in GROUP_VERSIONS:
        path = ("apis", group, version) if group else ("api", version)
        document = Document(msgspec.json.encode(_group_version(group, version)), cache_control=_FOREVER)
        documents["openapi", "v3", *path] = document
        place = "/".join(path)
        index[place] = {"serverRelativeURL": f"/openapi/v3/{place}?hash={document.fingerprint}"}
    documents["openapi", "v3"] = Document(msgspec.json.encode({"paths": index}), cache_control="no-cache, private")
    return documents


def empty_openapi_v2() -> Document:
    """`openapi.v2.Document` with nothing but swagger = 1 and info = 2 {title = 1, version = 2}."""
    info = _text(1, "Kubernetes") + _text(2, GIT_VERSION)
    return Document(_text(1, "2.0") + _bytes(2, info), media_type=OPENAPI_V2)


def _text(number: int, text: str) -> bytes:
    return _bytes(number, text.encode())


def _bytes(number: int, content: bytes) -> bytes:
    """A length-delimited protobuf field; both numbers fit one byte each here."""
    return bytes((number << 3 | 2, len(content))) + content


def _group_version(group: str, version: str) -> dict[str, Any]:
    kinds = [kind for kind in KINDS if (kind.group, kind.version) == (group, version)]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": GIT_VERSION},
        "paths": {kind.path(namespace="{namespace}", name="{name}"): _operations(kind) for kind in kinds},
        "components": {"schemas": {}},
    }


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
