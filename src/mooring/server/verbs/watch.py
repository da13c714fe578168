"""Watch a collection: what is there, if asked for, and then every change, as the selectors see it.

With selectors a change can mean something else than it says: an object that no longer fits is DELETED, as it was when
it still did; one that begins to fit is ADDED. The version on every event is that of the change. Where bookmarks are
wanted, a watch that was sent nothing, whatever happens in its collection, says from time to time how far it has come.
"""

import asyncio
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from mooring.api import keys
from mooring.api.errors import Expired, ServiceUnavailable
from mooring.server.contract import Batches, StreamEvent, Target, WatchOptions
from mooring.server.environment import Environment
from mooring.server.selection import Selection
from mooring.server.shared_events import ADDED, event_of
from mooring.server.stamping import opening, stamped
from mooring.server.versions import ANY, BadVersion, check_watch, parse, reached
from mooring.store.contract import Change, Compacted, Listing, Overrun, Revision, Watch
from mooring.store.history import weight_of

BOOKMARK: Final = "BOOKMARK"
#: Seconds before a watch is ended that a last bookmark is due; upstream's.
BEFORE_THE_END: Final = 2.0

#: How many objects of the state are passed on at once: a list of many thousands is not to be held twice.
_AT_ONCE: Final = 500
#: Bytes of changes whose events are made at once: a watch that is far behind is not to hold its backlog twice.
_PORTION_BYTES: Final = 1 << 20


async def watch_objects(environment: Environment, target: Target, options: WatchOptions) -> Batches:
    """Raises before it returns where the request is wrong or its version is no longer kept."""
    check_watch(options)
    selection = Selection(target.kind, labels=options.labels, fields=options.fields)
    try:
        after = parse(options.resource_version)
    except ValueError as problem:
        raise BadVersion(str(problem)) from problem
    stream = _Stream(environment, target, selection).events(options, after)
    # The first step opens the store's watch: refusals surface here, and closing the stream reaches its `finally`
    # even if nobody ever asks for an event.
    await anext(stream)
    return stream


def _begins_with_state(options: WatchOptions) -> bool:
    if options.send_initial_events is not None:
        return options.send_initial_events
    return options.resource_version in ("", ANY)


class _Stream:
    """One watch."""

    def __init__(self, environment: Environment, target: Target, selection: Selection) -> None:
        self._environment = environment
        self._target = target
        self._kind = target.kind
        self._selection = selection

    async def events(self, options: WatchOptions, after: Revision) -> Batches:
        listing: Listing | None = None
        if _begins_with_state(options):
            await reached(self._environment, after)
            listing = await self._environment.objects.list(self._kind, self._target.namespace)
            after = listing.revision
        else:
            await self._refuse_the_future(after)
        watch = await self._open(after)
        alarm = self._alarm(watch, options) if options.bookmarks and options.bookmark_every else None
        told = after
        try:
            yield ()
            if listing is not None:
                state = self._state(listing, bookmark=options.bookmarks)
                batch = tuple(islice(state, _AT_ONCE))
                yield batch
                while len(batch) == _AT_ONCE:
                    batch = tuple(islice(state, _AT_ONCE))
                    yield batch
            while True:
                changes = await self._next(watch)
                for portion in _portions(changes):
                    if events := self._changes(portion):
                        told = portion[-1].revision
                    yield events
                if changes:
                    continue
                if self._environment.objects.revision > told:
                    told = self._environment.objects.revision
                    yield (StreamEvent(BOOKMARK, b'%b%d"}}' % (opening(self._kind), told)),)
                else:
                    yield ()
        finally:
            if alarm is not None:
                alarm.cancel()
            watch.close()

    def _alarm(self, watch: Watch, options: WatchOptions) -> asyncio.Task[None]:
        """Wakes the watch again and again, and shortly before its end; what it has not been told by then, a bookmark
        may say."""
        left = options.ends_after - BEFORE_THE_END if options.ends_after else math.inf

        async def ring() -> None:
            nonlocal left
            while left > 0:
                pause = min(options.bookmark_every, left)
                await self._environment.clock.sleep(pause)
                watch.wake()
                left -= pause

        return asyncio.create_task(ring())

    async def _refuse_the_future(self, after: Revision) -> None:
        """Raises Expired where the store, with all that was ever acknowledged, has not come so far: its data was
        replaced by an older backup. A watch would be silent until the same numbers mean other changes."""
        objects = self._environment.objects
        if after > objects.revision:
            await objects.catch_up()
        if after > objects.revision:
            raise Expired(f"too large resource version: {after}, current: {objects.revision}: list again")

    async def _open(self, after: Revision) -> Watch:
        try:
            return await self._environment.objects.watch(self._kind, self._target.namespace, after=after)
        except Compacted as gone:
            raise Expired(str(gone)) from gone

    async def _next(self, watch: Watch) -> tuple[Change, ...]:
        try:
            return tuple(await anext(watch))
        except Overrun as overrun:
            raise ServiceUnavailable("this watch did not keep up and was ended; watch again") from overrun
        except StopAsyncIteration as end:
            raise ServiceUnavailable("the API server is shutting down") from end

    def _state(self, listing: Listing, *, bookmark: bool) -> Iterator[StreamEvent]:
        for record in listing.records:
            if self._selection.admits(record.value):
                yield StreamEvent(ADDED, stamped(self._kind, record.value, record.revision))
        if bookmark:
            yield self._end_of_state(listing.revision)

    def _end_of_state(self, revision: Revision) -> StreamEvent:
        annotations = msgspec.json.encode({keys.INITIAL_EVENTS_END: "true"})
        return StreamEvent(BOOKMARK, b'%b%d","annotations":%b}}' % (opening(self._kind), revision, annotations))

    def _changes(self, changes: Sequence[Change]) -> Sequence[StreamEvent]:
        if self._selection.is_everything:
            shared, kind = self._environment.objects.shared_events, self._kind
            return [shared.of(kind, change) for change in changes]
        return [event for change in changes if (event := self._selected(change)) is not None]

    def _selected(self, change: Change) -> StreamEvent | None:
        """What a change is to those who see only what the selectors admit."""
        before = change.before if change.before and self._selection.admits(change.before.value) else None
        after = change.after if change.after and self._selection.admits(change.after.value) else None
        if before is None and after is None:
            return None
        return event_of(self._kind, Change(change.key, change.revision, before, after))


def _portions(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    """The changes in order, in pieces of some megabytes at most, or of one change."""
    begin = weight = 0
    for index, change in enumerate(changes):
        added = weight_of(change)
        if index > begin and weight + added > _PORTION_BYTES:
            yield changes[begin:index]
            begin, weight = index, 0
        weight += added
    if begin < len(changes):
        yield changes[begin:]
