"""Discovery: which groups, versions, kinds and verbs there are, told from the kinds table.

Twice, as upstream does: one small document per group version for clients that walk, and two aggregated ones that
say everything at once for those that ask for them (kubectl and client-go). Static, since kinds do not change while
a server runs.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from mooring.api.kinds import GROUP_VERSIONS, KINDS, Kind
from mooring.api.views.meta import ApiObject
from mooring.server.http.documents import Document
from mooring.server.http.negotiation import AGGREGATED_DISCOVERY
from mooring.server.subresources import subresources

Path = tuple[str, ...]

#: Subresources whose body is of another kind than their parent, and its group and version.
_BODY_KINDS: Final = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}


def plain_documents() -> dict[Path, Document]:
    """By path segments: `/api`, `/apis`, `/apis/{group}`, `/api/v1`, `/apis/{group}/{version}`."""
    documents: dict[Path, Document] = {("api",): _document(_api_versions()), ("apis",): _document(_group_list())}
    for group in _named_groups():
        documents["apis", group] = _document({"kind": "APIGroup", "apiVersion": "v1"} | _group(group))
    for group, version in GROUP_VERSIONS:
        path: Path = ("apis", group, version) if group else ("api", version)
        documents[path] = _document(_resource_list(group, version))
    return documents


def aggregated_documents() -> dict[Path, Document]:
    """The two entry points in their aggregated form."""
    named = [_aggregated_group(group) for group in _named_groups()]
    return {("api",): _aggregated_document([_aggregated_group("")]), ("apis",): _aggregated_document(named)}


def _named_groups() -> list[str]:
    return list(dict.fromkeys(group for group, _ in GROUP_VERSIONS if group))


def _kinds_of(group: str, version: str) -> list[Kind[ApiObject]]:
    return [kind for kind in KINDS if (kind.group, kind.version) == (group, version)]


def _api_versions() -> dict[str, Any]:
    # Whoever asks has found an address that works; there is no better one to send them to.
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def _group_list() -> dict[str, Any]:
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in _named_groups()]}


def _group(name: str) -> dict[str, Any]:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version} for group, version in GROUP_VERSIONS if group == name
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resource_list(group: str, version: str) -> dict[str, Any]:
    kinds = _kinds_of(group, version)
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": kinds[0].api_version,
        "resources": [row for kind in kinds for row in _resources(kind)],
    }


def _resources(kind: Kind[ApiObject]) -> Iterable[dict[str, Any]]:
    """The kind's own row and one per subresource."""
    yield {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": kind.verbs,
    } | _names(kind)
    for name, verbs in subresources(kind).items():
        group, version, body_kind = _body_kind(kind, name)
        elsewhere = {} if group == kind.group else {"group": group, "version": version}
        yield {
            "name": f"{kind.plural}/{name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": body_kind,
            "verbs": verbs,
        } | elsewhere


def _aggregated_group(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name} if name else {},
        "versions": [
            {
                "version": version,
                "freshness": "Current",
                "resources": [_aggregated_resource(kind) for kind in _kinds_of(group, version)],
            }
            for group, version in GROUP_VERSIONS
            if group == name
        ],
    }


def _aggregated_resource(kind: Kind[ApiObject]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": _response_kind(kind.group, kind.version, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": kind.verbs,
    }
    below = [
        {"subresource": name, "responseKind": _response_kind(*_body_kind(kind, name)), "verbs": verbs}
        for name, verbs in subresources(kind).items()
    ]
    return row | _names(kind) | ({"subresources": below} if below else {})


def _body_kind(kind: Kind[ApiObject], subresource: str) -> tuple[str, str, str]:
    return _BODY_KINDS.get(subresource, (kind.group, kind.version, kind.kind))


def _response_kind(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "version": version, "kind": kind}


def _names(kind: Kind[ApiObject]) -> dict[str, Any]:
    names = {"shortNames": kind.short, "categories": kind.categories}
    return {field: value for field, value in names.items() if value}


def _document(content: dict[str, Any]) -> Document:
    return Document(msgspec.json.encode(content))


def _aggregated_document(groups: list[dict[str, Any]]) -> Document:
    content = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": groups,
    }
    return Document(msgspec.json.encode(content), media_type=AGGREGATED_DISCOVERY)
