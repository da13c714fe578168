"""Listed objects by kind and key, the scheduler's snapshot of them, their events, and lost nodes. Pure.

Accepts what `kubectl get -o yaml|json` prints: objects, Lists, and typed lists whose items omit their kind. Kinds
that no decision needs are counted and skipped. If an object occurs twice, the last one wins.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from mooring.api import kinds, well_known
from mooring.api.kinds import BY_KIND, Kind
from mooring.api.times import time_or_none
from mooring.api.views.core import Event, Node, Taint
from mooring.api.views.meta import ApiObject
from mooring.api.views.storage import StorageCapacity
from mooring.api.well_known import DEFAULT_NAMESPACE
from mooring.controllers.node_health import GRACE_SECONDS
from mooring.scheduler.snapshot.snapshot import Snapshot

V = TypeVar("V", bound=ApiObject)

Body = Mapping[object, object]

#: What decisions are made on, with how a snapshot takes in an object before and after a change; in the order the
#: scheduler is fed: pods last, since they count by what is there.
_OBSERVERS: Final[Mapping[Kind[ApiObject], Callable[[Snapshot], Callable[[Any, Any], str | None]]]] = {
    kinds.NODE: lambda snapshot: snapshot.observe_node,
    kinds.NAMESPACE: lambda snapshot: snapshot.observe_namespace,
    kinds.STORAGE_CLASS: lambda snapshot: snapshot.volumes.observe_class,
    kinds.CSI_DRIVER: lambda snapshot: snapshot.volumes.observe_driver,
    kinds.CSI_NODE: lambda snapshot: snapshot.volumes.observe_csi_node,
    kinds.STORAGE_CAPACITY: lambda snapshot: snapshot.volumes.observe_capacity,
    kinds.VOLUME: lambda snapshot: snapshot.volumes.observe_volume,
    kinds.CLAIM: lambda snapshot: snapshot.volumes.observe_claim,
    kinds.VOLUME_ATTACHMENT: lambda snapshot: snapshot.volumes.observe_attachment,
    kinds.POD: lambda snapshot: snapshot.observe_pod,
}
SCHEDULING_KINDS: Final = tuple(_OBSERVERS)

#: All that explanations are made from, and what to list for them: also what components told, and whether they run.
EXPLAINED_KINDS: Final[tuple[Kind[ApiObject], ...]] = (
    *SCHEDULING_KINDS,
    kinds.POD_GROUP,
    kinds.EVENT,
    kinds.LEASE,
)

ALL_LISTED: Final[Mapping[Kind[ApiObject], str]] = MappingProxyType({})


class MalformedObject(ValueError):
    """A document that is not a Kubernetes object, or one whose fields have the wrong types; the text says which."""


class ClusterObjects:
    """Everything that was listed and matters, by kind and key."""

    def __init__(
        self,
        *,
        now: float | None = None,
        unlisted: Mapping[Kind[ApiObject], str] = ALL_LISTED,
        also: Iterable[Kind[ApiObject]] = (),
    ) -> None:
        """`now` is when the objects were listed, None where that is not known; `unlisted` are kinds of which some
        objects may be missing, with why; `also` are kinds to keep besides EXPLAINED_KINDS."""
        self._by_kind: dict[Kind[ApiObject], dict[str, ApiObject]] = {kind: {} for kind in (*EXPLAINED_KINDS, *also)}
        self.now = now
        self.unlisted = unlisted
        #: How many objects of which kinds were left out.
        self.skipped: Counter[str] = Counter()
        #: By key, when a CSIStorageCapacity was last written, as far as it says.
        self.changed: dict[str, str] = {}

    def add(self, document: object) -> None:
        """Take one document in, with all it lists. Raises MalformedObject."""
        for name, version, body in each_object(document):
            self._add_one(name, version, body)

    def put(self, kind: Kind[V], item: V) -> None:
        """Take in one object that was read already; of one of the EXPLAINED_KINDS."""
        self._by_kind[kind][item.key] = item

    def drop(self, kind: Kind[V], key: str) -> None:
        self._by_kind[kind].pop(key, None)

    def copied(self) -> "ClusterObjects":
        """The same objects, to be changed without changing these."""
        copied = ClusterObjects(now=self.now, unlisted=self.unlisted)
        copied._by_kind = {kind: dict(items) for kind, items in self._by_kind.items()}
        copied.changed = self.changed
        return copied

    def of(self, kind: Kind[V]) -> Collection[V]:
        found: Collection[V] = [item for item in self._by_kind[kind].values() if isinstance(item, kind.view)]
        return found

    def get(self, kind: Kind[V], key: str) -> V | None:
        item = self._by_kind[kind].get(key)
        return item if isinstance(item, kind.view) else None

    @property
    def moment(self) -> float | None:
        """When the objects were listed, as far as that can be known: nodes and leaders renew their Leases all the
        time, so the newest of them tells."""
        if self.now is not None:
            return self.now
        renewals = (time_or_none(lease.spec.renew_time) for lease in self.of(kinds.LEASE))
        return max((epoch for epoch in renewals if epoch is not None), default=None)

    def snapshot(self, *, without: str = "") -> tuple[Snapshot, list[str]]:
        """What the scheduler would know, but for the pod with this key; and what it could not make sense of."""
        snapshot = Snapshot()
        snapshot.schedules_groups = kinds.POD_GROUP not in self.unlisted
        problems: list[str] = []
        for kind, observe in observers_of(snapshot).items():
            for item in self._by_kind[kind].values():
                if kind is kinds.POD and item.key == without:
                    continue
                if problem := observe(None, item):
                    problems.append(f"{kind.kind} {item.key}: {problem}")
        return snapshot, problems

    def _add_one(self, name: str, version: str, body: Body) -> None:
        kind = BY_KIND.get((version, name))
        if kind is kinds.POD_GROUP_ALPHA:
            kind = kinds.POD_GROUP
        if kind is None or kind not in self._by_kind:
            self.skipped[name if kind is not None else f"{name} ({version})"] += 1
            return
        item = _viewed(kind, body)
        if isinstance(item, StorageCapacity) and item.node_group:
            # It describes nodes that do not exist.
            return
        self._by_kind[kind][item.key] = item
        if kind is kinds.STORAGE_CAPACITY and (written := _written(body)):
            self.changed[item.key] = written


def observers_of(snapshot: Snapshot) -> Mapping[Kind[ApiObject], Callable[[Any, Any], str | None]]:
    return {kind: observer(snapshot) for kind, observer in _OBSERVERS.items()}


def each_object(document: object) -> Iterator[tuple[str, str, Body]]:
    """Every object of a document by itself, with its kind and apiVersion. Raises MalformedObject."""
    kind, version, body = _typed(document)
    if not _is_list(kind, body):
        yield kind, version, body
        return
    items = body["items"]
    if not isinstance(items, list | None):
        raise MalformedObject(f"not a Kubernetes list: items of {kind} must be a list")
    # Items of a list of one kind, as the API server answers, leave out what the list says for them.
    implied = {} if kind == "List" else {"kind": kind.removesuffix("List"), "apiVersion": version}
    for item in items or ():
        listed = _typed(implied | item if isinstance(item, dict) else item)
        # YAML anchors can spell a list that contains itself.
        if _is_list(listed[0], listed[2]):
            raise MalformedObject(f"a list within a list: {listed[0]} in {kind}")
        yield listed


def _typed(document: object) -> tuple[str, str, Body]:
    """A document with its kind and apiVersion."""
    if not isinstance(document, Mapping):
        raise MalformedObject("not a Kubernetes object: expected a mapping")
    name, version = document.get("kind"), document.get("apiVersion")
    if not isinstance(name, str) or not isinstance(version, str) or not name or not version:
        raise MalformedObject("not a Kubernetes object: kind and apiVersion are missing")
    return name, version, document


def _is_list(kind: str, body: Body) -> bool:
    return kind.endswith("List") and "items" in body


def _viewed(kind: Kind[V], document: Body) -> V:
    try:
        # Through bytes, as everywhere: views keep some parts as they were written.
        item = kind.decode(msgspec.json.encode(document))
    except (msgspec.ValidationError, TypeError) as error:
        metadata = document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else None
        named = name if isinstance(name, str) and name else "without a name"
        raise MalformedObject(f"{kind.kind} {named}: {error}") from error
    if not item.name:
        raise MalformedObject(f"{kind.kind} without a name")
    if kind.namespaced and not item.namespace:
        metadata = msgspec.structs.replace(item.metadata, namespace=DEFAULT_NAMESPACE)
        return msgspec.structs.replace(item, metadata=metadata)
    return item


def _written(document: Body) -> str:
    """When an object was last written: by its managed fields, which kubectl prints on demand only, or its creation."""
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping):
        return ""
    managed = metadata.get("managedFields")
    times = [each.get("time") for each in managed if isinstance(each, Mapping)] if isinstance(managed, list) else []
    return max((time for time in (*times, metadata.get("creationTimestamp")) if isinstance(time, str)), default="")


class Events:
    def __init__(self, objects: ClusterObjects) -> None:
        self._about: defaultdict[tuple[str, str, str], list[Event]] = defaultdict(list)
        for event in sorted(objects.of(kinds.EVENT), key=lambda one: (moment(one), one.key)):
            about = event.involved_object
            self._about[about.kind, about.namespace, about.name].append(event)
        #: The components that have told something.
        self.components = frozenset(component_of(event) for event in objects.of(kinds.EVENT))

    def about(self, kind: Kind[ApiObject], thing: ApiObject, *reasons: str) -> list[Event]:
        """Of this very object, not of an earlier one of that name; of all reasons unless some are named."""
        return [
            event
            for event in self._about[kind.kind, thing.namespace, thing.name]
            if event.involved_object.uid in ("", thing.uid) and (not reasons or event.reason in reasons)
        ]

    def last(self, kind: Kind[ApiObject], thing: ApiObject, *reasons: str) -> Event | None:
        found = self.about(kind, thing, *reasons)
        return found[-1] if found else None


def moment(event: Event) -> str:
    """When it was told last. RFC 3339 in UTC, so that texts compare as moments do."""
    return event.last_timestamp or event.event_time or event.first_timestamp or event.metadata.creation_timestamp or ""


def component_of(event: Event) -> str:
    """Who told it; events of the new form name that elsewhere."""
    return event.source.component or event.reporting_component


def first_time(event: Event) -> str:
    """When it was told first."""
    return event.first_timestamp or event.event_time or moment(event)


#: Taints that say that a node is not well. To tolerate or remove one changes nothing about the node.
HEALTH_TAINTS: Final = frozenset(
    {
        well_known.NOT_READY,
        well_known.UNREACHABLE,
        well_known.OUT_OF_SERVICE,
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.cloudprovider.kubernetes.io/shutdown",
        "node.cloudprovider.kubernetes.io/uninitialized",
    }
)


def lost_nodes(objects: ClusterObjects) -> Mapping[str, str]:
    """The nodes that are lost, by name, with since when ("" where no object says)."""
    found = ((node.name, lost_since(node, objects.moment)) for node in objects.of(kinds.NODE))
    return {name: since for name, since in found if since is not None}


def lost_since(node: Node, now: float | None) -> str | None:
    """Since when a node is lost; None for one that is not."""
    ready = next((one for one in node.status.conditions if one.type == "Ready"), None)
    if ready is None or ready.status == "True":
        return None
    since = time_or_none(ready.last_transition_time)
    late = now is not None and since is not None and now - since > GRACE_SECONDS
    return ready.last_transition_time or "" if ready.status == "Unknown" or late else None


def since_text(since: str) -> str:
    return f"since {since}" if since else "for an unknown time"


def is_health_taint(taint: Taint) -> bool:
    return taint.key in HEALTH_TAINTS


def taint_text(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
