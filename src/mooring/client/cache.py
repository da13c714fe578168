"""The objects of one kind as far as they are known, and what each piece of news changes about them.

The pure half of the informer: listings and watch events in, a `tell(before, after)` per real difference out. It
reads no socket and no clock; `reflector` feeds it and `informer` shows it to controllers.

News may arrive twice, and after a broken connection it arrives again from further back. Versions decide what is
news: one counter numbers all changes of a kind, and `seen` is how far this cache has followed it.

    at or below `seen`, and it agrees with what is held   old news: nothing happens
    at or below `seen`, and it does not                   OutOfOrder: something was missed, list again
    above `seen`                                          it happens, and `seen` moves on
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Generic

from mooring.api.views.meta import ApiObject
from mooring.client.contract import Change, Listing, V, WatchEvent

#: What a subscriber is told: None stands for absent, on the left before creation, on the right after deletion.
Tell = Callable[[V | None, V | None], None]


class OutOfOrder(Exception):
    """An event contradicts what is held although it should have been known before: events were lost."""


class StaleListing(Exception):
    """A listing is older than what was seen before: a lagging server, or one that lost its history."""


def version_of(item: ApiObject) -> int:
    """The object's place in its kind's history. Kubernetes promises decimal numbers that grow."""
    return int(item.metadata.resource_version)


class _Index(Generic[V]):
    """Objects by what a function says about them."""

    def __init__(self, values: Callable[[V], Iterable[str]]) -> None:
        self.values = values
        self.buckets: dict[str, dict[str, V]] = {}

    def add(self, key: str, item: V) -> None:
        for value in self.values(item):
            self.buckets.setdefault(value, {})[key] = item

    def remove(self, key: str, item: V) -> None:
        for value in self.values(item):
            bucket = self.buckets.get(value, {})
            # The function may name a value twice; the second time there is nothing left to do.
            bucket.pop(key, None)
            if not bucket:
                self.buckets.pop(value, None)


class Cache(Generic[V]):
    """One kind's objects by key. Each difference is stored first and told next, one object at a time."""

    def __init__(self, tell: Tell[V]) -> None:
        self._tell = tell
        self._objects: dict[str, V] = {}
        self._indexes: dict[str, _Index[V]] = {}
        self._seen = 0

    @property
    def seen(self) -> int:
        """The version up to which everything is known; 0 before the first listing."""
        return self._seen

    def get(self, key: str) -> V | None:
        return self._objects.get(key)

    def items(self) -> Collection[V]:
        return self._objects.values()

    def by_index(self, name: str, value: str) -> Collection[V]:
        return self._indexes[name].buckets.get(value, {}).values()

    def add_index(self, name: str, values: Callable[[V], Iterable[str]]) -> None:
        if name in self._indexes:
            if self._indexes[name].values != values:
                raise ValueError(f"index {name!r} exists already and is made by another function")
            return
        index = self._indexes[name] = _Index(values)
        for key, item in self._objects.items():
            index.add(key, item)

    def replace(self, listing: Listing[V]) -> Iterator[None]:
        """Become what a consistent listing says, object by object: what is missing from it is gone.

        Nothing happens but by iterating, and `seen` moves when the last object is done, so that the caller may let
        others run in between. Raises StaleListing before the first one.
        """
        version = int(listing.resource_version)
        if version < self._seen:
            raise StaleListing(
                f"the server listed version {version} after it had shown {self._seen}; if it was restored from "
                "a backup or replaced by another one, restart this component"
            )
        listed = {item.key: item for item in listing.items}
        for gone in [item for key, item in self._objects.items() if key not in listed]:
            self._step(gone, None)
            yield
        for item in listed.values():
            self._put(item)
            yield
        self._seen = version

    def apply(self, event: WatchEvent[V]) -> None:
        """Take one event of a watch that continues from `seen`. Raises OutOfOrder and changes nothing."""
        item = event.object
        version = version_of(item)
        if event.change is not Change.BOOKMARK:
            if version <= self._seen:
                self._expect_known(event)
                return
            if event.change is not Change.DELETED:
                self._put(item)
            elif (held := self._objects.get(item.key)) is not None:
                self._step(held, None)
        self._seen = max(self._seen, version)

    def _expect_known(self, event: WatchEvent[V]) -> None:
        held = self._objects.get(event.object.key)
        known = event.change is Change.DELETED if held is None else version_of(held) >= version_of(event.object)
        if not known:
            raise OutOfOrder(
                f"{event.change.value} {event.object.key} at version {version_of(event.object)} came after "
                f"version {self._seen}"
            )

    def _put(self, item: V) -> None:
        held = self._objects.get(item.key)
        if held is None:
            self._step(None, item)
        elif version_of(item) <= version_of(held):
            return
        elif item.uid != held.uid:
            # Deleted and created again between two looks: nobody should take the new one for the old.
            self._step(held, None)
            self._step(None, item)
        else:
            self._step(held, item)

    def _step(self, before: V | None, after: V | None) -> None:
        if before is not None:
            for index in self._indexes.values():
                index.remove(before.key, before)
        if after is not None:
            self._objects[after.key] = after
            for index in self._indexes.values():
                index.add(after.key, after)
        elif before is not None:
            del self._objects[before.key]
        self._tell(before, after)
