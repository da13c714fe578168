"""Informer session and frame feed of the dashboard.

    first reader ──► informers fill a picture ──► frames, at most ten per second, serialised once
    last reader leaves ──► LINGER_SECONDS later everything is stopped and released

Readers resume by epoch and number; a slow reader is disconnected and starts again with a full snapshot. Frames kept
and bytes queued per reader are bounded. A cluster without open tabs has no cost.
"""

import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Never, Unpack, cast

import msgspec
import structlog

from mooring.api import well_known
from mooring.api.errors import ApiError, BadRequest, Expired, Forbidden, Invalid, NotFound, NotSupported, Unauthorized
from mooring.api.kinds import CLAIM, EVENT, NODE, POD, POD_GROUP, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME, Kind
from mooring.api.patches.contract import Patch
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client, Deletion, ObjectList, Unreachable, V, WatchEvent
from mooring.client.informer import OPTIONAL_KINDS, Informer, Scope
from mooring.clock import Clock, set_within
from mooring.volumes.binding import HOLD_NAMESPACE
from mooring.web.picture import LOADING, DatedEvent, Picture
from mooring.web.pool_history import PoolHistory

#: Frames a tab may have missed and still resume; at ten a second, half a minute of constant change.
MAX_CACHED_FRAMES: Final = 300
#: And what they may take in memory.
MAX_CACHED_BYTES: Final = 4 << 20
#: What may wait for one reader, besides what its socket holds.
MAX_QUEUED_BYTES: Final = 4 << 20


class ReaderTooSlow(Exception):
    """The reader did not take its frames in time."""


class FeedEnded(Exception):
    """There will be no more frames."""


