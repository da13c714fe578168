"""The store without a disk: the executable specification of the contract, and the simulated world's store.

Every call does its work before it first could wait, so there are no threads, no locks and no order but the
callers' own. What it forgets at the end of the process, `sqlite` keeps; in all else the two answer alike.
"""

from mooring.store.contract import Change, Listing, Mismatch, Record, Revision, Store, StoreClosed, Watch
from mooring.store.fanout import BACKLOG, Fanout
from mooring.store.history import HISTORY, Limits
from mooring.store.state import State, Write, decide


class MemoryStore:
    def __init__(self, *, history: Limits = HISTORY, backlog: Limits = BACKLOG) -> None:
        self._state = State()
        self._fanout = Fanout(self._state.revision, history=history, backlog=backlog)
        self._closed = False

    @property
    def revision(self) -> Revision:
        return self._state.revision

    def count(self, prefix: str) -> int:
        return self._state.count(prefix)

    async def get(self, key: str) -> Record | None:
        self._refuse_if_closed()
        return self._state.get(key)

    async def list(self, prefix: str, *, at: Revision | None = None, start: str = "", limit: int = 0) -> Listing:
        self._refuse_if_closed()
        if at is None:
            return self._state.under(prefix, start=start, limit=limit)
        since = self._fanout.history.after(at, prefix)
        return self._state.before(since, at, prefix, start=start, limit=limit)

    async def write(self, key: str, value: bytes | None, *, expect: Revision) -> Change:
        self._refuse_if_closed()
        decided = decide(Write(key, value, expect), self._state.get(key), self._state.revision)
        if isinstance(decided, Mismatch):
            raise decided
        self._state.apply(decided)
        self._fanout.publish((decided,))
        return decided

    async def watch(self, prefix: str, *, after: Revision) -> Watch:
        self._refuse_if_closed()
        return self._fanout.subscribe(prefix, after)

    async def close(self) -> None:
        self._closed = True
        self._fanout.close()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StoreClosed("the store is closed")


_contract: type[Store] = MemoryStore
