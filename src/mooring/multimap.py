"""Members by key and counts by key, without empty entries: indexes over objects that come and go. Pure."""

from collections.abc import Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
M = TypeVar("M", bound=Hashable)


class Multimap(dict[K, dict[M, None]]):
    """Members by key, in the order they were added. A key without members is not in it."""

    def add(self, key: K, member: M) -> None:
        self.setdefault(key, {})[member] = None

    def discard(self, key: K, member: M) -> None:
        members = self.get(key)
        if members is not None:
            members.pop(member, None)
            if not members:
                del self[key]


class Tally(dict[K, int]):
    """Counts by key. A key that counts zero is not in it."""

    def add(self, key: K, count: int) -> int:
        """Add a count, which may be negative, and return the sum."""
        total = self.get(key, 0) + count
        if total:
            self[key] = total
        else:
            self.pop(key, None)
        return total
