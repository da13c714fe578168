"""Request bodies: from bytes on a socket to the plain object or the patch a verb takes.

JSON (also where no Content-Type is given), YAML and Kubernetes' protobuf for objects; the three patch types for
patches, and YAML (or JSON, which is YAML) for server-side apply. Nothing here knows what a field means; of a key that
occurs twice in one JSON object the last one counts, and `duplicate_fields` notices.
"""

import asyncio
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiohttp import web

from mooring.api import json_documents
from mooring.api.errors import BadRequest, ServerTimeout, TooLarge, UnsupportedMediaType
from mooring.api.json_documents import MAX_VALUES, MalformedJson, TooManyValues
from mooring.api.patches.contract import JsonPatch, MergePatch, Patch, StrategicPatch
from mooring.server.http.negotiation import JSON

#: Upstream's bound on request bodies (its MaxRequestBodyBytes).
LIMIT_BYTES: Final = 3 * 1024 * 1024

#: What upstream gives an ordinary request in all.
BODY_SECONDS: Final = 60.0

YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
APPLY_PATCH: Final = "application/apply-patch+yaml"

#: By Content-Encoding, how zlib is told to unpack it; None is not at all.
_PACKED: Final[Mapping[str, int | None]] = {
    "": None,
    "identity": None,
    "gzip": 16 + zlib.MAX_WBITS,
    "deflate": zlib.MAX_WBITS,
}
#: Blanks before a document that are looked through for its beginning.
_BLANK_BYTES: Final = 4096
_PATCH_TYPES: Final = (JsonPatch.media_type, MergePatch.media_type, StrategicPatch.media_type)


async def read_body(request: web.BaseRequest, *, seconds: float = BODY_SECONDS) -> bytes:
    """The whole body, unpacked. Raises TooLarge as soon as the bound is passed, not after, and ServerTimeout where the
    sender takes longer than `seconds`."""
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in _PACKED:
        raise UnsupportedMediaType(f"the body of the request is packed as {encoding[:100]!r}; accepted is gzip")
    raw = await _read(request, seconds)
    return _unpacked(raw, _PACKED[encoding]) if raw and _PACKED[encoding] is not None else raw


def _unpacked(raw: bytes, window: int | None) -> bytes:
    """A kilobyte can stand for a megabyte: nothing is unpacked beyond the bound."""
    unpacking = zlib.decompressobj(wbits=window or zlib.MAX_WBITS)
    try:
        body = unpacking.decompress(raw, LIMIT_BYTES + 1)
    except zlib.error as error:
        raise BadRequest(f"the body of the request could not be unpacked: {error}") from error
    if len(body) > LIMIT_BYTES:
        raise _too_large()
    if not unpacking.eof:
        raise BadRequest("the body of the request could not be unpacked: it is cut off")
    return body


async def _read(request: web.BaseRequest, seconds: float) -> bytes:
    content = request.content
    if content.is_eof() and content.exception() is None:
        # It came together with the headers, as most do: nothing to wait for, so no clock to set.
        return _within_bound(content.read_nowait())
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


def _within_bound(body: bytes) -> bytes:
    if len(body) > LIMIT_BYTES:
        raise _too_large()
    return body


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
    try:
        return json_documents.decode(raw, max_values=MAX_VALUES)
    except MalformedJson as error:
        raise BadRequest(f"the body of the request is not JSON: {error}") from error
    except TooManyValues as error:
        raise _too_many(error) from error


def _decode_json_or_yaml(raw: bytes) -> object:
    """JSON is YAML, and read a hundred times as fast as such; what looks like it and is none may still be YAML."""
    if looks_like_json(raw):
        try:
            return json_documents.decode(raw, max_values=MAX_VALUES)
        except TooManyValues as error:
            raise _too_many(error) from error
        except MalformedJson:
            return _decode_yaml(raw)
    return _decode_yaml(raw)


def _decode_yaml(raw: bytes) -> object:
    # PyYAML takes milliseconds to import; servers that are sent none do without.
    from mooring.api.yaml_documents import MalformedYaml, single_document

    try:
        return single_document(raw, max_values=MAX_VALUES)
    except MalformedYaml as error:
        raise BadRequest(f"the body of the request is not YAML: {error}") from error
    except TooManyValues as error:
        raise _too_many(error) from error


def _decode_protobuf(raw: bytes) -> object:
    # The field table behind it is large; servers nobody sends protobuf to do without.
    from mooring.api.fields.protobuf import MalformedProtobuf, decode_envelope

    try:
        return decode_envelope(raw, max_values=MAX_VALUES)
    except MalformedProtobuf as error:
        raise BadRequest(f"the body of the request is not Kubernetes protobuf: {error}") from error
    except TooManyValues as error:
        raise _too_many(error) from error


def _too_many(error: TooManyValues) -> TooLarge:
    return TooLarge(f"Request entity too large: {error}")


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
