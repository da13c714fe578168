"""The columns of `kubectl get`: a column and its cell, a kind's table, and readers of plain JSON.

A missing or ill-typed part of an object reads as empty: one malformed object in a list must not fail the whole table.
Code that decides reads typed views instead.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import msgspec

from mooring.api.times import UNKNOWN, from_time, human_duration

Json = Mapping[str, Any]
Cell = str | int | bool
#: The cell of an object in one column.
CellReader = Callable[[Json], Cell]

#: kubectl's text for an absent value.
NONE: Final = "<none>"
#: The same for optional fields of storage kinds.
UNSET: Final = "<unset>"


@dataclass(frozen=True)
class Column:
    """`meta/v1.TableColumnDefinition`, and how the column's cells are read."""

    name: str
    description: str
    read: CellReader
    type: str = "string"
    format: str = ""
    #: Shown by `-o wide` only.
    wide: bool = False

    def definition(self) -> dict[str, str | int]:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": int(self.wide),
        }


class RowCondition(msgspec.Struct, frozen=True):
    """`meta/v1.TableRowCondition`: lets clients mark rows without reading the cells."""

    type: str
    status: str
    reason: str
    message: str


@dataclass(frozen=True)
class Printer:
    """A kind's table, with kube-apiserver's columns."""

    columns: tuple[Column, ...]
    #: Values at a time, computed once for several columns: they read them as fields of the object.
    derive: Callable[[Json, float], Json] = lambda value, now: {}
    #: The same from all objects of a list, for its rows only.
    derive_of_list: Callable[[Sequence[Json]], Json] | None = None
    conditions: Callable[[Json], tuple[RowCondition, ...]] = lambda value: ()

    def cells(self, value: Json, now: float, of_list: Json = MappingProxyType({})) -> list[Cell]:
        """One per column."""
        shown = {**value, **of_list, **self.derive(value, now), "age": since(text_at(value, *_CREATED), now)}
        return [column.read(shown) for column in self.columns]


def table(*columns: Column) -> Printer:
    return Printer(columns)


def text(*path: str, empty: str = "") -> CellReader:
    return lambda value: text_at(value, *path) or empty


def amount(*path: str, empty: str = "") -> CellReader:
    return lambda value: amount_at(value, *path) or empty


def number(*path: str, default: int = 0) -> CellReader:
    return lambda value: number_at(value, *path, default=default)


def flag(*path: str) -> CellReader:
    return lambda value: flag_at(value, *path)


def labels(*path: str) -> CellReader:
    def read(value: Json) -> str:
        found = object_at(value, *path)
        return joined((f"{key}={text_at(found, key)}" for key in sorted(found)), empty=NONE)

    return read


def joined_texts(*path: str, empty: str = "") -> CellReader:
    return lambda value: joined(texts_at(value, *path), empty=empty)


def object_at(value: Json, *path: str) -> Json:
    """The object at a path, or an empty one."""
    found = _at(value, path)
    return found if isinstance(found, dict) else {}


def objects_at(value: Json, *path: str) -> list[Json]:
    """The objects of a list at a path."""
    found = _at(value, path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def conditions_at(value: Json, type_: str) -> list[Json]:
    return [condition for condition in objects_at(value, "status", "conditions") if text_at(condition, "type") == type_]


def texts_at(value: Json, *path: str) -> list[str]:
    """The strings of a list at a path."""
    found = _at(value, path)
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


def text_at(value: Json, *path: str) -> str:
    found = _at(value, path)
    return found if isinstance(found, str) else ""


def amount_at(value: Json, *path: str) -> str:
    """A quantity: a string or a number in JSON."""
    found = _at(value, path)
    return str(found) if isinstance(found, str | int | float) else ""


def number_at(value: Json, *path: str, default: int = 0) -> int:
    found = _at(value, path)
    return found if isinstance(found, int) else default


def flag_at(value: Json, *path: str) -> bool:
    return _at(value, path) is True


def is_deleting(value: Json) -> bool:
    return bool(text_at(value, "metadata", "deletionTimestamp"))


def since(moment: str, now: float) -> str:
    """Time since a timestamp."""
    try:
        return human_duration(now - from_time(moment)) if moment else UNKNOWN
    except ValueError:
        return UNKNOWN


def joined(values: Iterable[str], *, empty: str = "") -> str:
    return ",".join(values) or empty


def _at(value: object, path: Iterable[str]) -> object:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


_CREATED: Final = ("metadata", "creationTimestamp")

#: Format "name" makes kubectl print `kind/name` when several kinds are listed together.
NAME: Final = Column("Name", "Name of the object, unique in its namespace.", text("metadata", "name"), format="name")
AGE: Final = Column("Age", "Time since the object was created.", text("age"))

NAME_AND_AGE: Final = table(NAME, AGE)
#: For kinds without printer columns in kube-apiserver, which shows the date instead of the age.
NAME_AND_DATE: Final = table(NAME, Column("Created At", "When it was created.", text(*_CREATED), type="date"))
