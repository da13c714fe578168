"""Reads the Go side of the API types: what the JSON encoding and the patch code of Kubernetes go by.

A `.proto` says neither which fields are pointers, nor which are left out when empty, nor which embedded
structs are flat in JSON. The struct tags in `types.go` beside it do. Second of the generator's two readers;
`rows` joins them.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_STRUCT = re.compile(r"^type (\w+) struct \{$")
_FIELD = re.compile(r"^\t(?:\w+\s+)?([^\s`/]+)\s+`([^`]*)`")
_TAG = re.compile(r'(\w+):"([^"]*)"')
_STRING_LIST = re.compile(r"^type (\w+) \[\]string$", re.MULTILINE)
#: Files with structs that are in the `.proto`; meta/v1 has a second one.
_TYPES = ("types.go", "group_version.go")
_GROUP = re.compile(r'^const GroupName = "([^"]*)"$', re.MULTILINE)


@dataclass(frozen=True)
class GoField:
    """One tagged field; the protobuf number is what it shares with its ProtoField."""

    json_name: str
    number: int
    pointer: bool
    omit_empty: bool
    inline: bool
    strategy: str
    merge_key: str


@dataclass(frozen=True)
class GoStruct:
    fields: tuple[GoField, ...]
    #: The struct embeds TypeMeta, so its JSON may carry apiVersion and kind; protobuf never does.
    has_type_meta: bool


@dataclass(frozen=True)
class GoPackage:
    group: str
    structs: dict[str, GoStruct]
    #: Named lists of strings, which protobuf has to wrap in a message.
    string_lists: frozenset[str]


def read_package(directory: Path) -> GoPackage:
    files = [directory / name for name in _TYPES if (directory / name).exists()]
    types = "\n".join(file.read_text() for file in files)
    group = _GROUP.search((directory / "register.go").read_text())
    if group is None:
        raise SyntaxError(f"{directory}/register.go does not name its API group")
    return GoPackage(
        group=group[1],
        structs=_structs(types),
        string_lists=frozenset(_STRING_LIST.findall(types)),
    )


def _structs(text: str) -> dict[str, GoStruct]:
    found: dict[str, GoStruct] = {}
    name: str | None = None
    fields: list[GoField] = []
    has_type_meta = False
    for line in text.splitlines():
        if opened := _STRUCT.match(line):
            name, fields, has_type_meta = opened[1], [], False
        elif name is None:
            continue
        elif line == "}":
            found[name] = GoStruct(tuple(fields), has_type_meta)
            name = None
        elif field := _FIELD.match(line):
            type_name, tags = field[1], dict(_TAG.findall(field[2]))
            if type_name.rpartition(".")[2] == "TypeMeta":
                has_type_meta = True
            elif "protobuf" in tags:
                fields.append(_field(type_name, tags))
    return found


def _field(type_name: str, tags: dict[str, str]) -> GoField:
    json_name, *options = tags["json"].split(",")
    return GoField(
        json_name=json_name,
        number=int(tags["protobuf"].split(",")[1]),
        pointer=type_name.startswith("*"),
        omit_empty="omitempty" in options,
        # An embedded struct without a name is flat in JSON, with or without the option `inline`.
        inline=not json_name,
        strategy=tags.get("patchStrategy", ""),
        merge_key=tags.get("patchMergeKey", ""),
    )
