"""Documents the server makes once and serves on fixed paths: the shape discovery and OpenAPI share.

Each is JSON bytes with a fingerprint, so that clients who have it hear "not modified" instead of reading it again. A
document that takes long to make may be given as the function that makes it, once, when somebody asks.
"""

import hashlib
from collections.abc import Callable
from functools import cached_property

from aiohttp import web

from mooring.server.http.negotiation import JSON


class Document:
    """Immutable bytes, their media type, and for how long they may be kept."""

    def __init__(
        self, body: bytes | Callable[[], bytes], *, media_type: str = JSON, cache_control: str = "public"
    ) -> None:
        self._source = body
        self._media_type = media_type
        self._cache_control = cache_control

    @cached_property
    def body(self) -> bytes:
        return self._source if isinstance(self._source, bytes) else self._source()

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.body).hexdigest()

    def answer(self, request: web.BaseRequest) -> web.Response:
        """The document, or 304 when the client's copy is this one."""
        headers = {
            "ETag": f'"{self.fingerprint}"',
            "Vary": "Accept",
            "Cache-Control": self._cache_control,
        }
        if headers["ETag"] in (tag.strip() for tag in request.headers.get("If-None-Match", "").split(",")):
            return web.Response(status=304, headers=headers)
        return web.Response(body=self.body, headers=headers | {"Content-Type": self._media_type})
