"""Keeps a `Cache` current: lists, watches, and starts over as often as it takes.

The I/O half of the informer. It opens with a streaming list (one request gives the list and what follows), or with
a list and a watch where the server refuses that or has ended the stream before the list was complete: so much happens
that it cannot keep it back meanwhile. A stream that breaks is continued from the last version seen, bookmarks included;
only when the server no longer keeps that version is everything listed again.

    list ──► follow ──► ended or broken: follow again from the last version
      ▲         └─────► Expired, or events were missed
      └─────────────────────┘

A server that does not know the kind is asked again like any other that fails, and people are told once. Kinds that
older servers lack count as listed then, and as `absent`: whoever reads them knows what to do without.

Every failure but a clean end is followed by a pause of 0.8 s doubling to 5 s; the first list after a while is asked
for at once. It never gives up, with one exception: a server whose listings stay behind what it has shown before lost
its history, and nothing this process remembers can be trusted; that leaves `run` as an error.
"""

import asyncio
import math
import random
from contextlib import aclosing
from typing import Final, Generic, TypedDict, cast

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import ApiError, BadRequest, Expired, Invalid, NotFound, NotImplementedHere
from mooring.api.kinds import STORAGE_CAPACITY, Kind
from mooring.api.views.meta import ApiObject
from mooring.client.backoff import Backoff
from mooring.client.cache import Cache, OutOfOrder, StaleListing, version_of
from mooring.client.contract import Change, Client, Listing, Unreachable, V, WatchEvent
from mooring.clock import Clock, in_batches

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Logged when taking in what the server said raises what it should not.
REFLECTOR_FAILED: Final = "watch failed with a bug"
#: client-go's reflector begins so as well. It goes on to 30 s, for the sake of thousands of kubelets; here a handful of
#: processes are blind meanwhile, and would be for up to a minute after a server that took twenty seconds to restart.
FIRST_PAUSE: Final = 0.8
LONGEST_PAUSE: Final = 5.0
#: A watch that ends sooner without any news counts as a failure, as in client-go: some proxies close at once.
SHORT_WATCH: Final = 1.0
#: Old listings in a row, about a minute of pauses, before the server is held to have lost its history.
STALE_LISTINGS: Final = 10
#: Kinds that a server may be too old for, or told not to serve, and that their readers can do without.
DISPENSABLE: Final[frozenset[Kind[ApiObject]]] = frozenset({cast("Kind[ApiObject]", STORAGE_CAPACITY)})


class Scope(TypedDict, total=False):
    """Which objects of a kind; all of them where nothing is said."""

    namespace: str
    #: A label selector as kubectl writes it.
    labels: str


EVERYTHING: Final = Scope()


class _ShortWatch(Exception):
    """The server ended a watch at once, without news and without an error."""


class _Draft(Generic[V]):
    """A streamed list on its way. Objects may change while it is sent; the newest word on each one counts."""

    def __init__(self) -> None:
        self._events: dict[str, WatchEvent[V]] = {}

    def add(self, event: WatchEvent[V]) -> None:
        key = event.object.key
        known = self._events.get(key)
        if known is None or version_of(known.object) < version_of(event.object):
            self._events[key] = event

    def listing(self, resource_version: str) -> Listing[V]:
        items = (event.object for event in self._events.values() if event.change is not Change.DELETED)
        return Listing(tuple(items), resource_version)


class Reflector(Generic[V]):
    def __init__(
        self,
        client: Client,
        kind: Kind[V],
        cache: Cache[V],
        *,
        clock: Clock,
        rng: random.Random,
        scope: Scope = EVERYTHING,
    ) -> None:
        self._client = client
        self._kind = kind
        self._scope = scope
        self._cache = cache
        self._clock = clock
        self._backoff = Backoff(rng, first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        self._log = log.bind(resource=kind.plural)
        self._streams_lists = True
        self._needs_list = True
        self._stream_fell_short = False
        self._stale_listings = 0
        self._listed_at = -math.inf
        #: Set once the cache holds a first complete list, or there is known to be none.
        self.listed = asyncio.Event()
        #: Whether the server does not know the kind.
        self.absent = False

    async def run(self) -> None:
        """Work until cancelled. Raises StaleListing once it is hopeless."""
        while True:
            try:
                await self._converse()
            except (ApiError, Unreachable, OutOfOrder, StaleListing, _ShortWatch) as error:
                await self._recover(error)
            except Exception:
                # A bug, as in the function of an index: the cache may be wrong, and a list puts it right.
                self._log.exception(REFLECTOR_FAILED)
                self._needs_list = True
                await self._clock.sleep(self._backoff.delay())

    async def _recover(self, error: Exception) -> None:
        """Say what is wrong and wait before the next try; raises what no further try can mend."""
        match error:
            case Expired() | OutOfOrder():
                followed, self._needs_list = not self._needs_list, True
                self._log.info("listing again", why=str(error))
                if followed and self._clock.monotonic() - self._listed_at > LONGEST_PAUSE:
                    return
            case StaleListing():
                self._stale_listings += 1
                if self._stale_listings == STALE_LISTINGS:
                    raise error
                self._log.warning("server is behind", why=str(error))
            case NotFound():
                self._unserved(error)
            case _:
                self._log.warning("watch interrupted", error=type(error).__name__, why=str(error))
        await self._clock.sleep(self._backoff.delay())

    async def _converse(self) -> None:
        """One exchange with the server, from its first request to a clean end."""
        if not self._needs_list:
            await self._follow()
        elif self._streams_lists and not self._stream_fell_short:
            await self._list_by_stream()
        else:
            await self._replace(await self._client.list(self._kind, **self._scope))
            await self._follow()

    async def _list_by_stream(self) -> None:
        draft: _Draft[V] = _Draft()
        try:
            async with aclosing(self._client.watch(self._kind, after=None, **self._scope)) as events:
                async for event in events:
                    if not self._needs_list:
                        self._apply(event)
                    elif event.initial_end:
                        await self._replace(draft.listing(event.object.metadata.resource_version))
                    elif event.change is not Change.BOOKMARK:
                        draft.add(event)
        except (Invalid, BadRequest, NotImplementedHere) as refusal:
            if not self._needs_list:
                raise
            self._streams_lists = False
            self._log.info("server does not stream lists", why=str(refusal))
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
            raise _ShortWatch("the stream ended at once, without news")

    def _unserved(self, error: NotFound) -> None:
        """A list is never missing, whatever is in it: the server does not know what we ask for."""
        self._needs_list = True
        if self._kind in DISPENSABLE:
            self.listed.set()
        if not self.absent:
            self.absent = True
            consequence = "doing without" if self._kind in DISPENSABLE else "waiting until it does"
            self._log.error(
                "the API server does not serve this kind",
                kind=self._kind.kind,
                api_version=self._kind.api_version,
                consequence=consequence,
                why=str(error),
            )

    async def _replace(self, listing: Listing[V]) -> None:
        await in_batches(self._cache.replace(listing), self._clock)
        self._needs_list = self._stream_fell_short = self.absent = False
        self._listed_at = self._clock.monotonic()
        self._stale_listings = 0
        self._backoff.reset()
        self.listed.set()

    def _apply(self, event: WatchEvent[V]) -> None:
        self._cache.apply(event)
        self._backoff.reset()
