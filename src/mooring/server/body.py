"""Objects on their way through a write: decoded JSON, free to change until they are stored.

A view would lose what it does not know, so writes work on plain dicts. `decoding` has checked every value against the
field table before anybody else sees it: what is present has the type Kubernetes gives it, and what Kubernetes could
not tell from absent is absent. The readers below rely on that.
"""

from typing import Any, TypeAlias

Body: TypeAlias = dict[str, Any]
"""A decoded object, or a part of one."""


def meta(obj: Body) -> Body:
    """`metadata`, which every object has once it is decoded."""
    found: Body = obj["metadata"]
    return found


def part(obj: Body, *path: str) -> Body:
    """The object at a path, an empty one of its own where there is none; for reading."""
    for step in path:
        obj = obj.get(step, {})
    return obj


def rows(obj: Body, *path: str) -> list[Body]:
    """The list of objects at a path, an empty one where there is none; for reading."""
    for step in path[:-1]:
        obj = obj.get(step, {})
    found: list[Body] = obj.get(path[-1], [])
    return found


def finalizers(obj: Body) -> list[str]:
    found: list[str] = meta(obj).get("finalizers", [])
    return found


def is_deleting(obj: Body) -> bool:
    return "deletionTimestamp" in meta(obj)
