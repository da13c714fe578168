"""The newest changes, kept so that watches can start in the past and lists can show it.

Each collection (the first two steps of a key: `/core/pods/`) has a history of its own, bounded by itself: a thousand
heartbeats a minute must not make clients forget where they were among the pods. Below all stores, with `fanout`.
"""

from collections import deque
from collections.abc import Iterator
from heapq import merge
from itertools import takewhile
from operator import attrgetter
from typing import Final

import msgspec

from mooring.store.contract import Change, Compacted, Revision


class Limits(msgspec.Struct, frozen=True):
    """How much is kept: whichever bound is reached first counts."""

    changes: int
    bytes: int


#: A client that lost its watch comes back within seconds: at 1,000 writes a second this is ten of them. The bytes
#: hold 10,000 updates of 3 kB objects, old and new value, and keep larger ones from filling the memory.
HISTORY: Final = Limits(changes=10_000, bytes=64 << 20)

#: Slashes up to which a key names its collection.
_DEPTH: Final = 3


class _Collection:
    """The newest changes of one collection; `floor` is the newest revision that may lack some of its changes."""

    def __init__(self, floor: Revision, limits: Limits) -> None:
        self.floor = floor
        self._limits = limits
        self._changes: deque[Change] = deque()
        self._bytes = 0

    def append(self, change: Change, weight: int) -> None:
        self._changes.append(change)
        self._bytes += weight
        while len(self._changes) > self._limits.changes or self._bytes > self._limits.bytes:
            oldest = self._changes.popleft()
            self._bytes -= weight_of(oldest)
            self.floor = oldest.revision

    def after(self, revision: Revision) -> list[Change]:
        """In order. From the newest back, because those who ask have mostly seen almost everything."""
        newer = list(takewhile(lambda change: change.revision > revision, reversed(self._changes)))
        newer.reverse()
        return newer


class History:
    """The histories of all collections since `floor`, where the store began to remember."""

    def __init__(self, floor: Revision, limits: Limits) -> None:
        self._floor = floor
        self._limits = limits
        self._collections: dict[str, _Collection] = {}

    def append(self, change: Change, weight: int) -> None:
        name = _collection_of(change.key)
        collection = self._collections.get(name)
        if collection is None:
            collection = self._collections[name] = _Collection(self._floor, self._limits)
        collection.append(change, weight)

    def after(self, revision: Revision, prefix: str) -> Iterator[Change]:
        """The changes under a prefix above a revision, in order. Raises Compacted at the call if some may be gone."""
        concerned = [
            collection
            for name, collection in self._collections.items()
            if name.startswith(prefix) or prefix.startswith(name)
        ]
        floor = max((collection.floor for collection in concerned), default=self._floor)
        if revision < floor:
            raise Compacted(revision, floor)
        newer = (collection.after(revision) for collection in concerned)
        merged = merge(*newer, key=attrgetter("revision"))
        return (change for change in merged if change.key.startswith(prefix))


def weight_of(change: Change) -> int:
    """Bytes a change keeps alive at most: an old value is often another change's new one."""
    return sum(len(record.value) for record in (change.before, change.after) if record)


def _collection_of(key: str) -> str:
    """Up to the third slash, or to the last where there are fewer."""
    end = 0
    for _ in range(_DEPTH):
        end = key.find("/", end) + 1 or end
    return key[:end]
