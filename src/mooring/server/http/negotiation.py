"""What a client is ready to read: the Accept header, reduced to the forms this server can answer in.

Answers are always JSON, which every Kubernetes client lists (or `*/*`) beside the protobuf it prefers. Clauses are
taken in the client's order and the first that can be served wins, so `as=Table` with an older version falls
through to the next. YAML answers are not offered: kubectl makes its own.
"""

import enum
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from mooring.api.errors import NotAcceptable

JSON: Final = "application/json"
#: The answer's Content-Type must be exactly this for client-go to recognise aggregated discovery.
AGGREGATED_DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

#: What kubectl asks `/openapi/v2` for, and what the answer is called: the same, but for one character.
OPENAPI_V2_ASKED: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
OPENAPI_V2: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_READ_AS_JSON: Final = frozenset({JSON, "application/*", "*/*"})
_PLAIN: Final = ("", "", "")


class Form(enum.Enum):
    """How objects are shown to a client."""

    PLAIN = "as they are"
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
    #: (g, v, as): which kind the client wants the answer to be, empty when the object's own.
    wanted: tuple[str, str, str]
    quality: float


#: Distinct headers remembered: a client program sends the same two or three all its life.
_REMEMBERED: Final = 256


@lru_cache(maxsize=_REMEMBERED)
def negotiate(accept: str) -> Form:
    """The form for objects and lists. No header is the same as `*/*`. Raises NotAcceptable."""
    for clause in _clauses(accept):
        if clause.wanted in _FORMS:
            return _FORMS[clause.wanted]
    raise _refusal()


def wants_aggregated(accept: str) -> bool:
    """Whether `/api` and `/apis` shall answer with everything at once. Raises NotAcceptable."""
    for clause in _clauses(accept):
        if clause.wanted in _DISCOVERY_FORMS:
            return _DISCOVERY_FORMS[clause.wanted]
    raise _refusal()


def _clauses(accept: str) -> Iterator[_Clause]:
    """Those that JSON satisfies, best first."""
    parsed = [_parse(text) for text in accept.split(",") if text.strip()] or [_Clause("*/*", _PLAIN, 1.0)]
    ranked = sorted(parsed, key=lambda clause: -clause.quality)
    return (clause for clause in ranked if clause.media_type in _READ_AS_JSON and clause.quality > 0)


def _parse(text: str) -> _Clause:
    media_type, *rest = (part.strip() for part in text.split(";"))
    parameters = {name.strip(): value.strip() for name, _, value in (part.partition("=") for part in rest)}
    wanted = (parameters.get("g", ""), parameters.get("v", ""), parameters.get("as", ""))
    return _Clause(media_type.lower(), wanted if wanted[2] else _PLAIN, _quality(parameters.get("q", "1")))


def _quality(text: str) -> float:
    """A weight that cannot be read counts as refused, so that nonsense never wins."""
    try:
        return float(text)
    except ValueError:
        return 0.0


def _refusal() -> NotAcceptable:
    return NotAcceptable(f"only the following media types are accepted: {JSON}")
