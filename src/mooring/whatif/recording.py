"""Recordings of a cluster's changes: their form, what is left out of them, and how they are read back. Pure.

A recording has one JSON document per line: a header, the objects that existed (`EXISTING`), a line `LISTED`, the
changes with the seconds since the beginning, and a line `END`. Objects have the fields that Mooring's components read,
so that neither environment variables, commands nor Secrets get into the file.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from mooring.api import kinds
from mooring.api.documents import Body
from mooring.api.kinds import BY_KIND, Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Volume
from mooring.whatif.inventory import BadQuestion

FORMAT: Final = "mooring.dev/recording-v1"

#: What is recorded. Pods come and go as recorded, whatever made them, so that their owners are not needed.
RECORDED_KINDS: Final[tuple[Kind[ApiObject], ...]] = (
    kinds.NAMESPACE,
    kinds.NODE,
    kinds.PRIORITY_CLASS,
    kinds.STORAGE_CLASS,
    kinds.CSI_DRIVER,
    kinds.CSI_NODE,
    kinds.STORAGE_CAPACITY,
    kinds.VOLUME,
    kinds.CLAIM,
    kinds.DISRUPTION_BUDGET,
    kinds.POD_GROUP,
    kinds.POD,
)

EXISTING: Final = "EXISTING"
LISTED: Final = "LISTED"
ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
END: Final = "END"

#: Of an object's metadata, what no simulation needs; the annotation has a copy of the whole object.
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
#: Fields of a PersistentVolume's spec with an object, besides its source.
_NO_SOURCES: Final = ("capacity", "claimRef", "nodeAffinity")
#: Longest line that is read.
MAX_LINE_BYTES: Final = 8 * 1024 * 1024


class _Line(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    type: str
    at: float = 0.0
    api_version: str = ""
    kind: str = ""
    object: dict[str, Any] = {}
    reason: str = ""


class _Header(msgspec.Struct, frozen=True, rename="camel"):
    format: str
    #: Seconds since the epoch.
    began: float


class RecordedChange(NamedTuple):
    #: Seconds since the recording began.
    at: float
    #: ADDED, MODIFIED or DELETED.
    type: str
    kind: Kind[ApiObject]
    body: Body


class Recording(NamedTuple):
    began: float
    existing: tuple[tuple[Kind[ApiObject], Body], ...]
    changes: tuple[RecordedChange, ...]
    #: Seconds from the beginning to the end.
    seconds: float
    #: Whether and why it is not whole.
    notes: tuple[str, ...]


def header_line(began: float) -> bytes:
    return msgspec.json.encode(_Header(FORMAT, began)) + b"\n"


def object_line(kind: Kind[ApiObject], item: ApiObject, change: str, at: float) -> bytes:
    body = recorded_body(item)
    return msgspec.json.encode(_Line(change, round(at, 3), kind.api_version, kind.kind, body)) + b"\n"


def mark_line(mark: str, at: float, reason: str = "") -> bytes:
    return msgspec.json.encode(_Line(mark, round(at, 3), reason=reason)) + b"\n"


def recorded_body(item: ApiObject) -> Body:
    """The fields that components read, without empty ones."""
    body: Body = _without_nulls(msgspec.json.decode(msgspec.json.encode(item)))
    body["metadata"].get("annotations", {}).pop(_LAST_APPLIED, None)
    if isinstance(item, Volume):
        _give_source(body["spec"])
    elif isinstance(item, Pod):
        for volume in body["spec"].get("volumes", ()):
            if volume.keys() == {"name"}:
                volume["emptyDir"] = {}
    return body


def _give_source(spec: Body) -> None:
    """A server accepts no volume without a source, and components do not read those without an attachment."""
    if not any(isinstance(value, dict) for name, value in spec.items() if name not in _NO_SOURCES):
        spec["local" if spec.get("nodeAffinity") else "hostPath"] = {"path": "/recorded"}


def is_change(before: ApiObject, after: ApiObject) -> bool:
    """Whether more than the resourceVersion differs: nodes and controllers renew their status all the time."""
    return recorded_body(_unversioned(before)) != recorded_body(_unversioned(after))


def _unversioned(item: ApiObject) -> ApiObject:
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, resource_version=""))


def _without_nulls(value: Any) -> Any:  # noqa: ANN401  JSON of any shape
    if isinstance(value, dict):
        return {key: _without_nulls(part) for key, part in value.items() if part is not None}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value


def read_recording(lines: Iterable[bytes]) -> Recording:
    """Raises BadQuestion. Of a file that ends within a line, or without its last line, what is there is taken."""
    numbered = enumerate(lines, start=1)
    began = _began(next(numbered, (1, b""))[1])
    existing: list[tuple[Kind[ApiObject], Body]] = []
    changes: list[RecordedChange] = []
    notes: list[str] = []
    listed, ended, seconds = False, False, 0.0
    bad = ""
    for number, raw in numbered:
        if bad:
            raise BadQuestion(bad)
        line = _decoded(raw)
        if isinstance(line, str):
            # The last line may be cut off; any other is an error.
            bad = f"line {number} of the recording is malformed: {line}"
            continue
        seconds = max(seconds, line.at)
        if line.type == LISTED:
            listed = True
        elif line.type == END:
            ended = True
            if line.reason:
                notes.append(f"the recording ended after {seconds:.0f} s: {line.reason}")
        elif (kind := BY_KIND.get((line.api_version, line.kind))) is None or kind not in RECORDED_KINDS:
            raise BadQuestion(f"line {number} of the recording has the unknown kind {line.kind or 'none'}")
        elif not isinstance(line.object.get("metadata"), dict) or not line.object["metadata"].get("name"):
            raise BadQuestion(f"line {number} of the recording has a {line.kind} without a name")
        elif line.type == EXISTING:
            existing.append((kind, line.object))
        elif line.type in (ADDED, MODIFIED, DELETED):
            changes.append(RecordedChange(line.at, line.type, kind, line.object))
        else:
            raise BadQuestion(f"line {number} of the recording has the unknown type {line.type}")
    if not listed:
        raise BadQuestion("the recording ends before all objects of the cluster were listed")
    if bad:
        notes.append(f"the recording is cut off within its last line; {seconds:.0f} s of it are replayed")
    elif not ended:
        notes.append(f"the recording has no end: the recorder was stopped; {seconds:.0f} s of it are replayed")
    changes.sort(key=lambda each: each.at)
    return Recording(began, tuple(existing), tuple(changes), seconds, tuple(notes))


def _began(raw: bytes) -> float:
    try:
        header = msgspec.json.decode(raw, type=_Header)
    except msgspec.DecodeError as error:
        raise BadQuestion("the file is not a recording of mooring simulate --record") from error
    if header.format != FORMAT:
        raise BadQuestion(f"the recording has the format {header.format!r}, and this version reads {FORMAT!r}")
    return header.began


def _decoded(raw: bytes) -> _Line | str:
    if len(raw) > MAX_LINE_BYTES:
        return f"it is longer than {MAX_LINE_BYTES} bytes"
    if not raw.endswith(b"\n"):
        return "it is cut off"
    try:
        return msgspec.json.decode(raw, type=_Line)
    except msgspec.DecodeError as error:
        return str(error)
