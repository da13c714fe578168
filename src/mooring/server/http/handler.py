"""Request pipeline: authenticate, route, authorize, call the Api, respond.

    probes and /version           ──► unauthenticated
    discovery, OpenAPI            ─┐
    /metrics, /debug/…            ─┴► rights to the path
    resources                     ──► rights to the resource; one verb of the Api each
    anything else                 ──► rights to the path, then 404

Failures are Status objects, except 404 outside the API, which is plain text as upstream's.
"""

import json
import random
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry

from mooring.api.errors import ApiError, BadRequest, Expired, NotSupported, Unauthorized, method_not_allowed
from mooring.api.health import Check, DebugDocuments
from mooring.api.schema.checks import MAX_PATH_CHARACTERS, MAX_UNKNOWN_FIELDS
from mooring.clock import Clock
from mooring.server.auth.access import Authorizer, impersonated, require
from mooring.server.auth.authenticator import Authenticator
from mooring.server.auth.rbac import request_at
from mooring.server.contract import Api, Page, Target, User, WriteOptions, Written
from mooring.server.decoding import IGNORE, STRICT
from mooring.server.environment import LARGE_BYTES, Compute, at_once
from mooring.server.http import bodies, requests, responses
from mooring.server.http.discovery import (
    DisabledKinds,
    aggregated_documents,
    empty_openapi_v2,
    openapi_documents,
    plain_documents,
)
from mooring.server.http.monitoring import CLIENT_CLOSED_REQUEST, ENDPOINTS, Probes, RequestRecord, RequestRecords
from mooring.server.http.presentation import Presenter, presenter_for
from mooring.server.http.requests import Verb
from mooring.server.http.responses import json_response
from mooring.server.http.watches import DRAIN_SECONDS, MAX_WATCHES_PER_USER, WatchLimiter, WatchStreams, error_line

_KEY: Final = b'":'
#: Whitespace between key and colon, which `_KEY` does not count.
_APART: Final = re.compile(rb'"\s+:')
#: Duplicates examined for those reported: the same field may occur many times.
_MAX_EXAMINED: Final = 10 * MAX_UNKNOWN_FIELDS
_BLANKS: Final = (b'" ', b'"\n', b'"\t', b'"\r')


def duplicate_fields(raw: bytes, decoded: object) -> tuple[str, ...]:
    """Paths of duplicate JSON fields, as kube-apiserver reports them: `spec.containers[0].name`.

    The decoder keeps the last silently, and one that reports duplicates is ten times slower. So it is used only if
    encoding the decoded value gives other bytes, or fewer keys, than the client sent.
    """
    again = msgspec.json.encode(decoded)
    if raw == again:
        return ()
    if raw.count(_KEY) == again.count(_KEY) and (len(raw) == len(again) or _is_countable(raw)):
        return ()
    written = json.loads(raw, object_pairs_hook=_Pairs, parse_int=str, parse_float=str)
    paths = (_shown(path) for path in _paths(written, None))
    return tuple(islice(dict.fromkeys(islice(paths, _MAX_EXAMINED)), MAX_UNKNOWN_FIELDS))


def _is_countable(raw: bytes) -> bool:
    """Whether counting `":` counts keys: no escapes in keys, no whitespace before colons."""
    return b"\\u" not in raw and not (any(blank in raw for blank in _BLANKS) and _APART.search(raw))


