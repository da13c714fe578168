"""How long to wait before trying again: doubling delays with jitter. Pure; whoever asks does the waiting."""

import random


class Backoff:
    """Delays of `first`, twice that, and so on up to `longest`, each stretched by up to its own length again.

    The stretch keeps clients that lost the same server from returning in step.
    """

    def __init__(self, rng: random.Random, *, first: float, longest: float) -> None:
        self._rng = rng
        self._first = first
        self._longest = longest
        self._next = first

    def delay(self) -> float:
        """The next delay in seconds."""
        delay = self._next * (1.0 + self._rng.random())
        self._next = min(self._next * 2.0, self._longest)
        return delay

    def reset(self) -> None:
        """Something worked: begin with the shortest delay again."""
        self._next = self._first
