"""Where a driver's records are persisted: the contract, and a store in memory for the simulated environment.

`state_file` is the durable one. A driver writes a record before it acts on a decision, and again when it has acted.
"""

from typing import NamedTuple, Protocol

from mooring.hostpath.ledger import Kept
from mooring.hostpath.records import Volume


class RecordChange(NamedTuple):
    """One volume's new record, None when the volume is gone. `serial` counts the ids given until then."""

    volume_id: str
    record: Volume | None
    serial: int


class StateStore(Protocol):
    async def load(self) -> Kept: ...

    async def write(self, change: RecordChange) -> None:
        """Durable on return. OSError: the change is not persisted. After a crash `load` returns a change in whole or
        not at all; changes of one volume are awaited one after the other."""
        ...


class MemoryState:
    def __init__(self) -> None:
        self._serial = 0
        self._volumes: dict[str, Volume] = {}

    async def load(self) -> Kept:
        return Kept(self._serial, tuple(self._volumes.values()))

    async def write(self, change: RecordChange) -> None:
        self._serial = max(self._serial, change.serial)
        if change.record is None:
            self._volumes.pop(change.volume_id, None)
        else:
            self._volumes[change.volume_id] = change.record


_contract: StateStore = MemoryState()
