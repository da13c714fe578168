"""The store without a disk: the executable specification of the contract, and the simulated world's store.

Every call does its work before it first could wait, so there are no threads, no locks and no order but the
callers' own. What it forgets at the end of the process, `sqlite` keeps; in all else the two answer alike.
"""

from mooring.store.contract import Change, Record, Revision, Store
from mooring.store.fanout import BACKLOG
from mooring.store.history import HISTORY, Limits
from mooring.store.mirror import Mirror
from mooring.store.state import State, Write, decide


class MemoryStore(Mirror):
    def __init__(self, *, history: Limits = HISTORY, backlog: Limits = BACKLOG) -> None:
        super().__init__(State(), history=history, backlog=backlog)

    async def write(self, key: str, value: bytes | None, *, expect: Revision, given: Record | None = None) -> Change:
        self._refuse_if_closed()
        decided = decide(Write(key, value, expect, given), self._state.get, self._state.revision)
        if not isinstance(decided, Change):
            raise decided
        self._show((decided,))
        return decided

    async def close(self) -> None:
        self._closed = True
        self._fanout.close()


_contract: type[Store] = MemoryStore
