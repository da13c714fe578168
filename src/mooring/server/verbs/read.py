"""Get, list and watch.

A list is ordered by namespace and name; its items get their resourceVersion without being decoded. All pages show the
state of the first one; after a compaction a page fails with a token that continues with the newest state.

With selectors a watch event depends on them: an object that stops matching is DELETED, as it was when it matched; one
that begins to match is ADDED. Its version is always that of the change. A watch with bookmarks that had no events
reports its version periodically.
"""

import asyncio
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from mooring.api import well_known
from mooring.api.errors import BadRequest, Expired, ServiceUnavailable
from mooring.clock import Clock
from mooring.server.contract import Batches, ListOptions, Page, StreamEvent, Target, WatchOptions, require_endpoint
from mooring.server.encoding import all_with_resource_version, opening, with_resource_version
from mooring.server.environment import RequestContext
from mooring.server.kinds.registry import rules_of
from mooring.server.objects import ADDED, event_of
from mooring.server.selection import Selection
from mooring.server.verbs import resource_versions
from mooring.store.contract import Compacted, Listing, Record, Revision, StoreChange, Watch, WatchOverflow
from mooring.store.state import weight_of


async def get_object(context: RequestContext, target: Target, resource_version: str = "") -> bytes:
    require_endpoint(target, "get")
    await resource_versions.reached(context, resource_versions.parse(resource_version))
    return (await context.objects.require(target)).body


_INCONSISTENT: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)

#: Objects matched before yielding to other requests: a selector takes up to some ten microseconds per object.
_YIELD_INTERVAL: Final = 500


async def list_objects(context: RequestContext, target: Target, options: ListOptions) -> Page:
    resource_versions.check_list(options)
    selection = Selection(rules_of(target.kind).selectable, labels=options.labels, fields=options.fields)
    any_state = options.resource_version == resource_versions.ANY and not options.continue_token
    limit = 0 if any_state else max(options.limit, 0)
    at, start = await _page_start(context, target, options)
    # With selectors, a page ends at an object that is only known after matching.
    listing = await _listing(context, target, at, start, limit if selection.is_everything else 0)
    records, rest = listing.records, listing.remaining
    if not selection.is_everything:
        records, rest = await _selected(selection, records, limit, context.clock)
    items, version = all_with_resource_version(target.kind, records), str(listing.revision)
    if not rest:
        return Page(items, version)
    prefix = target.kind.store_prefix(target.namespace)
    token = resource_versions.encode_continue_token(listing.revision, f"{records[-1].key}\0", prefix)
    return Page(items, version, token, rest if selection.is_everything else None)


async def _page_start(context: RequestContext, target: Target, options: ListOptions) -> tuple[Revision | None, str]:
    """The revision of the list, None for the newest state, and the first key, empty for the first page."""
    if options.continue_token:
        prefix = target.kind.store_prefix(target.namespace)
        version, start = resource_versions.decode_continue_token(options.continue_token, prefix)
        if options.resource_version not in ("", resource_versions.ANY):
            raise BadRequest("specifying resource version is not allowed when using continue")
        if version < 0:
            return None, start
        at = Revision(version)
        await resource_versions.reached(context, at)
        return at, start
    try:
        revision = resource_versions.parse(options.resource_version)
    except resource_versions.BadVersion as problem:
        raise BadRequest(f"invalid resource version: {problem.message}") from problem
    await resource_versions.reached(context, revision)
    return revision if resource_versions.wants_exactly(options) else None, ""


async def _listing(context: RequestContext, target: Target, at: Revision | None, start: str, limit: int) -> Listing:
    kind, namespace = target.kind, target.namespace
    try:
        return await context.objects.list(kind, namespace, at=at, start=start, limit=limit)
    except Compacted as gone:
        if not start:
            raise resource_versions.too_old() from gone
        token = resource_versions.encode_continue_token(resource_versions.NEWEST, start, kind.store_prefix(namespace))
        raise Expired(_INCONSISTENT, continue_token=token) from gone


async def _selected(
    selection: Selection, records: tuple[Record, ...], limit: int, clock: Clock
) -> tuple[tuple[Record, ...], int]:
    """The selected records up to the limit, and how many were not examined. Yields to other requests."""
    chosen: list[Record] = []
    for position, record in enumerate(records, start=1):
        if position % _YIELD_INTERVAL == 0:
            await clock.sleep(0)
        if selection.admits(record.value):
            chosen.append(record)
            if len(chosen) == limit:
                return tuple(chosen), len(records) - position
    return tuple(chosen), 0


BOOKMARK: Final = "BOOKMARK"
#: Seconds between the last bookmark and the end of a watch, as in kube-apiserver.
LAST_BOOKMARK_SECONDS: Final = 2.0

#: Objects of the initial state per batch: a list of many thousands is not to be in memory twice.
_INITIAL_BATCH: Final = 500
#: Bytes of changes per batch of events: the backlog of a slow watch is not to be in memory twice.
_BATCH_BYTES: Final = 1 << 20


