"""Server-side apply: which manager owns which fields, and what an apply or an update changes. Pure functions over JSON.

The rules are Kubernetes' structured merge. An apply states all fields of a manager: a field it no longer states is
removed unless another manager owns it, and a change of another manager's field is a conflict unless forced. An update
takes ownership of what it changes. `metadata.managedFields` exists only on objects that were applied at least once,
which saves a third of the size of all others; the fields from before belong to `before-first-apply`.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from mooring.api.patches.contract import Json
from mooring.api.schema.types import Field, ItemKey, Ownership, Shape, Type

#: Elements as in `managedFields`: a field or map entry (`f:spec`), an item of a keyed list (`k:{"name":"web"}`) or a
#: value of a set (`v:"x"`).
Path: TypeAlias = tuple[str, ...]
Paths: TypeAlias = frozenset[Path]

#: Elements of a path; the longest of the field table has 13.
MAX_ELEMENTS: Final = 24
#: Paths in managedFields that a client sends: every later write pays for each of them.
MAX_PATHS: Final = 10_000

_Tree: TypeAlias = dict[str, Any]
#: The FieldsV1 member for the enclosing object itself.
_SELF: Final = "."


class UnkeyedItem(ValueError):
    """An item of a keyed list lacks a key field."""


class MalformedPaths(ValueError):
    """Not a FieldsV1 document, or too large."""


def named(name: str) -> str:
    return f"f:{name}"


def keyed(item: Json, keys: Iterable[ItemKey]) -> str:
    """The element of a list item. Raises UnkeyedItem."""
    found: dict[str, Json] = {}
    for key in keys:
        value = item.get(key.name, key.default) if isinstance(item, Mapping) else None
        if value is None:
            raise UnkeyedItem(f'associative list with keys has an element that omits key field "{key.name}"')
        found[key.name] = value
    return f"k:{_encoded(found)}"


def item_element(item: Json, field: Field) -> str:
    """The path element of an item of this list. Raises UnkeyedItem."""
    return keyed(item, field.item_keys) if field.item_keys else f"v:{_encoded(item)}"


def elements_of(items: Iterable[Json], field: Field) -> list[str] | None:
    """The path elements of a list's items, or None if one lacks a key, which stored objects may."""
    try:
        return [item_element(item, field) for item in items]
    except UnkeyedItem:
        return None


def shown(path: Path) -> str:
    """As conflicts print it: `.spec.containers[name="web"].image`."""
    return "".join(_shown(element[0], element[2:]) for element in path)


def _shown(prefix: str, body: str) -> str:
    if prefix != "k":
        return f"[={body}]" if prefix == "v" else f".{body}"
    keys = msgspec.json.decode(body, type=dict[str, Any])
    return f"[{','.join(f'{name}={_encoded(value)}' for name, value in keys.items())}]"


