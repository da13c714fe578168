"""Reads from plain JSON that never fail: a missing or ill-typed part of an object reads as empty.

One odd object in a list must not cost the whole table. For cells only; code that decides reads typed views.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mooring.api.durations import UNKNOWN, human_duration
from mooring.api.timestamps import from_time

Json = Mapping[str, Any]

#: What kubectl shows for a value that is not there.
NONE: Final = "<none>"
#: The same for optional fields of volumes and claims.
UNSET: Final = "<unset>"


def part(value: Json, *path: str) -> Json:
    """The object at a path, empty if there is none."""
    found = _at(value, path)
    return found if isinstance(found, dict) else {}


def parts(value: Json, *path: str) -> list[Json]:
    """The objects of a list at a path."""
    found = _at(value, path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def texts(value: Json, *path: str) -> list[str]:
    """The strings of a list at a path."""
    found = _at(value, path)
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


def text(value: Json, *path: str) -> str:
    found = _at(value, path)
    return found if isinstance(found, str) else ""


def amount(value: Json, *path: str) -> str:
    """A quantity, which JSON may also carry as a number."""
    found = _at(value, path)
    return str(found) if isinstance(found, str | int | float) else ""


def number(value: Json, *path: str, default: int = 0) -> int:
    found = _at(value, path)
    return found if isinstance(found, int) else default


def flag(value: Json, *path: str) -> bool:
    return _at(value, path) is True


def name(value: Json) -> str:
    return text(value, "metadata", "name")


def is_deleting(value: Json) -> bool:
    return bool(text(value, "metadata", "deletionTimestamp"))


def since(moment: str, now: float) -> str:
    """How long ago a timestamp was."""
    try:
        return human_duration(now - from_time(moment)) if moment else UNKNOWN
    except ValueError:
        return UNKNOWN


def age(value: Json, now: float) -> str:
    return since(text(value, "metadata", "creationTimestamp"), now)


def joined(values: Iterable[str], *, empty: str = "") -> str:
    return ",".join(values) or empty


def _at(value: object, path: Iterable[str]) -> object:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value
