"""How many watches one user may have open: each costs memory for as long as it lasts, so they are counted."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mooring.api.errors import Details, TooManyRequests

#: Kubernetes' own components have fewer than a hundred each; five hundred nodes that share a user have one or two each.
PER_USER: Final = 1000


class WatchPlaces:
    def __init__(self, per_user: int = PER_USER) -> None:
        self._per_user = per_user
        self._taken: Counter[str] = Counter()

    @contextmanager
    def taken_by(self, user: str) -> Iterator[None]:
        """A place for one watch inside the block. Raises TooManyRequests; clients come back after a while."""
        if self._taken[user] >= self._per_user:
            raise TooManyRequests(
                f"User {user!r} has {self._per_user} watches open already, please try again later",
                details=Details(retry_after_seconds=1),
            )
        self._taken[user] += 1
        try:
            yield
        finally:
            self._taken[user] -= 1
            if not self._taken[user]:
                del self._taken[user]
