"""In-memory replica of etcd's data, and the layout of keys and values in etcd. No I/O.

    /mooring/format             format of the other keys
    /mooring/compaction         revision at the last compaction
    /mooring/data<key>          the value, followed by the id of the write

The write id identifies a write whose response was lost. A deletion leaves no id: it is identified by key and revision.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from typing import Final, TypeAlias

import msgspec

from mooring.store.contract import Record, Revision, StoreChange, StoreClosed
from mooring.store.etcd.wire import etcd_pb2 as pb
from mooring.store.state import Limits, StoreState, Write
from mooring.store.watch_cache import WatchCache

#: Increased when an older Mooring could not read the data.
FORMAT: Final = 1
#: Separates a value from its write id; does not occur in JSON.
_MARK: Final = b"\0moor"
#: Eight random bytes of the store, eight of a counter.
WRITE_ID_BYTES: Final = 16
_TAIL: Final = len(_MARK) + WRITE_ID_BYTES


class EtcdRecord(msgspec.Struct, frozen=True, gc=False):
    """A record and its write id, empty for a foreign writer."""

    record: Record
    write_id: bytes


class KeyLayout:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.encode()
        self.format_key = self._prefix + b"format"
        self.compaction_key = self._prefix + b"compaction"
        self._data = self._prefix + b"data"

    @property
    def everything(self) -> tuple[bytes, bytes]:
        """Key range of the prefix: first key, and end (exclusive)."""
        return self._prefix, _after(self._prefix)

    @property
    def data(self) -> tuple[bytes, bytes]:
        return self._data, _after(self._data)

    def key(self, stored: bytes) -> str | None:
        """The store's key; None outside the data range."""
        # A foreign writer can create keys that are not UTF-8; they are readable here, but not writable.
        return stored[len(self._data) :].decode(errors="surrogateescape") if stored.startswith(self._data) else None

    def stored(self, found: pb.KeyValue) -> EtcdRecord:
        """Decode a key of the data range."""
        value, write_id = found.value, b""
        if value[-_TAIL:-WRITE_ID_BYTES] == _MARK:
            value, write_id = value[:-_TAIL], value[-WRITE_ID_BYTES:]
        key = found.key[len(self._data) :].decode(errors="surrogateescape")
        return EtcdRecord(Record(key, value, Revision(found.mod_revision), Revision(found.create_revision)), write_id)

    def swap(self, write: Write, write_id: bytes) -> pb.TxnRequest:
        """Transaction: write if key and precondition have the expected revisions, else read the key."""
        key = self._data + write.key.encode()
        compare = [pb.Compare(target=pb.Compare.MOD, key=key, mod_revision=write.expect)]
        if write.precondition is not None:
            precondition = self._data + write.precondition.key.encode()
            compare.append(
                pb.Compare(target=pb.Compare.MOD, key=precondition, mod_revision=write.precondition.revision)
            )
        if write.value is None:
            change = pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key))
        else:
            change = pb.RequestOp(request_put=pb.PutRequest(key=key, value=b"".join((write.value, _MARK, write_id))))
        return pb.TxnRequest(
            compare=compare, success=[change], failure=[pb.RequestOp(request_range=pb.RangeRequest(key=key))]
        )


def _after(prefix: bytes) -> bytes:
    """The first key after a prefix, which ends in a byte below 255."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


#: Identifies a write: its id, or the deleted key and revision.
_WriteId: TypeAlias = bytes | tuple[str, Revision]


class InconsistentEvents(Exception):
    """The events do not fit the replica: it must be reloaded."""


class PendingWrite:
    """An uncompleted write, and its change once the replica has received it."""

    def __init__(self) -> None:
        self.change: StoreChange | None = None
        #: Whether the replica was reloaded since: the change may have been missed.
        self.lost = False


class Replica(WatchCache):
    def __init__(self, layout: KeyLayout, state: StoreState, *, history: Limits, backlog: Limits) -> None:
        super().__init__(state, history=history, backlog=backlog)
        self._layout = layout
        self._pending: dict[_WriteId, list[PendingWrite]] = {}
        #: Callers of `wait_for_revision`, the lowest revision first.
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()
        #: Set while calls wait for a revision.
        self.has_waiters = asyncio.Event()

    def take(self, events: Iterable[pb.Event]) -> None:
        """Apply the events of one watch response. After InconsistentEvents the replica must be replaced."""
        known = self._state.revision
        changes: list[StoreChange] = []
        for event in events:
            if event.kv.mod_revision <= known:
                continue  # received before the reconnect
            revision = Revision(event.kv.mod_revision)
            key = self._layout.key(event.kv.key)
            if key is None:
                self._state.advance(revision)
                continue
            # Mooring writes one key per revision; a foreign writer may not.
            if changes and changes[-1].revision == revision:
                raise InconsistentEvents(f"revision {revision}: several keys changed by a foreign writer")
            change, write_id = self._change(key, event)
            self._state.apply(change)
            changes.append(change)
            for pending in self._pending.get(write_id, ()):
                pending.change = change
        self._hub.publish(changes)
        self._wake()

    def complete_up_to(self, revision: int) -> None:
        """Advance to a progress notification: etcd has sent all our events up to the revision."""
        if revision > self._state.revision:
            self._state.advance(Revision(revision))
            self._wake()

    def replace(self, state: StoreState) -> None:
        """Reset to a reloaded state: all watches end, and changes of pending writes may be missed."""
        self._state = state
        self._hub.restart(state.revision)
        for track_write in self._pending.values():
            for pending in track_write:
                pending.lost = True
        self._wake()

    @contextmanager
    def track_write(self, write: Write, write_id: bytes) -> Iterator[PendingWrite]:
        """Record the change of this write inside the block."""
        key: _WriteId = (write.key, write.expect) if write.value is None else write_id
        pending = PendingWrite()
        self._pending.setdefault(key, []).append(pending)
        try:
            yield pending
        finally:
            self._pending[key].remove(pending)
            if not self._pending[key]:
                del self._pending[key]

    async def wait_for_revision(self, revision: int) -> None:
        """Wait until the replica has this revision."""
        if self._state.revision >= revision:
            return
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (revision, next(self._order), reached))
        self.has_waiters.set()
        await reached

    def finish(self) -> None:
        """No more events will be applied: end watches and waiting calls."""
        self._hub.close()
        for _, _, reached in self._waiting:
            if not reached.done():
                reached.set_exception(StoreClosed("the store is closed"))
        self._waiting.clear()

    def _change(self, key: str, event: pb.Event) -> tuple[StoreChange, _WriteId]:
        before = self._state.get(key)
        revision = Revision(event.kv.mod_revision)
        if event.type == pb.Event.DELETE:
            if before is None:
                raise InconsistentEvents(f"{key} was deleted at revision {revision} and never was there")
            return StoreChange(key, revision, before, None), (key, before.revision)
        stored = self._layout.stored(event.kv)
        return StoreChange(key, revision, before, stored.record), stored.write_id

    def _wake(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._state.revision:
            _, _, reached = heappop(self._waiting)
            if not reached.done():  # else the caller was cancelled
                reached.set_result(None)
        if not self._waiting:
            self.has_waiters.clear()