async def watch_objects(context: RequestContext, target: Target, options: WatchOptions) -> Batches:
    """Raises, before it returns, for an invalid request or a compacted version."""
    resource_versions.check_watch(options)
    selection = Selection(rules_of(target.kind).selectable, labels=options.labels, fields=options.fields)
    after = resource_versions.parse(options.resource_version)
    stream = _WatchStream(context, target, selection).events(options, after)
    # The first step opens the store's watch: its errors are raised here, and closing the stream runs its `finally`
    # even if no event was read.
    await anext(stream)
    return stream


def _begins_with_state(options: WatchOptions) -> bool:
    if options.send_initial_events is not None:
        return options.send_initial_events
    return options.resource_version in ("", resource_versions.ANY)


class _WatchStream:
    def __init__(self, context: RequestContext, target: Target, selection: Selection) -> None:
        self._context = context
        self._target = target
        self._kind = target.kind
        self._selection = selection

    async def events(self, options: WatchOptions, after: Revision) -> Batches:
        listing: Listing | None = None
        if _begins_with_state(options):
            await resource_versions.reached(self._context, after)
            listing = await self._context.objects.list(self._kind, self._target.namespace)
            after = listing.revision
        else:
            await self._reject_future_version(after)
        watch = await self._open(after)
        timer = self._bookmark_timer(watch, options) if options.bookmarks and options.bookmark_every else None
        reported = after
        try:
            yield ()
            if listing is not None:
                state = self._state(listing, bookmark=options.bookmarks)
                batch = tuple(islice(state, _INITIAL_BATCH))
                yield batch
                while len(batch) == _INITIAL_BATCH:
                    batch = tuple(islice(state, _INITIAL_BATCH))
                    yield batch
            while True:
                try:
                    changes = await anext(watch)
                except WatchOverflow as overrun:
                    raise ServiceUnavailable("this watch did not keep up and was ended; watch again") from overrun
                except StopAsyncIteration as end:
                    raise ServiceUnavailable("the API server is shutting down") from end
                for portion in _batches(changes):
                    if events := self._changes(portion):
                        reported = portion[-1].revision
                    yield events
                if changes:
                    continue
                if self._context.objects.revision > reported:
                    reported = self._context.objects.revision
                    yield (StreamEvent(BOOKMARK, b'%b%d"}}' % (opening(self._kind), reported)),)
                else:
                    yield ()
        finally:
            if timer is not None:
                timer.cancel()
            watch.close()

    def _bookmark_timer(self, watch: Watch, options: WatchOptions) -> asyncio.Task[None]:
        """Wakes the watch periodically and shortly before its end, to send a bookmark if there were no events."""
        left = options.ends_after - LAST_BOOKMARK_SECONDS if options.ends_after else math.inf

        async def wake_periodically() -> None:
            nonlocal left
            while left > 0:
                pause = min(options.bookmark_every, left)
                await self._context.clock.sleep(pause)
                watch.progress()
                left -= pause

        return asyncio.create_task(wake_periodically())

    async def _reject_future_version(self, after: Revision) -> None:
        """Raises Expired if the store has not reached the version: its data was replaced by an older backup, and the
        watch would get no events until the version is reached again by other changes."""
        objects = self._context.objects
        if after > objects.revision:
            await objects.wait_current()
        if after > objects.revision:
            raise Expired(f"too large resource version: {after}, current: {objects.revision}: list again")

    async def _open(self, after: Revision) -> Watch:
        try:
            return await self._context.objects.watch(self._kind, self._target.namespace, after=after)
        except Compacted as gone:
            raise Expired(str(gone)) from gone

    def _state(self, listing: Listing, *, bookmark: bool) -> Iterator[StreamEvent]:
        for record in listing.records:
            if self._selection.admits(record.value):
                yield StreamEvent(ADDED, with_resource_version(self._kind, record.value, record.revision))
        if bookmark:
            end = msgspec.json.encode({well_known.INITIAL_EVENTS_END: "true"})
            yield StreamEvent(BOOKMARK, b'%b%d","annotations":%b}}' % (opening(self._kind), listing.revision, end))

    def _changes(self, changes: Sequence[StoreChange]) -> Sequence[StreamEvent]:
        if self._selection.is_everything:
            shared, kind = self._context.objects.shared_events, self._kind
            return [shared.of(kind, change) for change in changes]
        return [event for change in changes if (event := self._selected(change)) is not None]

    def _selected(self, change: StoreChange) -> StreamEvent | None:
        """The event of a change for a watch with selectors, if any."""
        before = change.before if change.before and self._selection.admits(change.before.value) else None
        after = change.after if change.after and self._selection.admits(change.after.value) else None
        if before is None and after is None:
            return None
        return event_of(self._kind, StoreChange(change.key, change.revision, before, after))


def _batches(changes: Sequence[StoreChange]) -> Iterator[Sequence[StoreChange]]:
    """The changes in order, in batches of at most _BATCH_BYTES or one change, as most of an informer's are."""
    if len(changes) == 1:
        yield changes
        return
    begin = weight = 0
    for index, change in enumerate(changes):
        added = weight_of(change)
        if index > begin and weight + added > _BATCH_BYTES:
            yield changes[begin:index]
            begin, weight = index, 0
        weight += added
    if begin < len(changes):
        yield changes[begin:]
