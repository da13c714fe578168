"""etcd's data in memory: what reads are answered from, and who waits for it to come as far as they need.

Takes what the watch of etcd brings, in order, and tells the store's own watches. Knows which writes are under way, so
that each finds the change it made. On the event loop only; how the events get here is `following`.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias

from mooring.store.contract import Change, Revision, StoreClosed
from mooring.store.etcd.layout import Layout
from mooring.store.etcd.wire import etcd_pb2 as pb
from mooring.store.history import Limits
from mooring.store.mirror import Mirror
from mooring.store.state import State, Write

#: What tells that a change is somebody's write: its name, or of a deletion what was deleted.
_Sign: TypeAlias = bytes | tuple[str, Revision]


class Torn(Exception):
    """The events cannot be ours: the replica must be made anew."""


class Expected:
    """A write under way, and what became of it as far as the replica has come."""

    def __init__(self) -> None:
        self.change: Change | None = None
        #: Whether the replica was made anew meanwhile: then a change may have been missed.
        self.lost = False


class Replica(Mirror):
    def __init__(self, layout: Layout, state: State, *, history: Limits, backlog: Limits) -> None:
        super().__init__(state, history=history, backlog=backlog)
        self._layout = layout
        self._expected: dict[_Sign, list[Expected]] = {}
        #: Those who wait for a revision, the lowest first.
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()
        #: Set while somebody waits.
        self.wanted = asyncio.Event()

    def take(self, events: Iterable[pb.Event]) -> None:
        """What one answer of the watch brings: all changes up to its last. Raises Torn, and is then of no use."""
        known = self._state.revision
        changes: list[Change] = []
        for event in events:
            if event.kv.mod_revision <= known:
                continue  # seen before the line broke
            revision = Revision(event.kv.mod_revision)
            key = self._layout.key(event.kv.key)
            if key is None:
                self._state.advance(revision)
                continue
            # One write makes one revision; whoever writes past us may not keep to that.
            if changes and changes[-1].revision == revision:
                raise Torn(f"several keys were written at revision {revision}, by somebody else than Mooring")
            change, sign = self._change(key, event)
            self._state.apply(change)
            changes.append(change)
            for expected in self._expected.get(sign, ()):
                expected.change = change
        self._fanout.publish(changes)
        self._wake()

    def complete_up_to(self, revision: int) -> None:
        """etcd says that it has sent everything up to a revision; what it did not send, was not ours."""
        if revision > self._state.revision:
            self._state.advance(Revision(revision))
            self._wake()

    def replace(self, state: State) -> None:
        """Begin anew from another state: watches are cut off, and writes under way may have been missed."""
        self._state = state
        self._fanout.restart(state.revision)
        for expecting in self._expected.values():
            for expected in expecting:
                expected.lost = True
        self._wake()

    @contextmanager
    def expecting(self, write: Write, name: bytes) -> Iterator[Expected]:
        """Look out for this write inside the block."""
        sign: _Sign = (write.key, write.expect) if write.value is None else name
        expected = Expected()
        self._expected.setdefault(sign, []).append(expected)
        try:
            yield expected
        finally:
            self._expected[sign].remove(expected)
            if not self._expected[sign]:
                del self._expected[sign]

    async def reach(self, revision: int) -> None:
        """Returns once the replica has come that far."""
        if self._state.revision >= revision:
            return
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (revision, next(self._order), reached))
        self.wanted.set()
        await reached

    def finish(self) -> None:
        """Nothing more will come."""
        self._fanout.close()
        for _, _, reached in self._waiting:
            if not reached.done():
                reached.set_exception(StoreClosed("the store is closed"))
        self._waiting.clear()

    def _change(self, key: str, event: pb.Event) -> tuple[Change, _Sign]:
        before = self._state.get(key)
        revision = Revision(event.kv.mod_revision)
        if event.type == pb.Event.DELETE:
            if before is None:
                raise Torn(f"{key} was deleted at revision {revision} and never was there")
            return Change(key, revision, before, None), (key, before.revision)
        stored = self._layout.stored(event.kv)
        return Change(key, revision, before, stored.record), stored.name

    def _wake(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._state.revision:
            _, _, reached = heappop(self._waiting)
            if not reached.done():  # else whoever waited is gone
                reached.set_result(None)
        if not self._waiting:
            self.wanted.clear()
