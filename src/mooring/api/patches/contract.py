"""The patches a client can send, their errors, and JSON merge patch.

Applying a patch changes neither the document nor the patch. Preconditions (`metadata.resourceVersion`), media types and
responses belong to the server.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from mooring.api.documents import MAX_DEPTH


@dataclass(frozen=True)
class MergePatch:
    """RFC 7386: members replace, null removes, lists are replaced whole."""

    body: Mapping[str, Any]
    media_type: ClassVar[str] = "application/merge-patch+json"


@dataclass(frozen=True)
class StrategicPatch:
    """Merge patch with list keys; kubectl's default for built-in kinds."""

    body: Mapping[str, Any]
    media_type: ClassVar[str] = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class JsonPatch:
    """RFC 6902: a list of operations, all or none."""

    body: Sequence[Mapping[str, Any]]
    media_type: ClassVar[str] = "application/json-patch+json"


Patch = MergePatch | StrategicPatch | JsonPatch


class PatchError(ValueError):
    """The patch cannot be applied; the document is unchanged."""


class PathMissing(PatchError):
    """A path does not exist in this document."""


class TestFailed(PatchError):
    """A `test` operation failed."""

    # pytest would collect a class named Test… from importing test modules.
    __test__: ClassVar[bool] = False


class TooManyOperations(PatchError):
    """The patch has more operations than are accepted."""


#: A decoded JSON value.
Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


def copied(value: Json, depth: int = MAX_DEPTH) -> Json:
    """A deep copy of at most `depth` levels; raises PatchError for more."""
    if isinstance(value, dict):
        inside = _depth_inside(depth)
        return {key: copied(each, inside) if isinstance(each, dict | list) else each for key, each in value.items()}
    if isinstance(value, list):
        inside = _depth_inside(depth)
        return [copied(each, inside) if isinstance(each, dict | list) else each for each in value]
    return value


def _depth_inside(depth: int) -> int:
    if depth == 0:
        raise PatchError(f"the document is nested more than {MAX_DEPTH} levels deep")
    return depth - 1


def apply_merge_patch(doc: Json, patch: Json) -> Json:
    """The patched document. It shares with `doc` what the patch does not change, since most patches change little: the
    caller copies it before changing it in place."""
    return _merged(doc, patch, MAX_DEPTH)


def _merged(doc: Json, patch: Json, depth: int) -> Json:
    if not isinstance(patch, dict):
        return copied(patch, depth) if isinstance(patch, list) else patch
    inside = _depth_inside(depth)
    result = dict(doc) if isinstance(doc, dict) else {}
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        else:
            # Merging into an absent member drops the nulls inside the new one.
            result[key] = _merged(result.get(key), change, inside)
    return result
