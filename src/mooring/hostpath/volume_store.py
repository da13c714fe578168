"""Volume store: records in memory, their persistent copy, and the backing.

`put` updates the records at once, so that two calls never allocate the same bytes, and returns an awaitable for
durability. Calls for one volume are serialised (`locked`); concurrent creation or deletion is ABORTED (`exclusive`).
Started work is completed even if its caller is cancelled (`finish`), so that every directory has a record.
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
from mooring.hostpath import records
from mooring.hostpath.files import Backing
from mooring.hostpath.placement import DriverPools
from mooring.hostpath.records import DriverLayout, HostpathSettings, VolumeRecord
from mooring.hostpath.state_file import RecordChange, StateStore
from mooring.hostpath.usage import release_lost_nodes

T = TypeVar("T")

log: FilteringBoundLogger = structlog.get_logger(__name__)


@contextmanager
def file_errors(code: Code, action: str) -> Iterator[None]:
    """An OSError inside the block becomes a DriverError."""
    try:
        yield
    except OSError as error:
        raise DriverError(code, f"{action}: {error.strerror or error}") from error


class VolumeStore:
    """`open` before use, `close` at the end."""

    def __init__(
        self, layout: DriverLayout, settings: HostpathSettings, store: StateStore, backing: Backing, *, chance: Random
    ) -> None:
        self.layout = layout
        self.settings = settings
        self.backing = backing
        self.records = records.VolumeRecords(records.PersistedState())
        #: Held from reading the free bytes of the file system until the new volume is in the records.
        self.placing = asyncio.Lock()
        self._store = store
        self._chance = chance
        #: By volume id, while a call holds or waits for it.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._busy: set[str] = set()
        self._work: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        """Load the records. A removal that a crash interrupted is finished; a creation waits to be requested again."""
        self.records = records.VolumeRecords(await self._store.load())
        for volume in self.records.volumes():
            self.backing.reserve(volume)
        for volume in self.records.volumes():
            if volume.phase is records.VolumePhase.DELETING:
                await self.backing.remove(volume)
                await self.forget(volume)
        await self._release_lost_nodes()

    async def close(self) -> None:
        """Wait for work whose callers have left."""
        await asyncio.gather(*self._work, return_exceptions=True)

    def new_id(self) -> str:
        return self.records.new_id(self._chance)

    def known(self, volume_id: str) -> VolumeRecord:
        volume = self.records.get(volume_id)
        if volume is None:
            raise DriverError(Code.NOT_FOUND, f"volume {volume_id} does not exist")
        return volume

    async def pools(self) -> DriverPools:
        """With the free bytes of the file system, if a pool depends on it."""
        free = 0 if self.layout.sized else await self.backing.free()
        return DriverPools(self.layout, self.settings, self.records, free)

    def put(self, volume: VolumeRecord) -> Awaitable[None]:
        """Update the records. Awaiting the result waits until the change is durable; DriverError: it is reverted."""
        before = self.records.get(volume.volume_id)
        if volume == before:
            return _unchanged()
        self._put(volume)
        return self._write(volume.volume_id, volume, before)

    def forget(self, volume: VolumeRecord) -> Awaitable[None]:
        self._drop(volume.volume_id)
        return self._write(volume.volume_id, None, volume)

    def _put(self, volume: VolumeRecord) -> None:
        self.records.put(volume)
        self.backing.reserve(volume)

    def _drop(self, volume_id: str) -> None:
        self.records.drop(volume_id)
        self.backing.release(volume_id)

    def locked(self, volume_id: str) -> asyncio.Lock:
        """Serialises the calls for one volume."""
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
        nodes = self.layout.nodes
        for volume in self.records.volumes():
            for publication in volume.published:
                if publication.node not in nodes:
                    await self._withdraw(publication)
            kept = release_lost_nodes(volume, nodes)
            if kept.inline and volume.published and not kept.published:
                await self.backing.remove(kept)
                await self.forget(kept)
            else:
                await self.put(kept)

    async def _withdraw(self, publication: records.Publication) -> None:
        """The path of a deleted node may be in use otherwise: one that cannot be removed stays."""
        try:
            await self.backing.withdraw(publication)
        except OSError as error:
            log.warning("path of lost node kept", node=publication.node, path=publication.target, error=str(error))

    async def _write(self, volume_id: str, record: VolumeRecord | None, before: VolumeRecord | None) -> None:
        """Persist a record; the change is reverted if that fails."""
        try:
            await self._store.write(RecordChange(volume_id, record, self.records.serial))
        except OSError as error:
            if before is None:
                self._drop(volume_id)
            else:
                self._put(before)
            raise DriverError(Code.UNAVAILABLE, f"the driver cannot write its state: {error.strerror}") from error


async def _unchanged() -> None:
    """What `put` returns for a record that is durable already."""
