"""The HTTP shell of the API server: authenticate, find out what is meant, ask whether it is allowed, answer.

    probes and /version ──► anybody
    discovery, OpenAPI  ─┐
    /metrics, /debug/…  ─┴► whoever the roles let read those paths
    resources           ──► whoever the roles let; `resources`, one verb of the Api each
    anything else       ──► 404, for those who may read every path

Every failure leaves as a Status, except 404 for paths outside the API, which is plain text as upstream's. Knows no
sockets (`listening`) and no semantics of objects (the Api).
"""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry

from mooring.api.debug_documents import DebugDocuments
from mooring.api.errors import ApiError, Unauthorized, method_not_allowed
from mooring.api.health import Check
from mooring.clock import Clock
from mooring.server.authentication.authenticator import Authenticator
from mooring.server.authorization.access import Access
from mooring.server.authorization.attributes import request_at
from mooring.server.authorization.refusals import require
from mooring.server.contract import Api, User
from mooring.server.environment import Compute, at_once
from mooring.server.http.answers import failure, json_answer, metrics_answer, text_answer
from mooring.server.http.discovery import aggregated_documents, plain_documents
from mooring.server.http.documents import Document
from mooring.server.http.impersonation import impersonated
from mooring.server.http.internal_errors import internal_error
from mooring.server.http.negotiation import OPENAPI_V2_ASKED, wants_aggregated
from mooring.server.http.openapi import empty_openapi_v2, openapi_documents
from mooring.server.http.options import flag
from mooring.server.http.probes import ENDPOINTS, Probes
from mooring.server.http.request_records import GONE, RequestRecord, RequestRecords
from mooring.server.http.resources import Resources
from mooring.server.http.routing import resolve, segments, verb_of
from mooring.server.http.version import version_document
from mooring.server.http.watch_places import PER_USER, WatchPlaces
from mooring.server.http.watch_stream import DRAIN_SECONDS, WatchStreams

_READING: Final = ("GET", "HEAD")
METRICS: Final = ("metrics",)
#: What paths to objects begin with.
_OBJECTS: Final = ("api", "apis")


class HttpShell:
    """One API over HTTP. `handle` is what `listening.listen` takes; `end_watches` comes before closing."""

    def __init__(
        self,
        api: Api,
        *,
        authenticator: Authenticator,
        access: Access,
        clock: Clock,
        rng: random.Random,
        readiness: Mapping[str, Check] | None = None,
        metrics: Callable[[], bytes] | None = None,
        debug: DebugDocuments | None = None,
        records: RequestRecords | None = None,
        drain_seconds: float = DRAIN_SECONDS,
        watches_per_user: int = PER_USER,
        catch_up: Callable[[], Awaitable[None]] | None = None,
        off_loop: Compute = at_once,
    ) -> None:
        """`catch_up` is awaited before anything is read for a request about objects: other servers may have written.
        `off_loop` runs what takes long."""
        self._authenticator = authenticator
        self._catch_up = catch_up
        self._access = access
        self._rng = rng
        self._metrics = metrics
        self._debug = {segments(path): inspect for path, inspect in (debug or {}).items()}
        self._records = records or RequestRecords(CollectorRegistry(), clock)
        self._probes = Probes(readiness or {})
        self._watches = WatchStreams(clock=clock, rng=rng, drain_seconds=drain_seconds)
        self._resources = Resources(
            api, clock=clock, watches=self._watches, places=WatchPlaces(watches_per_user), off_loop=off_loop
        )
        self._version = version_document()
        self._documents = _documents()
        self._aggregated = aggregated_documents()
        self._openapi_v2 = empty_openapi_v2()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        with self._records.record(request) as record:
            answer = await self._attempt(request, record)
            record.answered(answer)
            return answer

    async def _attempt(self, request: web.BaseRequest, record: RequestRecord) -> web.StreamResponse:
        try:
            return await self._answer(request, record)
        except ApiError as error:
            return failure(error)
        except ConnectionError:
            return text_answer("", code=GONE)  # nobody is left to answer
        except Exception as error:
            return failure(internal_error(request, error, self._rng))

    def end_watches(self) -> None:
        """End all open watches cleanly; their clients come back to whoever serves then."""
        self._watches.end()

    async def _answer(self, request: web.BaseRequest, record: RequestRecord) -> web.StreamResponse:
        path = segments(request.rel_url.raw_path)
        if self._catch_up is not None and path and path[0] in _OBJECTS:
            await self._catch_up()
        user = await self._authenticator.authenticate(
            request.headers.get("Authorization", ""), request.get_extra_info("peercert")
        )
        if (answer := self._for_anybody(request, path)) is not None:
            return answer
        if user is None:
            raise Unauthorized("Unauthorized")
        user = await impersonated(request.headers, user, self._access)
        record.user = user.name
        if (document := self._document(request, path)) is not None:
            await self._require_path(request, user, path)
            _only_reading(request)
            return document.answer(request)
        if path == METRICS and self._metrics is not None:
            await self._require_path(request, user, path)
            _only_reading(request)
            return metrics_answer(self._metrics())
        if (inspect := self._debug.get(path)) is not None:
            await self._require_path(request, user, path)
            _only_reading(request)
            return json_answer(inspect(request.query))
        return await self._resource(request, user, path, record)

    def _for_anybody(self, request: web.BaseRequest, path: Sequence[str]) -> web.Response | None:
        """What is told without asking who wants to know."""
        match path:
            case ["version"]:
                _only_reading(request)
                return json_answer(self._version)
            case [endpoint, *below] if endpoint in ENDPOINTS:
                _only_reading(request)
                return self._probes.answer(
                    endpoint,
                    below,
                    verbose=flag(request.query, "verbose"),
                    exclude=request.query.getall("exclude", []),
                )
            case _:
                return None

    def _document(self, request: web.BaseRequest, path: tuple[str, ...]) -> Document | None:
        accept = request.headers.get("Accept", "")
        if path in self._aggregated and wants_aggregated(accept):
            return self._aggregated[path]
        if path == ("openapi", "v2") and OPENAPI_V2_ASKED in accept:
            return self._openapi_v2
        return self._documents.get(path)

    async def _resource(
        self, request: web.BaseRequest, user: User, path: Sequence[str], record: RequestRecord
    ) -> web.StreamResponse:
        watching, fields = flag(request.query, "watch"), request.query.get("fieldSelector", "")
        wanted = request_at(request.method, path, watching=watching, fields=fields)
        try:
            target = resolve(path)
            verb = None if target is None else verb_of(request.method, target, watching=watching)
        except ApiError:
            await require(self._access, user, wanted)
            raise
        if target is None or verb is None:
            await require(self._access, user, wanted)
            return text_answer("404 page not found\n", code=404)
        record.names(verb, target)
        await require(self._access, user, wanted)
        return await self._resources.answer(request, user, verb, target)

    async def _require_path(self, request: web.BaseRequest, user: User, path: Sequence[str]) -> None:
        """Asked in one spelling, whichever way the path was written."""
        await require(self._access, user, request_at(request.method, path))


def _documents() -> dict[tuple[str, ...], Document]:
    """Everything on a fixed path, and at the root a list of those paths."""
    documents = plain_documents() | openapi_documents()
    paths = sorted(f"/{'/'.join(path)}" for path in [*documents, ("version",), *((probe,) for probe in ENDPOINTS)])
    return documents | {(): Document(msgspec.json.encode({"paths": paths}))}


def _only_reading(request: web.BaseRequest) -> None:
    if request.method not in _READING:
        raise method_not_allowed()
