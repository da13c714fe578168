"""The parts of an object that can be owned, by path.

Parts are what the field table lets managers own side by side: scalars, atomic values, entries of maps, members of
sets, items of keyed lists and the fields in them. A struct, map or list is a part only when it is empty; otherwise it
is there because something in it is.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from mooring.api.fields.table import Field, Ownership, Shape, Type
from mooring.api.ownership.paths import Path, Paths, elements_of, item_element, named, shown
from mooring.api.patches import Json

Values: TypeAlias = Mapping[Path, Json]

#: What stands for a list item that exists; what is in it has paths of its own.
_PRESENT: Final = True


class DuplicateItem(ValueError):
    """Two items of a list claim to be the same one."""


def stated_values(obj: Json, type_: Type) -> Values:
    """The parts of an applied object, whose lists must tell their items apart. Raises UnkeyedItem and DuplicateItem."""
    found: dict[Path, Json] = {}
    _in_struct(obj, type_, (), found, _in_stated_list)
    return found


def stored_values(obj: Json, type_: Type) -> Values:
    """The parts of an object as other writers may leave it: items of one name are one part, whole, and so is a list
    with an item that has none."""
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
    """What is new or different in `after`, and what is gone from it."""
    written = frozenset(path for path, value in after.items() if path not in before or before[path] != value)
    gone = frozenset(before.keys() - after.keys())
    return written, gone
