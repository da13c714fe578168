"""`mooring timeline`: the timeline of a pod or claim from Events, conditions, annotations and attempts. Pure.

Includes the pod's claims, their bound and held volumes, and attachments. Events expire after an hour and
`managedFields` has only each writer's last write, so old timelines are incomplete.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.api import well_known
from mooring.api.kinds import BY_KIND, CLAIM, EVENT, POD, POD_GROUP, VOLUME, VOLUME_ATTACHMENT, Kind
from mooring.api.times import to_micro_time
from mooring.api.views.meta import ApiObject, Condition
from mooring.api.views.pod_groups import PodGroup
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.explain.cluster_objects import ClusterObjects, each_object, first_time, moment
from mooring.explain.results import ExplainStruct
from mooring.explain.text import listed_names
from mooring.scheduler.attempt_log import Attempt, Attempts, RejectionSummary
from mooring.scheduler.metrics import Result
from mooring.volumes.holds import objects as marks
from mooring.volumes.holds import policy
from mooring.volumes.matching import is_reserved_for

#: Reasons told in one line; `-o json` has all of them.
MAX_LISTED_REASONS: Final = 6


def attempt_line(attempt: Attempt, *, earlier: str = "") -> str:
    """One line; `whose` says it where the attempt was not for the pod that is there now."""
    requeued = f" (requeued: {attempt.woken_by})" if attempt.woken_by else ""
    return f"attempt {attempt.number}{earlier}{requeued}: {_verdict(attempt)}"


def _verdict(attempt: Attempt) -> str:
    against = _against(attempt)
    if not attempt.node:
        told = f"no feasible node of {attempt.considered}{f': {against}' if against else ''}"
        return f"{told}; preempting pods on {attempt.nominated}" if attempt.nominated else told
    rejected = f"rejected: {against}" if against else ""
    volumes = ", ".join(f"{each.claim} gets {each.volume or 'a new volume'}" for each in attempt.supplies)
    return "; ".join(filter(None, (_choice(attempt), rejected, volumes, _end(attempt))))


def _choice(attempt: Attempt) -> str:
    if not attempt.runner_up:
        return f"selected {attempt.node}, the only feasible node of {attempt.considered}"
    among = f"{attempt.feasible} of {attempt.considered} feasible nodes"
    if attempt.runner_up_score == attempt.score:
        return f"selected {attempt.node} among {among}, at random: {attempt.runner_up} had the same score"
    digits = 0 if f"{attempt.score:.0f}" != f"{attempt.runner_up_score:.0f}" else 2
    score, second = f"{attempt.score:.{digits}f}", f"{attempt.runner_up_score:.{digits}f}"
    policy = f", volumes by {attempt.volume_policy}" if attempt.volume_policy else ""
    return f"selected {attempt.node} among {among}: score {score}, runner-up {attempt.runner_up} {second}{policy}"


def _against(attempt: Attempt) -> str:
    told = [_objection_text(each) for each in attempt.objections[:MAX_LISTED_REASONS]]
    more = len(attempt.objections) - len(told) + attempt.omitted
    return ", ".join(told) + (f" and {more} more reasons" if more else "")


def _objection_text(objection: RejectionSummary) -> str:
    if not objection.examples:
        return objection.reason
    more = objection.nodes - len(objection.examples)
    names = ", ".join(objection.examples) + (f" and {more} more" if more else "")
    return f"{names} ({objection.reason})"


def _end(attempt: Attempt) -> str:
    match attempt.result:
        case None:
            return "is being bound"
        case Result.SCHEDULED:
            return f"bound after {_seconds(attempt.seconds)}"
        case _:
            return f"failed after {_seconds(attempt.seconds)}: {attempt.message}"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


#: What stories are told of.
TIMELINE_KINDS: Final[tuple[Kind[ApiObject], ...]] = (POD, POD_GROUP, CLAIM, VOLUME, VOLUME_ATTACHMENT, EVENT)
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
SECOND_ORDER: Final = (
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
    policy.COMMITTED,
    BOUND,
    "PodScheduled",
    "Scheduled",
    TAKEN_IN,
    "Initialized",
    "PodReadyToStartContainers",
    CONTAINER_STARTED,
    "Started",
)
_STEPS: Final = {code: step for step, code in enumerate(SECOND_ORDER)}
#: Of `2026-01-02T03:04:05.678901Z`, what says the second.
_SECONDS: Final = len("2026-01-02T03:04:05")
#: Fields of one write that are named.
MAX_LISTED_FIELDS: Final = 4
#: Pods of a claim whose attempts are told.
MAX_LISTED_PODS: Final = 3
_EARLIER: Final = " (of an earlier object with this name)"


class TimelineEntry(ExplainStruct, frozen=True, omit_defaults=True):
    """One thing that happened, or went on happening until `until`; `source` is where it was read, and `code` says what
    it was: an event's reason, a condition's type, a volume's phase, or one of the codes above."""

    at: str
    about: str
    text: str
    source: str
    code: str
    component: str = msgspec.field(name="who", default="")
    times: int = 1
    until: str = ""


