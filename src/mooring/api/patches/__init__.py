"""Ways to change a JSON document: RFC 6902 operations, RFC 7386 merge, strategic merge.

Each form is a pure function from a document and a patch to a new document and changes neither. Strategic merge and the
operations give one that shares no container with either; merge shares what the patch leaves alone, so whoever goes on
to change the result copies it first, as decoding does. This file holds what the forms share: the type of a decoded
document and the copy. Preconditions, content types and retries belong to the server.
"""

from typing import TypeAlias

from mooring.api.json_documents import MAX_DEPTH
from mooring.api.patches.errors import PatchError

__all__ = ["MAX_DEPTH", "Json", "copied", "room_inside"]

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
"""A decoded JSON value."""


def copied(value: Json, room: int = MAX_DEPTH) -> Json:
    """A copy that shares no container; `room` is how many more levels may follow."""
    if isinstance(value, dict):
        inside = room_inside(room)
        return {key: copied(member, inside) for key, member in value.items()}
    if isinstance(value, list):
        inside = room_inside(room)
        return [copied(element, inside) for element in value]
    return value


def room_inside(room: int) -> int:
    """The levels left inside a container, or PatchError where there are none."""
    if room == 0:
        raise PatchError(f"the document is nested more than {MAX_DEPTH} levels deep")
    return room - 1