def _encoded(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def with_ancestors(paths: Paths) -> Paths:
    """The paths and all their prefixes."""
    found: set[Path] = set()
    for path in paths:
        # A path that is in `found` has its prefixes there too.
        while path and path not in found:
            found.add(path)
            path = path[:-1]
    return frozenset(found)


def to_fields_v1(paths: Paths) -> dict[str, Any]:
    return _without_lonely_selves(_tree(sorted(paths)))


def _tree(paths: Iterable[Path]) -> _Tree:
    """The paths as nested elements; the end of each is marked."""
    root: _Tree = {}
    for path in paths:
        node = root
        for element in path:
            node = node.setdefault(element, {})
        node[_SELF] = {}
    return root


def _without_lonely_selves(node: _Tree) -> _Tree:
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


def merged(live: Json, applied: Json, type_: Type | None) -> Json:
    """`applied` merged into `live`, along the type. Shares unchanged containers with both. Raises UnkeyedItem."""
    if not isinstance(live, dict) or not isinstance(applied, dict):
        return applied
    result = dict(live)
    for name, value in applied.items():
        field = type_.by_name.get(name) if type_ else None
        result[name] = _merged_field(live.get(name), value, field)
    return result


def _merged_field(live: Json, applied: Json, field: Field | None) -> Json:
    if live is None or field is None or field.ownership is Ownership.ATOMIC:
        return applied
    if isinstance(live, list) and isinstance(applied, list):
        return list(_merged_items(live, applied, field))
    if field.shape is Shape.MAP and isinstance(live, dict) and isinstance(applied, dict):
        return live | {name: merged(live.get(name), entry, field.struct) for name, entry in applied.items()}
    return merged(live, applied, field.struct)


def _merged_items(live: list[Json], applied: list[Json], field: Field) -> Iterator[Json]:
    """Applied items in their order, other live items at their positions between them. Applied keys are unique; live
    items with a repeated key are all replaced instead of merged."""
    elements = elements_of(live, field)
    if elements is None:
        yield from applied
        return
    times = Counter(elements)
    there = {element: item for element, item in zip(elements, live, strict=True) if times[element] == 1}
    desired = {item_element(item, field): item for item in applied}
    waiting = deque(zip(elements, live, strict=True))
    placed: set[str] = set()
    for element, item in desired.items():
        # Items of the live list only stay before the items that followed them.
        while waiting and (waiting[0][0] not in desired or waiting[0][0] in placed):
            other, kept = waiting.popleft()
            if other not in desired:
                yield kept
        if waiting and waiting[0][0] == element:
            waiting.popleft()
        placed.add(element)
        known = there.get(element)
        yield item if known is None or field.ownership is Ownership.SET else merged(known, item, field.struct)
    yield from (kept for other, kept in waiting if other not in desired)


def without(obj: Json, paths: Paths, type_: Type | None) -> Json:
    """`obj` without the paths, and without containers that become empty and have `omitempty`."""
    return _without_in_struct(obj, _tree(paths), type_) if paths else obj


def _without_in_struct(obj: Json, removed: _Tree, type_: Type | None) -> Json:
    if not isinstance(obj, dict):
        return obj
    result: dict[str, Json] = {}
    for name, value in obj.items():
        below = removed.get(named(name))
        if below is None:
            result[name] = value
        elif _SELF not in below:
            field = type_.by_name.get(name) if type_ else None
            kept = _without_in_field(value, below, field)
            if kept or (field is not None and not field.omit_empty):
                result[name] = kept
    return result


def _without_in_field(value: Json, removed: _Tree, field: Field | None) -> Json:
    if field is None:
        return value
    if isinstance(value, list):
        elements = elements_of(value, field)
        if elements is None:
            return value
        items = zip(elements, value, strict=True)
        return [
            _without_in_struct(item, removed.get(element, {}), field.struct)
            for element, item in items
            if _SELF not in removed.get(element, {})
        ]
    if field.shape is Shape.MAP and isinstance(value, dict):
        return {
            name: _without_in_struct(entry, removed.get(named(name), {}), field.struct)
            for name, entry in value.items()
            if _SELF not in removed.get(named(name), {})
        }
    return _without_in_struct(value, removed, field.struct)


Values: TypeAlias = Mapping[Path, Json]

#: Value of a list item; its fields have paths of their own.
_PRESENT: Final = True


class DuplicateItem(ValueError):
    """Two items of a list have the same keys."""


def stated_values(obj: Json, type_: Type) -> Values:
    """The ownable fields of an applied object: scalars, atomic values, map entries, set values, items of keyed lists
    and the fields in them; a container itself only if it is empty. Raises UnkeyedItem and DuplicateItem."""
    found: dict[Path, Json] = {}
    _in_struct(obj, type_, (), found, _in_stated_list)
    return found


def stored_values(obj: Json, type_: Type) -> Values:
    """The same of a stored object: items with the same keys count as one field, and so does a list with an unkeyed
    item."""
    found: dict[Path, Json] = {}
    _in_struct(obj, type_, (), found, _in_stored_list)
    return found


def _in_struct(obj: Json, type_: Type | None, path: Path, found: dict[Path, Json], in_list: "_InList") -> None:
    if not isinstance(obj, dict) or (not obj and path):
        found[path] = obj
        return
    for name, value in obj.items():
        field = type_.by_name.get(name) if type_ else None
        _in_field(value, field, (*path, named(name)), found, in_list)


def _in_field(value: Json, field: Field | None, path: Path, found: dict[Path, Json], in_list: "_InList") -> None:
    if field is None or field.ownership is Ownership.ATOMIC or not value:
        found[path] = value
    elif isinstance(value, list):
        in_list(value, field, path, found)
    elif field.shape is Shape.MAP and isinstance(value, dict):
        for name, entry in value.items():
            _in_struct(entry, field.struct, (*path, named(name)), found, in_list)
    else:
        _in_struct(value, field.struct, path, found, in_list)


def _in_stated_list(items: list[Json], field: Field, path: Path, found: dict[Path, Json]) -> None:
    for item in items:
        element = item_element(item, field)
        here = (*path, element)
        if here in found:
            raise DuplicateItem(f"{shown(path)}: duplicate entries for key {shown((element,))}")
        found[here] = _PRESENT
        if field.ownership is Ownership.MAP:
            _in_struct(item, field.struct, here, found, _in_stated_list)


def _in_stored_list(items: list[Json], field: Field, path: Path, found: dict[Path, Json]) -> None:
    elements = elements_of(items, field)
    if elements is None:
        found[path] = items
        return
    times = Counter(elements)
    for element, item in zip(elements, items, strict=True):
        here = (*path, element)
        if times[element] > 1:
            alike = found.setdefault(here, [])
            assert isinstance(alike, list)
            alike.append(item)
            continue
        found[here] = _PRESENT
        if field.ownership is Ownership.MAP:
            _in_struct(item, field.struct, here, found, _in_stored_list)


_InList: TypeAlias = Callable[[list[Json], Field, Path, dict[Path, Json]], None]


def changed(before: Values, after: Values) -> tuple[Paths, Paths]:
    """The paths that are new or different in `after`, and those missing from it."""
    written = frozenset(path for path, value in after.items() if path not in before or before[path] != value)
    gone = frozenset(before.keys() - after.keys())
    return written, gone


APPLY: Final = "Apply"
UPDATE: Final = "Update"
#: Owner of the fields an object had before its first apply.
BEFORE_FIRST_APPLY: Final = "before-first-apply"

#: Fields that identify an object or that the server writes; no manager owns them.
_UNOWNED_METADATA: Final = (
    "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields",
    "name", "namespace", "resourceVersion", "selfLink", "uid",
)  # fmt: skip
_UNOWNED: Final = frozenset({("f:apiVersion",), ("f:kind",), ("f:metadata",)}) | {
    ("f:metadata", named(name)) for name in _UNOWNED_METADATA
}


class Manager(msgspec.Struct, frozen=True):
    """A field manager: name, operation, and the endpoint it writes through."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


class Owner(msgspec.Struct, frozen=True):
    """A manager, the fields it owns, and when they last changed."""

    manager: Manager
    paths: Paths
    time: str


Owners = Mapping[Manager, Owner]


class FieldConflict(msgspec.Struct, frozen=True):
    """A field that an apply changes and another manager owns."""

    manager: Manager
    path: Path

    @property
    def field(self) -> str:
        return shown(self.path)

    @property
    def owner(self) -> str:
        """As in conflict messages: `"kubectl" with subresource "scale" using apps/v1`."""
        where = f" with subresource {_encoded(self.manager.subresource)}" if self.manager.subresource else ""
        how = f" using {self.manager.api_version}" if self.manager.operation == UPDATE else ""
        return f"{_encoded(self.manager.name)}{where}{how}"


class ApplyResult(msgspec.Struct, frozen=True):
    """The object and its owners after an apply; not to be used if there are conflicts."""

    obj: dict[str, Any]
    owners: Owners
    conflicts: tuple[FieldConflict, ...] = ()


def apply_fields(
    live: dict[str, Any],
    applied: dict[str, Any],
    type_: Type,
    owners: Owners,
    manager: Manager,
    *,
    force: bool,
    now: str,
    ignored: Sequence[Path] = (),
) -> ApplyResult:
    """`live` after `manager` applied `applied`; the endpoint cannot change the `ignored` fields. Raises UnkeyedItem and
    DuplicateItem."""
    effective = without(applied, frozenset(ignored), type_)
    stated = _owned(stated_values(effective, type_))
    if not owners and (before := _owned(stored_values(live, type_))):
        first = Manager(BEFORE_FIRST_APPLY, UPDATE, manager.api_version)
        owners = {first: Owner(first, before, now)}
    last = owners[manager].paths if manager in owners else frozenset()
    others = {other: owner for other, owner in owners.items() if other != manager}
    kept = with_ancestors(stated.union(*(owner.paths for owner in others.values())))
    result = without(merged(live, effective, type_), last - kept, type_)
    assert isinstance(result, dict)
    written, gone = changed(stored_values(live, type_), stored_values(result, type_))
    conflicts = () if force else tuple(_conflicts(others, written))
    remaining = _shrunk(others, written, gone, now)
    is_same = manager in owners and last == stated
    remaining[manager] = owners[manager] if is_same else Owner(manager, stated, now)
    return ApplyResult(result, {owner: held for owner, held in remaining.items() if held.paths}, conflicts)


def update_fields(
    before: dict[str, Any], after: dict[str, Any], type_: Type, owners: Owners, manager: Manager, *, now: str
) -> Owners:
    """The owners after `manager` changed `before` to `after`: it takes the changed fields from their owners."""
    written, gone = changed(stored_values(before, type_), stored_values(after, type_))
    written = _owned(written)
    others = {other: owner for other, owner in owners.items() if other != manager}
    remaining = _shrunk(others, written, gone, now)
    had = owners[manager].paths if manager in owners else frozenset()
    holds = (had | written) - gone
    if holds == had and manager in owners:
        remaining[manager] = owners[manager]
    elif holds:
        remaining[manager] = Owner(manager, holds, now)
    return remaining


def _conflicts(others: Owners, written: Paths) -> Iterable[FieldConflict]:
    for manager in sorted(others, key=lambda other: (other.name, other.operation, other.subresource)):
        yield from (FieldConflict(manager, path) for path in sorted(others[manager].paths & written))


def _shrunk(others: Owners, written: Paths, gone: Paths, now: str) -> dict[Manager, Owner]:
    lost = written | gone
    remaining: dict[Manager, Owner] = {}
    for manager, owner in others.items():
        paths = owner.paths - lost
        if paths:
            remaining[manager] = owner if paths == owner.paths else Owner(manager, paths, now)
    return remaining


def _owned(paths: Iterable[Path]) -> Paths:
    return frozenset(paths) - _UNOWNED


def claimed_owners(entries: object) -> Owners:
    """The owners in managedFields that a client sent, of at most MAX_PATHS paths. Raises MalformedPaths."""
    owners = owners_in(entries)
    if sum(len(owner.paths) for owner in owners.values()) > MAX_PATHS:
        raise MalformedPaths(f"managedFields name more than {MAX_PATHS} fields")
    return owners


def owners_in(entries: object) -> Owners:
    """The owners in `metadata.managedFields`. Raises MalformedPaths."""
    owners: dict[Manager, Owner] = {}
    for entry in entries if isinstance(entries, list) else ():
        if not entry:
            continue  # `[{}]` is how clients clear managedFields
        manager = Manager(*(entry.get(field, "") for field in ("manager", "operation", "apiVersion", "subresource")))
        if manager.operation not in (APPLY, UPDATE) or entry.get("fieldsType", "FieldsV1") != "FieldsV1":
            raise MalformedPaths("managedFields must have operation Apply or Update and fieldsType FieldsV1")
        owners[manager] = Owner(manager, from_fields_v1(entry.get("fieldsV1", {})), entry.get("time", ""))
    return owners


def entries_of(owners: Owners) -> list[dict[str, Any]]:
    """`metadata.managedFields`: Apply before Update, oldest first."""

    def rank(owner: Owner) -> tuple[str, ...]:
        return owner.manager.operation, owner.time, owner.manager.name, owner.manager.subresource

    return [_entry(owner) for owner in sorted(owners.values(), key=rank)]


def _entry(owner: Owner) -> dict[str, Any]:
    manager = owner.manager
    entry = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": manager.api_version,
        "time": owner.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": to_fields_v1(owner.paths),
    }
    if not owner.time:  # sent by a client without a time; "" is not a timestamp
        del entry["time"]
    return entry | ({"subresource": manager.subresource} if manager.subresource else {})
