"""Reflector and informer: a cache per kind, kept current by list and watch, with change handlers.

The reflector opens with a streaming list, or with list and watch where the server rejects that or ends the stream
before the list is complete. A broken stream continues from the last resourceVersion, bookmarks included; after Expired
or missed events it lists again. It retries forever, except when lists stay older than the cache: then the server lost
its history, nothing in memory can be trusted, and `run` raises.

The cache is slightly stale by design: a decision that must hold is written with the resourceVersion it is based on.
"""

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Final, Generic, TypedDict, cast

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api import times
from mooring.api.errors import ApiError, BadRequest, Expired, Invalid, NotFound, NotSupported
from mooring.api.kinds import RECENT, STORAGE_CAPACITY, Kind
from mooring.api.views.meta import ApiObject
from mooring.backoff import JitteredBackoff
from mooring.client import contract
from mooring.client.cache import Cache, ChangeHandler, MissedEvents, StaleListing, version_of
from mooring.client.contract import Client, ObjectList, Unreachable, V, WatchEvent, WatchEventType
from mooring.clock import Clock, in_batches

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Log event of an unexpected exception while applying the server's events.
REFLECTOR_FAILED: Final = "watch failed with a bug"
#: client-go's initial backoff. Its maximum of 30 s protects the server from thousands of kubelets; here a few processes
#: would be without updates for up to a minute after a server that took twenty seconds to restart.
INITIAL_BACKOFF_SECONDS: Final = 0.8
MAX_BACKOFF_SECONDS: Final = 5.0
#: A watch that ends sooner and without events counts as failed, as in client-go: some proxies close at once.
SHORT_WATCH: Final = 1.0
#: Stale lists in a row, about a minute of pauses, until the server counts as having lost its history.
STALE_LISTINGS: Final = 10
#: Kinds that a server need not serve; components work without them.
OPTIONAL_KINDS: Final[frozenset[Kind[ApiObject]]] = RECENT | {STORAGE_CAPACITY}


class Scope(TypedDict, total=False):
    """Restricts an informer to a namespace and a label selector."""

    namespace: str
    labels: str


ALL_OBJECTS: Final = Scope()


class _ShortWatch(Exception):
    """The server ended a watch too early, without an error."""


class _StreamedList(Generic[V]):
    """An incomplete streamed list. Objects may change while it is sent; the newest event of each counts."""

    def __init__(self) -> None:
        self._events: dict[str, WatchEvent[V]] = {}

    def add(self, event: WatchEvent[V]) -> None:
        key = event.object.key
        known = self._events.get(key)
        if known is None or version_of(known.object) < version_of(event.object):
            self._events[key] = event

    def listing(self, resource_version: str) -> ObjectList[V]:
        items = (event.object for event in self._events.values() if event.change is not WatchEventType.DELETED)
        return ObjectList(tuple(items), resource_version)


