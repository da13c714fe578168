"""EtcdStore: writes are etcd transactions, reads come from a replica. Compaction of etcd.

The store's revision is etcd's. A write returns once the replica has its change, so a caller reads its own writes, and
watches deliver changes of all servers in etcd's order. A transaction is retried if its response is lost: it cannot
succeed twice, and the write id in the stored value shows whether the first attempt did.
"""

import asyncio
import secrets
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from itertools import count
from typing import Any, Final, Self

import structlog

from mooring.clock import Clock
from mooring.store import contract
from mooring.store.contract import Record, Revision, StoreChange
from mooring.store.etcd.client import EtcdClient, EtcdTimeout, RevisionCompacted
from mooring.store.etcd.follower import Follower, Loader, ReadBarrier
from mooring.store.etcd.replica import KeyLayout, PendingWrite, Replica
from mooring.store.etcd.settings import EtcdSettings
from mooring.store.etcd.wire import etcd_pb2 as pb
from mooring.store.state import HISTORY, Limits, StoreState, Write
from mooring.store.watch_cache import BACKLOG

log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


class Compactor:
    """Compacts all of etcd every interval, up to the revision of one interval ago, which stays available for replay.

    The server whose compare-and-swap of a key succeeds does it, as kube-apiserver does with another key.
    """

    def __init__(self, client: EtcdClient, layout: KeyLayout, clock: Clock, *, interval: float) -> None:
        self._client = client
        self._key = layout.compaction_key
        self._clock = clock
        self._interval = interval
        #: Version of the key and revision of etcd at the last attempt.
        self._version = 0
        self._revision = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._clock.sleep(self._interval)
            try:
                await self.compact()
            except contract.StoreError as error:
                log.warning("etcd not compacted; retrying after the interval", error=str(error))

    async def compact(self) -> None:
        """Compact up to the revision of the last call, unless another server has compacted since."""
        response, outcome_unknown = await self._client.call_with_retries("Txn", self._swap(), pb.TxnResponse)
        if not response.succeeded or outcome_unknown:
            # Another server compacted, or an attempt of this one whose response was lost: start a new interval.
            found = response.responses[-1].response_range.kvs
            self._version, self._revision = found[0].version if found else 0, response.header.revision
            return
        compacted, self._version, self._revision = self._revision, self._version + 1, response.header.revision
        if compacted:
            try:
                await self._client.call("Compact", pb.CompactionRequest(revision=compacted), pb.CompactionResponse)
            except RevisionCompacted:
                return  # by another process, or by an attempt whose response was lost

    def _swap(self) -> pb.TxnRequest:
        read = pb.RequestOp(request_range=pb.RangeRequest(key=self._key))
        put = pb.RequestOp(request_put=pb.PutRequest(key=self._key, value=b"%d" % self._revision))
        return pb.TxnRequest(
            compare=[pb.Compare(target=pb.Compare.VERSION, key=self._key, version=self._version)],
            success=[put, read],
            failure=[read],
        )


