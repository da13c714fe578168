"""A `FakeApiServer` behind HTTP: Kubernetes' wire format as far as the client uses it."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from mooring.api.errors import ApiError, MethodNotAllowed, UnsupportedMediaType, not_found, success
from mooring.api.kinds import KINDS
from mooring.api.patches.contract import JsonPatch, MergePatch, Patch
from support.fake_api_server import AnyKind, FakeApiServer

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

PATCHES: dict[str, type[MergePatch] | type[JsonPatch]] = {
    MergePatch.media_type: MergePatch,
    JsonPatch.media_type: JsonPatch,
}


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The address of a server that passes every request to the handler."""
    runner = web.ServerRunner(web.Server(handler, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class WireServer:
    def __init__(self, api: FakeApiServer) -> None:
        self._api = api

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            kind, namespace, name, subresource = _target(request.path)
            if request.method == "GET" and "watch" in request.query:
                return await self._watch(request, kind, namespace)
            body = await request.read()
            return _answer(self._reply(request, kind, namespace, name, subresource, body))
        except ApiError as error:
            return _answer(error.to_status(), error.code)

    def _reply(
        self, request: web.BaseRequest, kind: AnyKind, namespace: str, name: str, subresource: str, raw: bytes
    ) -> object:
        sent: Any = msgspec.json.decode(raw) if raw else {}
        match request.method:
            case "GET" if name:
                return self._api.get(kind, namespace, name)
            case "GET":
                items = self._api.list(kind, namespace, request.query.get("labelSelector", ""))
                return {"kind": kind.list_kind, "metadata": {"resourceVersion": str(self._api.version)}, "items": items}
            case "POST" if subresource == "binding":
                self._api.bind(namespace, name, sent)
                return success(code=201)
            case "POST" if subresource == "eviction":
                uid = sent["deleteOptions"].get("preconditions", {}).get("uid", "")
                self._api.evict(namespace, name, uid=uid)
                return success(code=201)
            case "POST":
                return self._api.create(kind, namespace, sent)
            case "PUT":
                return self._api.update(kind, namespace, name, sent, subresource)
            case "PATCH":
                return self._api.patch(kind, namespace, name, _patch(request.content_type, raw), subresource)
            case "DELETE":
                required = sent.get("preconditions", {})
                uid, version = required.get("uid", ""), required.get("resourceVersion", "")
                self._api.delete(kind, namespace, name, uid=uid, version=version)
                return success()
        raise MethodNotAllowed(request.method)

    async def _watch(self, request: web.BaseRequest, kind: AnyKind, namespace: str) -> web.StreamResponse:
        after = None if "sendInitialEvents" in request.query else request.query["resourceVersion"]
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        async with aclosing(self._api.watch(kind, after, namespace, request.query.get("labelSelector", ""))) as events:
            try:
                async for event in events:
                    await response.write(msgspec.json.encode({"type": event.type, "object": event.body}) + b"\n")
            except ApiError as error:
                await response.write(msgspec.json.encode({"type": "ERROR", "object": error.to_status()}) + b"\n")
        return response


def _target(path: str) -> tuple[AnyKind, str, str, str]:
    for kind in KINDS:
        if path.startswith(f"{kind.root}/"):
            parts = path.removeprefix(f"{kind.root}/").split("/")
            namespace = ""
            if parts[0] == "namespaces" and len(parts) > 2:
                _, namespace, *parts = parts
            if parts[0] == kind.plural:
                _, name, subresource, *_ = [*parts, "", ""]
                return kind, namespace, name, subresource
    raise not_found("paths", path)


def _patch(media_type: str, raw: bytes) -> Patch:
    if media_type not in PATCHES:
        raise UnsupportedMediaType(media_type)
    return PATCHES[media_type](msgspec.json.decode(raw))


def _answer(body: object, code: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=code, content_type="application/json")
