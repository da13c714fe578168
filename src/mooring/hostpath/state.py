"""Where the ledger is kept: the contract, and a store that forgets with the process, for the simulated world.

The store for real is `state_file`. A driver saves before it acts on what it decided, and again when it has.
"""

from typing import Protocol

from mooring.hostpath.ledger import Kept


class StateStore(Protocol):
    async def load(self) -> Kept: ...

    async def save(self, kept: Kept) -> None:
        """All or nothing: after a crash `load` gives either this or what was there before."""
        ...


class MemoryState:
    def __init__(self) -> None:
        self._kept = Kept()

    async def load(self) -> Kept:
        return self._kept

    async def save(self, kept: Kept) -> None:
        self._kept = kept


_contract: StateStore = MemoryState()
