"""A request for resources: from HTTP to one verb of the Api, and its answer back.

Each verb has the same shape: read options, read the body, call, present. What the client can read is settled before
anything is written. Who asks, and what about, was established by `shell`.
"""

from functools import partial
from typing import Any, Final

import msgspec
from aiohttp import web

from mooring.api.errors import BadRequest, Expired, NotImplementedHere
from mooring.clock import Clock
from mooring.server.contract import Api, Page, Target, User, WriteOptions, Written
from mooring.server.decoding import IGNORE, STRICT
from mooring.server.environment import LARGE_BYTES, Compute, at_once
from mooring.server.http.answers import json_answer
from mooring.server.http.bodies import (
    decode_applied,
    decode_object,
    decode_patch,
    is_apply,
    is_json,
    looks_like_json,
    read_body,
)
from mooring.server.http.duplicate_fields import duplicate_fields
from mooring.server.http.large_requests import LargeRequests
from mooring.server.http.negotiation import negotiate
from mooring.server.http.options import (
    apply_options,
    delete_options,
    list_options,
    number,
    watch_options,
    write_options,
)
from mooring.server.http.presentation import Presenter, presenter_for
from mooring.server.http.routing import Verb
from mooring.server.http.watch_places import WatchPlaces
from mooring.server.http.watch_stream import WatchStreams, error_line

#: Items of a list that are shown beside the event loop; a row of a table takes some ten microseconds.
MANY_ITEMS: Final = 500


class Resources:
    """The verbs over HTTP."""

    def __init__(
        self, api: Api, *, clock: Clock, watches: WatchStreams, places: WatchPlaces, off_loop: Compute = at_once
    ) -> None:
        self._api = api
        self._off_loop = off_loop
        self._large = LargeRequests()
        self._clock = clock
        self._watches = watches
        self._places = places

    async def answer(self, request: web.BaseRequest, user: User, verb: Verb, target: Target) -> web.StreamResponse:
        """Raises ApiError."""
        presenter = presenter_for(
            negotiate(request.headers.get("Accept", "")),
            target.kind,
            include=request.query.get("includeObject", ""),
            clock=self._clock,
        )
        match verb:
            case Verb.GET:
                version = request.query.get("resourceVersion", "")
                return json_answer(presenter.one(await self._api.get(user, target, resource_version=version)))
            case Verb.LIST:
                page = await self._api.list(user, target, list_options(request.query))
                return json_answer(await self._shown(presenter, page))
            case Verb.WATCH:
                return await self._watch(request, user, target, presenter)
            case Verb.CREATE if target.subresource:
                return _bare(await self._write(request, user, verb, target))
            case Verb.CREATE | Verb.UPDATE | Verb.PATCH:
                written = await self._write(request, user, verb, target)
                return json_answer(presenter.one(written.body), code=written.code, warnings=written.warnings)
            case Verb.DELETE:
                options = delete_options(request.query, await self._optional_body(request))
                return _bare(await self._api.delete(user, target, options))
            case Verb.DELETE_COLLECTION:
                selection = list_options(request.query)
                options = delete_options(request.query, await self._optional_body(request))
                page = await self._api.delete_collection(user, target, selection, options)
                return json_answer(await self._shown(presenter, page))

    async def _shown(self, presenter: Presenter, page: Page) -> bytes:
        """Tables of thousands of objects take as long as large bodies do."""
        show = partial(presenter.page, page)
        return show() if len(page.items) < MANY_ITEMS else await self._off_loop(show)

    async def _watch(
        self, request: web.BaseRequest, user: User, target: Target, presenter: Presenter
    ) -> web.StreamResponse:
        if "websocket" in request.headers.get("Upgrade", "").lower():
            raise NotImplementedHere("watching over a WebSocket is not implemented; use a plain GET request")
        lifetime = self._watches.lifetime(number(request.query, "timeoutSeconds"))
        options = msgspec.structs.replace(watch_options(request.query), ends_after=lifetime)
        with self._places.taken_by(user.name):
            try:
                events = await self._api.watch(user, target, options)
            except Expired as error:
                # A version that is too old is told as an event, where reflectors look for it.
                return json_answer(error_line(error))
            return await self._watches.serve(request, events, presenter, lifetime=lifetime)

    async def _write(self, request: web.BaseRequest, user: User, verb: Verb, target: Target) -> Written:
        raw = await read_body(request)
        if len(raw) < LARGE_BYTES:
            return await self._write_body(request, user, verb, target, raw, at_once)
        async with self._large.turn():
            return await self._write_body(request, user, verb, target, raw, self._off_loop)

    async def _write_body(
        self, request: web.BaseRequest, user: User, verb: Verb, target: Target, raw: bytes, compute: Compute
    ) -> Written:
        content_type = request.headers.get("Content-Type", "")
        if verb is Verb.PATCH and not is_apply(content_type):
            patch = await compute(partial(decode_patch, raw, content_type))
            return await self._api.patch(user, target, patch, _write_options(request, verb, raw))
        if verb is Verb.PATCH:
            options, force = apply_options(request.query)
            options = _sized(options, raw)
            body = await compute(partial(decode_applied, raw))
            told = await compute(partial(_told_of_duplicates, raw, looks_like_json(raw), body, options, target))
            written = await self._api.apply(user, target, body, options, force=force)
        else:
            body = await compute(partial(decode_object, raw, content_type))
            options = _write_options(request, verb, raw)
            told = await compute(partial(_told_of_duplicates, raw, is_json(content_type), body, options, target))
            written = await self._write_object(user, verb, target, body, options)
        return msgspec.structs.replace(written, warnings=(*told, *written.warnings)) if told else written

    async def _optional_body(self, request: web.BaseRequest) -> dict[str, Any] | None:
        """The body of a DELETE; some clients name a Content-Type and send none."""
        raw = await read_body(request)
        if not raw:
            return None
        decode = partial(decode_object, raw, request.headers.get("Content-Type", ""))
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


def _told_of_duplicates(
    raw: bytes, is_json_: bool, body: dict[str, Any], options: WriteOptions, target: Target
) -> tuple[str, ...]:
    """What to warn of. Raises BadRequest where the writer asked for strictness."""
    if options.field_validation == IGNORE or not is_json_:
        return ()
    told = tuple(f'duplicate field "{path}"' for path in duplicate_fields(raw, body))
    if told and options.field_validation == STRICT:
        kind = target.kind
        as_one = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise BadRequest(f"{as_one}: strict decoding error: {', '.join(told)}")
    return told


def _write_options(request: web.BaseRequest, verb: Verb, raw: bytes) -> WriteOptions:
    return _sized(write_options(request.query, verb, request.headers.get("User-Agent", "")), raw)


def _sized(options: WriteOptions, raw: bytes) -> WriteOptions:
    return msgspec.structs.replace(options, body_bytes=len(raw)) if len(raw) >= LARGE_BYTES else options


def _bare(written: Written) -> web.Response:
    """An answer that may be a Status, which has neither columns nor metadata to show."""
    return json_answer(written.body, code=written.code, warnings=written.warnings)
