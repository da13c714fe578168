"""Turns at volumes: one task at a time for each, and nothing kept of volumes that nobody is at.

For `csi_mounter`, which must not unstage what another pod is being given. Whoever came first goes first.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

#: Node, driver and handle.
VolumeKey = tuple[str, str, str]


@dataclass(slots=True, eq=False)
class _Turn:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: How many are at it or wait.
    wanted: int = 0


class VolumeTurns:
    def __init__(self) -> None:
        self._turns: dict[VolumeKey, _Turn] = {}

    def __len__(self) -> int:
        """How many volumes somebody is at."""
        return len(self._turns)

    @asynccontextmanager
    async def at(self, volume: VolumeKey) -> AsyncIterator[None]:
        """Nobody else is at the volume inside the block."""
        turn = self._turns.setdefault(volume, _Turn())
        turn.wanted += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                del self._turns[volume]