class Reader:
    """One open tab's queue."""

    def __init__(self, feed: "Feed", *, most: int = MAX_QUEUED_BYTES) -> None:
        self._feed = feed
        self._most = most
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()
        self._end: Exception | None = None

    def offer(self, frame: bytes) -> None:
        self._waiting.append(frame)
        self._bytes += len(frame)
        if self._bytes > self._most:
            self._waiting.clear()
            self.end(ReaderTooSlow())
        self._wake.set()

    def end(self, why: Exception) -> None:
        self._end = why
        self._wake.set()

    async def next_frames(self) -> bytes:
        """All frames that wait, or the next one. Raises ReaderTooSlow and FeedEnded."""
        while not self._waiting:
            if self._end is not None:
                raise self._end
            self._wake.clear()
            await self._wake.wait()
        frames = b"".join(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        return frames

    def close(self) -> None:
        self._feed.leave(self)


class Feed:
    def __init__(self, epoch: str, *, kept_frames: int = MAX_CACHED_FRAMES, kept_bytes: int = MAX_CACHED_BYTES) -> None:
        self.epoch = epoch
        #: The number of the newest frame.
        self.number = 0
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._kept_frames = kept_frames
        self._kept_bytes = kept_bytes
        self._readers: set[Reader] = set()

    def publish(self, frame: bytes) -> None:
        """The frame after `number`."""
        self.number += 1
        self._frames.append(frame)
        self._bytes += len(frame)
        while len(self._frames) > self._kept_frames or self._bytes > self._kept_bytes:
            self._bytes -= len(self._frames.popleft())
        for reader in tuple(self._readers):
            reader.offer(frame)

    def missed(self, epoch: str, number: int) -> bytes | None:
        """The frames after one that a reader has; None when they are no longer all there."""
        behind = self.number - number
        if epoch != self.epoch or not 0 <= behind <= len(self._frames):
            return None
        return b"".join(list(self._frames)[len(self._frames) - behind :])

    def join(self) -> Reader:
        """A reader of all that is published from now on."""
        reader = Reader(self)
        self._readers.add(reader)
        return reader

    def leave(self, reader: Reader) -> None:
        self._readers.discard(reader)

    def end(self) -> None:
        for reader in tuple(self._readers):
            reader.end(FeedEnded())


#: What is wrong with a kind ("" for nothing) and the server's own words.
ReadStatusCallback = Callable[[str, str, str], None]

FORBIDDEN, UNREACHABLE = "forbidden", "unreachable"

#: Responses after which an informer lists: instead of streaming its first list, or again.
_OTHER_WAY: Final = (Expired, Invalid, BadRequest, NotSupported)

#: Seconds a watch must have stood for the server to count as reached, where nothing happens that it could tell.
STEADY_SECONDS: Final = 1.5


class ReadOnlyClient:
    """A `Client` that refuses every write and reports failed reads per kind: the dashboard may run with an
    administrator's credentials, and cannot change the cluster."""

    def __init__(self, client: Client, noted: ReadStatusCallback) -> None:
        self._client = client
        self._noted = noted

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        return await self._client.get(kind, name, namespace=namespace)

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> ObjectList[V]:
        try:
            listing = await self._client.list(kind, namespace=namespace, labels=labels, fields=fields)
        except (ApiError, Unreachable) as error:
            self._failed(kind, error)
            raise
        self._noted(kind.plural, "", "")
        return listing

    async def watch(
        self, kind: Kind[V], *, after: str | None, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncGenerator[WatchEvent[V], None]:
        # A watch on a quiet server says nothing at all, neither that it works.
        steady = asyncio.get_running_loop().call_later(STEADY_SECONDS, self._noted, kind.plural, "", "")
        stream = self._client.watch(kind, after=after, namespace=namespace, labels=labels, fields=fields)
        try:
            async with aclosing(stream) as events:
                async for event in events:
                    steady.cancel()
                    self._noted(kind.plural, "", "")
                    yield event
        except (ApiError, Unreachable) as error:
            self._failed(kind, error)
            raise
        finally:
            steady.cancel()

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        _refuse("create", kind)

    async def update(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "", subresource: str = "") -> V:
        _refuse("update", kind)

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        _refuse("patch", kind)

    async def delete(self, kind: Kind[V], name: str, *, namespace: str = "", **options: Unpack[Deletion]) -> None:
        _refuse("delete", kind)

    async def bind(self, pod: str, *, namespace: str, uid: str, node: str) -> None:
        raise Forbidden("the page only reads: it binds no pod")

    async def evict(self, pod: str, *, namespace: str, uid: str = "", grace_seconds: int | None = None) -> None:
        raise Forbidden("the page only reads: it evicts no pod")

    async def close(self) -> None:
        await self._client.close()

    def _failed(self, kind: Kind[ApiObject], error: ApiError | Unreachable) -> None:
        if isinstance(error, _OTHER_WAY) or (isinstance(error, NotFound) and kind in OPTIONAL_KINDS):
            return
        refused = isinstance(error, Forbidden | Unauthorized)
        text = error.message if isinstance(error, ApiError) else str(error)
        self._noted(kind.plural, FORBIDDEN if refused else UNREACHABLE, text)


def _refuse(verb: str, kind: Kind[ApiObject]) -> Never:
    raise Forbidden(f"the page only reads: it does not {verb} {kind.plural}")


#: Changes within this time go out together: fast enough for a reader, slow enough for a busy cluster to cost little.
PUBLISH_INTERVAL_SECONDS: Final = 0.1
#: How many times as long as it took to find what changed nothing is looked for again: in `mooring up` the cluster runs
#: in the same loop, and where thousands of nodes come at once every volume's place is looked at anew.
PUBLISH_IDLE_FACTOR: Final = 9.0
#: How often what depends on the time alone is looked at, where nothing else happens.
TIME_STEP_SECONDS: Final = 5.0
#: How long the first picture is waited for; what is not listed by then comes later, frame by frame.
FIRST_SNAPSHOT_SECONDS: Final = 2.0
#: A reload, or a laptop that changes its network, should find everything as it was.
LINGER_SECONDS: Final = 30.0

DATED_EVENT: Final = cast("Kind[DatedEvent]", replace(EVENT, view=DatedEvent))

#: What people have in their namespaces.
NAMESPACED_KINDS: Final = frozenset({POD.plural, POD_GROUP.plural, CLAIM.plural, EVENT.plural})

log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ViewScope:
    """What of the cluster is looked at."""

    #: What people call it: the address of its API server.
    cluster: str = ""
    #: "" for all; otherwise only pods, PodGroups, claims and events of this one, for readers who may list no more.
    namespace: str = ""
    #: Namespace of hold references: volumes with a claimRef into it are held.
    hold_namespace: str = HOLD_NAMESPACE
    #: The label that says in which rack a node is.
    rack_label: str = well_known.RACK

    def namespace_of(self, kind: Kind[ApiObject]) -> str:
        """The namespace to list a kind in; storage kinds are always listed in all namespaces."""
        return self.namespace if kind.plural in NAMESPACED_KINDS else ""


WHOLE_CLUSTER: Final = ViewScope()


class Session:
    def __init__(
        self,
        client: Client,
        focus: ViewScope,
        *,
        clock: Clock,
        rng: random.Random,
        history: PoolHistory | None = None,
    ) -> None:
        self.client: Final = ReadOnlyClient(client, self._note)
        self.focus: Final = focus
        self.picture: Final = Picture(hold_namespace=focus.hold_namespace, rack_label=focus.rack_label, history=history)
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
        self._follow(STORAGE_CAPACITY, lambda before, after: picture.observe_capacity(before, after, now=clock.now()))
        self._follow(CLAIM, picture.observe_claim)
        self._follow(VOLUME, lambda before, after: picture.observe_volume(before, after, now=clock.now()))
        self._follow(POD, picture.observe_pod)
        self._follow(POD_GROUP, picture.observe_group)
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
                "at": self._clock.now(),
                "rows": {**self.picture.all_rows(), "history": self.picture.history.rows(now=self._clock.now())},
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
                pause = PUBLISH_INTERVAL_SECONDS
                while True:
                    if await set_within(self._changed, TIME_STEP_SECONDS, self._clock):
                        await self._clock.sleep(pause)
                    self._changed.clear()
                    begun = self._clock.monotonic()
                    self._publish()
                    pause = max(PUBLISH_INTERVAL_SECONDS, PUBLISH_IDLE_FACTOR * (self._clock.monotonic() - begun))
        finally:
            self.feed.end()

    def _follow(self, kind: Kind[V], observe: Callable[[V | None, V | None], None]) -> None:
        scope = Scope(namespace=self.focus.namespace_of(kind))
        informer = Informer(self.client, kind, clock=self._clock, rng=self._rng, scope=scope)

        def notify(before: V | None, after: V | None) -> None:
            observe(before, after)
            self._changed.set()

        informer.on_change(notify)
        self._informers[kind.plural] = informer
        self.picture.notice(kind.plural, LOADING)

    async def _list_first(self) -> None:
        """Wait for all kinds, but not for those that cannot be read."""
        for informer in self._informers.values():
            while not await set_within(informer.synced, PUBLISH_INTERVAL_SECONDS, self._clock):
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
        now = self._clock.now()
        self.picture.pass_time(now)
        if changes := self.picture.changes():
            body = {"number": self.feed.number + 1, "at": now, "rows": changes.rows, "gone": changes.gone}
            self.feed.publish(msgspec.json.encode(body) + b"\n")


class SessionPool:
    """Who looks, and the session that serves them."""

    def __init__(
        self, client: Client, focus: ViewScope, *, clock: Clock, rng: random.Random, linger: float = LINGER_SECONDS
    ) -> None:
        self._client = client
        self._focus = focus
        self._clock = clock
        self._rng = rng
        self._linger = linger
        self._history = PoolHistory()
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
            await set_within(session.listed, FIRST_SNAPSHOT_SECONDS, self._clock)
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
            self._session = Session(self._client, self._focus, clock=self._clock, rng=self._rng, history=self._history)
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
            log.error("dashboard session failed; the next reader starts another", exc_info=error)
        if task is self._running:
            self._running, self._session = None, None
