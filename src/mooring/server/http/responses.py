"""Accept negotiation, JSON and Status responses, static documents, `/version`.

Responses are JSON, which every Kubernetes client accepts beside protobuf; YAML is not offered. All response headers
are set here.
"""

import enum
import hashlib
import platform
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Final, NamedTuple, TypeVar

import msgspec
import structlog
from aiohttp import web
from multidict import CIMultiDict

from mooring.api.errors import ApiError, NotAcceptable

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


def internal_error(request: web.BaseRequest, error: Exception, rng: random.Random) -> ApiError:
    """Log the exception with its traceback; the client gets a 500 with a reference to the log line only."""
    reference = f"{rng.getrandbits(32):08x}"
    _log.error(
        "unexpected error",
        reference=reference,
        method=request.method,
        path=request.path,
        client=request.remote,
        exc_info=error,
    )
    return ApiError(f"Internal error occurred: the server's log has the details under reference {reference}")


JSON: Final = "application/json"
#: client-go compares the whole Content-Type.
AGGREGATED_DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

#: Accept header of kubectl for `/openapi/v2`, and the Content-Type of the response: they differ in one character.
OPENAPI_V2_ACCEPT: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
OPENAPI_V2: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_READ_AS_JSON: Final = frozenset({JSON, "application/*", "*/*"})
_PLAIN: Final = ("", "", "")


class Form(enum.Enum):
    """Representation of objects in a response."""

    PLAIN = "full objects"
    TABLE = "rows of cells, for kubectl get"
    METADATA = "metadata only, for garbage collectors and metadata informers"


_FORMS: Final = {
    _PLAIN: Form.PLAIN,
    ("meta.k8s.io", "v1", "Table"): Form.TABLE,
    ("meta.k8s.io", "v1", "PartialObjectMetadata"): Form.METADATA,
    ("meta.k8s.io", "v1", "PartialObjectMetadataList"): Form.METADATA,
}
_DISCOVERY_FORMS: Final = {_PLAIN: False, ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"): True}


class _Clause(NamedTuple):
    media_type: str
    #: Parameters (g, v, as): the requested kind, empty for the object's own.
    as_kind: tuple[str, str, str]
    quality: float


_CACHE_SIZE: Final = 256

T = TypeVar("T")


@lru_cache(maxsize=_CACHE_SIZE)
def negotiate(accept: str) -> Form:
    """The form of objects and lists: the first clause that can be served. No header means `*/*`.

    Raises NotAcceptable.
    """
    return _first(_FORMS, accept)


def wants_aggregated(accept: str) -> bool:
    """Whether the client requests aggregated discovery. Raises NotAcceptable."""
    return _first(_DISCOVERY_FORMS, accept)


def _first(forms: Mapping[tuple[str, str, str], T], accept: str) -> T:
    for clause in _clauses(accept):
        if clause.as_kind in forms:
            return forms[clause.as_kind]
    raise NotAcceptable(f"only the following media types are accepted: {JSON}")


def _clauses(accept: str) -> Iterator[_Clause]:
    """Clauses that accept JSON, the highest quality first."""
    parsed = [_parse(text) for text in accept.split(",") if text.strip()] or [_Clause("*/*", _PLAIN, 1.0)]
    ranked = sorted(parsed, key=lambda clause: -clause.quality)
    return (clause for clause in ranked if clause.media_type in _READ_AS_JSON and clause.quality > 0)


def _parse(text: str) -> _Clause:
    media_type, *rest = (part.strip() for part in text.split(";"))
    parameters = {name.strip(): value.strip() for name, _, value in (part.partition("=") for part in rest)}
    as_kind = (parameters.get("g", ""), parameters.get("v", ""), parameters.get("as", ""))
    return _Clause(media_type.lower(), as_kind if as_kind[2] else _PLAIN, _quality(parameters.get("q", "1")))


def _quality(text: str) -> float:
    """A weight that cannot be read counts as refused, so that nonsense never wins."""
    try:
        return float(text)
    except ValueError:
        return 0.0


UNCACHED: Final = "no-cache, private"

#: Together below 4 kB, kube-apiserver's bound: clients limit the size of all headers.
MAX_WARNINGS: Final = 16
MAX_WARNING_CHARACTERS: Final = 256

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]+")


def json_response(body: bytes, *, code: int = 200, warnings: Iterable[str] = ()) -> web.Response:
    headers = json_headers()
    for text in tuple(warnings)[:MAX_WARNINGS]:
        headers.add("Warning", _warning(text))
    return web.Response(body=body, status=code, headers=headers)


def add_warning(answer: web.StreamResponse, text: str) -> None:
    answer.headers.add("Warning", _warning(text))


def json_headers() -> CIMultiDict[str]:
    return CIMultiDict({"Content-Type": JSON, "Cache-Control": UNCACHED})


def failure(error: ApiError) -> web.Response:
    """A Status. Clients retry after a response with Retry-After, so only transient errors have it."""
    answer = json_response(msgspec.json.encode(error.to_status()), code=error.code)
    if error.details is not None and error.details.retry_after_seconds:
        answer.headers["Retry-After"] = str(error.details.retry_after_seconds)
    return answer


def text_response(text: str, *, code: int = 200) -> web.Response:
    return web.Response(text=text, status=code, headers=_text_headers("text/plain; charset=utf-8"))


def metrics_response(exposition: bytes) -> web.Response:
    """Prometheus' text format."""
    return web.Response(body=exposition, headers=_text_headers("text/plain; version=0.0.4; charset=utf-8"))


def _text_headers(media_type: str) -> dict[str, str]:
    return {"Content-Type": media_type, "Cache-Control": UNCACHED, "X-Content-Type-Options": "nosniff"}


def _warning(text: str) -> str:
    """RFC 7234: code 299, no agent, quoted text. kubectl prints it after `Warning:`."""
    plain = _CONTROL.sub(" ", text)[:MAX_WARNING_CHARACTERS]
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


class StaticDocument:
    """Immutable bytes on a fixed path, with ETag; a function as body is called at the first request."""

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
        """The document, or 304 if the client has it."""
        headers = {"ETag": f'"{self.fingerprint}"', "Vary": "Accept", "Cache-Control": self._cache_control}
        if headers["ETag"] in (tag.strip() for tag in request.headers.get("If-None-Match", "").split(",")):
            return web.Response(status=304, headers=headers)
        return web.Response(body=self.body, headers=headers | {"Content-Type": self._media_type})


#: The Kubernetes release whose API is served, with Mooring as build suffix; kubectl warns about other minor versions.
MAJOR: Final = "1"
MINOR: Final = "37"
GIT_VERSION: Final = "v1.37.1+mooring"


def version_document() -> bytes:
    """`version.Info`; the fields of a Go build are empty."""
    return msgspec.json.encode(
        {
            "major": MAJOR,
            "minor": MINOR,
            "gitVersion": GIT_VERSION,
            "gitCommit": "",
            "gitTreeState": "",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": platform.python_implementation(),
            "platform": f"{platform.system().lower()}/{platform.machine()}",
        }
    )
