"""Keys ordered by size, found without looking at the others.

Pure. Adding, removing and finding cost the same with a hundred and with a hundred thousand keys: there is one bucket
per distinct size, and a bucket is a heap whose removed entries are dropped when they come up.
"""

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

#: Decides between keys of one size: a name, or an order of arrival.
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


class BySize(Generic[R]):
    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._buckets: dict[int, _Bucket[R]] = {}

    @property
    def empty(self) -> bool:
        return not self._sizes

    def add(self, size: int, key: str, rank: R) -> None:
        """A key is there. Must not be there already."""
        bucket = self._buckets.get(size)
        if bucket is None:
            bucket = self._buckets[size] = _Bucket()
            insort(self._sizes, size)
        bucket.add(key, rank)

    def discard(self, size: int, key: str) -> None:
        """The key is not there any more. Nothing happens if it was not."""
        bucket = self._buckets.get(size)
        if bucket is None:
            return
        bucket.discard(key)
        if not bucket.ranks:
            del self._buckets[size]
            del self._sizes[bisect_left(self._sizes, size)]

    def smallest_from(self, size: int) -> str | None:
        """The first of the smallest size that is not below this one."""
        at = bisect_left(self._sizes, size)
        return self._buckets[self._sizes[at]].first() if at < len(self._sizes) else None

    def largest_up_to(self, size: int) -> str | None:
        """The first of the largest size that is not above this one."""
        at = bisect_right(self._sizes, size)
        return self._buckets[self._sizes[at - 1]].first() if at else None

    def walk_from(self, size: int) -> Iterator[str]:
        """All that are not below this size, smaller ones first; for those who have to look at each."""
        for found in self._sizes[bisect_left(self._sizes, size) :]:
            ranks = self._buckets[found].ranks
            yield from sorted(ranks, key=ranks.__getitem__)
