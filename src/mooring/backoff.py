"""Exponential backoff. Pure: time and randomness are arguments, and the caller does the waiting."""

import random
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

#: Bounds the exponent: failures are unbounded, and 2**64 reaches the maximum from any initial delay.
_MAX_DOUBLINGS: Final = 64


def exponential_backoff(initial: float, maximum: float, failures: int) -> float:
    """Seconds to wait after `failures` in a row: `initial`, doubling up to `maximum`; 0 without failures."""
    return min(initial * 2.0 ** min(failures - 1, _MAX_DOUBLINGS), maximum) if failures > 0 else 0.0


class JitteredBackoff:
    """Delays of one operation, with up to 100 % jitter so that clients of one server do not retry in step."""

    def __init__(self, rng: random.Random, *, initial: float, maximum: float) -> None:
        self._rng = rng
        self._initial = initial
        self._maximum = maximum
        self._failures = 0

    def next_delay(self) -> float:
        """Count a failure; return the seconds to wait."""
        self._failures += 1
        return exponential_backoff(self._initial, self._maximum, self._failures) * (1.0 + self._rng.random())

    def reset(self) -> None:
        """The operation succeeded: start from the initial delay again."""
        self._failures = 0


class KeyedBackoff(Generic[K]):
    """Delays per key without jitter, as client-go's rate limiter. Iterates over the failing keys."""

    def __init__(self, initial: float, maximum: float) -> None:
        self._initial = initial
        self._maximum = maximum
        self._failures: dict[K, int] = {}
        #: Until when a key is suspended, and for which version of what it depends on.
        self._suspended: dict[K, tuple[float, str]] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._failures

    def __iter__(self) -> Iterator[K]:
        return iter(self._failures)

    def failures(self, key: K) -> int:
        """Failures of the key since the last `forget`."""
        return self._failures.get(key, 0)

    def next_delay(self, key: K) -> float:
        """Count a failure; return the seconds to wait."""
        self._failures[key] = failures = self.failures(key) + 1
        return exponential_backoff(self._initial, self._maximum, failures)

    def forget(self, key: K) -> None:
        """The operation succeeded, or nothing is left to do."""
        self._failures.pop(key, None)
        self._suspended.pop(key, None)

    def suspend(self, key: K, *, version: str, now: float) -> None:
        """The request itself is invalid: do not send it for the maximum delay, unless `version` changes."""
        self._suspended[key] = (now + self._maximum, version)

    def suspended_seconds(self, key: K, *, version: str, now: float) -> float:
        """Remaining seconds of suspension with this version; 0 when the key may be tried."""
        until, suspended = self._suspended.get(key, (now, version))
        if until <= now or suspended != version:
            self._suspended.pop(key, None)
            return 0.0
        return until - now


@dataclass(slots=True)
class _Restarts:
    uid: str
    ends: int
    #: When the pod may be replaced.
    due: float


class RestartBackoff:
    """Delays before terminated pods are replaced, by key: none the first time, then doubling with every pod that ends.

    A key without a terminated pod for twice the maximum starts over. The defaults are those of upstream's DaemonSet
    controller; its StatefulSet controller has no backoff.
    """

    def __init__(self, initial: float = 1.0, maximum: float = 900.0) -> None:
        self._initial = initial
        self._maximum = maximum
        self._reset_after = 2 * maximum
        self._restarts: dict[str, _Restarts] = {}

    def wait(self, key: str, uid: str, *, now: float) -> float:
        """Seconds until the terminated pod may be replaced. Idempotent for one pod uid."""
        known = self._restarts.get(key)
        if known is None or now - known.due > self._reset_after:
            self._restarts = {key: each for key, each in self._restarts.items() if now - each.due <= self._reset_after}
            known = self._restarts[key] = _Restarts(uid, ends=1, due=now)
        elif known.uid != uid:
            known.uid = uid
            known.due = now + exponential_backoff(self._initial, self._maximum, known.ends)
            known.ends += 1
        return max(known.due - now, 0.0)
