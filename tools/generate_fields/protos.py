"""Reads the messages of a `generated.proto`: field names, numbers and types, and the merge hints in comments.

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
_MERGE_HINT = re.compile(r"^  // \+(patchStrategy|patchMergeKey)=(\S+)$")
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


def read_messages(path: Path) -> dict[str, tuple[ProtoField, ...]]:
    """The messages of one file by full name (`k8s.io.api.core.v1.Pod`)."""
    package = ""
    message: str | None = None
    fields: list[ProtoField] = []
    hints: dict[str, str] = {}
    messages: dict[str, tuple[ProtoField, ...]] = {}
    for number, line in enumerate(_without_licence(path.read_text()), start=1):
        if message is None:
            if opened := _MESSAGE.match(line):
                message, fields, hints = f"{package}.{opened[1]}", [], {}
            elif named := _PACKAGE.match(line):
                package = named[1]
            elif not _ELSEWHERE.match(line):
                raise SyntaxError(f"{path}: line {number} is not understood: {line!r}")
        elif line == "}":
            messages[message] = tuple(fields)
            message = None
        elif field := _FIELD.match(line):
            fields.append(_field(field, package, hints))
            hints = {}
        elif hint := _MERGE_HINT.match(line):
            hints[hint[1]] = hint[2]
        elif line and not line.startswith("  //"):
            raise SyntaxError(f"{path}: line {number} is not understood: {line!r}")
    return messages


def _without_licence(text: str) -> list[str]:
    """Lines of the file, with the licence comment at its head blanked so that numbers stay right."""
    head, closing, rest = text.partition("*/")
    return ("\n" * head.count("\n") + rest if closing else text).splitlines()


def _field(match: re.Match[str], package: str, hints: dict[str, str]) -> ProtoField:
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
        strategy=hints.get("patchStrategy", ""),
        merge_key=hints.get("patchMergeKey", ""),
    )