class EtcdStore(Replica):
    def __init__(
        self,
        client: EtcdClient,
        layout: KeyLayout,
        loader: Loader,
        state: StoreState,
        clock: Clock,
        *,
        history: Limits,
        backlog: Limits,
    ) -> None:
        """Use `open`."""
        super().__init__(layout, state, history=history, backlog=backlog)
        self._client = client
        self._follower = Follower(client, layout, self, loader, clock)
        self._barrier = ReadBarrier(loader)
        # Write ids are unique among stores and across restarts.
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
        """Raises StoreUnusable, also if etcd does not answer."""
        async with AsyncExitStack() as opening:
            client = EtcdClient(settings, clock)
            opening.push_async_callback(client.close)
            layout = KeyLayout(settings.prefix)
            loader = Loader(client, layout)
            try:
                state = await loader.load_for_replay(await loader.claim_prefix())
                store = cls(client, layout, loader, state, clock, history=history, backlog=backlog)
                opening.push_async_callback(store._end_tasks)
                store._start(store._follower.run())
                if settings.compaction:
                    store._start(Compactor(client, layout, clock, interval=settings.compaction).run())
                await store.wait_current()
            except contract.StoreError as error:
                raise contract.StoreUnusable(str(error)) from error
            opening.pop_all()
            return store

    def disconnect_reason(self) -> str | None:
        """Why no events are received from etcd; None while connected."""
        return self._follower.disconnect_reason

    async def wait_current(self) -> None:
        self._refuse_if_closed()
        await self._wait_for_revision(await self._barrier.revision())

    async def write(
        self, key: str, value: bytes | None, *, expect: Revision, precondition: Record | None = None
    ) -> StoreChange:
        """As in the contract. A cancelled call may have been executed."""
        self._refuse_if_closed()
        self._writing += 1
        self._idle.clear()
        try:
            return await self._write(Write(key, value, expect, precondition))
        finally:
            self._writing -= 1
            if not self._writing:
                self._idle.set()

    async def close(self) -> None:
        self._closed = True
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="closing the store")
        await asyncio.shield(self._closing)

    async def _write(self, write: Write) -> StoreChange:
        write_id = self._writer + next(self._number).to_bytes(8)
        with self.track_write(write, write_id) as pending:
            try:
                response, outcome_unknown = await self._client.call_with_retries(
                    "Txn", self._layout.swap(write, write_id), pb.TxnResponse
                )
            except EtcdTimeout as error:
                if error.outcome_unknown:
                    raise _unknown(write, str(error)) from error
                raise contract.StoreError(f"{write.key} was not written: {error}") from error
            await self._wait_for_revision(response.header.revision)
            return self._outcome(write, response, pending, outcome_unknown=outcome_unknown)

    def _outcome(
        self, write: Write, response: pb.TxnResponse, pending: PendingWrite, *, outcome_unknown: bool
    ) -> StoreChange:
        """If an earlier attempt may have succeeded, the event in the replica decides, not the last response."""
        if (response.succeeded or outcome_unknown) and pending.change is not None:
            return pending.change
        if response.succeeded:
            raise contract.StoreError(
                f"{write.key} was written at revision {response.header.revision}, before the replica was reloaded"
            )
        if outcome_unknown and pending.lost:
            raise _unknown(write, "the response and the later events of etcd were lost")
        found = response.responses[0].response_range.kvs
        if write.precondition is not None and write.expect == (found[0].mod_revision if found else contract.ABSENT):
            raise contract.PreconditionFailed(write.precondition.key)
        raise contract.RevisionConflict(write.key, self._layout.stored(found[0]).record if found else None)

    async def _wait_for_revision(self, revision: int) -> None:
        try:
            async with asyncio.timeout(self._client.request_timeout):
                await self.wait_for_revision(revision)
        except TimeoutError:
            # etcd has executed the request, but its change cannot be read here.
            raise contract.StoreError(
                f"{self._client.name} is at revision {revision} and has sent changes up to {self.revision} only"
            ) from None

    def _start(self, run: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(run)
        task.add_done_callback(self._log_if_failed)
        self._tasks.append(task)

    def _log_if_failed(self, task: asyncio.Task[None]) -> None:
        """Log it at once; reads and writes only time out."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._follower.disconnect_reason = f"the etcd watch failed: {error!r}"
            log.error("etcd watch failed; restart the server", exc_info=error)

    async def _close(self) -> None:
        await self._idle.wait()
        await self._end_tasks()
        self.finish()
        await self._client.close()

    async def _end_tasks(self) -> None:
        await self._barrier.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for task in self._tasks:
            if not task.cancelled():
                task.result()  # raise a bug of Mooring


def _unknown(write: Write, reason: str) -> contract.StoreError:
    return contract.StoreError(f"whether {write.key} was written is not known: {reason}")
