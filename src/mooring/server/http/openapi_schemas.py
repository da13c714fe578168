"""Schemas of OpenAPI v3, told from the field table: what `kubectl explain` shows and what tools generate code from.

One schema per type, under the name upstream gives it, with what the table knows: names, types, which fields are
always there, how lists are merged. Upstream's prose is not in the table; where a value has rules of its own (amounts,
moments) a description of ours says them.
"""

from collections.abc import Iterable
from typing import Any, Final

from mooring.api.fields.table import Field, Ownership, Scalar, Shape, Type, type_of
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject

Schema = dict[str, Any]

_HERE: Final = "#/components/schemas/"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"

#: Values without fields of their own that OpenAPI knows by name.
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
    """The schemas of these kinds and of all they contain, in the order of their names."""
    found: dict[str, Schema] = {}
    for kind in kinds:
        type_ = type_of(kind.api_version, kind.kind)
        _collect(type_, found)
        named = found[schema_name(type_)]
        named.setdefault("x-kubernetes-group-version-kind", []).append(
            {"group": kind.group, "version": kind.version, "kind": kind.kind}
        )
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
            # Beside a reference nothing else is read, so what there is to say goes around it.
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
    """How patches treat the list, in upstream's extensions and in words."""
    told: Schema = {}
    if field.merges:
        told["x-kubernetes-patch-strategy"] = field.strategy
        if field.merge_key:
            told["x-kubernetes-patch-merge-key"] = field.merge_key
            told["description"] = f"A strategic merge patch tells the items apart by {field.merge_key}."
    match field.ownership:
        case Ownership.MAP:
            told["x-kubernetes-list-type"] = "map"
            told["x-kubernetes-list-map-keys"] = [key.name for key in field.item_keys]
        case Ownership.SET:
            told["x-kubernetes-list-type"] = "set"
        case Ownership.ATOMIC:
            told["x-kubernetes-list-type"] = "atomic"
        case Ownership.GRANULAR:
            pass
    return told
