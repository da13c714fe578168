"""The volumes in one place of custody: ledger, store and backing together, so that what counts is also kept.

One at a time decides (`deciding`); making and removing runs beside it, and whoever asks for a volume that is being
worked on hears ABORTED (`working_on`). Work that was begun is finished even when the caller has left (`finish`), so
that no thread makes a folder that nobody has a record of.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, TypeVar

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.csi.contract import Code, DriverError
from mooring.hostpath.backing import Backing
from mooring.hostpath.layout import Layout, Settings
from mooring.hostpath.ledger import Kept, Ledger
from mooring.hostpath.records import Phase, Publication, Volume
from mooring.hostpath.state import StateStore
from mooring.hostpath.usage import let_go

T = TypeVar("T")

log: FilteringBoundLogger = structlog.get_logger(__name__)


class Custody:
    """`open` before use, `close` at the end."""

    def __init__(
        self, layout: Layout, settings: Settings, store: StateStore, backing: Backing, *, chance: Random
    ) -> None:
        self._layout = layout
        self.settings = settings
        self.backing = backing
        self.ledger = Ledger(Kept())
        self.deciding = asyncio.Lock()
        self._store = store
        self._chance = chance
        self._busy: set[str] = set()
        self._work: set[asyncio.Task[Any]] = set()

    @property
    def layout(self) -> Layout:
        return self._layout

    async def open(self) -> None:
        """Take over what is kept. A removal that a crash cut short is finished; a creation waits to be asked again."""
        async with self.deciding:
            self.ledger = Ledger(await self._store.load())
            for volume in self.ledger.volumes():
                if volume.phase is Phase.DELETING:
                    await self.backing.remove(volume)
                    await self.forget(volume)
            await self._let_go_of_lost_nodes()

    async def rearrange(self, layout: Layout) -> None:
        """Pools grow, nodes come and go. What a node used that is gone now is no longer in use."""
        async with self.deciding:
            self._layout = layout
            await self._let_go_of_lost_nodes()

    async def close(self) -> None:
        """Wait for work whose callers have left."""
        await asyncio.gather(*self._work, return_exceptions=True)

    def new_id(self) -> str:
        return self.ledger.new_id(self._chance)

    def known(self, volume_id: str) -> Volume:
        volume = self.ledger.get(volume_id)
        if volume is None:
            raise DriverError(Code.NOT_FOUND, f"volume {volume_id} does not exist")
        return volume

    async def free(self) -> int:
        """What the file system below has to give, where a pool depends on it."""
        if self.layout.sized:
            return 0
        return await self.backing.free(self.ledger.volumes())

    async def keep(self, volume: Volume) -> None:
        before = self.ledger.get(volume.volume_id)
        if volume == before:
            return
        self.ledger.put(volume)
        await self._save(volume.volume_id, before)

    async def forget(self, volume: Volume) -> None:
        self.ledger.drop(volume.volume_id)
        await self._save(volume.volume_id, volume)

    @contextmanager
    def working_on(self, key: str) -> Iterator[None]:
        if key in self._busy:
            raise DriverError(Code.ABORTED, f"an operation on volume {key} is already going on")
        self._busy.add(key)
        try:
            yield
        finally:
            self._busy.remove(key)

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._work.discard(task)
        if not task.cancelled():
            # Looked at, so that a failure whose caller has left is not reported as forgotten.
            task.exception()

    async def _let_go_of_lost_nodes(self) -> None:
        nodes = self._layout.nodes
        for volume in self.ledger.volumes():
            for publication in volume.published:
                if publication.node not in nodes:
                    await self._withdraw(publication)
            kept = let_go(volume, nodes)
            if kept.inline and volume.published and not kept.published:
                await self.backing.remove(kept)
                await self.forget(kept)
            else:
                await self.keep(kept)

    async def _withdraw(self, publication: Publication) -> None:
        """The path was a lost node's, and may be anybody's by now: what cannot be taken away stays there."""
        try:
            await self.backing.withdraw(publication)
        except OSError as error:
            log.warning("a lost node's path stays", node=publication.node, path=publication.target, error=str(error))

    async def _save(self, volume_id: str, before: Volume | None) -> None:
        """Keep the ledger; what could not be kept does not count."""
        try:
            await self._store.save(self.ledger.kept())
        except OSError as error:
            if before is None:
                self.ledger.drop(volume_id)
            else:
                self.ledger.put(before)
            raise DriverError(Code.UNAVAILABLE, f"the driver cannot keep its state: {error.strerror}") from error
