"""All volumes of a driver: ledger, persisted records and backing together.

A decision is made against the ledger and recorded there without waiting (`put`), so that two calls never promise the
same bytes; what is returned is awaited until the record is durable, which calls for different volumes do side by side.
Calls for one volume take turns (`locked`); creation and deletion refuse a second caller with ABORTED (`exclusive`).
Work that was begun is finished even when the caller has left (`finish`), so that every folder has a record.
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.csi.contract import Code, DriverError
from mooring.hostpath.backing import Backing
from mooring.hostpath.layout import Layout, Settings
from mooring.hostpath.ledger import Kept, Ledger
from mooring.hostpath.records import Phase, Publication, Volume
from mooring.hostpath.state import RecordChange, StateStore
from mooring.hostpath.usage import let_go

T = TypeVar("T")

log: FilteringBoundLogger = structlog.get_logger(__name__)


class VolumeStore:
    """`open` before use, `close` at the end."""

    def __init__(
        self, layout: Layout, settings: Settings, store: StateStore, backing: Backing, *, chance: Random
    ) -> None:
        self._layout = layout
        self.settings = settings
        self.backing = backing
        self.ledger = Ledger(Kept())
        #: Held from reading what the file system has left until the new volume is in the ledger.
        self.placing = asyncio.Lock()
        self._store = store
        self._chance = chance
        #: By volume id, while a call holds or waits for it.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._busy: set[str] = set()
        self._work: set[asyncio.Task[Any]] = set()

    @property
    def layout(self) -> Layout:
        return self._layout

    async def open(self) -> None:
        """Load the records. A removal that a crash interrupted is finished; a creation waits to be requested again."""
        self.ledger = Ledger(await self._store.load())
        for volume in self.ledger.volumes():
            if volume.phase is Phase.DELETING:
                await self.backing.remove(volume)
                await self.forget(volume)
        await self._release_lost_nodes()

    async def rearrange(self, layout: Layout) -> None:
        """Pools grow, nodes come and go. What a removed node used is no longer in use."""
        self._layout = layout
        await self._release_lost_nodes()

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

    def put(self, volume: Volume) -> Awaitable[None]:
        """Count a record from now on. Awaiting the result waits until it is durable; DriverError: it no longer
        counts."""
        before = self.ledger.get(volume.volume_id)
        if volume == before:
            return _unchanged()
        self.ledger.put(volume)
        return self._write(volume.volume_id, volume, before)

    def forget(self, volume: Volume) -> Awaitable[None]:
        self.ledger.drop(volume.volume_id)
        return self._write(volume.volume_id, None, volume)

    def locked(self, volume_id: str) -> asyncio.Lock:
        """Calls for one volume take turns: each sees what the one before made durable."""
        lock = self._locks.get(volume_id)
        if lock is None:
            lock = self._locks[volume_id] = asyncio.Lock()
        return lock

    @contextmanager
    def exclusive(self, key: str) -> Iterator[None]:
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
            # Retrieved, so that asyncio does not log a failure whose caller has left.
            task.exception()

    async def _release_lost_nodes(self) -> None:
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
                await self.put(kept)

    async def _withdraw(self, publication: Publication) -> None:
        """The path belonged to a node that is gone and may be in use otherwise: what cannot be removed stays."""
        try:
            await self.backing.withdraw(publication)
        except OSError as error:
            log.warning("path of lost node kept", node=publication.node, path=publication.target, error=str(error))

    async def _write(self, volume_id: str, record: Volume | None, before: Volume | None) -> None:
        """Persist a record; one that could not be persisted does not count."""
        try:
            await self._store.write(RecordChange(volume_id, record, self.ledger.serial))
        except OSError as error:
            if before is None:
                self.ledger.drop(volume_id)
            else:
                self.ledger.put(before)
            raise DriverError(Code.UNAVAILABLE, f"the driver cannot keep its state: {error.strerror}") from error


async def _unchanged() -> None:
    """What `put` returns for a record that is durable already."""
