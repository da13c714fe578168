"""Discovery documents from the kinds table, and OpenAPI v3 documents from the field table. Static.

Discovery has kube-apiserver's two forms: one document per group version, and two aggregated ones. OpenAPI has what
`kubectl apply`, `create` and `explain` read: the `fieldValidation` parameter of PATCH and the schemas.
"""

from collections.abc import Collection, Iterable
from functools import partial
from typing import Any, Final

import msgspec

from mooring.api.kinds import GROUP_VERSIONS, KINDS, Kind
from mooring.api.schema.types import Field, Ownership, Scalar, Shape, Type, type_of
from mooring.api.views.meta import ApiObject
from mooring.server.contract import subresources
from mooring.server.http.requests import CUSTOM_RESOURCE_DEFINITION
from mooring.server.http.responses import AGGREGATED_DISCOVERY, GIT_VERSION, OPENAPI_V2, StaticDocument

Path = tuple[str, ...]
#: Kinds whose feature gate is off; each group version has others.
DisabledKinds = Collection[Kind[ApiObject]]

#: Kinds and group versions that discovery lists: the served ones, and one whose requests are rejected with a reason.
_ROWS: Final = (*KINDS, CUSTOM_RESOURCE_DEFINITION)
_LISTED: Final = (*GROUP_VERSIONS, (CUSTOM_RESOURCE_DEFINITION.group, CUSTOM_RESOURCE_DEFINITION.version))

#: Subresources whose body is of another kind than their parent, and its group and version.
_BODY_KINDS: Final = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}


def plain_documents(disabled: DisabledKinds = ()) -> dict[Path, StaticDocument]:
    """By path segments: `/api`, `/apis`, `/apis/{group}`, `/api/v1`, `/apis/{group}/{version}`."""
    # The client has reached the server: there is no better address.
    versions = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    groups = {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in _named_groups()]}
    documents: dict[Path, StaticDocument] = {("api",): _document(versions), ("apis",): _document(groups)}
    for group in _named_groups():
        documents["apis", group] = _document({"kind": "APIGroup", "apiVersion": "v1"} | _group(group))
    for group, version in _LISTED:
        documents[_place(group, version)] = _document(_resource_list(group, version, disabled))
    return documents


def aggregated_documents(disabled: DisabledKinds = ()) -> dict[Path, StaticDocument]:
    """The two entry points in their aggregated form."""
    named = [_aggregated_group(group, disabled) for group in _named_groups()]
    return {("api",): _aggregated_document([_aggregated_group("", disabled)]), ("apis",): _aggregated_document(named)}


def _named_groups() -> list[str]:
    return list(dict.fromkeys(group for group, _ in _LISTED if group))


def _place(group: str, version: str) -> Path:
    return ("apis", group, version) if group else ("api", version)


def _kinds_of(group: str, version: str, disabled: DisabledKinds) -> list[Kind[ApiObject]]:
    return [kind for kind in _ROWS if (kind.group, kind.version) == (group, version) and kind not in disabled]


def _group(name: str) -> dict[str, Any]:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version} for group, version in _LISTED if group == name
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resource_list(group: str, version: str, disabled: DisabledKinds) -> dict[str, Any]:
    kinds = _kinds_of(group, version, disabled)
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


def _aggregated_group(name: str, disabled: DisabledKinds) -> dict[str, Any]:
    return {
        "metadata": {"name": name} if name else {},
        "versions": [
            {
                "version": version,
                "freshness": "Current",
                "resources": [_aggregated_resource(kind) for kind in _kinds_of(group, version, disabled)],
            }
            for group, version in _LISTED
            if group == name
        ],
    }


