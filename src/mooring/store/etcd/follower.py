"""Initial load, etcd watch and read barrier of the replica.

After a disconnect the watch continues at the replica's revision: no event is skipped or applied twice. If etcd has
compacted the events since then, or is another cluster, the replica is reloaded and its watches end.
"""

import asyncio
from typing import Final

import grpc.aio
import structlog

from mooring.clock import Clock, set_within
from mooring.store.contract import Record, Revision, StoreClosed, StoreError, StoreUnusable
from mooring.store.etcd.client import CONNECT_FAILED, RETRY_SECONDS, EtcdClient, RevisionCompacted, WatchStream
from mooring.store.etcd.replica import FORMAT, InconsistentEvents, KeyLayout, Replica
from mooring.store.etcd.wire import etcd_pb2 as pb
from mooring.store.state import StoreState

#: As many as the history keeps per collection: ten seconds at 1,000 writes a second.
MAX_REPLAYED_REVISIONS: Final = 10_000
#: Records per Range request: 1 MB with records of 2 kB.
PAGE_RECORDS: Final = 500
#: Before these, etcd could send a progress notification before the events it covers (etcd's issue 15220).
MIN_ETCD_VERSIONS: Final = ((3, 4, 25), (3, 5, 8))
#: A load restarts if etcd compacts the revision meanwhile, which happens every few minutes.
MAX_LOAD_ATTEMPTS: Final = 3


class Loader:
    def __init__(self, client: EtcdClient, layout: KeyLayout) -> None:
        self._client = client
        self._layout = layout

    async def claim_prefix(self) -> Revision:
        """Check that the prefix has Mooring's format or is empty, then write the format.

        Returns the revision of the format key. Raises StoreUnusable.
        """
        await self._check_version()
        key, first, end = self._layout.format_key, *self._layout.everything
        absent = pb.Compare(target=pb.Compare.VERSION, key=key, version=0)
        read = pb.RequestOp(request_range=pb.RangeRequest(key=key))
        count = pb.RequestOp(request_range=pb.RangeRequest(key=first, range_end=end, count_only=True))
        check = pb.TxnRequest(compare=[absent], success=[count], failure=[read])
        response = await self._client.call("Txn", check, pb.TxnResponse)
        found = response.responses[0].response_range
        if not response.succeeded:
            return self._check_format(found.kvs[0])
        if found.count:
            raise StoreUnusable(
                f"{self._client.name} has {found.count} keys under {first.decode()} that are not Mooring's: choose "
                "another prefix, or remove them"
            )
        put = pb.RequestOp(request_put=pb.PutRequest(key=key, value=b"%d" % FORMAT))
        # Or read it, if another server wrote it first.
        claim = pb.TxnRequest(compare=[absent], success=[put, read], failure=[read])
        written = await self._client.call("Txn", claim, pb.TxnResponse)
        return self._check_format(written.responses[-1].response_range.kvs[0])

    async def current_header(self) -> pb.ResponseHeader:
        """A header with etcd's revision, read after this call (linearizable)."""
        request = pb.RangeRequest(key=self._layout.format_key, count_only=True)
        return (await self._client.call("Range", request, pb.RangeResponse)).header

    async def load_for_replay(self, since: Revision) -> StoreState:
        """A past state, so that the watch replays later events into the history and clients can resume watches.

        Not older than `since` or than etcd's compaction.
        """
        at = Revision(max(since, (await self.current_header()).revision - MAX_REPLAYED_REVISIONS))
        for _ in range(MAX_LOAD_ATTEMPTS):
            try:
                return await self._at(at)
            except RevisionCompacted:
                at = await self.oldest_kept(at)
        return await self._at(at)

    async def load_current(self) -> StoreState:
        return await self._at(Revision((await self.current_header()).revision))

    async def oldest_kept(self, waiter: Revision) -> Revision:
        """The oldest revision after compaction; `waiter` was compacted."""
        stream = self._client.watch()
        try:
            first, end = self._layout.everything
            create = pb.WatchCreateRequest(key=first, range_end=end, start_revision=waiter)
            await stream.write(pb.WatchRequest(create_request=create))
            async for response in stream:
                if response.compact_revision:
                    return Revision(response.compact_revision)
                if response.events:
                    break  # not compacted
            return waiter
        except grpc.aio.AioRpcError as error:
            raise StoreError(f"{self._client.name} closed the connection: {error.details()}") from error
        finally:
            stream.cancel()

    async def _at(self, revision: Revision) -> StoreState:
        records: list[Record] = []
        start, end = self._layout.data
        while True:
            request = pb.RangeRequest(key=start, range_end=end, revision=revision, limit=PAGE_RECORDS)
            response = await self._client.call("Range", request, pb.RangeResponse)
            records += [self._layout.stored(found).record for found in response.kvs]
            if not response.more:
                return StoreState(records, revision)
            start = response.kvs[-1].key + b"\0"

    async def _check_version(self) -> None:
        response = await self._client.call("Status", pb.StatusRequest(), pb.StatusResponse)
        version = tuple(int(part) for part in response.version.partition("-")[0].split(".") if part.isdigit())
        same = [minimum for minimum in MIN_ETCD_VERSIONS if minimum[:2] == version[:2]]
        if version < (same[0] if same else MIN_ETCD_VERSIONS[0]):
            needed = " or ".join(".".join(map(str, minimum)) for minimum in MIN_ETCD_VERSIONS)
            raise StoreUnusable(f"{self._client.name} has version {response.version}: at least {needed} is required")

    def _check_format(self, found: pb.KeyValue) -> Revision:
        text, prefix = found.value.decode(errors="replace"), self._layout.everything[0].decode()
        if not text.isdecimal():
            raise StoreUnusable(f"{prefix} in {self._client.name} is not Mooring's: choose another prefix")
        if int(text) > FORMAT:
            raise StoreUnusable(
                f"{prefix} in {self._client.name} was written by a newer Mooring (format {text}, this one reads up to "
                f"{FORMAT}): run the newer one, or choose another prefix"
            )
        return Revision(found.create_revision)