class Reflector(Generic[V]):
    def __init__(
        self,
        client: Client,
        kind: Kind[V],
        cache: Cache[V],
        *,
        clock: Clock,
        rng: random.Random,
        scope: Scope = ALL_OBJECTS,
        report: contract.ReportInternalError = contract.unreported,
    ) -> None:
        self._client = client
        self._kind = kind
        self._scope = scope
        self._cache = cache
        self._clock = clock
        self._report = report
        self._backoff = JitteredBackoff(rng, initial=INITIAL_BACKOFF_SECONDS, maximum=MAX_BACKOFF_SECONDS)
        self._log = log.bind(resource=kind.plural)
        self._streams_lists = True
        self._needs_list = True
        self._stream_fell_short = False
        self._stale_listings = 0
        self._listed_at = -math.inf
        #: Set after the first complete list, or when an optional kind is not served.
        self.listed = asyncio.Event()
        self.not_served = False
        #: Set after the first complete list.
        self.served = asyncio.Event()

    async def run(self) -> None:
        """Run until cancelled. Raises StaleListing after STALE_LISTINGS in a row."""
        while True:
            try:
                await self._list_and_watch()
            except (ApiError, Unreachable, MissedEvents, StaleListing, _ShortWatch) as error:
                await self._recover(error)
            except Exception as error:
                # A bug, as in an index function: the cache may be inconsistent until the next list.
                self._log.exception(REFLECTOR_FAILED)
                self._report(f"informer of {self._kind.plural}", error)
                self._needs_list = True
                await self._clock.sleep(self._backoff.next_delay())

    async def _recover(self, error: Exception) -> None:
        """Log the error and wait before the next attempt; raises what no retry can fix."""
        match error:
            case Expired() | MissedEvents():
                followed, self._needs_list = not self._needs_list, True
                self._log.info("relisting", error=str(error))
                if followed and self._clock.monotonic() - self._listed_at > MAX_BACKOFF_SECONDS:
                    return
                if followed:
                    # The server responds again: do not wait for the backoff of its outage.
                    self._backoff.reset()
            case StaleListing():
                self._stale_listings += 1
                if self._stale_listings == STALE_LISTINGS:
                    raise error
                self._log.warning("list older than cache", error=str(error))
            case NotFound():
                self._record_not_served(error)
            case _:
                self._log.warning("watch interrupted", error=str(error), error_type=type(error).__name__)
        await self._clock.sleep(self._backoff.next_delay())

    async def _list_and_watch(self) -> None:
        """List if necessary and watch, until the server ends the watch."""
        if not self._needs_list:
            await self._follow()
        elif self._streams_lists and not self._stream_fell_short:
            await self._list_by_stream()
        else:
            await self._replace(await self._client.list(self._kind, **self._scope))
            await self._follow()

    async def _list_by_stream(self) -> None:
        draft: _StreamedList[V] = _StreamedList()
        try:
            async with aclosing(self._client.watch(self._kind, after=None, **self._scope)) as events:
                async for event in events:
                    if not self._needs_list:
                        self._cache.apply(event)
                    elif event.initial_end:
                        await self._replace(draft.listing(event.object.metadata.resource_version))
                    elif event.change is not WatchEventType.BOOKMARK:
                        draft.add(event)
        except (Invalid, BadRequest, NotSupported) as refusal:
            if not self._needs_list:
                raise
            self._streams_lists = False
            self._log.info("streaming list not supported", error=str(refusal))
            return
        if self._needs_list:
            self._stream_fell_short = True
            raise _ShortWatch("the stream ended before the list was complete")

    async def _follow(self) -> None:
        begun = self._clock.monotonic()
        seen = self._cache.seen
        async with aclosing(self._client.watch(self._kind, after=str(seen), **self._scope)) as events:
            async for event in events:
                self._apply(event)
        if self._cache.seen == seen and self._clock.monotonic() - begun < SHORT_WATCH:
            raise _ShortWatch("the stream ended at once, without events")

    def _record_not_served(self, error: NotFound) -> None:
        """NotFound for a list means that the server does not serve the kind."""
        self._needs_list = True
        if self._kind in OPTIONAL_KINDS:
            self.listed.set()
        if not self.not_served:
            self.not_served = True
            consequence = "continuing without it" if self._kind in OPTIONAL_KINDS else "waiting until it is served"
            self._log.error(
                "kind not served by the API server",
                kind=self._kind.kind,
                api_version=self._kind.api_version,
                consequence=consequence,
                error=str(error),
            )

    async def _replace(self, listing: ObjectList[V]) -> None:
        await in_batches(self._cache.replace(listing), self._clock)
        self._needs_list = self._stream_fell_short = self.not_served = False
        self._listed_at = self._clock.monotonic()
        self._stale_listings = 0
        self._backoff.reset()
        self.listed.set()
        self.served.set()

    def _apply(self, event: WatchEvent[V]) -> None:
        self._cache.apply(event)
        self._backoff.reset()


