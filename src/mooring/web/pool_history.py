"""How much was free of each pool during the last minutes: changes of CSIStorageCapacity objects. Pure and bounded.

Only changes are kept, so a quiet pool costs nothing, and a change within SAMPLE_SECONDS of the last one replaces it.
Beyond MAX_CHANGES the oldest are dropped, of whichever pool they are. A tab gets the history once, with its first
picture, and continues it from the rows of pools that it receives anyway.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from mooring.api.views.storage import StorageCapacity
from mooring.web.rows import PageRow, size_of

#: What a line on the page shows at most.
HISTORY_SECONDS: Final = 900.0
#: Changes of a pool that follow each other faster are one; a line has at most 60 points.
SAMPLE_SECONDS: Final = 15.0
#: Of all pools together; about 6 MB with the longest names.
MAX_CHANGES: Final = 8192


class PoolHistoryRow(PageRow, frozen=True):
    """`id` is that of the pool's row. `first` was free before the first of `points`: since when, and how much."""

    first: int
    points: tuple[tuple[float, int], ...]


@dataclass(slots=True, eq=False)
class _Change:
    at: float
    pool: str
    before: int
    after: int


class PoolHistory:
    """Outlives the sessions of its server: a tab that is opened again finds what the last one saw."""

    def __init__(self, *, max_changes: int = MAX_CHANGES) -> None:
        self._max_changes = max_changes
        self._changes: deque[_Change] = deque()
        #: The newest change of each pool that has one.
        self._newest: dict[str, _Change] = {}

    def __len__(self) -> int:
        return len(self._changes)

    def observe(self, before: StorageCapacity | None, after: StorageCapacity | None, *, now: float) -> None:
        """Objects that appear or disappear have no line yet, or none any longer."""
        if before is None or after is None:
            return
        was, free = size_of(before.capacity or 0), size_of(after.capacity or 0)
        if was == free:
            return
        newest = self._newest.get(after.key)
        if newest is not None and 0 <= now - newest.at < SAMPLE_SECONDS:
            newest.after = free
            return
        change = _Change(now, after.key, was, free)
        self._changes.append(change)
        self._newest[after.key] = change
        self._forget(now)

    def rows(self, *, now: float) -> list[PoolHistoryRow]:
        """The pools that changed within HISTORY_SECONDS, oldest change first."""
        self._forget(now)
        first: dict[str, int] = {}
        points: dict[str, list[tuple[float, int]]] = {}
        for change in self._changes:
            first.setdefault(change.pool, change.before)
            points.setdefault(change.pool, []).append((change.at, change.after))
        return [PoolHistoryRow(pool, first[pool], tuple(line)) for pool, line in points.items()]

    def _forget(self, now: float) -> None:
        while self._changes:
            oldest = self._changes[0]
            if len(self._changes) <= self._max_changes and now - oldest.at <= HISTORY_SECONDS:
                return
            self._changes.popleft()
            if self._newest.get(oldest.pool) is oldest:
                del self._newest[oldest.pool]