class ReadBarrier:
    """Reads etcd's revision; one request serves all calls made while the previous one was pending."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        #: Of calls made after the pending request was sent.
        self._next: asyncio.Future[int] | None = None
        self._request: asyncio.Task[None] | None = None

    async def revision(self) -> int:
        """etcd's revision, read after this call. Raises StoreError."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            if self._request is None or self._request.done():
                self._request = asyncio.create_task(self._fetch(), name="etcd's revision")
        return await asyncio.shield(self._next)

    async def close(self) -> None:
        if self._request is not None:
            self._request.cancel()
            await asyncio.wait((self._request,))

    async def _fetch(self) -> None:
        while self._next is not None:
            waiter, self._next = self._next, None
            try:
                waiter.set_result((await self._loader.current_header()).revision)
            except StoreError as error:
                waiter.set_exception(error)
            except asyncio.CancelledError:
                for left in (waiter, self._next):
                    if left is not None:
                        left.set_exception(StoreClosed("the store is closed"))
                        left.exception()  # the caller may be cancelled
                raise


#: Between progress requests while reads wait for a revision: etcd answers only once all events are sent, so one
#: request may not be enough.
WAITING_PROGRESS_SECONDS: Final = 0.02
#: Between progress requests otherwise: keeps bookmarks ahead of etcd's compaction.
IDLE_PROGRESS_SECONDS: Final = 10.0

log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


class _Disconnected(Exception):
    """The watch stream ended."""


class _Gap(Exception):
    """The replica has missed events that etcd cannot replay."""