class ObjectTimeline(ExplainStruct, frozen=True):
    """`verdict` is how things stand; what has no date is in `now`. `attempts` are the scheduler's, as it keeps them."""

    subject: str
    verdict: str
    entries: tuple[TimelineEntry, ...] = msgspec.field(name="happenings", default=())
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


class FieldWriters:
    """Who last wrote what, by kind and key: what the views of `ClusterObjects` leave out."""

    def __init__(self) -> None:
        self._writes: defaultdict[tuple[str, str], list[_Written]] = defaultdict(list)

    def add(self, document: object) -> None:
        """Raises MalformedObject."""
        for name, version, body in each_object(document):
            if BY_KIND.get((version, name)) not in TIMELINE_KINDS or name == EVENT.kind:
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


def pods_to_ask(kind: Kind[ApiObject], key: str, objects: ClusterObjects) -> tuple[str, ...]:
    """The pods that the scheduler may have something to tell of: the pod itself, or some that mount the claim."""
    if kind is POD:
        return (key,)
    if kind is POD_GROUP:
        return tuple(sorted(pod.key for pod in objects.of(POD) if pod.group_key == key)[:MAX_LISTED_PODS])
    return tuple(sorted(pod.key for pod in objects.of(POD) if key in pod.claim_keys)[:MAX_LISTED_PODS])


def object_timeline(
    kind: Kind[ApiObject], key: str, objects: ClusterObjects, writers: FieldWriters, kept: Sequence[Attempts] = ()
) -> ObjectTimeline | None:
    """The story of a pod or a claim; None where neither the object nor anything told of it is there.

    `kept` is what the scheduler remembers of the pods of `tried_for`.
    """
    related = _related_objects(kind, key, objects)
    kept = tuple(each for each in kept if each.attempts)
    told = [
        *(happening for each, item in related for happening in _object_entries(each, item, writers)),
        *_event_entries(kind, key, related, objects),
        *(happening for each in kept for happening in _attempt_entries(each, objects)),
    ]
    if not told and not related:
        return None
    told.sort(key=_sort_key)
    now = tuple(line for each, item in related for line in _undated_notes(each, item))
    return ObjectTimeline(_kubectl_name(kind, key), _verdict_text(kind, key, objects), tuple(told), now, kept)


def _sort_key(happening: TimelineEntry) -> tuple[str, int, str, str, str, str]:
    """By the second, which is all most dates have; within it, in the order these things can only happen in."""
    step = _STEPS.get(happening.code, len(SECOND_ORDER))
    return happening.at[:_SECONDS], step, happening.at, happening.about, happening.source, happening.text


