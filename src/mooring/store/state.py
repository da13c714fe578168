"""In-memory state of all stores: current records, compare-and-swap rule, bounded history. Pure.

When a change becomes visible is decided by the store; delivery to watches is in `watch_cache`.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import takewhile
from operator import attrgetter
from typing import Final

import msgspec

from mooring.store import contract
from mooring.store.contract import ABSENT, Listing, Record, Revision, StoreChange


class Limits(msgspec.Struct, frozen=True):
    """Bounds of a buffer of changes; the first one reached applies."""

    changes: int
    bytes: int


#: Per collection. A client reconnects a lost watch within seconds: at 1,000 writes a second this is ten of them. The
#: bytes hold 10,000 updates of 3 kB objects, old and new value, and bound the memory for larger ones.
HISTORY: Final = Limits(changes=10_000, bytes=64 << 20)

#: Slashes in the name of a collection: `/core/pods/`.
_COLLECTION_SLASHES: Final = 3


class _Collection:
    """The newest changes of one collection; those up to the revision `floor` may be incomplete."""

    def __init__(self, floor: Revision, limits: Limits) -> None:
        self.floor = floor
        self._limits = limits
        self._changes: deque[StoreChange] = deque()
        self._bytes = 0

    def append(self, change: StoreChange, weight: int) -> None:
        self._changes.append(change)
        self._bytes += weight
        while len(self._changes) > self._limits.changes or self._bytes > self._limits.bytes:
            oldest = self._changes.popleft()
            self._bytes -= weight_of(oldest)
            self.floor = oldest.revision

    def after(self, revision: Revision) -> list[StoreChange]:
        """In order. Searched from the newest back, because most readers lack only a few changes."""
        newer = list(takewhile(lambda change: change.revision > revision, reversed(self._changes)))
        newer.reverse()
        return newer


class History:
    """The changes since `floor`, bounded per collection: node heartbeats must not evict the history of pods."""

    def __init__(self, floor: Revision, limits: Limits) -> None:
        self._floor = floor
        self._limits = limits
        self._collections: dict[str, _Collection] = {}

    def append(self, change: StoreChange, weight: int) -> None:
        name = _collection_of(change.key)
        collection = self._collections.get(name)
        if collection is None:
            collection = self._collections[name] = _Collection(self._floor, self._limits)
        collection.append(change, weight)

    def after(self, revision: Revision, prefix: str) -> Iterator[StoreChange]:
        """The changes under a prefix above a revision, in order. Raises Compacted if some may be missing."""
        concerned = [
            collection
            for name, collection in self._collections.items()
            if name.startswith(prefix) or prefix.startswith(name)
        ]
        floor = max((collection.floor for collection in concerned), default=self._floor)
        if revision < floor:
            raise contract.Compacted(revision, floor)
        newer = (collection.after(revision) for collection in concerned)
        merged = merge(*newer, key=attrgetter("revision"))
        return (change for change in merged if change.key.startswith(prefix))


def weight_of(change: StoreChange) -> int:
    """Upper bound of the bytes a change keeps alive: its old value is often shared with the previous change."""
    before, after = change.before, change.after
    return (len(before.value) if before is not None else 0) + (len(after.value) if after is not None else 0)


def _collection_of(key: str) -> str:
    """Up to the third slash, or to the last if there are fewer."""
    end = 0
    for _ in range(_COLLECTION_SLASHES):
        end = key.find("/", end) + 1 or end
    return key[:end]


class Write(msgspec.Struct, frozen=True, gc=False):
    """Arguments of `Store.write`."""

    key: str
    value: bytes | None
    expect: Revision
    precondition: Record | None = None

    def __post_init__(self) -> None:
        self.key.encode()  # a key that is not UTF-8 must not fail the batch it would be part of
        if self.value is None and self.expect == ABSENT:
            raise ValueError(f"{self.key}: a deletion must expect an existing revision")


def decide(
    write: Write, find: Callable[[str], Record | None], last: Revision
) -> StoreChange | contract.RevisionConflict | contract.PreconditionFailed:
    """The change of a write, or the error that refuses it. `find` reads a key, `last` is the newest revision."""
    current = find(write.key)
    if write.expect != (current.revision if current else ABSENT):
        return contract.RevisionConflict(write.key, current)
    if (precondition := write.precondition) is not None and (
        (found := find(precondition.key)) is None or found.revision != precondition.revision
    ):
        return contract.PreconditionFailed(precondition.key)
    revision = Revision(last + 1)
    if write.value is None:
        return StoreChange(write.key, revision, before=current, after=None)
    created = current.created if current else revision
    after = Record(write.key, write.value, revision, created)
    return StoreChange(write.key, revision, before=current, after=after)


class StoreState:
    """The current records, found by key and listed by prefix in key order."""

    def __init__(self, records: Iterable[Record] = (), revision: Revision = ABSENT) -> None:
        self._records = {record.key: record for record in records}
        # One sorted list: among 100,000 keys an insert costs 1 µs near the end and 20 µs at the front, less than
        # the write it belongs to, and a prefix is one slice.
        self._keys = sorted(self._records)
        self._revision = revision

    @property
    def revision(self) -> Revision:
        return self._revision

    def get(self, key: str) -> Record | None:
        return self._records.get(key)

    def count(self, prefix: str) -> int:
        first, end = self._range(prefix, "")
        return end - first

    def under(self, prefix: str, *, start: str = "", limit: int = 0) -> Listing:
        first, end = self._range(prefix, start)
        last = min(end, first + limit) if limit else end
        records = tuple(map(self._records.__getitem__, self._keys[first:last]))
        return Listing(records, self._revision, remaining=end - last)

    def at_revision(
        self, changes: Iterable[StoreChange], at: Revision, prefix: str, *, start: str = "", limit: int = 0
    ) -> Listing:
        """The result of `under` at a revision; `changes` are those under the prefix since then, in order."""
        past: dict[str, Record | None] = {}
        for change in changes:
            if change.key >= start:
                past.setdefault(change.key, change.before)
        if not past:
            current = self.under(prefix, start=start, limit=limit)
            return Listing(current.records, at, current.remaining)
        first, end = self._range(prefix, start)
        found = {key: self._records[key] for key in self._keys[first:end] if key not in past}
        found |= {key: record for key, record in past.items() if record is not None}
        records = tuple(found[key] for key in sorted(found))
        shown = records[:limit] if limit else records
        return Listing(shown, at, remaining=len(records) - len(shown))

    def _range(self, prefix: str, start: str) -> tuple[int, int]:
        first = bisect_left(self._keys, max(prefix, start))
        end = bisect_left(self._keys, True, lo=first, key=lambda key: not key.startswith(prefix))
        return first, end

    def apply(self, change: StoreChange) -> None:
        """Apply a decided change. Raises ValueError unless its revision is newer."""
        if change.revision <= self._revision:
            raise ValueError(f"revision {change.revision} cannot follow {self._revision}")
        self._revision = change.revision
        if change.after is None:
            del self._records[change.key]
            del self._keys[bisect_left(self._keys, change.key)]
            return
        if change.before is None:
            insort(self._keys, change.key)
        self._records[change.key] = change.after

    def advance(self, revision: Revision) -> None:
        """Set the revision: those in between belong to keys outside this store."""
        if revision < self._revision:
            raise ValueError(f"revision {revision} cannot follow {self._revision}")
        self._revision = revision


class WriteBatch:
    """Writes decided in order on top of an unchanged state; each sees the ones before it."""

    def __init__(self, state: StoreState) -> None:
        self._state = state
        #: Final record of each written key, None if deleted.
        self.results: dict[str, Record | None] = {}
        self.changes: list[StoreChange] = []
        self.revision = state.revision

    def decide(self, write: Write) -> StoreChange | contract.RevisionConflict | contract.PreconditionFailed:
        """A refused write leaves the batch unchanged."""
        decided = decide(write, self._find, self.revision)
        if isinstance(decided, StoreChange):
            self.results[write.key] = decided.after
            self.changes.append(decided)
            self.revision = decided.revision
        return decided

    def _find(self, key: str) -> Record | None:
        return self.results[key] if key in self.results else self._state.get(key)
