"""The trace of some objects: every write to them and to related objects, every event about them, every fault."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from mooring.api.kinds import CLAIM, EVENT, VOLUME
from mooring.api.views.core import Event
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.store.contract import Record
from support.simulation.history import History, Noted, Written
from support.simulation.invariants import Subject

#: Fields that change with every write.
_UNINTERESTING: Final = frozenset(
    {"metadata.resourceVersion", "metadata.generation", "status.lastPhaseTransitionTime", "status.startTime"}
)
#: Limits of one line.
_MAX_FIELDS: Final = 6
_MAX_VALUE_LENGTH: Final = 40


def render_trace(history: History, objects: Iterable[Subject]) -> list[str]:
    """One line per entry, in order, for the objects and their related pods, claims and volumes."""
    involved = _related(history, set(objects))
    shown_events: dict[str, None] = {}
    lines: list[str] = []
    for entry in history.entries:
        line = _line(entry, involved)
        if line and line not in shown_events:
            lines.append(f"{entry.at:10.3f}  {entry.author:<28} {line}")
        if isinstance(entry, Written) and entry.kind is EVENT:
            # Repeated events appear once.
            shown_events[line] = None
    return lines


def difference(before: Record | None, after: Record | None) -> str:
    """The changed fields of a write, in one line."""
    if after is None:
        return "deleted"
    if before is None:
        return "created"
    old, new = _leaves(before), _leaves(after)
    changed = [path for path in dict.fromkeys((*old, *new)) if old.get(path) != new.get(path)]
    changed = [path for path in changed if path not in _UNINTERESTING]
    shown = [f"{path}: {_short(old.get(path))} → {_short(new.get(path))}" for path in changed[:_MAX_FIELDS]]
    if len(changed) > _MAX_FIELDS:
        shown.append(f"and {len(changed) - _MAX_FIELDS} more")
    return "; ".join(shown) or "nothing"


def _related(history: History, objects: set[Subject]) -> set[Subject]:
    """The objects, and those that ever referred to them or were referred to by them."""
    found = set(objects)
    for _ in range(2):
        for written in history.writes():
            subject = Subject(written.kind, written.key)
            record = written.change.after or written.change.before
            if record is None:
                continue
            named = set(_named(written.kind.decode(record.value)))
            if subject in found:
                found |= named
            elif named & objects:
                found.add(subject)
    return found


def _named(item: ApiObject) -> Iterator[Subject]:
    if isinstance(item, Pod):
        yield from (Subject(CLAIM, key) for key in item.claim_keys)
    elif isinstance(item, Claim) and item.spec.volume_name:
        yield Subject(VOLUME, item.spec.volume_name)
    elif isinstance(item, Volume) and item.spec.claim_ref is not None:
        reference = item.spec.claim_ref
        yield Subject(CLAIM, f"{reference.namespace}/{reference.name}")


def _line(entry: Written | Noted, involved: set[Subject]) -> str:
    if isinstance(entry, Noted):
        return f"! {entry.what}"
    if entry.kind is EVENT:
        return _event(entry, involved)
    if Subject(entry.kind, entry.key) not in involved:
        return ""
    changed = difference(entry.change.before, entry.change.after)
    return f"{entry.verb} {entry.kind.kind} {entry.key}: {changed}"


def _event(entry: Written, involved: set[Subject]) -> str:
    record = entry.change.after
    event = EVENT.decode(record.value) if record is not None else None
    if event is None or not _is_about(event, involved):
        return ""
    about = event.involved_object
    return f"event for {about.kind} {about.name}: {event.type} {event.reason}: {event.message}"


def _is_about(event: Event, involved: set[Subject]) -> bool:
    about = event.involved_object
    key = f"{about.namespace}/{about.name}" if about.namespace else about.name
    return any(subject.kind.kind == about.kind and subject.key == key for subject in involved)


def _leaves(record: Record) -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    _collect(msgspec.json.decode(record.value), "", leaves)
    return leaves


def _collect(value: Any, path: str, leaves: dict[str, Any]) -> None:  # noqa: ANN401  JSON of any shape
    if isinstance(value, dict):
        if path.endswith("claimRef"):
            leaves[path] = f"{value.get('namespace')}/{value.get('name')} {value.get('uid', '')[:8]}".rstrip()
        elif "type" in value and "status" in value:
            leaves[path] = " ".join(str(value[part]) for part in ("status", "reason", "message") if value.get(part))
        else:
            for name, part in value.items():
                _collect(part, f"{path}.{name}" if path else name, leaves)
    elif isinstance(value, list):
        for position, part in enumerate(value):
            label = part.get("type") or part.get("name") if isinstance(part, dict) else None
            _collect(part, f"{path}[{label or position}]", leaves)
    else:
        leaves[path] = value


def _short(value: object) -> str:
    text = "–" if value is None else str(value)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 1]}…"
