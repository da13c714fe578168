"""The shape of a table: what a column says about itself, and what turns an object into a row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from mooring.server.tables.reading import Json

Cell = str | int | bool

#: Columns with a higher priority than 0 are shown by `-o wide` only.
WIDE: Final = 1


class Column(msgspec.Struct, frozen=True):
    """`meta/v1.TableColumnDefinition`."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


class RowCondition(msgspec.Struct, frozen=True):
    """`meta/v1.TableRowCondition`: lets clients set rows apart without understanding the cells."""

    type: str
    status: str
    reason: str
    message: str


def no_conditions(_: Json) -> tuple[RowCondition, ...]:
    return ()


@dataclass(frozen=True)
class Printer:
    """How one kind is printed. `cells` takes the object and the current time, and answers for every column."""

    columns: tuple[Column, ...]
    cells: Callable[[Json, float], Sequence[Cell]]
    conditions: Callable[[Json], tuple[RowCondition, ...]] = no_conditions


#: Format "name" makes kubectl print `kind/name` when several kinds are listed together.
NAME: Final = Column("Name", format="name", description="Name of the object, unique in its namespace.")
AGE: Final = Column("Age", description="Time since the object was created.")
