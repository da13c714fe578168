"""The newest known version of each object: what the watch showed, or what our own write returned.

Own writes come back through the watch only later; deciding on the older version meanwhile would cost a conflict
each time. Whichever version number is higher wins. Not an assume cache: only what the server answered gets in, and
only the watch says which objects there are.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Generic, TypeVar

from mooring.api.views.meta import ApiObject

V = TypeVar("V", bound=ApiObject)


class NewestCache(Generic[V]):
    """Objects by key, and on the shelves that `file_under` names for them; `follow` is told of every change."""

    def __init__(
        self, file_under: Callable[[V], Iterable[str]], follow: Callable[[V | None, V | None], None] = lambda *_: None
    ) -> None:
        self._file_under = file_under
        self._follow = follow
        self._objects: dict[str, V] = {}
        self._shelves: dict[str, dict[str, V]] = {}

    def get(self, key: str) -> V | None:
        return self._objects.get(key)

    def filed_under(self, shelf: str) -> Collection[V]:
        """A live view: copy it before awaiting in the middle of it."""
        return self._shelves.get(shelf, {}).values()

    def observe(self, before: V | None, after: V | None) -> None:
        """A change the watch showed. It may be older than what an own write returned; a deletion never is."""
        if after is None:
            if before is not None:
                self._follow(self._drop(before.key), None)
            return
        known = self._objects.get(after.key)
        if known is None or _version(known) <= _version(after):
            self._put(after)

    def learn(self, answer: V) -> None:
        """What an own write returned.

        If the watch has shown the object's deletion meanwhile, the answer is old news: keeping it would raise an
        object from the dead that no event would ever bury again.
        """
        known = self._objects.get(answer.key)
        if known is not None and known.uid == answer.uid and _version(known) < _version(answer):
            self._put(answer)

    def _put(self, item: V) -> None:
        before = self._drop(item.key)
        self._objects[item.key] = item
        for shelf in self._file_under(item):
            self._shelves.setdefault(shelf, {})[item.key] = item
        self._follow(before, item)

    def _drop(self, key: str) -> V | None:
        known = self._objects.pop(key, None)
        if known is None:
            return None
        for name in self._file_under(known):
            shelf = self._shelves[name]
            del shelf[key]
            if not shelf:
                del self._shelves[name]
        return known


def _version(item: ApiObject) -> int:
    return int(item.metadata.resource_version)