#: Logged when a handler raises.
HANDLER_FAILED: Final = "change handler failed"
#: Changes of a kind that are kept for `Informer.history`.
MAX_RECENT_CHANGES: Final = 512


class _Subscription(Generic[V]):
    """A handler, and the keys of the objects that it still gets as additions."""

    def __init__(self, handler: ChangeHandler[V], pending: Iterable[str] = ()) -> None:
        self.handler = handler
        self.pending = set(pending)

    def notify(self, before: V | None, after: V | None) -> None:
        item = after if after is not None else before
        if self.pending and item is not None and item.key in self.pending:
            # The replay delivers the object as it is then, and nothing for a deleted one.
            if after is None:
                self.pending.remove(item.key)
        else:
            self.handler(before, after)


class Informer(Generic[V]):
    """All objects of one kind in the scope, kept current while `run` runs."""

    def __init__(
        self,
        client: Client,
        kind: Kind[V],
        *,
        clock: Clock,
        rng: random.Random,
        scope: Scope = ALL_OBJECTS,
        report: contract.ReportInternalError = contract.unreported,
    ) -> None:
        self.kind = kind
        self._clock = clock
        self._report = report
        self._subscriptions: list[_Subscription[V]] = []
        #: Time, key and resourceVersion of the newest changes; no resourceVersion for a deletion.
        self._recent: deque[tuple[float, str, str]] = deque(maxlen=MAX_RECENT_CHANGES)
        self._cache: Cache[V] = Cache(self._notify)
        self._reflector = Reflector(client, kind, self._cache, clock=clock, rng=rng, scope=scope, report=report)
        #: Set after the first complete list has been delivered to all handlers.
        self.synced = self._reflector.listed
        self.served = self._reflector.served

    @property
    def not_served(self) -> bool:
        """Whether the server does not serve the kind. Informers of OPTIONAL_KINDS are synced then."""
        return self._reflector.not_served

    @property
    def seen(self) -> int:
        """The version up to which handlers got every change since `listed`; in a handler, up to the change before."""
        return self._cache.seen

    @property
    def listed(self) -> int:
        """Version of the last complete list: what came and went before it may have been missed."""
        return self._cache.listed

    def get(self, key: str) -> V | None:
        """The object with this `ApiObject.key`."""
        return self._cache.get(key)

    def history(self, key: str) -> list[str]:
        """When which resourceVersions of an object were observed, as far as the newest changes of the kind say."""
        return [
            f"{times.to_time(moment)} {f'resourceVersion {version}' if version else 'deleted'}"
            for moment, changed, version in self._recent
            if changed == key
        ]

    def items(self) -> Collection[V]:
        """All objects. A live view: copy it before awaiting during iteration."""
        return self._cache.items()

    def by_index(self, name: str, value: str) -> Collection[V]:
        """The objects with this index value. A live view like `items`."""
        return self._cache.by_index(name, value)

    def add_index(self, name: str, values: Callable[[V], Iterable[str]]) -> None:
        """Index every object by the values of a function of the object alone. Adding the same function again is a
        no-op; another function under the same name is a ValueError."""
        self._cache.add_index(name, values)

    def on_change(self, handler: ChangeHandler[V]) -> None:
        """Call the handler with (before, after) for every change, right after the cache has applied it.

        Existing objects are delivered at once as (None, object), however many: components that hold a lease use
        `subscribe` instead. An object deleted and created again under its name is a deletion and an addition.

        Handlers only enqueue, they run between two events and must not raise. An exception is logged with the object
        and reported; other objects and handlers are not affected.
        """
        for item in tuple(self._cache.items()):
            self._call(handler, item)
        self._subscriptions.append(_Subscription(handler))

    async def subscribe(self, handler: ChangeHandler[V]) -> None:
        """`on_change` after sync, delivering existing objects in batches so that the event loop is not blocked.

        Returns when all are delivered. Concurrent changes of delivered objects arrive at once; those of others are
        part of their first delivery, so that each object's changes arrive in order.
        """
        await self.synced.wait()
        subscription: _Subscription[V] = _Subscription(handler, [item.key for item in self._cache.items()])
        self._subscriptions.append(subscription)
        try:
            await in_batches(self._replay(subscription), self._clock)
        except BaseException:
            self._subscriptions.remove(subscription)
            raise

    def _replay(self, subscription: _Subscription[V]) -> Iterator[None]:
        for key in [item.key for item in self._cache.items()]:
            item = self._cache.get(key)
            # Not pending after a deletion, even if another object has this name now.
            if key in subscription.pending and item is not None:
                subscription.pending.remove(key)
                self._call(subscription.handler, item)
            yield

    async def run(self) -> None:
        """Keep the cache current until cancelled."""
        await self._reflector.run()

    def _notify(self, before: V | None, after: V | None) -> None:
        if after is not None:
            self._recent.append((self._clock.now(), after.key, after.metadata.resource_version))
        elif before is not None:
            self._recent.append((self._clock.now(), before.key, ""))
        # A copy: a handler may subscribe another one, which has seen this change already.
        for subscription in tuple(self._subscriptions):
            handler = subscription.notify if subscription.pending else subscription.handler
            try:
                handler(before, after)
            except Exception as error:
                self._report_failure(error, after if after is not None else before)

    def _call(self, handler: ChangeHandler[V], item: V) -> None:
        try:
            handler(None, item)
        except Exception as error:
            self._report_failure(error, item)

    def _report_failure(self, error: Exception, item: V | None) -> None:
        log.error(HANDLER_FAILED, resource=self.kind.plural, key=item.key if item else "", exc_info=error)
        self._report(f"informer of {self.kind.plural}", error, item, self.kind)