def _related_objects(
    kind: Kind[ApiObject], key: str, objects: ClusterObjects
) -> list[tuple[Kind[ApiObject], ApiObject]]:
    """Who plays a part: the object, its group or its members, their claims, their volumes, those held for them, and
    attachments of these."""
    pods = [pod for pod in objects.of(POD) if key in ((pod.key,) if kind is POD else (pod.group_key,))]
    pods = [] if kind is CLAIM else sorted(pods, key=lambda pod: pod.name)
    group_keys = {key} if kind is POD_GROUP else {pod.group_key for pod in pods}
    groups = [group for each in sorted(group_keys) if (group := objects.get(POD_GROUP, each)) is not None]
    claim_keys = (key,) if kind is CLAIM else dict.fromkeys(each for pod in pods for each in pod.claim_keys)
    claims = [claim for each in claim_keys if (claim := objects.get(CLAIM, each)) is not None]
    volumes = [volume for volume in objects.of(VOLUME) if any(_belongs_to(volume, claim) for claim in claims)]
    names = {volume.name for volume in volumes}
    attachments = [each for each in objects.of(VOLUME_ATTACHMENT) if each.spec.source.persistent_volume_name in names]
    return [
        *((POD_GROUP, group) for group in groups),
        *((POD, pod) for pod in pods),
        *((CLAIM, claim) for claim in claims),
        *((VOLUME, volume) for volume in sorted(volumes, key=lambda volume: volume.name)),
        *((VOLUME_ATTACHMENT, each) for each in sorted(attachments, key=lambda each: each.name)),
    ]


def _belongs_to(volume: Volume, claim: Claim) -> bool:
    held = volume.metadata.annotations.get(marks.CLAIM) == claim.key
    return is_reserved_for(volume, claim) or held or claim.spec.volume_name == volume.name


def _object_entries(kind: Kind[ApiObject], item: ApiObject, writers: FieldWriters) -> Iterator[TimelineEntry]:
    about, meta = _kubectl_name(kind, item.key), item.metadata
    if meta.creation_timestamp:
        yield TimelineEntry(meta.creation_timestamp, about, "was created", "metadata", CREATED)
    if meta.deletion_timestamp:
        text = "reached the end of its deletion grace period"
        yield TimelineEntry(meta.deletion_timestamp, about, text, "metadata", DELETING)
    for condition in item.status.conditions if isinstance(item, Pod | Claim | PodGroup) else ():
        if at := condition.last_transition_time:
            yield TimelineEntry(at, about, _condition_text(condition), "condition", condition.type)
    yield from _annotation_entries(item, about)
    for write in writers.of(kind, item):
        if write.time:
            where = f" ({write.subresource})" if write.subresource else ""
            fields = listed_names(sorted({*_paths(write.fields_v1)}), MAX_LISTED_FIELDS) or "nothing"
            text = f"last wrote{where} {fields}"
            yield TimelineEntry(write.time, about, text, "managedFields", WRITTEN, write.manager)


def _condition_text(condition: Condition) -> str:
    said = ": ".join(part for part in (condition.reason, condition.message) if part)
    return f"{condition.type} became {condition.status}{f' ({said})' if said else ''}"


def _annotation_entries(item: ApiObject, about: str) -> Iterator[TimelineEntry]:
    """What components note on objects, with its moment."""
    notes = item.metadata.annotations
    if isinstance(item, Pod):
        status = item.status
        if status.start_time:
            text = f"was accepted by {item.spec.node_name}"
            yield TimelineEntry(status.start_time, about, text, "status", TAKEN_IN, "kubelet")
        for each in status.container_statuses:
            running = each.state.running
            if running is not None and running.started_at:
                text, times = f"container {each.name} started", each.restart_count + 1
                yield TimelineEntry(running.started_at, about, text, "status", CONTAINER_STARTED, "kubelet", times)
    if isinstance(item, Volume):
        if made := notes.get(well_known.VOLUME_CREATED_AT):
            maker = notes.get(well_known.PROVISIONED_BY, "")
            yield TimelineEntry(made, about, "its storage was provisioned", "annotation", STORAGE_MADE, maker)
        if since := notes.get(marks.SINCE):
            attempt = f", attempt {notes[marks.ATTEMPT]}" if marks.ATTEMPT in notes else ""
            text = f"is held for {notes.get(marks.CLAIM, 'a claim')} on {notes.get(marks.NODE, 'some node')}{attempt}"
            yield TimelineEntry(since, about, text, "annotation", HELD)
        if moment_of_phase := item.status.last_phase_transition_time:
            phase = item.status.phase
            yield TimelineEntry(moment_of_phase, about, f"became {phase}", "status", phase)


