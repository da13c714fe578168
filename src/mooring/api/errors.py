"""What an API server can say no with: one family for both ends of the wire.

    ApiError                  500 InternalError
    ├── Unexplained           500 without a reason    a client's mistake that upstream does not name
    ├── BadRequest            400 BadRequest
    ├── Unauthorized          401 Unauthorized
    ├── Forbidden             403 Forbidden
    ├── NotFound              404 NotFound
    ├── PathNotFound          404 without a reason    for clients: about the path, not about an object
    ├── MethodNotAllowed      405 MethodNotAllowed
    ├── NotAcceptable         406 NotAcceptable
    ├── AlreadyExists         409 AlreadyExists
    ├── Conflict              409 Conflict
    ├── Expired               410 Expired
    ├── TooLarge              413 RequestEntityTooLarge
    ├── UnsupportedMediaType  415 UnsupportedMediaType
    ├── Invalid               422 Invalid
    ├── TooManyRequests       429 TooManyRequests
    ├── NotImplementedHere    501 NotImplemented      understood, but not built: refused, never ignored
    ├── ServiceUnavailable    503 ServiceUnavailable
    └── ServerTimeout         504 Timeout

The server turns an instance into a `Status` object (`to_status`), the client turns a `Status` object back into
an instance (`from_status`). Anything that is not an ApiError is a bug or a broken connection.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

import msgspec

#: How much an answer says about what is wrong: causes, the characters of all of them, and those of each text.
MAX_CAUSES: Final = 100
MAX_CAUSE_CHARACTERS: Final = 64 * 1024
MAX_TEXT: Final = 16 * 1024
#: Characters of a message; upstream repeats whole objects in some.
MAX_MESSAGE: Final = 256 * 1024


class Cause(msgspec.Struct, frozen=True, omit_defaults=True):
    """One offending field of an Invalid answer, or one machine-readable detail of another."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What the error is about. `kind` is the plural resource, except for Invalid, where it is the Kind."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """`v1.Status`, the body of every failure and of some successes. What is not set is left out."""

    kind: str = "Status"
    api_version: str = "v1"
    metadata: Mapping[str, str] = {}
    status: str = "Failure"
    message: str | msgspec.UnsetType = msgspec.UNSET
    reason: str | msgspec.UnsetType = msgspec.UNSET
    details: Details | msgspec.UnsetType | None = msgspec.UNSET
    code: int | msgspec.UnsetType = msgspec.UNSET


class ApiError(Exception):
    """The API server said no."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(self, message: str, *, details: Details | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def to_status(self) -> Status:
        return Status(
            message=self.message if len(self.message) <= MAX_MESSAGE else _ended(self.message),
            reason=self.reason or msgspec.UNSET,
            details=self.details or msgspec.UNSET,
            code=self.code,
        )


def _ended(message: str) -> str:
    return f"{message[:MAX_MESSAGE]}… ({len(message) - MAX_MESSAGE} more characters)"


class Unexplained(ApiError):
    """What upstream answers with a 500 and no reason, though it is the client's mistake."""

    code, reason = 500, ""


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    code, reason = 404, "NotFound"


class PathNotFound(ApiError):
    """A 404 for a named object that does not name it: from a proxy, a server that is starting, or for a kind that is
    not served. No evidence that the object is gone."""

    code, reason = 404, ""


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    """Somebody else wrote first, or a precondition does not hold: read again and decide again."""

    code, reason = 409, "Conflict"


class Expired(ApiError):
    """The version asked for is no longer kept: list again, or go on with `continue_token` where there is one."""

    code, reason = 410, "Expired"

    def __init__(self, message: str, *, details: Details | None = None, continue_token: str = "") -> None:
        super().__init__(message, details=details)
        self.continue_token = continue_token

    def to_status(self) -> Status:
        metadata = {"continue": self.continue_token} if self.continue_token else {}
        return msgspec.structs.replace(super().to_status(), metadata=metadata)


class TooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class NotImplementedHere(ApiError):
    """Understood and not built yet. Ignoring the request would be the worse answer."""

    code, reason = 501, "NotImplemented"


class ServiceUnavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"


class ServerTimeout(ApiError):
    code, reason = 504, "Timeout"


FAMILY: Final[tuple[type[ApiError], ...]] = (
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Expired,
    TooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    NotImplementedHere,
    ServiceUnavailable,
    ServerTimeout,
)
_BY_REASON: Final = {error.reason: error for error in FAMILY}
_BY_CODE: Final = {error.code: error for error in reversed(FAMILY)} | {409: Conflict}


def from_status(body: bytes, http_code: int) -> ApiError:
    """The error a failed answer stands for; the reason decides, the HTTP code where there is none.

    Proxies and 404 pages answer with plain text: their first line becomes the message.
    """
    try:
        status = msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        text = body.decode("utf-8", "replace").strip().partition("\n")[0]
        message = text[:300] or f"the server answered {http_code} without a reason"
        return _BY_CODE.get(http_code, ApiError)(message)
    known = _BY_REASON.get(status.reason or "") or _BY_CODE.get(http_code, ApiError)
    return known(status.message or "", details=status.details or None)


def _qualified(plural: str, group: str) -> str:
    return f"{plural}.{group}" if group else plural


def not_found(plural: str, name: str, *, group: str = "") -> NotFound:
    return NotFound(
        f'{_qualified(plural, group)} "{name}" not found',
        details=Details(name=name, group=group, kind=plural),
    )


def already_exists(plural: str, name: str, *, group: str = "", terminating: bool = False) -> AlreadyExists:
    prefix = "object is being deleted: " if terminating else ""
    return AlreadyExists(
        f'{prefix}{_qualified(plural, group)} "{name}" already exists',
        details=Details(name=name, group=group, kind=plural),
    )


def conflict(plural: str, name: str, why: str = "", *, group: str = "") -> Conflict:
    why = why or ("the object has been modified; please apply your changes to the latest version and try again")
    return Conflict(
        f'Operation cannot be fulfilled on {_qualified(plural, group)} "{name}": {why}',
        details=Details(name=name, group=group, kind=plural),
    )


def invalid(kind: str, name: str, causes: Iterable[Cause], *, group: str = "") -> Invalid:
    """An Invalid answer with the offending fields, in upstream's form: all that a reader can use, and how many more."""
    causes, more = told(causes)
    parts = [f"{cause.field}: {cause.message}" for cause in causes]
    if more:
        parts.append(f"and {more} more")
    problem = parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]"
    return Invalid(
        f'{_qualified(kind, group)} "{clipped(name)}" is invalid: {problem}',
        details=Details(name=clipped(name), group=group, kind=kind, causes=causes),
    )


def told(causes: Iterable[Cause]) -> tuple[tuple[Cause, ...], int]:
    """As many causes as an answer carries, and how many are left out. A request of some bytes per field would
    otherwise be answered with a kilobyte for each."""
    kept: list[Cause] = []
    characters = more = 0
    for cause in causes:
        if len(kept) == MAX_CAUSES or characters > MAX_CAUSE_CHARACTERS:
            more += 1
            continue
        if len(cause.message) > MAX_TEXT or len(cause.field) > MAX_TEXT:
            cause = Cause(cause.reason, clipped(cause.message), clipped(cause.field))
        characters += len(cause.message) + len(cause.field)
        kept.append(cause)
    return tuple(kept), more


def clipped(text: str) -> str:
    """What a client wrote, as far as an answer repeats it."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text) - MAX_TEXT} more characters)"


def success(details: Details | None = None, code: int | None = None) -> dict[str, Any]:
    """The body of a success that returns no object; a plain 200 says no code, as upstream's does not."""
    return msgspec.to_builtins(  # type: ignore[no-any-return]  # to_builtins is typed Any
        Status(status="Success", details=details or msgspec.UNSET, code=code or msgspec.UNSET)
    )


def no_such_resource() -> NotFound:
    """A path inside a served group version that names nothing."""
    return NotFound("the server could not find the requested resource", details=Details())


def method_not_allowed() -> MethodNotAllowed:
    return MethodNotAllowed("the server does not allow this method on the requested resource", details=Details())