class Informers:
    """One shared informer per kind, started by `run`, or when first requested after it."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        rng: random.Random,
        *,
        other_clients: Mapping[Kind[Any], Client] | None = None,
        report: contract.ReportInternalError = contract.unreported,
    ) -> None:
        """`other_clients` list and watch kinds that `client` may not; `report` is called for handlers that raise."""
        self._client = client
        self._other_clients = dict(other_clients or {})
        self._clock = clock
        self._rng = rng
        self._report = report
        self._by_kind: dict[Kind[ApiObject], Informer[ApiObject]] = {}
        #: Kinds first requested while the others run.
        self._late: set[Kind[ApiObject]] = set()
        self._group: asyncio.TaskGroup | None = None

    def of(self, kind: Kind[V]) -> Informer[V]:
        known = self._by_kind.get(kind)
        if known is not None:
            return cast("Informer[V]", known)
        client = self._other_clients.get(kind, self._client)
        informer = Informer(client, kind, clock=self._clock, rng=self._rng, report=self._report)
        started = cast("Informer[ApiObject]", informer)
        self._by_kind[kind] = started
        if self._group is not None:
            self._late.add(started.kind)
            self._start(self._group, started)
        return informer

    async def wait_synced(self) -> None:
        """Wait until all informers, including those added meanwhile, are synced."""
        while self.unsynced():
            for informer in tuple(self._by_kind.values()):
                await informer.synced.wait()

    def unsynced(self, *, late: bool = True) -> list[str]:
        """Plural names of the kinds that are not synced; unless `late`, of those that `run` started with."""
        counted = [kind for kind in self._by_kind if late or kind not in self._late]
        return [kind.plural for kind in counted if not self._by_kind[kind].synced.is_set()]

    async def run(self) -> None:
        """Run all informers until cancelled. Raises when one of them does."""
        if self._group is not None:
            raise RuntimeError("informers are already running")
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for informer in self._by_kind.values():
                    self._start(group, informer)
                await asyncio.Event().wait()
            finally:
                self._group = None

    def _start(self, group: asyncio.TaskGroup, informer: Informer[ApiObject]) -> None:
        group.create_task(informer.run(), name=f"informer of {informer.kind.plural}")