class Follower:
    def __init__(self, client: EtcdClient, layout: KeyLayout, replica: Replica, loader: Loader, clock: Clock) -> None:
        self._client = client
        self._layout = layout
        self._replica = replica
        self._loader = loader
        self._clock = clock
        #: Cluster id of the replicated etcd; 0 if unknown.
        self._cluster = 0
        #: None while connected.
        self.disconnect_reason: str | None = None
        #: Whether the disconnect was logged.
        self._logged = False

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            endpoint = self._client.endpoint
            try:
                await self._check_identity()
                await self._follow()
            except _Gap as gap:
                await self._resync(str(gap))
            except (_Disconnected, StoreError) as error:
                self._log_disconnect(str(error))
                self._client.switch_endpoint(endpoint)
            await self._clock.sleep(RETRY_SECONDS)

    async def _check_identity(self) -> None:
        """A restored backup has a lower revision than the replica, or another cluster id."""
        header = await self._loader.current_header()
        if header.revision < self._replica.revision:
            raise _Gap(f"etcd's revision decreased from {self._replica.revision} to {header.revision}")
        if self._cluster and header.cluster_id != self._cluster:
            raise _Gap("the endpoint belongs to another etcd cluster")
        self._cluster = header.cluster_id

    async def _follow(self) -> None:
        """Apply watch events until disconnected."""
        stream = self._client.watch()
        progress: asyncio.Task[None] | None = None
        try:
            first, end = self._layout.everything
            create = pb.WatchCreateRequest(key=first, range_end=end, start_revision=self._replica.revision + 1)
            await stream.write(pb.WatchRequest(create_request=create))
            async for response in stream:
                if response.canceled:
                    raise _canceled(response)
                if response.created:
                    self._connected()
                    progress = asyncio.create_task(self._request_progress(stream), name="etcd progress")
                elif response.events:
                    # The header has etcd's current revision: later events may be in the next response.
                    self._replica.take(response.events)
                else:
                    self._replica.complete_up_to(response.header.revision)
        except InconsistentEvents as torn:
            raise _Gap(str(torn)) from torn
        except grpc.aio.AioRpcError as error:
            raise _Disconnected(error.details() or error.code().name) from error
        except asyncio.InvalidStateError as error:  # raised by a write to an ended stream
            raise _Disconnected(str(error) or "the connection was closed") from error
        finally:
            if progress is not None:
                progress.cancel()
            stream.cancel()
        raise _Disconnected("etcd ended the watch")

    async def _request_progress(self, stream: WatchStream) -> None:
        """Other writers advance etcd's revision without events for this watch."""
        request = pb.WatchRequest(progress_request=pb.WatchProgressRequest())
        while True:
            waiting = await set_within(self._replica.has_waiters, IDLE_PROGRESS_SECONDS, self._clock)
            if waiting:
                # The awaited event is usually already sent.
                await self._clock.sleep(WAITING_PROGRESS_SECONDS)
            try:
                await stream.write(request)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return  # `_follow` gets the same error

    async def _resync(self, reason: str) -> None:
        log.error("etcd events missed; reloading, all watches end", reason=reason)
        try:
            await self._loader.claim_prefix()  # etcd may be empty now
            state = await self._loader.load_current()
        except StoreError as error:
            self._log_disconnect(str(error))
            return
        self._cluster = 0
        self._replica.replace(state)

    def _connected(self) -> None:
        if self._logged:
            log.warning("etcd connection restored", etcd=self._client.name, revision=self._replica.revision)
        self._logged = False
        self.disconnect_reason = None

    def _log_disconnect(self, reason: str) -> None:
        """Logged once per disconnect."""
        self.disconnect_reason = reason
        if not self._logged:
            error = reason.removeprefix(f"{CONNECT_FAILED}; ")
            log.error("etcd unreachable; retrying", etcd=self._client.name, error=error)
        self._logged = True


def _canceled(response: pb.WatchResponse) -> Exception:
    if response.compact_revision:
        return _Gap(f"etcd has compacted the revisions up to {response.compact_revision}")
    return _Disconnected(response.cancel_reason or "etcd ended the watch")
