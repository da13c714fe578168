"""The story of a pod or a claim, rebuilt from what clusters keep: Events, conditions, dates and marks on the objects;
and from what the scheduler remembers of its attempts, where it was asked.

Pure. Beside the object itself, its claims, their volumes, volumes held for them and attachments are told of. A cluster
keeps Events for an hour and, of other writes, each writer's last (`managedFields`, which kubectl prints on demand
only): the older a story, the more of it is missing, and what is missing is not made up.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.api import keys
from mooring.api.kinds import BY_KIND, CLAIM, EVENT, POD, VOLUME, VOLUME_ATTACHMENT, Kind
from mooring.api.timestamps import to_micro_time
from mooring.api.views.claim import Claim
from mooring.api.views.event import Event
from mooring.api.views.meta import ApiObject, Condition
from mooring.api.views.pod import Pod
from mooring.api.views.volume import Volume
from mooring.explain import attempts
from mooring.explain.cluster_objects import ClusterObjects, single
from mooring.explain.events import began, moment
from mooring.explain.verdicts import Part
from mooring.scheduler.attempt_log import Attempts
from mooring.volumes.holds import objects as marks

#: What stories are told of.
TOLD_OF: Final[tuple[Kind[ApiObject], ...]] = (POD, CLAIM, VOLUME, VOLUME_ATTACHMENT, EVENT)
#: Codes of what is read from objects rather than from events and conditions, which bring their own.
CREATED: Final = "Created"
DELETING: Final = "Deleting"
ATTEMPT: Final = "Attempt"
STORAGE_MADE: Final = "StorageMade"
HELD: Final = "Held"
BOUND: Final = "Bound"
TAKEN_IN: Final = "TakenIn"
CONTAINER_STARTED: Final = "ContainerStarted"
WRITTEN: Final = "Written"
#: What happens within a second, by code, in the order it goes; the rest comes last.
COURSE: Final = (
    CREATED,
    "WaitForFirstConsumer",
    "WaitForPodScheduled",
    ATTEMPT,
    "FailedScheduling",
    "ExternalProvisioning",
    "Provisioning",
    STORAGE_MADE,
    HELD,
    "VolumeHeld",
    "ProvisioningSucceeded",
    "VolumeCommitted",
    BOUND,
    "PodScheduled",
    "Scheduled",
    TAKEN_IN,
    "Initialized",
    "PodReadyToStartContainers",
    CONTAINER_STARTED,
    "Started",
)
_STEPS: Final = {code: step for step, code in enumerate(COURSE)}
#: Of `2026-01-02T03:04:05.678901Z`, what says the second.
_SECONDS: Final = len("2026-01-02T03:04:05")
#: Fields of one write that are named.
FIELDS_NAMED: Final = 4
#: Pods of a claim whose attempts are told.
PODS_TOLD: Final = 3
_EARLIER: Final = " (of an earlier one of the name)"


class Happening(Part, frozen=True, omit_defaults=True):
    """One thing that happened, or went on happening until `until`; `source` is where it was read, and `code` says what
    it was: an event's reason, a condition's type, a volume's phase, or one of the codes above."""

    at: str
    about: str
    text: str
    source: str
    code: str
    who: str = ""
    times: int = 1
    until: str = ""


class Story(Part, frozen=True):
    """`verdict` is how things stand; what has no date is in `now`. `attempts` are the scheduler's, as it keeps them."""

    subject: str
    verdict: str
    happenings: tuple[Happening, ...] = ()
    now: tuple[str, ...] = ()
    attempts: tuple[Attempts, ...] = ()
    #: What could not be told, and why.
    notes: tuple[str, ...] = ()


