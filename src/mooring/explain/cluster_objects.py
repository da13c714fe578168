"""A cluster as somebody listed it: plain documents, sorted into typed views, and the scheduler's snapshot of them.

Takes what `kubectl get -o yaml|json` prints: single objects, Lists, lists of one kind whose items do not repeat their
kind. What no decision looks at is counted and left out. Where an object comes twice, the last one counts.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from mooring.api.kinds import (
    BY_KIND,
    CLAIM,
    CSI_DRIVER,
    CSI_NODE,
    EVENT,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    STORAGE_CAPACITY,
    STORAGE_CLASS,
    VOLUME,
    VOLUME_ATTACHMENT,
    Kind,
)
from mooring.api.timestamps import from_time
from mooring.api.views.meta import ApiObject
from mooring.scheduler.snapshot import Snapshot

V = TypeVar("V", bound=ApiObject)

Body = Mapping[object, object]

#: What decisions are made on, in the order the scheduler is fed: pods last, since they count by what is there.
DECISIVE: Final[tuple[Kind[ApiObject], ...]] = (
    NODE,
    NAMESPACE,
    STORAGE_CLASS,
    CSI_DRIVER,
    CSI_NODE,
    STORAGE_CAPACITY,
    VOLUME,
    CLAIM,
    VOLUME_ATTACHMENT,
    POD,
)

#: What says more about how things came to be: what components told, and whether they are there.
TELLING: Final[tuple[Kind[ApiObject], ...]] = (EVENT, LEASE)

#: All that explanations are made from, and what to list for them.
SEEN: Final = (*DECISIVE, *TELLING)

NOTHING_UNSEEN: Final[Mapping[Kind[ApiObject], str]] = MappingProxyType({})

#: Where kubectl puts what names no namespace.
DEFAULT_NAMESPACE: Final = "default"


class MalformedObject(ValueError):
    """A document that is no Kubernetes object, or one whose fields have the wrong types; the text says which."""


class ClusterObjects:
    """Everything that was listed and matters, by kind and key."""

    def __init__(self, *, now: float | None = None, unseen: Mapping[Kind[ApiObject], str] = NOTHING_UNSEEN) -> None:
        """`now` is when the objects were listed, None where that is not known; `unseen` are kinds of which some objects
        may be missing, with why."""
        self._by_kind: dict[Kind[ApiObject], dict[str, ApiObject]] = {kind: {} for kind in SEEN}
        self.now = now
        self.unseen = unseen
        #: How many objects of which kinds were left out.
        self.skipped: Counter[str] = Counter()
        #: By key, when a CSIStorageCapacity was last written, as far as it says.
        self.changed: dict[str, str] = {}

    def add(self, document: object) -> None:
        """Take one document in, with all it lists. Raises MalformedObject."""
        for name, version, body in single(document):
            self._add_one(name, version, body)

    def put(self, kind: Kind[V], item: V) -> None:
        """Take in one object that was read already; of one of the DECISIVE kinds."""
        self._by_kind[kind][item.key] = item

    def drop(self, kind: Kind[V], key: str) -> None:
        self._by_kind[kind].pop(key, None)

    def copied(self) -> "ClusterObjects":
        """The same objects, to be changed without changing these."""
        copied = ClusterObjects(now=self.now, unseen=self.unseen)
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
    def node_labels(self) -> Mapping[str, Mapping[str, str]]:
        """The labels of all nodes, by name."""
        return {node.name: node.metadata.labels for node in self.of(NODE)}

    @property
    def moment(self) -> float | None:
        """When the objects were listed, as far as that can be known: nodes and leaders renew their Leases all the
        time, so the newest of them tells."""
        if self.now is not None:
            return self.now
        renewals = (lease.spec.renew_time for lease in self.of(LEASE))
        return max((epoch for text in renewals if text and (epoch := _epoch(text)) is not None), default=None)

    def snapshot(self, *, without: str = "") -> tuple[Snapshot, list[str]]:
        """What the scheduler would know, but for the pod with this key; and what it could not make sense of."""
        snapshot = Snapshot()
        problems: list[str] = []
        observers = observers_of(snapshot)
        for kind in DECISIVE:
            for item in self._by_kind[kind].values():
                if kind is POD and item.key == without:
                    continue
                if problem := observers[kind](None, item):
                    problems.append(f"{kind.kind} {item.key}: {problem}")
        return snapshot, problems

    def _add_one(self, name: str, version: str, body: Body) -> None:
        kind = BY_KIND.get((version, name))
        if kind is None or kind not in self._by_kind:
            self.skipped[name if kind is not None else f"{name} ({version})"] += 1
            return
        item = _viewed(kind, body)
        self._by_kind[kind][item.key] = item
        if kind is STORAGE_CAPACITY and (written := _written(body)):
            self.changed[item.key] = written


def observers_of(snapshot: Snapshot) -> Mapping[Kind[ApiObject], Callable[[Any, Any], str | None]]:
    """By kind, how a snapshot takes in an object before and after a change."""
    volumes = snapshot.volumes
    return {
        NODE: snapshot.observe_node,
        NAMESPACE: snapshot.observe_namespace,
        STORAGE_CLASS: volumes.observe_class,
        CSI_DRIVER: volumes.observe_driver,
        CSI_NODE: volumes.observe_csi_node,
        STORAGE_CAPACITY: volumes.observe_capacity,
        VOLUME: volumes.observe_volume,
        CLAIM: volumes.observe_claim,
        VOLUME_ATTACHMENT: volumes.observe_attachment,
        POD: snapshot.observe_pod,
    }


def single(document: object) -> Iterator[tuple[str, str, Body]]:
    """Every object of a document by itself, with its kind and apiVersion. Raises MalformedObject."""
    kind, version, body = _typed(document)
    if not _is_list(kind, body):
        yield kind, version, body
        return
    items = body["items"]
    if not isinstance(items, list | None):
        raise MalformedObject(f"not a Kubernetes list: the items of {kind} are no list")
    # Items of a list of one kind, as the API server answers, leave out what the list says for them.
    implied = {} if kind == "List" else {"kind": kind.removesuffix("List"), "apiVersion": version}
    for item in items or ():
        listed = _typed(implied | item if isinstance(item, dict) else item)
        # Nobody writes such a thing, but YAML can spell a list that contains itself.
        if _is_list(listed[0], listed[2]):
            raise MalformedObject(f"a list within a list: {listed[0]} in {kind}")
        yield listed


def _typed(document: object) -> tuple[str, str, Body]:
    """A document with its kind and apiVersion."""
    if not isinstance(document, Mapping):
        raise MalformedObject("not a Kubernetes object: it is no mapping")
    name, version = document.get("kind"), document.get("apiVersion")
    if not isinstance(name, str) or not isinstance(version, str) or not name or not version:
        raise MalformedObject("not a Kubernetes object: it has no kind and apiVersion")
    return name, version, document


def _is_list(kind: str, body: Body) -> bool:
    return kind.endswith("List") and "items" in body


def _viewed(kind: Kind[V], document: Body) -> V:
    named = _name(document)
    try:
        # Through bytes, as everywhere: views keep some parts as they were written.
        item = kind.decode(msgspec.json.encode(document))
    except (msgspec.ValidationError, TypeError) as error:
        raise MalformedObject(f"{kind.kind} {named or 'without a name'}: {error}") from error
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


def _epoch(text: str) -> float | None:
    try:
        return from_time(text)
    except ValueError:
        return None


def _name(document: Body) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else ""
