"""Reads the messages of a `generated.proto`: field names, numbers and types, and the hints on merging in comments.

First of the generator's two readers; `structs` reads the Go side, `rows` joins them. It understands the
proto2 subset that go-to-protobuf writes (flat messages of optional, repeated and map fields) and stops at
anything else rather than guess.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = re.compile(r"^package ([\w.]+);$")
_MESSAGE = re.compile(r"^message (\w+) \{$")
_FIELD = re.compile(r"^  (optional|repeated|map<string, ([\w.]+)>) ?([\w.]*) (\w+) = (\d+);$")
_HINT = re.compile(r"^ *// \+(patchStrategy|patchMergeKey|listType|listMapKey|mapType|structType|default)=(\S+)$")
_ELSEWHERE = re.compile(r"^(syntax |import |option |//|\s*$)")


@dataclass(frozen=True)
class ProtoField:
    """One field; `type` is a scalar of proto2 or the full name of a message, without the leading dot."""

    name: str
    number: int
    shape: str  # "" for a single value, "[]" for repeated, "{}" for a map with string keys
    type: str
    strategy: str
    merge_key: str
    #: How server-side apply owns a list ("atomic", "set", "map"), a map or a struct ("atomic", "granular").
    ownership: str
    #: What identifies an item of a list owned as "map".
    map_keys: tuple[str, ...]
    #: The value of a field that is absent, where a comment says so: a string, without its quotes.
    default: str


@dataclass(frozen=True)
class ProtoMessage:
    fields: tuple[ProtoField, ...]
    #: Server-side apply owns the message as one value.
    atomic: bool


def read_messages(path: Path) -> dict[str, ProtoMessage]:
    """The messages of one file by full name (`k8s.io.api.core.v1.Pod`)."""
    package = ""
    message: str | None = None
    fields: list[ProtoField] = []
    hints: dict[str, list[str]] = {}
    atomic = False
    messages: dict[str, ProtoMessage] = {}
    for number, line in enumerate(_without_licence(path.read_text()), start=1):
        if hint := _HINT.match(line):
            hints.setdefault(hint[1], []).append(hint[2])
        elif message is None:
            if opened := _MESSAGE.match(line):
                message, fields, atomic = f"{package}.{opened[1]}", [], hints.get("structType") == ["atomic"]
                hints = {}
            elif named := _PACKAGE.match(line):
                package = named[1]
            elif not _ELSEWHERE.match(line):
                raise SyntaxError(f"{path}: line {number} is not understood: {line!r}")
        elif line == "}":
            messages[message] = ProtoMessage(tuple(fields), atomic)
            message = None
        elif field := _FIELD.match(line):
            fields.append(_field(field, package, hints))
            hints = {}
        elif line and not line.startswith("  //"):
            raise SyntaxError(f"{path}: line {number} is not understood: {line!r}")
    return messages


def _without_licence(text: str) -> list[str]:
    """Lines of the file, with the licence comment at its head blanked so that numbers stay right."""
    head, closing, rest = text.partition("*/")
    return ("\n" * head.count("\n") + rest if closing else text).splitlines()


def _field(match: re.Match[str], package: str, hints: dict[str, list[str]]) -> ProtoField:
    label, map_value, single, name, number = match.groups()
    written = map_value or single
    if written.startswith("."):
        type_name = written[1:]
    elif written[0].isupper():
        type_name = f"{package}.{written}"
    else:
        type_name = written
    return ProtoField(
        name=name,
        number=int(number),
        shape={"optional": "", "repeated": "[]"}.get(label, "{}"),
        type=type_name,
        strategy=_last(hints, "patchStrategy"),
        merge_key=_last(hints, "patchMergeKey"),
        ownership=_last(hints, "listType") or _last(hints, "mapType") or _last(hints, "structType"),
        map_keys=tuple(hints.get("listMapKey", ())),
        default=_last(hints, "default").strip('"'),
    )


def _last(hints: dict[str, list[str]], name: str) -> str:
    return hints.get(name, [""])[-1]
