"""The parts of an object that can be owned, by path.

Parts are what the field table lets managers own side by side: scalars, atomic values, entries of maps, members of
sets, items of keyed lists and the fields in them. A struct, map or list is a part only when it is empty; otherwise it
is there because something in it is.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from mooring.api.fields.table import Field, Ownership, Shape, Type
from mooring.api.ownership.paths import Path, Paths, item_element, named, shown
from mooring.api.patches import Json

Values: TypeAlias = Mapping[Path, Json]

#: What stands for a list item that exists; what is in it has paths of its own.
_PRESENT: Final = True


class DuplicateItem(ValueError):
    """Two items of a list claim to be the same one."""


def values_of(obj: Json, type_: Type) -> Values:
    """Raises UnkeyedItem and DuplicateItem."""
    return dict(_in_struct(obj, type_, ()))


def _in_struct(obj: Json, type_: Type | None, path: Path) -> Iterator[tuple[Path, Json]]:
    if not isinstance(obj, dict) or (not obj and path):
        yield path, obj
        return
    for name, value in obj.items():
        field = type_.by_name.get(name) if type_ else None
        yield from _in_field(value, field, (*path, named(name)))


def _in_field(value: Json, field: Field | None, path: Path) -> Iterator[tuple[Path, Json]]:
    if field is None or field.ownership is Ownership.ATOMIC or not value:
        yield path, value
    elif isinstance(value, list):
        yield from _in_list(value, field, path)
    elif field.shape is Shape.MAP and isinstance(value, dict):
        for name, entry in value.items():
            yield from _in_struct(entry, field.struct, (*path, named(name)))
    else:
        yield from _in_struct(value, field.struct, path)


def _in_list(items: list[Json], field: Field, path: Path) -> Iterator[tuple[Path, Json]]:
    seen: set[str] = set()
    for item in items:
        element = item_element(item, field)
        here = (*path, element)
        if element in seen:
            raise DuplicateItem(f"{shown(path)}: duplicate entries for key {shown((element,))}")
        seen.add(element)
        yield here, _PRESENT
        if field.ownership is Ownership.MAP:
            yield from _in_struct(item, field.struct, here)


def changed(before: Values, after: Values) -> tuple[Paths, Paths]:
    """What is new or different in `after`, and what is gone from it."""
    written = frozenset(path for path, value in after.items() if path not in before or before[path] != value)
    gone = frozenset(before.keys() - after.keys())
    return written, gone