def _aggregated_resource(kind: Kind[ApiObject]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": _group_version_kind(kind),
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


def _group_version_kind(kind: Kind[ApiObject]) -> dict[str, str]:
    return _response_kind(kind.group, kind.version, kind.kind)


def _names(kind: Kind[ApiObject]) -> dict[str, Any]:
    names = {"shortNames": kind.short, "categories": kind.categories}
    return {field: value for field, value in names.items() if value}


def _document(content: dict[str, Any]) -> StaticDocument:
    return StaticDocument(msgspec.json.encode(content))


def _aggregated_document(groups: list[dict[str, Any]]) -> StaticDocument:
    content = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": groups}
    return StaticDocument(msgspec.json.encode(content), media_type=AGGREGATED_DISCOVERY)


Schema = dict[str, Any]

_HERE: Final = "#/components/schemas/"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"

#: Scalars with a named schema.
_NAMED: Final[dict[Scalar, tuple[str, Schema]]] = {
    Scalar.QUANTITY: (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {"type": "string", "description": "An amount: 2, 0.5, 500m, 1e3, 10Gi. Stored in its shortest exact form."},
    ),
    Scalar.TIME: (
        f"{_META}.Time",
        {"type": "string", "format": "date-time", "description": "A moment in RFC 3339, to the second, in UTC."},
    ),
    Scalar.MICRO_TIME: (
        f"{_META}.MicroTime",
        {"type": "string", "format": "date-time", "description": "A moment in RFC 3339, to the microsecond, in UTC."},
    ),
    Scalar.INT_OR_STRING: (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {
            "type": "string",
            "format": "int-or-string",
            "description": "A number, or a string such as a percentage or the name of a port.",
        },
    ),
    Scalar.RAW: ("io.k8s.apimachinery.pkg.runtime.RawExtension", {"type": "object", "description": "Any JSON."}),
}
_PLAIN: Final[dict[Scalar, Schema]] = {
    Scalar.BOOL: {"type": "boolean"},
    Scalar.BYTES: {"type": "string", "format": "byte"},
    Scalar.INT32: {"type": "integer", "format": "int32"},
    Scalar.INT64: {"type": "integer", "format": "int64"},
    Scalar.STRING: {"type": "string"},
    Scalar.STRINGS: {"type": "array", "items": {"type": "string"}},
}
#: Groups of types whose names upstream spells with their full domain.
_FAMILIES: Final = {"meta": "io.k8s.apimachinery.pkg.apis.meta"}


def schema_name(type_: Type) -> str:
    """`core/v1.Pod` is `io.k8s.api.core.v1.Pod`."""
    path, _, name = type_.name.rpartition(".")
    group, _, version = path.rpartition("/")
    return f"{_FAMILIES.get(group, f'io.k8s.api.{group}')}.{version}.{name}"


def schemas(kinds: Iterable[Kind[ApiObject]]) -> dict[str, Schema]:
    """The schemas of these kinds and of all types they contain, by name."""
    found: dict[str, Schema] = {}
    for kind in kinds:
        type_ = type_of(kind.api_version, kind.kind)
        _collect(type_, found)
        named = found[schema_name(type_)]
        named.setdefault("x-kubernetes-group-version-kind", []).append(_group_version_kind(kind))
    return dict(sorted(found.items()))


def _collect(type_: Type, found: dict[str, Schema]) -> None:
    name = schema_name(type_)
    if name in found:
        return
    schema: Schema = {"type": "object"}
    found[name] = schema
    fields = type_.by_name.values()
    if required := sorted(field.name for field in fields if not field.omit_empty and not field.pointer):
        schema["required"] = required
    schema["properties"] = {field.name: _property(field) for field in sorted(fields, key=lambda one: one.name)}
    for field in fields:
        if isinstance(field.value, Type):
            _collect(field.value, found)
        elif field.value in _NAMED:
            scalar, described = _NAMED[field.value]
            found.setdefault(scalar, described)


def _property(field: Field) -> Schema:
    value = _value(field)
    match field.shape:
        case Shape.ONE:
            # Keywords beside a $ref are ignored.
            return {"allOf": [value]} if "$ref" in value else value
        case Shape.LIST:
            return {"type": "array", "items": value} | _merging(field)
        case Shape.MAP:
            return {"type": "object", "additionalProperties": value}


def _value(field: Field) -> Schema:
    if isinstance(field.value, Type):
        return {"$ref": f"{_HERE}{schema_name(field.value)}"}
    if field.value in _NAMED:
        return {"$ref": f"{_HERE}{_NAMED[field.value][0]}"}
    return dict(_PLAIN[field.value])


def _merging(field: Field) -> Schema:
    """Patch and list semantics, in Kubernetes' extensions."""
    merging: Schema = {}
    if field.merges:
        merging["x-kubernetes-patch-strategy"] = field.strategy
        if field.merge_key:
            merging["x-kubernetes-patch-merge-key"] = field.merge_key
            merging["description"] = f"A strategic merge patch identifies items by {field.merge_key}."
    if field.ownership is not Ownership.GRANULAR:
        merging["x-kubernetes-list-type"] = field.ownership.value
    if field.ownership is Ownership.MAP:
        merging["x-kubernetes-list-map-keys"] = [key.name for key in field.item_keys]
    return merging


#: The index contains the hash of each document.
_IMMUTABLE: Final = "public, immutable"

_FIELD_VALIDATION: Final = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}


def openapi_documents(disabled: DisabledKinds = ()) -> dict[Path, StaticDocument]:
    """By path segments: the index `/openapi/v3` and one document per group version below it."""
    places = {"/".join(place := _place(*served)): ("openapi", "v3", *place) for served in GROUP_VERSIONS}
    documents = {
        path: StaticDocument(partial(_group_version, *served, disabled), cache_control=_IMMUTABLE)
        for path, served in zip(places.values(), GROUP_VERSIONS, strict=True)
    }

    def index() -> bytes:
        hashes = {place: documents[path].fingerprint for place, path in places.items()}
        urls = {place: {"serverRelativeURL": f"/openapi/v3/{place}?hash={hash_}"} for place, hash_ in hashes.items()}
        return msgspec.json.encode({"paths": urls})

    return {("openapi", "v3"): StaticDocument(index, cache_control="no-cache, private"), **documents}


def empty_openapi_v2() -> StaticDocument:
    """`openapi.v2.Document` with swagger = 1 and info = 2 {title = 1, version = 2} only.

    kubectl looks there for kinds missing in v3; without a document it reports that instead of "no matches for kind".
    """
    info = _text(1, "Kubernetes") + _text(2, GIT_VERSION)
    return StaticDocument(_text(1, "2.0") + _text(2, info), media_type=OPENAPI_V2)


def _text(number: int, content: str | bytes) -> bytes:
    """A length-delimited protobuf field; both numbers fit one byte each here."""
    raw = content.encode() if isinstance(content, str) else content
    return bytes((number << 3 | 2, len(raw))) + raw


def _group_version(group: str, version: str, disabled: DisabledKinds) -> bytes:
    kinds = _kinds_of(group, version, disabled)
    return msgspec.json.encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": GIT_VERSION},
            "paths": {kind.path(namespace="{namespace}", name="{name}"): _operations(kind) for kind in kinds},
            "components": {"schemas": schemas(kinds)},
        }
    )


def _operations(kind: Kind[ApiObject]) -> dict[str, Any]:
    """Without a request body, so that kubectl uses its built-in types for the three-way merge."""
    return {
        "patch": {
            "parameters": [_FIELD_VALIDATION],
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": _group_version_kind(kind),
        }
    }
