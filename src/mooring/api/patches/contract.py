"""The patches a client can send: three forms, each a frozen value that knows its media type.

Controllers say what they want changed with one of these; the server's `patch` verb applies them. A patch that
relies on what was read carries `metadata.resourceVersion`, which the server treats as a precondition.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class MergePatch:
    """RFC 7386: members replace, null removes, lists are replaced whole."""

    body: Mapping[str, Any]
    media_type: ClassVar[str] = "application/merge-patch+json"


@dataclass(frozen=True)
class StrategicPatch:
    """Merge patch that knows list keys; what kubectl sends for built-in kinds."""

    body: Mapping[str, Any]
    media_type: ClassVar[str] = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class JsonPatch:
    """RFC 6902: a list of operations, all or none."""

    body: Sequence[Mapping[str, Any]]
    media_type: ClassVar[str] = "application/json-patch+json"


Patch = MergePatch | StrategicPatch | JsonPatch
