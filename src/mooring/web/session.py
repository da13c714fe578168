"""Somebody looks: informers that fill a picture, and a pulse that publishes what changed.

    first reader ──► informers run, a picture grows ──► frames, ten a second at most
    last reader leaves ──► a while later everything is stopped and forgotten

So a cluster whose page nobody has open pays nothing for it. A `Readership` is the door, a `Session` one stretch from
the first reader to the last.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import msgspec
import structlog

from mooring.api import keys
from mooring.api.kinds import CLAIM, EVENT, NODE, POD, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME, Kind
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client, V
from mooring.client.informer import Informer
from mooring.client.reflector import Scope
from mooring.clock import Clock, set_within
from mooring.volumes.plan import HOLD_NAMESPACE
from mooring.web.feed import Feed
from mooring.web.picture import LOADING, Picture
from mooring.web.reading import ReadOnlyClient
from mooring.web.timeline import DatedEvent

#: Changes within this time go out together: faster than anybody reads, slow enough for a busy cluster to cost little.
PULSE_SECONDS: Final = 0.1
#: How many times as long as it took to find what changed nothing is looked for again: in `mooring up` the cluster runs
#: in the same loop, and where thousands of nodes come at once every volume's place is looked at anew.
SPARED: Final = 9.0
#: How long the first picture is waited for; what is not listed by then comes later, frame by frame.
FIRST_PICTURE_SECONDS: Final = 2.0
#: A reload, or a laptop that changes its network, should find everything as it was.
LINGER_SECONDS: Final = 30.0

DATED_EVENT: Final = cast("Kind[DatedEvent]", replace(EVENT, view=DatedEvent))

#: What people have in their namespaces.
OF_USERS: Final = frozenset({POD.plural, CLAIM.plural, EVENT.plural})

log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Focus:
    """What of the cluster is looked at."""

    #: What people call it: the address of its API server.
    cluster: str = ""
    #: "" for all; otherwise only pods, claims and events of this one, for readers who may list no more.
    namespace: str = ""
    #: Where claims would be that nobody can have; volumes that name them are held.
    hold_namespace: str = HOLD_NAMESPACE
    #: The label that says in which rack a node is.
    rack_label: str = keys.RACK

    def namespace_of(self, kind: Kind[ApiObject]) -> str:
        """Where objects of a kind are looked for. Storage is nobody's: it counts wherever its objects lie."""
        return self.namespace if kind.plural in OF_USERS else ""


EVERYTHING: Final = Focus()


