"""The store whose truth is etcd: writes are its transactions, reads come from a replica of it.

etcd's revision is ours. A write returns once the replica has it, so whoever wrote it reads it, and watches are told in
etcd's order, whichever server the change came from. An answer that is lost is asked for again: the same transaction
cannot take place twice, and the name of the write tells whether it was the first attempt that did.
"""

import asyncio
import secrets
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from itertools import count
from typing import Any, Final, Self

import structlog

from mooring.clock import Clock
from mooring.store.contract import ABSENT, Change, Mismatch, Moved, Record, Revision, Store, StoreError, StoreUnusable
from mooring.store.etcd.barrier import Barrier
from mooring.store.etcd.channel import Channel, Unanswered
from mooring.store.etcd.compaction import Compactor
from mooring.store.etcd.following import Follower
from mooring.store.etcd.layout import Layout
from mooring.store.etcd.loading import Loader
from mooring.store.etcd.replica import Expected, Replica
from mooring.store.etcd.settings import EtcdSettings
from mooring.store.etcd.wire import etcd_pb2 as pb
from mooring.store.fanout import BACKLOG
from mooring.store.history import HISTORY, Limits
from mooring.store.state import State, Write

log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


class EtcdStore(Replica):
    def __init__(
        self,
        channel: Channel,
        layout: Layout,
        loader: Loader,
        state: State,
        clock: Clock,
        *,
        history: Limits,
        backlog: Limits,
    ) -> None:
        """Use `open`."""
        super().__init__(layout, state, history=history, backlog=backlog)
        self._channel = channel
        self._follower = Follower(channel, layout, self, loader, clock)
        self._barrier = Barrier(loader)
        # Different stores never give the same name, a store that restarts included.
        self._writer = secrets.token_bytes(8)
        self._number = count()
        self._tasks: list[asyncio.Task[None]] = []
        self._writing = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, settings: EtcdSettings, clock: Clock, *, history: Limits = HISTORY, backlog: Limits = BACKLOG
    ) -> Self:
        """Raises StoreUnusable, also where etcd does not answer."""
        async with AsyncExitStack() as opening:
            channel = Channel(settings, clock)
            opening.push_async_callback(channel.close)
            layout = Layout(settings.prefix)
            loader = Loader(channel, layout)
            try:
                state = await loader.past(await loader.take_possession())
                store = cls(channel, layout, loader, state, clock, history=history, backlog=backlog)
                opening.push_async_callback(store._end_tasks)
                store._start(store._follower.run())
                if settings.compaction:
                    store._start(Compactor(channel, layout, clock, interval=settings.compaction).run())
                await store.catch_up()
            except StoreError as error:
                raise StoreUnusable(str(error)) from error
            opening.pop_all()
            return store

    def trouble(self) -> str | None:
        """Why changes do not come from etcd; None while they do."""
        return self._follower.trouble

    async def catch_up(self) -> None:
        self._refuse_if_closed()
        await self._reach(await self._barrier.newest())

    async def write(self, key: str, value: bytes | None, *, expect: Revision, given: Record | None = None) -> Change:
        """As the contract says. A caller that is cancelled while it waits does not know the outcome."""
        self._refuse_if_closed()
        self._writing += 1
        self._idle.clear()
        try:
            return await self._write(Write(key, value, expect, given))
        finally:
            self._writing -= 1
            if not self._writing:
                self._idle.set()

    async def close(self) -> None:
        self._closed = True
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="closing the store")
        await asyncio.shield(self._closing)

    async def _write(self, write: Write) -> Change:
        name = self._writer + next(self._number).to_bytes(8)
        with self.expecting(write, name) as expected:
            try:
                answer, doubt = await self._channel.insist("Txn", self._layout.swap(write, name), pb.TxnResponse)
            except Unanswered as error:
                if error.doubt:
                    raise _unknown(write, str(error)) from error
                raise StoreError(f"{write.key} was not written: {error}") from error
            await self._reach(answer.header.revision)
            return self._outcome(write, answer, expected, doubt=doubt)

    def _outcome(self, write: Write, answer: pb.TxnResponse, expected: Expected, *, doubt: bool) -> Change:
        """Where an earlier attempt may have reached etcd, what the replica saw counts, not what the last one met."""
        if (answer.succeeded or doubt) and expected.change is not None:
            return expected.change
        if answer.succeeded:
            raise StoreError(f"{write.key} was written at revision {answer.header.revision}, before watches began anew")
        if doubt and expected.lost:
            raise _unknown(write, "etcd's answer was lost, and what happened since as well")
        found = answer.responses[0].response_range.kvs
        if write.given is not None and write.expect == (found[0].mod_revision if found else ABSENT):
            raise Moved(write.given.key)
        raise Mismatch(write.key, self._layout.stored(found[0]).record if found else None)

    async def _reach(self, revision: int) -> None:
        try:
            async with asyncio.timeout(self._channel.patience):
                await self.reach(revision)
        except TimeoutError:
            # What was asked of etcd is done; whoever asked cannot be shown it.
            raise StoreError(
                f"{self._channel.name} is at revision {revision} and has sent changes up to {self.revision} only"
            ) from None

    def _start(self, run: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(run)
        task.add_done_callback(self._tell_if_failed)
        self._tasks.append(task)

    def _tell_if_failed(self, task: asyncio.Task[None]) -> None:
        """Writes and reads fail in their time; why, is not to be found out only when the store closes."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._follower.trouble = f"a bug ended what follows etcd: {error!r}"
            log.error("the store no longer follows etcd; restart the server", exc_info=error)

    async def _close(self) -> None:
        await self._idle.wait()
        await self._end_tasks()
        self.finish()
        await self._channel.close()

    async def _end_tasks(self) -> None:
        await self._barrier.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for task in self._tasks:
            if not task.cancelled():
                task.result()  # a bug of ours is not kept quiet


def _unknown(write: Write, why: str) -> StoreError:
    return StoreError(f"whether {write.key} was written is not known: {why}")


_contract: type[Store] = EtcdStore
