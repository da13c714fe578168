"""The `Client` of one incarnation in the simulated world: the in-process one behind a network that can fail.

Requests and answers take time, get lost or are refused, watches break and stand still, as the instance's `Luck` has
it. Once its `Lifeline` is severed nothing this client is asked to do reaches the server.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, NamedTuple, TypeVar, Unpack

from mooring.api import label_selector
from mooring.api.errors import ApiError, Expired, ServiceUnavailable, TooManyRequests, from_status
from mooring.api.kinds import EVENT, POD, Kind
from mooring.api.patches.contract import MergePatch, Patch
from mooring.api.views.meta import ApiObject, Meta
from mooring.client import answers
from mooring.client.contract import Change, Client, Deletion, Listing, Unreachable, WatchEvent
from mooring.sim.faults import BadCall, BadWatch, Trouble, WatchTrouble
from mooring.sim.history import acting
from mooring.sim.lifeline import Lifeline

V = TypeVar("V", bound=ApiObject)
T = TypeVar("T")

#: Set by whoever overtakes a write.
TOUCHED: Final = "sim.mooring/touched"
_READS: Final = ("get", "list")
#: Bodies that are not the answer: an error page, another document, JSON that ends in the middle, nothing.
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


class FaultyClient:
    def __init__(self, line: Lifeline) -> None:
        self._line = line
        self._server, self._weather, _, self._clock = line.network

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        request = _Request("get", kind, name, namespace)
        return await self._send_typed(request, kind, lambda: self._server.get(kind, name, namespace=namespace))

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> Listing[V]:
        request = _Request("list", kind, "", namespace)
        return await self._send(
            request,
            lambda: self._server.list(kind, namespace=namespace, labels=labels, fields=fields),
            lambda body: answers.listing_of(kind, body, request=str(request)),
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
        luck = self._line.luck.next_watch()
        await self._line.travel()
        self._reach_server()
        if (trouble := luck.refusal()) is not None:
            await self._disturb(kind, trouble)
        moment = self._clock.monotonic()
        stale = self._line.stale_cache if after is None else None
        if stale is None:
            stream = self._server.watch(kind, after=after, namespace=namespace, labels=labels, fields=fields)
        else:
            stream = self._watch_behind(kind, *stale, namespace=namespace, labels=labels)
        async with aclosing(stream) as events:
            async for event in events:
                # News takes its time; what has gathered meanwhile arrives with it.
                if self._clock.monotonic() > moment:
                    await self._line.travel()
                self._line.live()
                if (trouble := luck.next_event()) is not None:
                    if trouble.trouble is WatchTrouble.ENDED:
                        self._line.note(f"watch {kind.plural}: {trouble.trouble.value}")
                        return
                    await self._disturb(kind, trouble)
                moment = self._clock.monotonic()
                yield event

    async def _watch_behind(
        self, kind: Kind[V], revision: int, until: float, *, namespace: str, labels: str
    ) -> AsyncGenerator[WatchEvent[V], None]:
        """A list and watch of an API server whose watch cache is behind: the past, a pause, then the rest."""
        self._line.note(f"watch {kind.plural}: as of revision {revision}")
        selector = label_selector.parse(labels)
        for item in self._line.network.history.objects(kind, revision):
            if (not namespace or item.namespace == namespace) and selector.matches(item.metadata.labels):
                yield WatchEvent(Change.ADDED, item)
        bookmark = kind.view(metadata=Meta(resource_version=str(revision)))
        yield WatchEvent(Change.BOOKMARK, bookmark, initial_end=True)
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
            request, send, lambda body: answers.object_of(kind, body, name=name, request=str(request))
        )

    async def _send(
        self, request: _Request, send: Callable[[], Awaitable[T]], read: Callable[[bytes], T] | None = None
    ) -> T:
        """`read` is how a client reads the body of a successful answer, where it does."""
        trouble = self._line.luck.next_call(events=request.kind is EVENT)
        await self._line.travel()
        self._reach_server()
        if trouble is not None:
            self._line.note(f"{request}: {trouble.trouble.value}")
            await self._before(request, trouble)
        with acting(self._line.who, request.verb):
            answer = await send()
        if request.verb not in _READS and request.kind is not EVENT:
            self._line.outlive(str(request))
        if trouble is not None:
            await self._after(request, trouble)
            if trouble.trouble is Trouble.GARBLED_ANSWER and read is not None:
                answer = read(GARBLED_BODIES[trouble.call % len(GARBLED_BODIES)])
        await self._line.travel()
        return answer

    def _reach_server(self) -> None:
        if self._weather.server_is_away:
            raise Unreachable("the API server is restarting")

    async def _before(self, request: _Request, trouble: BadCall) -> None:
        match trouble.trouble:
            case Trouble.SLOW_REQUEST:
                await self._line.delay(trouble.seconds)
                self._reach_server()
            case Trouble.LOST_REQUEST:
                raise Unreachable(trouble.trouble.value)
            case Trouble.UNAVAILABLE:
                raise ServiceUnavailable(trouble.trouble.value)
            case Trouble.THROTTLED:
                raise TooManyRequests(trouble.trouble.value)
            case Trouble.OVERTAKEN:
                await self._overtake(request)
            case Trouble.REFUSED:
                raise _refusal(trouble.code, request.name)
            case _:
                return

    async def _after(self, request: _Request, trouble: BadCall) -> None:
        match trouble.trouble:
            case Trouble.SLOW_ANSWER:
                await self._clock.sleep(trouble.seconds)
            case Trouble.LOST_ANSWER | Trouble.CUT_ANSWER:
                raise Unreachable(trouble.trouble.value)
            case Trouble.FAILED_AFTERWARDS:
                raise _refusal(trouble.code, request.name)
            case _:
                return

    async def _overtake(self, request: _Request) -> None:
        """Somebody else changes the object the request is about, harmlessly."""
        if request.verb in _READS or not request.name:
            return
        mark = MergePatch({"metadata": {"annotations": {TOUCHED: str(self._clock.monotonic())}}})
        try:
            await self._server.patch(request.kind, request.name, mark, namespace=request.namespace)
        except ApiError as refusal:
            self._line.note(f"{request}: nobody could be faster: {refusal.message}")

    async def _disturb(self, kind: Kind[ApiObject], trouble: BadWatch) -> None:
        self._line.note(f"watch {kind.plural}: {trouble.trouble.value}")
        match trouble.trouble:
            case WatchTrouble.BROKEN:
                raise Unreachable(trouble.trouble.value)
            case WatchTrouble.EXPIRED:
                raise Expired(trouble.trouble.value)
            case WatchTrouble.STALLED:
                await self._line.delay(trouble.seconds)
            case WatchTrouble.SKIPPED:
                await self._line.delay(trouble.seconds)
                raise Expired(trouble.trouble.value)
            case WatchTrouble.REFUSED:
                raise _refusal(trouble.code, "")
            case WatchTrouble.GARBLED:
                answers.event_of(kind, GARBLED_BODIES[trouble.after % len(GARBLED_BODIES)])
            case WatchTrouble.ENDED:
                return


def _refusal(code: int, name: str) -> ApiError:
    """What a client makes of such an answer to a request for an object of that name."""
    return answers.about_object(from_status(b"refused by the fault plan", code), name)


_contract: type[Client] = FaultyClient