class Session:
    def __init__(self, client: Client, focus: Focus, *, clock: Clock, rng: random.Random) -> None:
        self.client: Final = ReadOnlyClient(client, self._note)
        self.focus: Final = focus
        self.picture: Final = Picture(hold_namespace=focus.hold_namespace, rack_label=focus.rack_label)
        self.feed: Final = Feed(f"{rng.getrandbits(64):016x}")
        #: Set once everything is listed that can be.
        self.listed: Final = asyncio.Event()
        self._clock = clock
        self._rng = rng
        self._changed = asyncio.Event()
        self._whole: tuple[int, bytes] = (-1, b"")
        self._informers: dict[str, Informer[Any]] = {}
        picture = self.picture
        self._follow(NODE, picture.observe_node)
        self._follow(STORAGE_CLASS, picture.observe_class)
        self._follow(STORAGE_CAPACITY, picture.observe_capacity)
        self._follow(CLAIM, picture.observe_claim)
        self._follow(VOLUME, lambda before, after: picture.observe_volume(before, after, now=clock.now()))
        self._follow(POD, picture.observe_pod)
        self._follow(DATED_EVENT, picture.observe_event)

    def informer(self, kind: Kind[V]) -> Informer[V] | None:
        """What is followed anyway; None for kinds the picture does not need."""
        return self._informers.get(kind.plural)

    def whole(self) -> bytes:
        """The whole picture as one frame, which all who ask before the next one share."""
        self._publish()
        number, frame = self._whole
        if number != self.feed.number:
            body = {
                "whole": True,
                "cluster": self.focus.cluster,
                "epoch": self.feed.epoch,
                "number": self.feed.number,
                "rows": self.picture.told(),
            }
            frame = msgspec.json.encode(body) + b"\n"
            self._whole = (self.feed.number, frame)
        return frame

    async def run(self) -> None:
        """Until cancelled. Raises when an informer does."""
        try:
            async with asyncio.TaskGroup() as group:
                for informer in self._informers.values():
                    group.create_task(informer.run(), name=f"page: {informer.kind.plural}")
                group.create_task(self._list_first(), name="page: first lists")
                pause = PULSE_SECONDS
                while True:
                    await self._changed.wait()
                    await self._clock.sleep(pause)
                    self._changed.clear()
                    begun = self._clock.monotonic()
                    self._publish()
                    pause = max(PULSE_SECONDS, SPARED * (self._clock.monotonic() - begun))
        finally:
            self.feed.end()

    def _follow(self, kind: Kind[V], observe: Callable[[V | None, V | None], None]) -> None:
        scope = Scope(namespace=self.focus.namespace_of(kind))
        informer = Informer(self.client, kind, clock=self._clock, rng=self._rng, scope=scope)

        def tell(before: V | None, after: V | None) -> None:
            observe(before, after)
            self._changed.set()

        informer.on_change(tell)
        self._informers[kind.plural] = informer
        self.picture.notice(kind.plural, LOADING)

    async def _list_first(self) -> None:
        """Wait for all kinds, but not for those that cannot be read."""
        for informer in self._informers.values():
            while not await set_within(informer.synced, PULSE_SECONDS, self._clock):
                if self.picture.unreadable(informer.kind.plural):
                    break
        self.picture.live = True
        self.listed.set()

    def _note(self, kind: str, state: str, text: str) -> None:
        informer = self._informers.get(kind)
        if informer is not None and not state and not informer.synced.is_set():
            return  # The first list is on its way; `loading` stands until it is there.
        if self.picture.notice(kind, state, text):
            self._changed.set()

    def _publish(self) -> None:
        for plural, informer in self._informers.items():
            if informer.synced.is_set():
                self.picture.loaded(plural)
        if changes := self.picture.changes():
            body = {"number": self.feed.number + 1, "rows": changes.rows, "gone": changes.gone}
            self.feed.publish(msgspec.json.encode(body) + b"\n")


class Readership:
    """Who looks, and the session that serves them."""

    def __init__(
        self, client: Client, focus: Focus, *, clock: Clock, rng: random.Random, linger: float = LINGER_SECONDS
    ) -> None:
        self._client = client
        self._focus = focus
        self._clock = clock
        self._rng = rng
        self._linger = linger
        self._readers = 0
        self._session: Session | None = None
        self._running: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None

    @property
    def open(self) -> bool:
        """Whether informers run at present."""
        return self._session is not None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Session]:
        """A session with a first picture, for as long as the block lasts and a while longer."""
        session = self._join()
        try:
            await set_within(session.listed, FIRST_PICTURE_SECONDS, self._clock)
            yield session
        finally:
            self._leave()

    async def close(self) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        await self._stop()

    def _join(self) -> Session:
        self._readers += 1
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        if self._session is None:
            self._session = Session(self._client, self._focus, clock=self._clock, rng=self._rng)
            self._running = asyncio.create_task(self._session.run(), name="page")
            self._running.add_done_callback(self._ended)
        return self._session

    def _leave(self) -> None:
        self._readers -= 1
        if self._readers == 0 and self._session is not None:
            self._leaving = asyncio.create_task(self._stop_later(), name="page: last reader left")

    async def _stop_later(self) -> None:
        await self._clock.sleep(self._linger)
        self._leaving = None
        await self._stop()

    async def _stop(self) -> None:
        task, self._running, self._session = self._running, None, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A session that failed is replaced when the next reader comes; those it had come back by themselves."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the page's picture is lost and begun anew", exc_info=error)
        if task is self._running:
            self._running, self._session = None, None