class _Pairs:
    """A JSON object with duplicate keys."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


class _Path(NamedTuple):
    """A path element and its parent; converted to text only if reported."""

    above: "_Path | None"
    step: str | int


def _paths(value: object, path: _Path | None) -> Iterator[_Path]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, list | _Pairs):
                yield from _paths(item, _Path(path, index))
    elif isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value.pairs:
            if key in seen:
                yield _Path(path, key)
            seen.add(key)
            if isinstance(item, list | _Pairs):
                yield from _paths(item, _Path(path, key))


def _shown(path: _Path) -> str:
    steps: list[str] = []
    at: _Path | None = path
    while at is not None:
        steps.append(f"[{at.step}]" if isinstance(at.step, int) else f".{at.step[:MAX_PATH_CHARACTERS]}")
        at = at.above
    text = "".join(reversed(steps)).removeprefix(".")
    return text if len(text) <= MAX_PATH_CHARACTERS else f"{text[:MAX_PATH_CHARACTERS]}…"


#: From this many items on, lists are encoded off the event loop; a table row takes about ten microseconds.
MANY_ITEMS: Final = 500


class ResourceHandler:
    """Resource requests: reads options and body, calls one verb of the Api, presents the result.

    The response form is negotiated before anything is written.
    """

    def __init__(
        self, api: Api, *, clock: Clock, watches: WatchStreams, limiter: WatchLimiter, off_loop: Compute = at_once
    ) -> None:
        self._api = api
        self._off_loop = off_loop
        self._large = bodies.LargeRequests()
        self._clock = clock
        self._watches = watches
        self._limiter = limiter

    async def answer(self, request: web.BaseRequest, user: User, verb: Verb, target: Target) -> web.StreamResponse:
        """Raises ApiError."""
        presenter = presenter_for(
            responses.negotiate(request.headers.get("Accept", "")),
            target.kind,
            include=request.query.get("includeObject", ""),
            clock=self._clock,
        )
        match verb:
            case Verb.GET:
                version = request.query.get("resourceVersion", "")
                return json_response(presenter.one(await self._api.get(user, target, resource_version=version)))
            case Verb.LIST:
                page = await self._api.list(user, target, requests.list_options(request.query))
                return json_response(await self._shown(presenter, page))
            case Verb.WATCH:
                return await self._watch(request, user, target, presenter)
            case Verb.CREATE if target.subresource:
                return _bare(await self._write(request, user, verb, target))
            case Verb.CREATE | Verb.UPDATE | Verb.PATCH:
                written = await self._write(request, user, verb, target)
                return json_response(presenter.one(written.body), code=written.code, warnings=written.warnings)
            case Verb.DELETE:
                options = requests.delete_options(request.query, await self._optional_body(request))
                return _bare(await self._api.delete(user, target, options))
            case Verb.DELETE_COLLECTION:
                selection = requests.list_options(request.query)
                options = requests.delete_options(request.query, await self._optional_body(request))
                page = await self._api.delete_collection(user, target, selection, options)
                return json_response(await self._shown(presenter, page))

    async def _shown(self, presenter: Presenter, page: Page) -> bytes:
        show = partial(presenter.page, page)
        return show() if len(page.items) < MANY_ITEMS else await self._off_loop(show)

    async def _watch(
        self, request: web.BaseRequest, user: User, target: Target, presenter: Presenter
    ) -> web.StreamResponse:
        if "websocket" in request.headers.get("Upgrade", "").lower():
            raise NotSupported("watching over a WebSocket is not implemented; use a plain GET request")
        lifetime = self._watches.lifetime(requests.number(request.query, "timeoutSeconds"))
        options = msgspec.structs.replace(requests.watch_options(request.query), ends_after=lifetime)
        with self._limiter.acquire(user.name):
            try:
                events = await self._api.watch(user, target, options)
            except Expired as error:
                # As an ERROR event, as reflectors expect.
                return json_response(error_line(error))
            return await self._watches.serve(request, events, presenter, lifetime=lifetime)

    async def _write(self, request: web.BaseRequest, user: User, verb: Verb, target: Target) -> Written:
        raw = await bodies.read_body(request)
        if len(raw) < LARGE_BYTES:
            return await self._write_body(request, user, verb, target, raw, at_once)
        async with self._large.turn():
            return await self._write_body(request, user, verb, target, raw, self._off_loop)

    async def _write_body(
        self, request: web.BaseRequest, user: User, verb: Verb, target: Target, raw: bytes, compute: Compute
    ) -> Written:
        content_type = request.headers.get("Content-Type", "")
        if verb is Verb.PATCH and not bodies.is_apply(content_type):
            patch = await compute(partial(bodies.decode_patch, raw, content_type))
            return await self._api.patch(user, target, patch, _write_options(request, verb, raw))
        if verb is Verb.PATCH:
            options, force = requests.apply_options(request.query)
            options = _sized(options, raw)
            body = await compute(partial(bodies.decode_applied, raw))
            duplicates = await compute(
                partial(_duplicate_warnings, raw, bodies.looks_like_json(raw), body, options, target)
            )
            written = await self._api.apply(user, target, body, options, force=force)
        else:
            body = await compute(partial(bodies.decode_object, raw, content_type))
            options = _write_options(request, verb, raw)
            duplicates = await compute(
                partial(_duplicate_warnings, raw, bodies.is_json(content_type), body, options, target)
            )
            written = await self._write_object(user, verb, target, body, options)
        return msgspec.structs.replace(written, warnings=(*duplicates, *written.warnings)) if duplicates else written

    async def _optional_body(self, request: web.BaseRequest) -> dict[str, Any] | None:
        """The body of a DELETE; some clients send a Content-Type without a body."""
        raw = await bodies.read_body(request)
        if not raw:
            return None
        decode = partial(bodies.decode_object, raw, request.headers.get("Content-Type", ""))
        if len(raw) < LARGE_BYTES:
            return decode()
        async with self._large.turn():
            return await self._off_loop(decode)

    async def _write_object(
        self, user: User, verb: Verb, target: Target, body: dict[str, Any], options: WriteOptions
    ) -> Written:
        if target.subresource == "binding":
            return await self._api.bind(user, target, body, options)
        if target.subresource == "eviction":
            return await self._api.evict(user, target, body, options)
        if verb is Verb.UPDATE:
            return await self._api.update(user, target, body, options)
        return await self._api.create(user, target, body, options)


def _duplicate_warnings(
    raw: bytes, is_json_: bool, body: dict[str, Any], options: WriteOptions, target: Target
) -> tuple[str, ...]:
    """Warnings about duplicate fields. Raises BadRequest with fieldValidation=Strict."""
    if options.field_validation == IGNORE or not is_json_:
        return ()
    duplicates = tuple(f'duplicate field "{path}"' for path in duplicate_fields(raw, body))
    if duplicates and options.field_validation == STRICT:
        kind = target.kind
        as_one = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise BadRequest(f"{as_one}: strict decoding error: {', '.join(duplicates)}")
    return duplicates


def _write_options(request: web.BaseRequest, verb: Verb, raw: bytes) -> WriteOptions:
    return _sized(requests.write_options(request.query, verb, request.headers.get("User-Agent", "")), raw)


def _sized(options: WriteOptions, raw: bytes) -> WriteOptions:
    return msgspec.structs.replace(options, body_bytes=len(raw)) if len(raw) >= LARGE_BYTES else options


def _bare(written: Written) -> web.Response:
    """A response that may be a Status, which has no Table form."""
    return json_response(written.body, code=written.code, warnings=written.warnings)


_READING: Final = ("GET", "HEAD")
METRICS: Final = ("metrics",)
#: First path elements of resource requests.
_OBJECTS: Final = ("api", "apis")


class RequestHandler:
    """The Api over HTTP. `handle` is the handler for `listen`; call `end_watches` before closing the listener."""

    def __init__(
        self,
        api: Api,
        *,
        authenticator: Authenticator,
        access: Authorizer,
        clock: Clock,
        rng: random.Random,
        readiness: Mapping[str, Check] | None = None,
        metrics: Callable[[], bytes] | None = None,
        debug: DebugDocuments | None = None,
        records: RequestRecords | None = None,
        drain_seconds: float = DRAIN_SECONDS,
        watches_per_user: int = MAX_WATCHES_PER_USER,
        wait_current: Callable[[], Awaitable[None]] | None = None,
        off_loop: Compute = at_once,
        disabled: DisabledKinds = (),
    ) -> None:
        """`wait_current` is the read barrier of resource requests: other servers may have written. `off_loop` runs
        steps of large requests. `disabled`: kinds whose feature gate is off; their stored objects stay."""
        self._authenticator = authenticator
        self._wait_current = wait_current
        self._access = access
        self._rng = rng
        self._metrics = metrics
        self._debug = {requests.segments(path): inspect for path, inspect in (debug or {}).items()}
        self._records = records or RequestRecords(CollectorRegistry(), clock)
        self._probes = Probes(readiness or {})
        self._watches = WatchStreams(clock=clock, rng=rng, drain_seconds=drain_seconds)
        self._resource_handler = ResourceHandler(
            api, clock=clock, watches=self._watches, limiter=WatchLimiter(watches_per_user), off_loop=off_loop
        )
        self._version = responses.version_document()
        self._disabled = disabled
        self._documents = _documents(disabled)
        self._aggregated = aggregated_documents(disabled)
        self._openapi_v2 = empty_openapi_v2()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        with self._records.record(request) as record:
            answer = await self._attempt(request, record)
            # The headers of a watch have been sent.
            if not answer.prepared and (text := requests.outdated_client(request.headers.get("User-Agent", ""))):
                responses.add_warning(answer, text)
            record.answered(answer)
            return answer

    async def _attempt(self, request: web.BaseRequest, record: RequestRecord) -> web.StreamResponse:
        try:
            return await self._answer(request, record)
        except ApiError as error:
            return responses.failure(error)
        except ConnectionError:
            return responses.text_response("", code=CLIENT_CLOSED_REQUEST)
        except Exception as error:
            return responses.failure(responses.internal_error(request, error, self._rng))

    def end_watches(self) -> None:
        """End all open watches cleanly; their clients reconnect."""
        self._watches.end()

    async def _answer(self, request: web.BaseRequest, record: RequestRecord) -> web.StreamResponse:
        path = requests.segments(request.rel_url.raw_path)
        if self._wait_current is not None and path and path[0] in _OBJECTS:
            await self._wait_current()
        user = await self._authenticator.authenticate(
            request.headers.get("Authorization", ""), request.get_extra_info("peercert")
        )
        if (answer := self._unauthenticated_response(request, path)) is not None:
            return answer
        if user is None:
            raise Unauthorized("Unauthorized")
        user = await impersonated(request.headers, user, self._access)
        record.user = user.name
        if (read := self._readable(request, path)) is not None:
            await require(self._access, user, request_at(request.method, path))
            _only_reading(request)
            return read()
        return await self._resource(request, user, path, record)

    def _unauthenticated_response(self, request: web.BaseRequest, path: Sequence[str]) -> web.Response | None:
        """Responses that need no authentication."""
        match path:
            case ["version"]:
                _only_reading(request)
                return json_response(self._version)
            case [endpoint, *below] if endpoint in ENDPOINTS:
                _only_reading(request)
                return self._probes.answer(
                    endpoint,
                    below,
                    verbose=requests.flag(request.query, "verbose"),
                    exclude=request.query.getall("exclude", []),
                )
            case _:
                return None

    def _readable(self, request: web.BaseRequest, path: tuple[str, ...]) -> Callable[[], web.Response] | None:
        """Responds with the document, metrics or debug document at a path."""
        accept = request.headers.get("Accept", "")
        if path in self._aggregated and responses.wants_aggregated(accept):
            return partial(self._aggregated[path].answer, request)
        if path == ("openapi", "v2") and responses.OPENAPI_V2_ACCEPT in accept:
            return partial(self._openapi_v2.answer, request)
        if (document := self._documents.get(path)) is not None:
            return partial(document.answer, request)
        if path == METRICS and (metrics := self._metrics) is not None:
            return lambda: responses.metrics_response(metrics())
        if (inspect := self._debug.get(path)) is not None:
            return lambda: json_response(inspect(request.query))
        return None

    async def _resource(
        self, request: web.BaseRequest, user: User, path: Sequence[str], record: RequestRecord
    ) -> web.StreamResponse:
        watching, fields = requests.flag(request.query, "watch"), request.query.get("fieldSelector", "")
        attributes = request_at(request.method, path, watching=watching, fields=fields)
        try:
            target = requests.resolve(path, disabled=self._disabled)
            verb = None if target is None else requests.verb_of(request.method, target, watching=watching)
        except ApiError:
            await require(self._access, user, attributes)
            raise
        if target is None or verb is None:
            await require(self._access, user, attributes)
            return responses.text_response("404 page not found\n", code=404)
        record.names(verb, target)
        await require(self._access, user, attributes)
        return await self._resource_handler.answer(request, user, verb, target)


def _documents(disabled: DisabledKinds) -> dict[tuple[str, ...], responses.StaticDocument]:
    """Documents by path, and at the root a list of the paths."""
    documents = plain_documents(disabled) | openapi_documents(disabled)
    paths = sorted(f"/{'/'.join(path)}" for path in [*documents, ("version",), *((probe,) for probe in ENDPOINTS)])
    return documents | {(): responses.StaticDocument(msgspec.json.encode({"paths": paths}))}


def _only_reading(request: web.BaseRequest) -> None:
    if request.method not in _READING:
        raise method_not_allowed()
