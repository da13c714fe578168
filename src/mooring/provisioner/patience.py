"""How long to leave a failing claim or volume alone. Pure.

1 s doubling to 5 min per key without jitter, as external-provisioner: retries never end. A claim whose request the
driver calls wrong is left alone for longer, until that time is over or its class is replaced.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

#: Doublings beyond which only the count grows; no interval is that long.
MOST_DOUBLINGS = 40


class Patience(Generic[K]):
    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._failures: dict[K, int] = {}
        #: Until when, and for which class (its uid).
        self._slowed: dict[K, tuple[float, str]] = {}

    def failing(self, key: K) -> bool:
        return key in self._failures

    def next_delay(self, key: K) -> float:
        """After another failure."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return min(self._first * 2.0 ** min(failures, MOST_DOUBLINGS), self._longest)

    def forget(self, key: K) -> None:
        """All is well, or nothing is left to do."""
        self._failures.pop(key, None)
        self._slowed.pop(key, None)

    def slow_down(self, key: K, *, class_uid: str, now: float) -> None:
        """The request itself is wrong: nothing is asked again before the longest interval is over."""
        self._slowed[key] = (now + self._longest, class_uid)

    def rest(self, key: K, *, class_uid: str, now: float) -> float:
        """The seconds this key is still to be left alone with this class; 0 when it may be tried."""
        until, slowed_for = self._slowed.get(key, (now, class_uid))
        if until <= now or slowed_for != class_uid:
            self._slowed.pop(key, None)
            return 0.0
        return until - now
