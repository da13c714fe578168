"""What volumes are made of: the contract, and nothing at all for the simulated world.

`files` is the real one. Every method is idempotent and raises OSError; which error a caller of the driver sees is
decided in `driver`.
"""

from collections.abc import Sequence
from typing import Protocol

from mooring.hostpath.records import Publication, Volume


class Backing(Protocol):
    async def create(self, volume: Volume) -> None: ...

    async def remove(self, volume: Volume) -> None: ...

    async def publish(self, volume: Volume, publication: Publication) -> None: ...

    async def withdraw(self, publication: Publication) -> None:
        """Undo `publish`, the target included."""
        ...

    async def free(self, volumes: Sequence[Volume]) -> int:
        """Bytes left to promise on the file system, with these volumes taken at their full size."""
        ...


class NoBacking:
    """Volumes that exist in the ledger alone; their pools have sizes, so nobody asks what is left below."""

    async def create(self, volume: Volume) -> None:
        pass

    async def remove(self, volume: Volume) -> None:
        pass

    async def publish(self, volume: Volume, publication: Publication) -> None:
        pass

    async def withdraw(self, publication: Publication) -> None:
        pass

    async def free(self, volumes: Sequence[Volume]) -> int:
        return 0


_contract: Backing = NoBacking()
