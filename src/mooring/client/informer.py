"""Informers: what a controller knows about the cluster without asking.

An `Informer` holds all objects of one kind in memory and tells handlers about every change, in order. It is the
face of `cache` (what is known) and `reflector` (how it is kept current). `Informers` gives out one per kind and
process, so that components share one watch and one copy.

What is read here is true, but of a moment ago. A decision that must hold is written with the version it was made
on, and the server refuses it if the moment has passed.
"""

import asyncio
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, Generic, cast

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.client.cache import Cache, Tell
from mooring.client.contract import Client, V
from mooring.client.reflector import EVERYTHING, Reflector, Scope
from mooring.clock import Clock, in_batches

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Logged when a handler raises.
HANDLER_FAILED: Final = "change handler failed"


class _Subscription(Generic[V]):
    """A handler, and the keys of the objects that it has not been told of yet."""

    def __init__(self, handler: Tell[V], owed: Iterable[str] = ()) -> None:
        self.handler = handler
        self.owed = set(owed)

    def tell(self, before: V | None, after: V | None) -> None:
        item = after if after is not None else before
        if self.owed and item is not None and item.key in self.owed:
            # It will hear of the object as it is then; of one that is gone it never heard.
            if after is None:
                self.owed.remove(item.key)
        else:
            self.handler(before, after)


class Informer(Generic[V]):
    """All objects of one kind, or those in its scope, kept current while `run` runs."""

    def __init__(
        self, client: Client, kind: Kind[V], *, clock: Clock, rng: random.Random, scope: Scope = EVERYTHING
    ) -> None:
        self.kind = kind
        #: How often a handler has raised.
        self.failures = 0
        self._clock = clock
        self._subscriptions: list[_Subscription[V]] = []
        self._cache: Cache[V] = Cache(self._tell)
        self._reflector = Reflector(client, kind, self._cache, clock=clock, rng=rng, scope=scope)

    @property
    def synced(self) -> asyncio.Event:
        """Set once everything was listed for the first time and all handlers were told."""
        return self._reflector.listed

    @property
    def absent(self) -> bool:
        """Whether the server does not know the kind. Informers of kinds that can be done without are synced then."""
        return self._reflector.absent

    def get(self, key: str) -> V | None:
        """The object with this `ApiObject.key`, as last seen."""
        return self._cache.get(key)

    def items(self) -> Collection[V]:
        """All objects. A live view: copy it before awaiting in the middle of it."""
        return self._cache.items()

    def by_index(self, name: str, value: str) -> Collection[V]:
        """The objects an index files under a value. A live view like `items`."""
        return self._cache.by_index(name, value)

    def add_index(self, name: str, values: Callable[[V], Iterable[str]]) -> None:
        """File every object under what the function says of it, now and from now on.

        The function must depend on the object alone. Adding the same function again changes nothing; another
        function under the same name is a ValueError.
        """
        self._cache.add_index(name, values)

    def on_change(self, handler: Tell[V]) -> None:
        """Call the handler with (before, after) for every change, right after the cache has taken it.

        What is there already comes at once as (None, object), however much it is: components that lead by a lease
        `subscribe` instead. An object deleted and made again under its name comes as a deletion and an addition, never
        as an update.

        Handlers note what changed, they do not work on it: they run between two events and must not fail. One
        that raises has a bug and may be wrong about that object from then on. The error is logged with the object and
        counted, and all the other objects and handlers go on: to end the process would not help, since the next one
        would be told of the same object.
        """
        for item in tuple(self._cache.items()):
            self._call(handler, None, item)
        self._subscriptions.append(_Subscription(handler))

    async def subscribe(self, handler: Tell[V]) -> None:
        """`on_change` once everything is listed, and without holding up the event loop: what is there comes in
        batches. Returns when the handler has been told of all of it.

        Changes of objects that the handler knows come at once meanwhile, and of the others they are part of what it is
        told first, so that it hears of each object in the right order.
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
            # One that went meanwhile is owed no more, even if another has come under its name.
            if key in subscription.owed and item is not None:
                subscription.owed.remove(key)
                self._call(subscription.handler, None, item)
            yield

    async def run(self) -> None:
        """Keep the cache current until cancelled."""
        await self._reflector.run()

    def _tell(self, before: V | None, after: V | None) -> None:
        # A copy: a handler that subscribes another one has already shown it this change.
        for subscription in tuple(self._subscriptions):
            self._call(subscription.tell, before, after)

    def _call(self, handler: Tell[V], before: V | None, after: V | None) -> None:
        try:
            handler(before, after)
        except Exception:
            item = after if after is not None else before
            log.exception(HANDLER_FAILED, resource=self.kind.plural, key=item.key if item else "")
            self.failures += 1


class Informers:
    """One informer per kind, started when `run` runs or, later, when first asked for."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        rng: random.Random,
        *,
        other_clients: Mapping[Kind[Any], Client] | None = None,
    ) -> None:
        """`other_clients` list and watch kinds that `client` may not."""
        self._client = client
        self._other_clients = dict(other_clients or {})
        self._clock = clock
        self._rng = rng
        self._by_kind: dict[Kind[ApiObject], Informer[ApiObject]] = {}
        self._group: asyncio.TaskGroup | None = None

    def of(self, kind: Kind[V]) -> Informer[V]:
        known = self._by_kind.get(kind)
        if known is not None:
            return cast("Informer[V]", known)
        informer = Informer(self._other_clients.get(kind, self._client), kind, clock=self._clock, rng=self._rng)
        started = cast("Informer[ApiObject]", informer)
        self._by_kind[kind] = started
        if self._group is not None:
            self._start(self._group, started)
        return informer

    async def wait_synced(self) -> None:
        """Wait until every informer asked for so far, or meanwhile, holds a complete list."""
        while waiting := self._unsynced():
            await waiting[0].synced.wait()

    def failures(self) -> dict[str, int]:
        """How often handlers have raised, by what they were told of."""
        return {informer.kind.plural: informer.failures for informer in self._by_kind.values()}

    def unsynced(self) -> list[str]:
        """What is not listed yet, as people name it."""
        return [informer.kind.plural for informer in self._unsynced()]

    def _unsynced(self) -> list[Informer[ApiObject]]:
        return [informer for informer in self._by_kind.values() if not informer.synced.is_set()]

    async def run(self) -> None:
        """Run all informers until cancelled. Raises when one of them does."""
        if self._group is not None:
            raise RuntimeError("these informers run already")
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
