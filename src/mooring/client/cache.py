"""The object cache of an informer, with indexes. Pure.

Applies lists and watch events and notifies one handler per difference. Events may be delivered again after a broken
connection; resourceVersions decide:

    at or below `seen`, and consistent with the cache   already applied: ignored
    at or below `seen`, and not consistent              MissedEvents: list again
    above `seen`                                        applied, and `seen` advances
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, Generic, NamedTuple

from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Volume, VolumeAttachment
from mooring.client.contract import ObjectList, V, WatchEvent, WatchEventType

#: Called with (before, after): None before creation, None after deletion.
ChangeHandler = Callable[[V | None, V | None], None]


class MissedEvents(Exception):
    """An old event contradicts the cache: events were lost."""


class StaleListing(Exception):
    """A list is older than the cache: a lagging server, or one that lost its history."""


def version_of(item: ApiObject) -> int:
    """The resourceVersion, a growing decimal number in Kubernetes."""
    return int(item.metadata.resource_version)


class _Index(Generic[V]):
    def __init__(self, values: Callable[[V], Iterable[str]]) -> None:
        self.values = values
        self.buckets: dict[str, dict[str, V]] = {}
        #: Values of the indexed objects by key, so that each object is looked at once; only of those that have some.
        self._values: dict[str, tuple[str, ...]] = {}

    def put(self, key: str, item: V) -> None:
        values = tuple(self.values(item))
        if self._values.get(key, ()) != values:
            self.remove(key)
            if values:
                self._values[key] = values
        for value in values:
            bucket = self.buckets.get(value)
            if bucket is None:
                bucket = self.buckets[value] = {}
            bucket[key] = item

    def remove(self, key: str) -> None:
        for value in self._values.pop(key, ()):
            bucket = self.buckets.get(value, {})
            # The function may return a value twice.
            bucket.pop(key, None)
            if not bucket:
                self.buckets.pop(value, None)


class Cache(Generic[V]):
    """One kind's objects by key. Each difference is stored before the handler is notified."""

    def __init__(self, notify: ChangeHandler[V]) -> None:
        self._notify = notify
        self._objects: dict[str, V] = {}
        self._indexes: dict[str, _Index[V]] = {}
        self._seen = 0
        self._listed = 0

    @property
    def seen(self) -> int:
        """The resourceVersion up to which all events are applied; 0 before the first list."""
        return self._seen

    @property
    def listed(self) -> int:
        """Version of the last complete list; every change since then was applied, up to `seen`."""
        return self._listed

    def get(self, key: str) -> V | None:
        return self._objects.get(key)

    def items(self) -> Collection[V]:
        return self._objects.values()

    def by_index(self, name: str, value: str) -> Collection[V]:
        return self._indexes[name].buckets.get(value, {}).values()

    def add_index(self, name: str, values: Callable[[V], Iterable[str]]) -> None:
        if name in self._indexes:
            if self._indexes[name].values != values:
                raise ValueError(f"index {name!r} exists with another function")
            return
        index = self._indexes[name] = _Index(values)
        for key, item in self._objects.items():
            index.put(key, item)

    def replace(self, listing: ObjectList[V]) -> Iterator[None]:
        """Replace the content by a consistent list, one object per iteration, so that the caller can yield between.
        `seen` advances after the last object. Raises StaleListing before the first."""
        version = int(listing.resource_version)
        if version < self._seen:
            raise StaleListing(
                f"the server listed version {version} after it had shown {self._seen}; if it was restored from "
                "a backup or replaced by another one, restart this component"
            )
        listed = {item.key: item for item in listing.items}
        for key, gone in [(key, item) for key, item in self._objects.items() if key not in listed]:
            self._step(key, gone, None)
            yield
        for key, item in listed.items():
            self._put(key, item, version_of(item))
            yield
        self._seen = self._listed = version

    def apply(self, event: WatchEvent[V]) -> None:
        """Apply an event of a watch that continues from `seen`. Raises MissedEvents and changes nothing."""
        item, change = event.object, event.change
        version = int(item.metadata.resource_version)
        if change is not WatchEventType.BOOKMARK:
            if version <= self._seen:
                self._expect_known(event)
                return
            key = item.key
            if change is not WatchEventType.DELETED:
                self._put(key, item, version)
            elif (held := self._objects.get(key)) is not None:
                self._step(key, held, None)
        if version > self._seen:
            self._seen = version

    def _expect_known(self, event: WatchEvent[V]) -> None:
        held = self._objects.get(event.object.key)
        known = event.change is WatchEventType.DELETED if held is None else version_of(held) >= version_of(event.object)
        if not known:
            raise MissedEvents(
                f"{event.change.value} {event.object.key} at version {version_of(event.object)} came after "
                f"version {self._seen}"
            )

    def _put(self, key: str, item: V, version: int) -> None:
        held = self._objects.get(key)
        if held is None:
            self._step(key, None, item)
        elif version <= int(held.metadata.resource_version):
            return
        elif item.metadata.uid != held.metadata.uid:
            # Deleted and created again in between: handlers must not take it for an update.
            self._step(key, held, None)
            self._step(key, None, item)
        else:
            self._step(key, held, item)

    def _step(self, key: str, before: V | None, after: V | None) -> None:
        if after is not None:
            self._objects[key] = after
            for index in self._indexes.values():
                index.put(key, after)
        else:
            del self._objects[key]
            for index in self._indexes.values():
                index.remove(key)
        self._notify(before, after)