def _undated_notes(kind: Kind[ApiObject], item: ApiObject) -> Iterator[str]:
    """What is noted on objects without saying when."""
    about, notes = _kubectl_name(kind, item.key), item.metadata.annotations
    if isinstance(item, Claim) and item.selected_node is not None and not item.spec.volume_name:
        yield f"{about}: its selected node is {item.selected_node}"
    if isinstance(item, Claim) and item.spec.volume_name and not item.fully_bound:
        yield f"{about}: names {item.spec.volume_name} and is not bound to it yet"
    if isinstance(item, Volume) and marks.REASON in notes:
        yield f"{about}: is being rolled back: {notes[marks.REASON]}"


def _event_entries(
    kind: Kind[ApiObject], key: str, related: Sequence[tuple[Kind[ApiObject], ApiObject]], objects: ClusterObjects
) -> Iterator[TimelineEntry]:
    """What was told of the players, and of earlier objects under the name the story is about."""
    uids = {_kubectl_name(each, item.key): item.uid for each, item in related}
    names = {_kubectl_name(kind, key), *uids}
    for event in objects.of(EVENT):
        involved = event.involved_object
        kind_of_event = BY_KIND.get((involved.api_version or "v1", involved.kind))
        at = first_time(event)
        if kind_of_event is None or not at:
            continue
        key_of_event = f"{involved.namespace}/{involved.name}" if involved.namespace else involved.name
        about = _kubectl_name(kind_of_event, key_of_event)
        if about in names:
            earlier = about in uids and involved.uid not in ("", uids[about])
            last = moment(event)
            text = f"{event.reason}{_EARLIER if earlier else ''}: {event.message}"
            times, until = max(event.count, 1), last if last > at else ""
            yield TimelineEntry(at, about, text, "event", event.reason, event.source.component, times, until)


def _attempt_entries(kept: Attempts, objects: ClusterObjects) -> Iterator[TimelineEntry]:
    pod = objects.get(POD, kept.pod)
    for attempt in kept.attempts:
        earlier = _EARLIER if pod is not None and attempt.pod_uid != pod.uid else ""
        text, at = attempt_line(attempt, earlier=earlier), to_micro_time(attempt.at)
        yield TimelineEntry(at, _kubectl_name(POD, kept.pod), text, "scheduler", ATTEMPT, "scheduler")


def _verdict_text(kind: Kind[ApiObject], key: str, objects: ClusterObjects) -> str:
    item = objects.get(kind, key)
    if isinstance(item, Pod):
        where = f" on {item.spec.node_name}" if item.spec.node_name else ", without a node"
        going = ", and is being deleted" if item.deleting else ""
        return f"Pod {key} is {item.status.phase or 'Pending'}{where}{going}."
    if isinstance(item, Claim):
        where = f" to {item.spec.volume_name}" if item.spec.volume_name else ""
        return f"Claim {key} is {item.status.phase or 'Pending'}{where}."
    if isinstance(item, PodGroup):
        bound = sum(bool(pod.spec.node_name) for pod in objects.of(POD) if pod.group_key == key)
        return f"PodGroup {key} has {bound} bound members, minCount {item.min_count}."
    return f"There is no {kind.singular} {key} any more; these are the records about it."


def _kubectl_name(kind: Kind[ApiObject], key: str) -> str:
    """As kubectl would have it, with the namespace: `pod/default/web`."""
    return f"{kind.short[0] if kind in (CLAIM, VOLUME) else kind.singular}/{key}"


def _paths(owned: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """Fields two levels down, which is where `spec.nodeName` and `status.phase` are."""
    for name, below in owned.items():
        if name.startswith("f:"):
            if depth < 1 and isinstance(below, Mapping) and any(each.startswith("f:") for each in below):
                yield from (f"{name[2:]}.{path}" for path in _paths(below, depth + 1))
            else:
                yield name[2:]
