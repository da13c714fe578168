"""Joins what the two readers found into the rows of the field table, and writes the table.

`mooring.api.schema.types` describes and reads the format. Everything is sorted and one type fills one line, so
that a new Kubernetes release shows up as a readable diff.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tools.generate_fields.protos import ProtoField, ProtoMessage
from tools.generate_fields.structs import GoField, GoPackage

#: Messages whose JSON is not an object with their fields; the table calls them by these names.
SPECIAL = {
    "k8s.io.apimachinery.pkg.api.resource.Quantity": "quantity",
    "k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1": "raw",
    "k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime": "microTime",
    "k8s.io.apimachinery.pkg.apis.meta.v1.Time": "time",
    "k8s.io.apimachinery.pkg.runtime.RawExtension": "raw",
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": "intOrString",
}
SCALARS = frozenset({"bool", "bytes", "int32", "int64", "string"})
#: Fields that the table lacks, because their types would contain themselves: nested templates of composite groups of
#: pods, which no server of Mooring accepts.
LEFT_OUT = {
    f"k8s.io.api.scheduling.{version}.CompositePodGroupTemplate": ("compositePodGroupTemplates",)
    for version in ("v1alpha3", "v1beta1")
}
Row = list[str | int]
#: What embedding TypeMeta adds to the JSON; number 0 because protobuf carries it in the envelope instead.
TYPE_META: tuple[Row, ...] = (["apiVersion", 0, "string", "o"], ["kind", 0, "string", "o"])


class Disagreement(ValueError):
    """The .proto and the Go types differ; the generator must be extended."""


@dataclass
class Sources:
    """Everything read: messages by full proto name, Go packages by proto package."""

    messages: Mapping[str, ProtoMessage]
    packages: Mapping[str, GoPackage]
    #: What a reader should know but need not stop for, such as a hint in a comment that no tag backs.
    remarks: list[str] = field(default_factory=list)


def short_name(full: str) -> str:
    """`k8s.io.api.core.v1.Pod` is `core/v1.Pod` in the table."""
    *_, group, version, name = full.split(".")
    return f"{group}/{version}.{name}"


def kinds_of(package: GoPackage) -> tuple[str, ...]:
    """Structs that can stand alone in a request: those with apiVersion and kind."""
    return tuple(sorted(name for name, struct in package.structs.items() if struct.has_type_meta))


def rows_for(sources: Sources, roots: Iterable[str]) -> dict[str, list[Row]]:
    """Rows of every type that the roots reach, by short name. Types that contain themselves are refused:
    readers of the table rely on its depth being bounded."""
    done: dict[str, list[Row]] = {}
    open_types: list[str] = []

    def visit(full: str) -> None:
        if full in open_types:
            raise Disagreement(f"{full} contains itself: {' > '.join([*open_types, full])}")
        if short_name(full) in done:
            return
        open_types.append(full)
        rows, children = _rows_of(sources, full)
        for child in children:
            visit(child)
        open_types.pop()
        done[short_name(full)] = rows

    for root in roots:
        visit(root)
    return done


def render(version: str, kinds: Mapping[str, Mapping[str, str]], types: Mapping[str, list[Row]]) -> str:
    """The table as JSON, compact within a line and one group version or type per line."""
    return f'{{"version":{_compact(version)},\n"kinds":{_by_line(kinds)},\n"types":{_by_line(types)}}}\n'


def _by_line(entries: Mapping[str, object]) -> str:
    lines = (f"{_compact(name)}:{_compact(entries[name])}" for name in sorted(entries))
    return "{\n" + ",\n".join(lines) + "\n}"


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _rows_of(sources: Sources, full: str) -> tuple[list[Row], list[str]]:
    package, _, name = full.rpartition(".")
    struct = sources.packages[package].structs.get(name)
    if struct is None:
        raise Disagreement(f"{full} has no Go struct")
    tags = {tagged.number: tagged for tagged in struct.fields}
    message = sources.messages[full].fields
    if strays := tags.keys() ^ {field.number for field in message}:
        raise Disagreement(f"{full}: fields {sorted(strays)} are not in both the .proto and the Go types")
    rows: list[Row] = list(TYPE_META) if struct.has_type_meta else []
    children = []
    for proto in message:
        if proto.name in LEFT_OUT.get(full, ()):
            continue
        type_name = _type_name(sources, proto.type)
        rows.append(_row(sources, full, proto, tags[proto.number], type_name))
        if type_name.rpartition(".")[0]:
            children.append(proto.type)
    return sorted(rows, key=lambda row: (row[1], row[0])), children


def _row(sources: Sources, full: str, proto: ProtoField, tagged: GoField, type_name: str) -> Row:
    hints, merge = (proto.strategy, proto.merge_key), (tagged.strategy, tagged.merge_key)
    if hints != merge:
        # The API server goes by the tags, so the table does too.
        sources.remarks.append(
            f"{short_name(full)}.{proto.name}: comment says {hints}, the tag {merge}; the tag was taken"
        )
    flags = "".join(
        letter
        for letter, holds in (
            ("i", tagged.inline),
            ("o", tagged.omit_empty),
            ("p", tagged.pointer),
        )
        if holds
    )
    row: Row = [
        tagged.json_name,
        proto.number,
        proto.shape + type_name,
        flags,
        *merge,
        _ownership(sources, proto, tagged),
    ]
    while row[-1] == "":
        row.pop()
    return row


def _ownership(sources: Sources, proto: ProtoField, tagged: GoField) -> str:
    """How server-side apply owns the field, where that does not follow from its shape and its patch tags."""
    if tagged.inline:
        return ""  # its fields stand beside its siblings, and are owned one by one like them
    message = sources.messages.get(proto.type)
    if proto.shape == "":
        return "atomic" if proto.ownership == "atomic" or (message and message.atomic and not proto.ownership) else ""
    if proto.shape == "{}" or not proto.ownership:
        return "atomic" if proto.ownership == "atomic" else ""
    if proto.ownership == "map":
        defaults = {field.name: field.default for field in message.fields} if message else {}
        keys = ",".join(f"{key}={default}" if (default := defaults.get(key)) else key for key in proto.map_keys)
        return "" if keys == tagged.merge_key and "merge" in tagged.strategy else f"map:{keys}"
    by_tags = "set" if "merge" in tagged.strategy else "atomic"
    return "" if proto.ownership == by_tags else proto.ownership


def _type_name(sources: Sources, written: str) -> str:
    if written in SCALARS:
        return written
    if special := SPECIAL.get(written):
        return special
    package, _, name = written.rpartition(".")
    if written not in sources.messages or package not in sources.packages:
        raise Disagreement(f"{written} is neither a scalar the table knows nor a message that was read")
    if name in sources.packages[package].string_lists:
        return "strings"
    return short_name(written)
