"""Things ordered by size within groups, found without looking at the others.

Pure. Adding, removing and finding cost the same with a hundred and with a hundred thousand things: within a group
there is one bucket per distinct size, and a bucket is a heap whose removed entries are dropped when they come up.
"""

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

G = TypeVar("G")
#: Decides between things of one size: a name, or an order of arrival.
R = TypeVar("R", str, int)

#: A heap this small is never worth tidying.
_SMALL: Final = 16


@dataclass(slots=True)
class _Bucket(Generic[R]):
    ranks: dict[str, R] = field(default_factory=dict)
    heap: list[tuple[R, str]] = field(default_factory=list)

    def first(self) -> str:
        while self.ranks.get(self.heap[0][1]) != self.heap[0][0]:
            heapq.heappop(self.heap)
        return self.heap[0][1]

    def add(self, key: str, rank: R) -> None:
        self.ranks[key] = rank
        heapq.heappush(self.heap, (rank, key))

    def discard(self, key: str) -> None:
        self.ranks.pop(key, None)
        if len(self.heap) > 2 * len(self.ranks) + _SMALL:
            self.heap = sorted((rank, name) for name, rank in self.ranks.items())


@dataclass(slots=True)
class _Group(Generic[R]):
    sizes: list[int] = field(default_factory=list)
    buckets: dict[int, _Bucket[R]] = field(default_factory=dict)


class BySize(Generic[G, R]):
    def __init__(self) -> None:
        self._groups: dict[G, _Group[R]] = {}

    def add(self, group: G, size: int, key: str, rank: R) -> None:
        """A thing is there. Must not be there already."""
        within = self._groups.setdefault(group, _Group())
        bucket = within.buckets.get(size)
        if bucket is None:
            bucket = within.buckets[size] = _Bucket()
            insort(within.sizes, size)
        bucket.add(key, rank)

    def discard(self, group: G, size: int, key: str) -> None:
        """The thing is not there any more. Nothing happens if it was not."""
        within = self._groups.get(group)
        bucket = None if within is None else within.buckets.get(size)
        if within is None or bucket is None:
            return
        bucket.discard(key)
        if not bucket.ranks:
            del within.buckets[size]
            del within.sizes[bisect_left(within.sizes, size)]
            if not within.sizes:
                del self._groups[group]

    def smallest_from(self, group: G, size: int) -> str | None:
        """The first of the smallest size that is not below this one."""
        within = self._groups.get(group)
        if within is None:
            return None
        at = bisect_left(within.sizes, size)
        return within.buckets[within.sizes[at]].first() if at < len(within.sizes) else None

    def largest_up_to(self, group: G, size: int) -> str | None:
        """The first of the largest size that is not above this one."""
        within = self._groups.get(group)
        if within is None:
            return None
        at = bisect_right(within.sizes, size)
        return within.buckets[within.sizes[at - 1]].first() if at else None

    def walk_from(self, group: G, size: int) -> Iterator[str]:
        """All that are not below this size, smaller ones first; for those who have to look at each."""
        within = self._groups.get(group)
        if within is None:
            return
        for found in within.sizes[bisect_left(within.sizes, size) :]:
            ranks = within.buckets[found].ranks
            yield from sorted(ranks, key=ranks.__getitem__)