class _Written(msgspec.Struct, frozen=True, rename="camel"):
    """One writer's last write."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    time: str = ""
    fields_v1: dict[str, Any] = msgspec.field(name="fieldsV1", default_factory=dict)


class Traces:
    """Who last wrote what, by kind and key: what the views of `ClusterObjects` leave out."""

    def __init__(self) -> None:
        self._writes: defaultdict[tuple[str, str], list[_Written]] = defaultdict(list)

    def add(self, document: object) -> None:
        """Raises MalformedObject."""
        for name, version, body in single(document):
            if BY_KIND.get((version, name)) not in TOLD_OF or name == EVENT.kind:
                continue
            metadata = body.get("metadata")
            if isinstance(metadata, Mapping) and metadata.get("managedFields"):
                try:
                    found = msgspec.convert(metadata["managedFields"], list[_Written])
                except msgspec.ValidationError:
                    # Nothing depends on it but this story.
                    continue
                namespace = metadata.get("namespace")
                key = f"{namespace}/{metadata.get('name')}" if namespace else str(metadata.get("name"))
                self._writes[name, key] = found

    def of(self, kind: Kind[ApiObject], item: ApiObject) -> Sequence[_Written]:
        return self._writes.get((kind.kind, item.key), ())


def tried_for(kind: Kind[ApiObject], key: str, objects: ClusterObjects) -> tuple[str, ...]:
    """The pods that the scheduler may have something to tell of: the pod itself, or some that mount the claim."""
    if kind is POD:
        return (key,)
    return tuple(sorted(pod.key for pod in objects.of(POD) if key in pod.claim_keys)[:PODS_TOLD])


def story(
    kind: Kind[ApiObject], key: str, objects: ClusterObjects, traces: Traces, kept: Sequence[Attempts] = ()
) -> Story | None:
    """The story of a pod or a claim; None where neither the object nor anything told of it is there.

    `kept` is what the scheduler remembers of the pods of `tried_for`.
    """
    players = _players(kind, key, objects)
    kept = tuple(each for each in kept if each.attempts)
    told = [
        *(happening for each, item in players for happening in _object(each, item, traces)),
        *_events(kind, key, players, objects),
        *(happening for each in kept for happening in _attempts(each, objects)),
    ]
    if not told and not players:
        return None
    told.sort(key=_place)
    now = tuple(line for each, item in players for line in _marks(each, item))
    return Story(_called(kind, key), _standing(kind, key, objects), tuple(told), now, kept)


def _place(happening: Happening) -> tuple[str, int, str, str, str, str]:
    """By the second, which is all most dates have; within it, in the order these things can only happen in."""
    step = _STEPS.get(happening.code, len(COURSE))
    return happening.at[:_SECONDS], step, happening.at, happening.about, happening.source, happening.text


def _players(kind: Kind[ApiObject], key: str, objects: ClusterObjects) -> list[tuple[Kind[ApiObject], ApiObject]]:
    """Who plays a part: the object, its claims, their volumes, those held for them, and attachments of these."""
    found: list[tuple[Kind[ApiObject], ApiObject]] = []
    pod = objects.get(POD, key) if kind is POD else None
    claim_keys = (key,) if kind is CLAIM else pod.claim_keys if pod is not None else ()
    if pod is not None:
        found.append((POD, pod))
    claims = [claim for each in claim_keys if (claim := objects.get(CLAIM, each)) is not None]
    found += [(CLAIM, claim) for claim in claims]
    volumes = [volume for volume in objects.of(VOLUME) if any(_concerns(volume, claim) for claim in claims)]
    volumes.sort(key=lambda volume: volume.name)
    found += [(VOLUME, volume) for volume in volumes]
    names = {volume.name for volume in volumes}
    attachments = [each for each in objects.of(VOLUME_ATTACHMENT) if each.spec.source.persistent_volume_name in names]
    return found + [(VOLUME_ATTACHMENT, each) for each in sorted(attachments, key=lambda each: each.name)]


def _concerns(volume: Volume, claim: Claim) -> bool:
    reference = volume.spec.claim_ref
    named = reference is not None and (reference.namespace, reference.name) == (claim.namespace, claim.name)
    is_its = named and reference is not None and reference.uid in ("", claim.uid)
    held = volume.metadata.annotations.get(marks.CLAIM) == claim.key
    return is_its or held or claim.spec.volume_name == volume.name


def _object(kind: Kind[ApiObject], item: ApiObject, traces: Traces) -> Iterator[Happening]:
    about, meta = _called(kind, item.key), item.metadata
    if meta.creation_timestamp:
        yield Happening(meta.creation_timestamp, about, "was created", "metadata", CREATED)
    if meta.deletion_timestamp:
        text = "is to be gone by now, at the latest"
        yield Happening(meta.deletion_timestamp, about, text, "metadata", DELETING)
    for condition in _conditions(item):
        if condition.last_transition_time:
            yield Happening(condition.last_transition_time, about, _became(condition), "condition", condition.type)
    yield from _dated_marks(item, about)
    for write in traces.of(kind, item):
        if write.time:
            where = f" ({write.subresource})" if write.subresource else ""
            text = f"last wrote{where} {_fields(write.fields_v1)}"
            yield Happening(write.time, about, text, "managedFields", WRITTEN, write.manager)


def _conditions(item: ApiObject) -> Sequence[Condition]:
    return item.status.conditions if isinstance(item, Pod | Claim) else ()


def _became(condition: Condition) -> str:
    said = ": ".join(part for part in (condition.reason, condition.message) if part)
    return f"{condition.type} became {condition.status}{f' ({said})' if said else ''}"


def _dated_marks(item: ApiObject, about: str) -> Iterator[Happening]:
    """What components note on objects, with its moment."""
    notes = item.metadata.annotations
    if isinstance(item, Pod):
        status = item.status
        if status.start_time:
            text = f"was taken in by {item.spec.node_name}"
            yield Happening(status.start_time, about, text, "status", TAKEN_IN, "kubelet")
        for each in status.container_statuses:
            running = each.state.running
            if running is not None and running.started_at:
                text, times = f"container {each.name} started", each.restart_count + 1
                yield Happening(running.started_at, about, text, "status", CONTAINER_STARTED, "kubelet", times)
    if isinstance(item, Volume):
        if made := notes.get(keys.VOLUME_CREATED_AT):
            maker = notes.get(keys.PROVISIONED_BY, "")
            yield Happening(made, about, "its storage was made", "annotation", STORAGE_MADE, maker)
        if since := notes.get(marks.SINCE):
            attempt = f", attempt {notes[marks.ATTEMPT]}" if marks.ATTEMPT in notes else ""
            text = f"is held for {notes.get(marks.CLAIM, 'a claim')} on {notes.get(marks.NODE, 'some node')}{attempt}"
            yield Happening(since, about, text, "annotation", HELD)
        if moment_of_phase := item.status.last_phase_transition_time:
            phase = item.status.phase
            yield Happening(moment_of_phase, about, f"became {phase}", "status", phase)


def _marks(kind: Kind[ApiObject], item: ApiObject) -> Iterator[str]:
    """What is noted on objects without saying when."""
    about, notes = _called(kind, item.key), item.metadata.annotations
    if isinstance(item, Claim) and item.selected_node is not None and not item.spec.volume_name:
        yield f"{about}: a volume is to be made for {item.selected_node}"
    if isinstance(item, Claim) and item.spec.volume_name and not item.fully_bound:
        yield f"{about}: names {item.spec.volume_name} and is not bound to it yet"
    if isinstance(item, Volume) and marks.REASON in notes:
        yield f"{about}: is being rolled back: {notes[marks.REASON]}"


def _events(
    kind: Kind[ApiObject], key: str, players: Sequence[tuple[Kind[ApiObject], ApiObject]], objects: ClusterObjects
) -> Iterator[Happening]:
    """What was told of the players, and of earlier objects under the name the story is about."""
    uids = {_called(each, item.key): item.uid for each, item in players}
    wanted = {_called(kind, key), *uids}
    for event in objects.of(EVENT):
        involved = event.involved_object
        whose = BY_KIND.get((involved.api_version or "v1", involved.kind))
        at = began(event)
        if whose is None or not at:
            continue
        about = _called(whose, f"{involved.namespace}/{involved.name}" if involved.namespace else involved.name)
        if about in wanted:
            earlier = about in uids and involved.uid not in ("", uids[about])
            yield _told(event, about, at, _EARLIER if earlier else "")


def _told(event: Event, about: str, at: str, whose: str) -> Happening:
    last = moment(event)
    return Happening(
        at=at,
        about=about,
        text=f"{event.reason}{whose}: {event.message}",
        source="event",
        code=event.reason,
        who=event.source.component,
        times=max(event.count, 1),
        until=last if last > at else "",
    )


def _attempts(kept: Attempts, objects: ClusterObjects) -> Iterator[Happening]:
    pod = objects.get(POD, kept.pod)
    for attempt in kept.attempts:
        whose = _EARLIER if pod is not None and attempt.pod_uid != pod.uid else ""
        text = attempts.told(attempt, whose=whose)
        yield Happening(to_micro_time(attempt.at), _called(POD, kept.pod), text, "scheduler", ATTEMPT, "scheduler")


def _standing(kind: Kind[ApiObject], key: str, objects: ClusterObjects) -> str:
    item = objects.get(kind, key)
    if isinstance(item, Pod):
        where = f" on {item.spec.node_name}" if item.spec.node_name else ", without a node"
        going = ", and is being deleted" if item.deleting else ""
        return f"Pod {key} is {item.status.phase or 'Pending'}{where}{going}."
    if isinstance(item, Claim):
        where = f" to {item.spec.volume_name}" if item.spec.volume_name else ""
        return f"Claim {key} is {item.status.phase or 'Pending'}{where}."
    return f"There is no {kind.singular} {key} any more; this is what was told of it."


def _called(kind: Kind[ApiObject], key: str) -> str:
    """As kubectl would have it, with the namespace: `pod/default/web`."""
    return f"{kind.short[0] if kind in (CLAIM, VOLUME) else kind.singular}/{key}"


def _fields(owned: Mapping[str, Any]) -> str:
    named = sorted({*_paths(owned)})
    more = len(named) - FIELDS_NAMED
    return ", ".join(named[:FIELDS_NAMED]) + (f" and {more} more" if more > 0 else "") or "nothing"


def _paths(owned: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """Fields two levels down, which is where `spec.nodeName` and `status.phase` are."""
    for name, below in owned.items():
        if name.startswith("f:"):
            if depth < 1 and isinstance(below, Mapping) and any(each.startswith("f:") for each in below):
                yield from (f"{name[2:]}.{path}" for path in _paths(below, depth + 1))
            else:
                yield name[2:]
