"""The HTTP answers of the server: JSON bodies, Status objects for failures, plain text for probes.

The one place that spells response headers. Which body goes out is decided elsewhere.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from mooring.api.errors import ApiError
from mooring.server.http.negotiation import JSON

#: Objects change at any moment and belong to whoever asked.
UNCACHED: Final = "no-cache, private"

#: Clients cap the size of all headers; upstream keeps warnings below 4 kB in all, and so do these two.
MAX_WARNINGS: Final = 16
MAX_WARNING_CHARACTERS: Final = 256

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]+")


def json_answer(body: bytes, *, code: int = 200, warnings: Iterable[str] = ()) -> web.Response:
    headers = json_headers()
    for text in tuple(warnings)[:MAX_WARNINGS]:
        headers.add("Warning", _warning(text))
    return web.Response(body=body, status=code, headers=headers)


def json_headers() -> CIMultiDict[str]:
    return CIMultiDict({"Content-Type": JSON, "Cache-Control": UNCACHED})


def failure(error: ApiError) -> web.Response:
    """A Status. Clients repeat a request that carries Retry-After, so only errors that pass carry it."""
    answer = json_answer(msgspec.json.encode(error.to_status()), code=error.code)
    if error.details is not None and error.details.retry_after_seconds:
        answer.headers["Retry-After"] = str(error.details.retry_after_seconds)
    return answer


def text_answer(text: str, *, code: int = 200) -> web.Response:
    return web.Response(text=text, status=code, headers=_text_headers("text/plain; charset=utf-8"))


def metrics_answer(exposition: bytes) -> web.Response:
    """Prometheus' text format, which carries its version in the media type."""
    return web.Response(body=exposition, headers=_text_headers("text/plain; version=0.0.4; charset=utf-8"))


def _text_headers(media_type: str) -> dict[str, str]:
    return {"Content-Type": media_type, "Cache-Control": UNCACHED, "X-Content-Type-Options": "nosniff"}


def _warning(text: str) -> str:
    """RFC 7234's form: code 299 (lasting), no agent, the text quoted. kubectl prints it after `Warning:`."""
    plain = _CONTROL.sub(" ", text)[:MAX_WARNING_CHARACTERS]
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'
