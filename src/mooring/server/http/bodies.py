"""Reads and decodes request bodies: JSON, YAML and protobuf objects, patches; limits large requests.

Decoding and validating three megabytes takes up to seconds, so large requests run in one thread beside the event loop
(more would compete for the GIL). Their memory is bounded by the number in progress and waiting.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

from aiohttp import web

from mooring.api import documents
from mooring.api.documents import MAX_VALUES, MalformedJson, MalformedYaml, TooManyValues
from mooring.api.errors import BadRequest, Details, ServerTimeout, TooLarge, TooManyRequests, UnsupportedMediaType
from mooring.api.patches.contract import JsonPatch, MergePatch, Patch, StrategicPatch
from mooring.server.http.responses import JSON

#: kube-apiserver's MaxRequestBodyBytes.
LIMIT_BYTES: Final = 3 * 1024 * 1024

#: kube-apiserver's request timeout.
BODY_SECONDS: Final = 60.0

YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
APPLY_PATCH: Final = "application/apply-patch+yaml"

#: zlib's wbits by Content-Encoding; None is uncompressed.
_PACKED: Final = {"": None, "identity": None, "gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
#: Maximum leading whitespace of a JSON document.
_BLANK_BYTES: Final = 4096
_PATCH_TYPES: Final = (JsonPatch.media_type, MergePatch.media_type, StrategicPatch.media_type)


async def read_body(request: web.BaseRequest, *, seconds: float = BODY_SECONDS) -> bytes:
    """The whole body, decompressed. Raises TooLarge as soon as the limit is exceeded, and ServerTimeout."""
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in _PACKED:
        raise UnsupportedMediaType(f"Content-Encoding {encoding[:100]!r} is not supported; use gzip")
    raw = await _read(request, seconds)
    return _unpacked(raw, _PACKED[encoding]) if raw and _PACKED[encoding] is not None else raw


def _unpacked(raw: bytes, window: int | None) -> bytes:
    """Stops at the limit: a kilobyte can decompress to a megabyte."""
    unpacking = zlib.decompressobj(wbits=window or zlib.MAX_WBITS)
    try:
        body = unpacking.decompress(raw, LIMIT_BYTES + 1)
    except zlib.error as error:
        raise BadRequest(f"the body of the request could not be decompressed: {error}") from error
    if len(body) > LIMIT_BYTES:
        raise _too_large()
    if not unpacking.eof:
        raise BadRequest("the body of the request could not be decompressed: it is truncated")
    return body


async def _read(request: web.BaseRequest, seconds: float) -> bytes:
    content = request.content
    if content.is_eof() and content.exception() is None:
        # Received with the headers, as most bodies: no timeout needed.
        body = content.read_nowait()
        if len(body) > LIMIT_BYTES:
            raise _too_large()
        return body
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in content.iter_any():
                size += len(chunk)
                if size > LIMIT_BYTES:
                    raise _too_large()
                chunks.append(chunk)
    except TimeoutError as error:
        raise ServerTimeout(f"Timeout: the request body did not arrive within {seconds:g} seconds") from error
    except web.RequestPayloadError as error:
        raise BadRequest(f"the request body could not be read: {error}") from error
    return b"".join(chunks)


def _too_large() -> TooLarge:
    return TooLarge(f"Request entity too large: limit is {LIMIT_BYTES}")


def decode_object(raw: bytes, content_type: str) -> dict[str, Any]:
    """The object a POST, PUT or DELETE carries. Raises BadRequest and UnsupportedMediaType."""
    decode = _OBJECT_DECODERS.get(_media_type(content_type))
    if decode is None:
        raise _unknown_format((JSON, YAML, PROTOBUF))
    decoded = decode(raw)
    if not isinstance(decoded, dict):
        raise BadRequest("the body of the request must be an object")
    return decoded


def is_json(content_type: str) -> bool:
    return _media_type(content_type) in ("", JSON)


def looks_like_json(raw: bytes) -> bool:
    return raw[:_BLANK_BYTES].lstrip()[:1] == b"{"


def is_apply(content_type: str) -> bool:
    return _media_type(content_type) == APPLY_PATCH


def decode_applied(raw: bytes) -> dict[str, Any]:
    """The object of a server-side apply. Raises BadRequest and TooLarge."""
    decoded = _decode_json_or_yaml(raw)
    if not isinstance(decoded, dict):
        raise BadRequest("an applied configuration must be an object")
    return decoded


def decode_patch(raw: bytes, content_type: str) -> Patch:
    """Raises BadRequest and UnsupportedMediaType."""
    media_type = _media_type(content_type)
    if media_type not in _PATCH_TYPES:
        raise _unknown_format((*_PATCH_TYPES, APPLY_PATCH))
    body = _decode_json(raw)
    if media_type == JsonPatch.media_type:
        if not (isinstance(body, list) and all(isinstance(operation, dict) for operation in body)):
            raise BadRequest("a JSON patch must be a list of operations")
        return JsonPatch(body)
    if not isinstance(body, dict):
        raise BadRequest("a merge patch must be an object")
    return MergePatch(body) if media_type == MergePatch.media_type else StrategicPatch(body)


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _decode_json(raw: bytes) -> object:
    if not raw:
        raise BadRequest("the request has no body")
    return _decoded(raw, documents.decode_json, MalformedJson, "JSON")


def _decode_json_or_yaml(raw: bytes) -> object:
    """JSON is decoded a hundred times faster as JSON; a body that only looks like it may still be YAML."""
    if looks_like_json(raw):
        with suppress(BadRequest):
            return _decode_json(raw)
    return _decoded(raw, documents.single_yaml_document, MalformedYaml, "YAML")


def _decode_protobuf(raw: bytes) -> object:
    # Imports the large field table.
    from mooring.api.schema.protobuf import MalformedProtobuf, decode_envelope

    return _decoded(raw, decode_envelope, MalformedProtobuf, "Kubernetes protobuf")


def _decoded(raw: bytes, decode: Callable[..., object], malformed: type[ValueError], format_: str) -> object:
    try:
        return decode(raw, max_values=MAX_VALUES)
    except malformed as error:
        raise BadRequest(f"the body of the request is not {format_}: {error}") from error
    except TooManyValues as error:
        raise TooLarge(f"Request entity too large: {error}") from error


def _unknown_format(accepted: tuple[str, ...]) -> UnsupportedMediaType:
    return UnsupportedMediaType(
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    )


#: No Content-Type is JSON: the official Python client sends none.
_OBJECT_DECODERS: Final[Mapping[str, Callable[[bytes], object]]] = {
    "": _decode_json,
    JSON: _decode_json,
    YAML: _decode_json_or_yaml,
    PROTOBUF: _decode_protobuf,
}

#: Large requests in progress; each may take some ten megabytes.
MAX_CONCURRENT: Final = 2
#: Waiting large requests, each with its body in memory.
MAX_WAITING: Final = 32

T = TypeVar("T")


class WorkerThread:
    """Runs steps in one thread: an `environment.Compute`."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="large-requests")

    async def __call__(self, step: Callable[[], T], /) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, step)

    def close(self) -> None:
        """Cancels waiting steps; does not wait for the running one."""
        self._executor.shutdown(wait=False, cancel_futures=True)


class LargeRequests:
    """Queue of large requests."""

    def __init__(self, *, max_concurrent: int = MAX_CONCURRENT, max_waiting: int = MAX_WAITING) -> None:
        self._turns = asyncio.Semaphore(max_concurrent)
        self._max_present = max_concurrent + max_waiting
        self._present = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a free slot and hold it inside the block. Raises TooManyRequests if the queue is full."""
        if self._present >= self._max_present:
            raise TooManyRequests(
                "too many large requests are waiting, please try again later", details=Details(retry_after_seconds=1)
            )
        self._present += 1
        try:
            async with self._turns:
                yield
        finally:
            self._present -= 1