class Index(NamedTuple, Generic[V]):
    """Use as `informer.add_index(*POD_BY_NODE)` and `informer.by_index(POD_BY_NODE.name, "node-1")`."""

    name: str
    values: Callable[[V], Iterable[str]]


def _claim_uid(volume: Volume) -> tuple[str, ...]:
    reference = volume.spec.claim_ref
    return (reference.uid,) if reference is not None and reference.uid else ()


def _orphaned(item: ApiObject) -> tuple[str, ...]:
    if item.controller is not None:
        return ()
    return (item.namespace, *(labelled(item.namespace, *label) for label in item.metadata.labels.items()))


def labelled(namespace: str, key: str, value: str) -> str:
    """The key in `ORPHANS` of objects of a namespace with this label."""
    return f"{namespace} {key}={value}"


#: Pods by assigned node.
POD_BY_NODE: Final[Index[Pod]] = Index("node", lambda pod: (pod.spec.node_name,) if pod.spec.node_name else ())
#: Pods by `namespace/name` of their claims.
POD_BY_CLAIM: Final[Index[Pod]] = Index("claim", lambda pod: pod.claim_keys)
#: Pods by `namespace/name` of their PodGroup.
POD_BY_GROUP: Final[Index[Pod]] = Index("group", lambda pod: (pod.group_key,) if pod.group_key else ())
#: VolumeAttachments by PersistentVolume, and by node.
ATTACHMENT_BY_VOLUME: Final[Index[VolumeAttachment]] = Index(
    "volume", lambda attachment: (attachment.spec.source.persistent_volume_name,)
)
ATTACHMENT_BY_NODE: Final[Index[VolumeAttachment]] = Index("node", lambda attachment: (attachment.spec.node_name,))
#: PersistentVolumes by the uid in their claimRef.
VOLUME_BY_CLAIM_UID: Final[Index[Volume]] = Index("owning claim uid", _claim_uid)
#: Objects by uid.
BY_UID: Final[Index[ApiObject]] = Index("uid", lambda item: (item.uid,))
#: Objects by the uid of their owners.
BY_OWNER: Final[Index[ApiObject]] = Index(
    "owner", lambda item: tuple(owner.uid for owner in item.metadata.owner_references)
)
#: Objects without a controller owner, by namespace, and by namespace and label (`labelled`).
ORPHANS: Final[Index[ApiObject]] = Index("orphan", _orphaned)
