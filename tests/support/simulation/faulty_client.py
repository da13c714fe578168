"""A `Client` and a `Store` with injected faults: the network and the API server's disk in the simulated cluster.

`FaultyClient` belongs to one process instance; after a disconnect none of its requests reaches the server.
`FaultyStore` wraps any store. Only components' writes fail: users' requests always succeed, and reads are served from
the API server's memory.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, NamedTuple, TypeVar, Unpack

from mooring.api import selectors
from mooring.api.errors import ApiError, Expired, ServiceUnavailable, TooManyRequests, from_status
from mooring.api.kinds import EVENT, POD, Kind
from mooring.api.patches.contract import MergePatch, Patch
from mooring.api.views.meta import ApiObject, Meta
from mooring.client import responses
from mooring.client.contract import Client, Deletion, ObjectList, Unreachable, WatchEvent, WatchEventType
from mooring.clock import Clock
from mooring.store.contract import Listing, Record, Revision, Store, StoreChange, StoreError, Watch
from support.simulation.faults import BadCall, BadWatch, BadWrite, RequestFault, StoreFault, WatchFault
from support.simulation.history import OUTSIDERS, History, acting, actor
from support.simulation.injector import FaultInjector, InstanceConnection

V = TypeVar("V", bound=ApiObject)
T = TypeVar("T")

#: Annotation set by a concurrent update.
TOUCHED: Final = "sim.mooring/touched"
_READS: Final = ("get", "list")
#: Bodies that are not the requested object.
GARBLED_BODIES: Final = (
    b"<html>502 Bad Gateway</html>",
    b"{}",
    b'{"metadata":{"na',
    b"null",
    b"",
    b'{"kind":"Status"}',
)


class _Request(NamedTuple):
    verb: str
    kind: Kind[ApiObject]
    name: str
    namespace: str

    def __str__(self) -> str:
        return f"{self.verb} {self.kind.plural} {self.namespace}{'/' if self.namespace else ''}{self.name}".rstrip()


def _listing(kind: Kind[V], body: bytes, request: _Request) -> ObjectList[V]:
    answer = responses.ListAnswer(kind, body, request=str(request))
    for _ in answer.steps():
        pass
    return answer.listing()


class FaultyClient:
    def __init__(self, connection: InstanceConnection) -> None:
        self._connection = connection
        self._server, self._injector, _, self._clock = connection.network

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        request = _Request("get", kind, name, namespace)
        return await self._send_typed(request, kind, lambda: self._server.get(kind, name, namespace=namespace))

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> ObjectList[V]:
        request = _Request("list", kind, "", namespace)
        return await self._send(
            request,
            lambda: self._server.list(kind, namespace=namespace, labels=labels, fields=fields),
            lambda body: _listing(kind, body, request),
        )

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        request = _Request("create", kind, body["metadata"].get("name", ""), namespace)
        return await self._send_typed(request, kind, lambda: self._server.create(kind, body, namespace=namespace))

    async def update(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "", subresource: str = "") -> V:
        request = _Request("update", kind, body["metadata"]["name"], namespace)
        return await self._send_typed(
            request, kind, lambda: self._server.update(kind, body, namespace=namespace, subresource=subresource)
        )

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        request = _Request("patch", kind, name, namespace)
        return await self._send_typed(
            request, kind, lambda: self._server.patch(kind, name, patch, namespace=namespace, subresource=subresource)
        )

    async def delete(self, kind: Kind[V], name: str, *, namespace: str = "", **options: Unpack[Deletion]) -> None:
        request = _Request("delete", kind, name, namespace)
        await self._send(
            request,
            lambda: self._server.delete(kind, name, namespace=namespace, **options),
        )

    async def bind(self, pod: str, *, namespace: str, uid: str, node: str) -> None:
        request = _Request("bind", POD, pod, namespace)
        await self._send(request, lambda: self._server.bind(pod, namespace=namespace, uid=uid, node=node))

    async def evict(self, pod: str, *, namespace: str, uid: str = "", grace_seconds: int | None = None) -> None:
        request = _Request("evict", POD, pod, namespace)
        await self._send(
            request, lambda: self._server.evict(pod, namespace=namespace, uid=uid, grace_seconds=grace_seconds)
        )

    async def watch(
        self,
        kind: Kind[V],
        *,
        after: str | None,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
    ) -> AsyncGenerator[WatchEvent[V], None]:
        faults = self._connection.faults.next_watch()
        await self._connection.transmit()
        self._reach_server()
        if (fault := faults.refusal()) is not None:
            await self._disturb(kind, fault)
        moment = self._clock.monotonic()
        stale = self._connection.stale_cache if after is None else None
        if stale is None:
            stream = self._server.watch(kind, after=after, namespace=namespace, labels=labels, fields=fields)
        else:
            stream = self._watch_behind(kind, *stale, namespace=namespace, labels=labels)
        async with aclosing(stream) as events:
            async for event in events:
                # Events that accumulated during the latency are delivered together.
                if self._clock.monotonic() > moment:
                    await self._connection.transmit()
                    moment = self._clock.monotonic()
                elif self._connection.disconnected:
                    self._connection.ensure_connected()
                if (fault := faults.next_event()) is not None:
                    if fault.effect is WatchFault.ENDED:
                        self._connection.note(f"watch {kind.plural}: {fault.effect.value}")
                        return
                    await self._disturb(kind, fault)
                    moment = self._clock.monotonic()
                yield event

    async def _watch_behind(
        self, kind: Kind[V], revision: int, until: float, *, namespace: str, labels: str
    ) -> AsyncGenerator[WatchEvent[V], None]:
        """List and watch from a watch cache that is behind until a given time, then continue with current events."""
        self._connection.note(f"watch {kind.plural}: as of revision {revision}")
        selector = selectors.parse_label_selector(labels)
        for item in self._connection.network.history.objects(kind, revision):
            if (not namespace or item.namespace == namespace) and selector.matches(item.metadata.labels):
                yield WatchEvent(WatchEventType.ADDED, item)
        bookmark = kind.view(metadata=Meta(resource_version=str(revision)))
        yield WatchEvent(WatchEventType.BOOKMARK, bookmark, initial_end=True)
        await self._clock.sleep(until - self._clock.monotonic())
        stream = self._server.watch(kind, after=str(revision), namespace=namespace, labels=labels)
        async with aclosing(stream) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        """Nothing is held open."""

    async def _send_typed(self, request: _Request, kind: Kind[V], send: Callable[[], Awaitable[V]]) -> V:
        name = request.name
        return await self._send(
            request, send, lambda body: responses.object_of(kind, body, name=name, request=str(request))
        )

    async def _send(
        self, request: _Request, send: Callable[[], Awaitable[T]], read: Callable[[bytes], T] | None = None
    ) -> T:
        """`read` decodes the body of a successful response."""
        fault = self._connection.faults.next_call(events=request.kind is EVENT)
        await self._connection.transmit()
        self._reach_server()
        if fault is not None:
            self._connection.note(f"{request}: {fault.effect.value}")
            await self._before(request, fault)
        with acting(self._connection.name, request.verb):
            response = await send()
        if request.verb not in _READS and request.kind is not EVENT:
            self._connection.took_effect(request)
        if fault is not None:
            await self._after(request, fault)
            if fault.effect is RequestFault.GARBLED_ANSWER and read is not None:
                response = read(GARBLED_BODIES[fault.call % len(GARBLED_BODIES)])
        await self._connection.transmit()
        return response

    def _reach_server(self) -> None:
        if self._injector.server_is_away:
            raise Unreachable("the API server is restarting")

    async def _before(self, request: _Request, fault: BadCall) -> None:
        match fault.effect:
            case RequestFault.SLOW_REQUEST:
                await self._connection.delay(fault.seconds)
                self._reach_server()
            case RequestFault.LOST_REQUEST:
                raise Unreachable(fault.effect.value)
            case RequestFault.UNAVAILABLE:
                raise ServiceUnavailable(fault.effect.value)
            case RequestFault.THROTTLED:
                raise TooManyRequests(fault.effect.value)
            case RequestFault.OVERTAKEN:
                await self._overtake(request)
            case RequestFault.REFUSED:
                raise _refusal(fault.code, request.name)
            case _:
                return

    async def _after(self, request: _Request, fault: BadCall) -> None:
        match fault.effect:
            case RequestFault.SLOW_ANSWER:
                await self._clock.sleep(fault.seconds)
            case RequestFault.LOST_ANSWER | RequestFault.CUT_ANSWER:
                raise Unreachable(fault.effect.value)
            case RequestFault.FAILED_AFTERWARDS:
                raise _refusal(fault.code, request.name)
            case _:
                return

    async def _overtake(self, request: _Request) -> None:
        """Update an annotation of the requested object first."""
        if request.verb in _READS or not request.name:
            return
        mark = MergePatch({"metadata": {"annotations": {TOUCHED: str(self._clock.monotonic())}}})
        try:
            await self._server.patch(request.kind, request.name, mark, namespace=request.namespace)
        except ApiError as refusal:
            self._connection.note(f"{request}: concurrent update failed: {refusal.message}")

    async def _disturb(self, kind: Kind[ApiObject], fault: BadWatch) -> None:
        self._connection.note(f"watch {kind.plural}: {fault.effect.value}")
        match fault.effect:
            case WatchFault.BROKEN:
                raise Unreachable(fault.effect.value)
            case WatchFault.EXPIRED:
                raise Expired(fault.effect.value)
            case WatchFault.STALLED:
                await self._connection.delay(fault.seconds)
            case WatchFault.SKIPPED:
                await self._connection.delay(fault.seconds)
                raise Expired(fault.effect.value)
            case WatchFault.REFUSED:
                raise _refusal(fault.code, "")
            case WatchFault.GARBLED:
                responses.event_of(kind, GARBLED_BODIES[fault.after % len(GARBLED_BODIES)])
            case WatchFault.ENDED:
                return


def _refusal(code: int, name: str) -> ApiError:
    """The client error for a response with this code."""
    return responses.object_error(from_status(b"refused by the fault plan", code), name)


_faulty_client_contract: type[Client] = FaultyClient


_EVENTS: Final = EVENT.store_prefix()


class ElectionClient(FaultyClient):
    """Requests of the leader election of an instance: without faults of their own, since plans count the requests and
    writes of its component; none arrives after a disconnect."""

    async def _send(
        self, request: _Request, send: Callable[[], Awaitable[T]], read: Callable[[bytes], T] | None = None
    ) -> T:
        await self._connection.transmit()
        self._reach_server()
        with acting(self._connection.name, request.verb):
            response = await send()
        await self._connection.transmit()
        return response


class FaultyStore:
    def __init__(self, store: Store, injector: FaultInjector, history: History, clock: Clock) -> None:
        self._store = store
        self._injector = injector
        self._history = history
        self._clock = clock

    @property
    def revision(self) -> Revision:
        return self._store.revision

    def count(self, prefix: str) -> int:
        return self._store.count(prefix)

    async def wait_current(self) -> None:
        await self._store.wait_current()

    async def get(self, key: str) -> Record | None:
        return await self._store.get(key)

    async def list(self, prefix: str, *, at: Revision | None = None, start: str = "", limit: int = 0) -> Listing:
        return await self._store.list(prefix, at=at, start=start, limit=limit)

    async def write(
        self, key: str, value: bytes | None, *, expect: Revision, precondition: Record | None = None
    ) -> StoreChange:
        fault = self._next(key)
        if fault is None:
            return await self._store.write(key, value, expect=expect, precondition=precondition)
        self._history.note("store", f"{actor().author}, {key}: {fault.effect.value}")
        if fault.effect is StoreFault.FAILED:
            raise StoreError(fault.effect.value)
        await self._clock.sleep(fault.seconds)
        change = await self._store.write(key, value, expect=expect, precondition=precondition)
        if fault.effect is StoreFault.FAILED_AFTERWARDS:
            raise StoreError(fault.effect.value)
        return change

    async def watch(self, prefix: str, *, after: Revision) -> Watch:
        return await self._store.watch(prefix, after=after)

    async def close(self) -> None:
        await self._store.close()

    def _next(self, key: str) -> BadWrite | None:
        if key.startswith(_EVENTS) or actor().author in OUTSIDERS:
            return None
        return self._injector.next_store_write()


_faulty_store_contract: type[Store] = FaultyStore
