"""All of a store that is answered from memory: reads, and what watches are told.

Every store keeps its current records and its recent changes here; what differs is where a write has to go before it
may be seen. So a store is this, a `write`, and a way to close.
"""

from collections.abc import Sequence

from mooring.store.contract import Change, Listing, Record, Revision, StoreClosed, Watch
from mooring.store.fanout import Fanout
from mooring.store.history import Limits
from mooring.store.state import State


class Mirror:
    def __init__(self, state: State, *, history: Limits, backlog: Limits) -> None:
        self._state = state
        self._fanout = Fanout(state.revision, history=history, backlog=backlog)
        self._closed = False

    @property
    def revision(self) -> Revision:
        return self._state.revision

    def count(self, prefix: str) -> int:
        return self._state.count(prefix)

    async def catch_up(self) -> None:
        """Nobody else writes, unless a store says otherwise: there is nothing to wait for."""

    async def get(self, key: str) -> Record | None:
        self._refuse_if_closed()
        return self._state.get(key)

    async def list(self, prefix: str, *, at: Revision | None = None, start: str = "", limit: int = 0) -> Listing:
        self._refuse_if_closed()
        if at is None:
            return self._state.under(prefix, start=start, limit=limit)
        since = self._fanout.history.after(at, prefix)
        return self._state.before(since, at, prefix, start=start, limit=limit)

    async def watch(self, prefix: str, *, after: Revision) -> Watch:
        self._refuse_if_closed()
        return self._fanout.subscribe(prefix, after)

    def _show(self, changes: Sequence[Change]) -> None:
        """These have happened: from now on they are read, and watches are told."""
        for change in changes:
            self._state.apply(change)
        self._fanout.publish(changes)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StoreClosed("the store is closed")
