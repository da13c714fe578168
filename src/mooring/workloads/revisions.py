"""Revisions of a pod template: what a StatefulSet or DaemonSet once was, kept as ControllerRevisions.

Pure. A revision's data is the strategic patch that brings its owner back there, which is what `kubectl rollout undo`
sends; its name is the owner's and a hash of the template, the same for the same template in whatever order it is
stored. Numbers grow; a template that comes back gets a new number, not a new object.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.revision import ControllerRevision
from mooring.workloads.ownership import reference

#: Hex digits of a revision's hash in names and labels.
HASH_LENGTH: Final = 10
#: How many old ones are kept where the owner does not say; the server's default.
HISTORY: Final = 10
#: Upstream's label for the hash on ControllerRevisions.
HASH_LABEL: Final = "controller.kubernetes.io/hash"

Body = dict[str, Any]


class Revision(NamedTuple):
    """A template under its revision's name."""

    name: str
    template: Body

    @property
    def hash(self) -> str:
        return self.name.rpartition("-")[2]


class Revisions(NamedTuple):
    """Where an owner stands: `current` is what its pods were before a rollout, `update` what they shall be."""

    current: Revision
    update: Revision


def digest(template: Body) -> str:
    return hashlib.sha256(msgspec.json.encode(template, order="deterministic")).hexdigest()[:HASH_LENGTH]


def revision_of(owner: str, template: msgspec.Raw) -> Revision:
    """The revision that a template is, whether or not it was recorded."""
    decoded: Body = msgspec.json.decode(template)
    return Revision(f"{owner}-{digest(decoded)}", decoded)


def recorded(stored: ControllerRevision) -> Revision:
    """The revision that was written down."""
    data: Body = msgspec.json.decode(stored.data)
    template = {field: value for field, value in data["spec"]["template"].items() if field != "$patch"}
    return Revision(stored.name, template)


def body(kind: Kind[ApiObject], owner: ApiObject, revision: Revision, *, number: int) -> Body:
    """The ControllerRevision to create. Annotations go along: `kubectl rollout history` shows the change cause."""
    labels = (revision.template.get("metadata") or {}).get("labels") or {}
    return {
        "metadata": {
            "name": revision.name,
            "labels": labels | {HASH_LABEL: revision.hash},
            "annotations": dict(owner.metadata.annotations),
            "ownerReferences": [reference(kind, owner)],
        },
        "data": {"spec": {"template": {**revision.template, "$patch": "replace"}}},
        "revision": number,
    }


def next_number(stored: Iterable[ControllerRevision]) -> int:
    return max((revision.revision for revision in stored), default=0) + 1


def outdated(stored: Sequence[ControllerRevision], in_use: Collection[str], limit: int) -> list[ControllerRevision]:
    """Those beyond the limit that nobody needs, oldest first."""
    unused = sorted((r for r in stored if r.name not in in_use), key=lambda revision: revision.revision)
    return unused[: max(len(unused) - limit, 0)]
