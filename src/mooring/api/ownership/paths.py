"""Paths into an object, spelled as `managedFields` spells them, and sets of them.

An element of a path is a field or map entry (`f:spec`), an item of a keyed list (`k:{"name":"web"}`) or a value of a
set (`v:"x"`). A set of paths is a plain frozenset, so that union and difference are Python's own; `FieldsV1`, the
nested form in which it is stored, is made and read here and nowhere else.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from mooring.api.fields.table import Field, ItemKey
from mooring.api.patches import Json

Path: TypeAlias = tuple[str, ...]
Paths: TypeAlias = frozenset[Path]

#: Elements a path may have. The longest that the field table knows has 13.
MAX_ELEMENTS: Final = 24
#: Paths that a client may name in an object's managedFields: every later write pays for each of them.
MAX_PATHS: Final = 10_000

#: The member that stands for the object around it, in FieldsV1.
_SELF: Final = "."


class UnkeyedItem(ValueError):
    """An item of a keyed list does not say which one it is."""


class MalformedPaths(ValueError):
    """Not a FieldsV1 document, or a larger one than is read."""


def named(name: str) -> str:
    return f"f:{name}"


def valued(value: Json) -> str:
    return f"v:{msgspec.json.encode(value).decode()}"


def keyed(item: Json, keys: Iterable[ItemKey]) -> str:
    """The element of a list item. Raises UnkeyedItem."""
    found: dict[str, Json] = {}
    for key in keys:
        value = item.get(key.name, key.default) if isinstance(item, Mapping) else None
        if value is None:
            raise UnkeyedItem(f'associative list with keys has an element that omits key field "{key.name}"')
        found[key.name] = value
    return f"k:{msgspec.json.encode(found).decode()}"


def item_element(item: Json, field: Field) -> str:
    """How an item of this list is named. Raises UnkeyedItem."""
    return keyed(item, field.item_keys) if field.item_keys else valued(item)


def elements_of(items: Iterable[Json], field: Field) -> list[str] | None:
    """How the items of a list are named, None where one has no name: stored objects may hold such."""
    try:
        return [item_element(item, field) for item in items]
    except UnkeyedItem:
        return None


def shown(path: Path) -> str:
    """As conflicts print it: `.spec.containers[name="web"].image`."""
    return "".join(_shown(element) for element in path)


def _shown(element: str) -> str:
    body = element[2:]
    match element[0]:
        case "k":
            keys = msgspec.json.decode(body, type=dict[str, Any])
            inside = ",".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in keys.items())
            return f"[{inside}]"
        case "v":
            return f"[={body}]"
        case _:
            return f".{body}"


def with_ancestors(paths: Paths) -> Paths:
    """The paths and everything they lie in."""
    found: set[Path] = set()
    for path in paths:
        # What has been found has its ancestors with it.
        while path and path not in found:
            found.add(path)
            path = path[:-1]
    return frozenset(found)


def to_fields_v1(paths: Paths) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path in sorted(paths):
        node = root
        for element in path:
            node = node.setdefault(element, {})
        node[_SELF] = {}
    return _without_lonely_selves(root)


def _without_lonely_selves(node: dict[str, Any]) -> dict[str, Any]:
    """A member with nothing below it is written `{}`, without the dot."""
    if node.keys() == {_SELF}:
        return {}
    return {element: _without_lonely_selves(child) for element, child in node.items()}


def from_fields_v1(document: object) -> Paths:
    """Raises MalformedPaths."""
    found: list[Path] = []
    _collect(document, (), found)
    return frozenset(found)


def _collect(node: object, path: Path, found: list[Path]) -> None:
    if not isinstance(node, Mapping):
        raise MalformedPaths("fieldsV1 must be nested objects")
    if len(path) > MAX_ELEMENTS:
        raise MalformedPaths(f"fieldsV1 is nested more than {MAX_ELEMENTS} deep")
    if not node and path:
        found.append(path)
    for element, child in node.items():
        if element == _SELF:
            found.append(path)
        elif element[:2] in ("f:", "k:", "v:"):
            _collect(child, (*path, element), found)
        else:
            raise MalformedPaths(f"{element[:100]!r} does not name a part of an object")
