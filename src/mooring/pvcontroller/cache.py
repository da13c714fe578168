"""The newest known version of each object: what the watch showed, or what our own write returned.

Own writes come back through the watch only later; deciding on the older version meanwhile would cost a conflict
each time. Whichever version number is higher wins. Not an assume cache: only what the server answered gets in.
"""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from mooring.api.views.meta import ApiObject

V = TypeVar("V", bound=ApiObject)


class NewestCache(Generic[V]):
    """Objects by key, with one index: the objects filed under a name that `file_under` gives."""

    def __init__(self, file_under: Callable[[V], Iterable[str]]) -> None:
        self._file_under = file_under
        self._objects: dict[str, V] = {}
        self._filed: dict[str, dict[str, V]] = {}

    def get(self, key: str) -> V | None:
        return self._objects.get(key)

    def filed_under(self, name: str) -> Iterable[V]:
        return self._filed.get(name, {}).values()

    def observe(self, before: V | None, after: V | None) -> None:
        """A change the watch showed."""
        if after is not None:
            self.put(after)
        elif before is not None:
            self._drop(before.key)

    def put(self, item: V) -> None:
        known = self._objects.get(item.key)
        if known is not None and _version(item) < _version(known):
            return
        self._drop(item.key)
        self._objects[item.key] = item
        for name in self._file_under(item):
            self._filed.setdefault(name, {})[item.key] = item

    def _drop(self, key: str) -> None:
        known = self._objects.pop(key, None)
        if known is None:
            return
        for name in self._file_under(known):
            shelf = self._filed[name]
            del shelf[key]
            if not shelf:
                del self._filed[name]


def _version(item: ApiObject) -> int:
    return int(item.metadata.resource_version)
