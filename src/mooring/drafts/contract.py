"""What comes of a draft: objects, what was changed about them, and what is refused."""

from typing import Any, NamedTuple

Body = dict[str, Any]


class Change(NamedTuple):
    """Something that was done to an object, in words that go after its name."""

    object: str
    change: str


class Refusal(NamedTuple):
    """An object that has no counterpart today, and why."""

    object: str
    why: str


class Outcome(NamedTuple):
    objects: tuple[Body, ...] = ()
    changes: tuple[Change, ...] = ()
    refusals: tuple[Refusal, ...] = ()


def name_of(obj: Body) -> str:
    """How remarks call an object: `StorageClass/standard`."""
    meta = obj.get("metadata")
    name = meta.get("name") or meta.get("Name") if isinstance(meta, dict) else None
    return f"{obj.get('kind') or 'object'}/{name or '?'}"
