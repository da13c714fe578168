"""Errors of the API server, for both ends of the connection, and the causes of validation errors.

`to_status` encodes an error as a `Status` object, `from_status` decodes one. Any other exception is a bug or a broken
connection.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

import msgspec

#: Bounds of a response: number of causes, characters of all causes, characters of each text.
MAX_CAUSES: Final = 100
MAX_CAUSE_CHARACTERS: Final = 64 * 1024
MAX_TEXT: Final = 16 * 1024
#: Characters of a message; kube-apiserver includes whole objects in some.
MAX_MESSAGE: Final = 256 * 1024


class Cause(msgspec.Struct, frozen=True, omit_defaults=True):
    """An invalid field of an Invalid error, or a machine-readable detail of another error."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The object of the error. `kind` is the plural resource, except for Invalid, where it is the Kind."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """`v1.Status`, the body of every failure and of some successes; unset fields are omitted."""

    kind: str = "Status"
    api_version: str = "v1"
    metadata: Mapping[str, str] = {}
    status: str = "Failure"
    message: str | msgspec.UnsetType = msgspec.UNSET
    reason: str | msgspec.UnsetType = msgspec.UNSET
    details: Details | msgspec.UnsetType | None = msgspec.UNSET
    code: int | msgspec.UnsetType = msgspec.UNSET


class ApiError(Exception):
    """A request that the API server rejected or failed to serve."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(self, message: str, *, details: Details | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def to_status(self) -> Status:
        return Status(
            message=clipped(self.message, MAX_MESSAGE),
            reason=self.reason or msgspec.UNSET,
            details=self.details or msgspec.UNSET,
            code=self.code,
        )


class UnknownError(ApiError):
    """kube-apiserver's response to some client errors: code 500 without a reason."""

    code, reason = 500, ""


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    """The identity lacks the right, or admission rejects the request."""

    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    """The object does not exist."""

    code, reason = 404, "NotFound"


class PathNotFound(ApiError):
    """A 404 for a named object whose body does not name it: from a proxy, a starting server, or for a kind that is not
    served. It does not show that the object was deleted."""

    code, reason = 404, ""


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class AlreadyExists(ApiError):
    """An object of that name exists."""

    code, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    """Another writer was first, or a precondition failed: read the object again and decide again."""

    code, reason = 409, "Conflict"


class Expired(ApiError):
    """The requested resourceVersion was compacted: list again, or continue with `continue_token` if it is set."""

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


class NotSupported(ApiError):
    """A valid request for a feature that is not implemented; such requests are never ignored."""

    code, reason = 501, "NotImplemented"


class ServiceUnavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"


class ServerTimeout(ApiError):
    code, reason = 504, "Timeout"


#: The errors with a reason, which clients decode, by increasing code.
FAMILY: Final[tuple[type[ApiError], ...]] = tuple(error for error in ApiError.__subclasses__() if error.reason)
_BY_REASON: Final = {error.reason: error for error in FAMILY}
_BY_CODE: Final = {error.code: error for error in reversed(FAMILY)} | {409: Conflict}


def from_status(body: bytes, http_code: int) -> ApiError:
    """The error of a failed response, by its reason, or by the HTTP code if it has no reason. The body of a proxy may
    be plain text: its first line becomes the message."""
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
    return NotFound(f'{_qualified(plural, group)} "{name}" not found', details=Details(name, group, plural))


def already_exists(plural: str, name: str, *, group: str = "", terminating: bool = False) -> AlreadyExists:
    prefix = "object is being deleted: " if terminating else ""
    message = f'{prefix}{_qualified(plural, group)} "{name}" already exists'
    return AlreadyExists(message, details=Details(name, group, plural))


def conflict(plural: str, name: str, why: str = "", *, group: str = "") -> Conflict:
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {_qualified(plural, group)} "{name}": {why}'
    return Conflict(message, details=Details(name, group, plural))


def invalid(kind: str, name: str, causes: Iterable[Cause], *, group: str = "") -> Invalid:
    """An Invalid error with its causes in kube-apiserver's form, bounded, and the number of causes left out."""
    causes, more = bounded_causes(causes)
    parts = [f"{cause.field}: {cause.message}" for cause in causes]
    if more:
        parts.append(f"and {more} more")
    problem = parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]"
    name = clipped(name)
    message = f'{_qualified(kind, group)} "{name}" is invalid: {problem}'
    return Invalid(message, details=Details(name, group, kind, causes=causes))


def bounded_causes(causes: Iterable[Cause]) -> tuple[tuple[Cause, ...], int]:
    """The causes that fit into a response, and how many are left out: without a bound, a few bytes per field of a
    request would cost a kilobyte of response each."""
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


def clipped(text: str, limit: int = MAX_TEXT) -> str:
    """Text of a client, cut to what a response repeats."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


def success(details: Details | None = None, code: int | None = None) -> dict[str, Any]:
    """The body of a success that returns no object; like kube-apiserver's, it has no code for a plain 200."""
    return msgspec.to_builtins(  # type: ignore[no-any-return]  # to_builtins is typed Any
        Status(status="Success", details=details or msgspec.UNSET, code=code or msgspec.UNSET)
    )


def no_such_resource() -> NotFound:
    """For a path of a served group version that is not a resource."""
    return NotFound("the server could not find the requested resource", details=Details())


def method_not_allowed() -> MethodNotAllowed:
    return MethodNotAllowed("the server does not allow this method on the requested resource", details=Details())


#: Escapes of Go's %q.
_ESCAPES: Final = str.maketrans(
    {'"': r"\"", "\\": r"\\", "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
)


def _quoted(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    return str(value) if isinstance(value, int | float) else msgspec.json.encode(value).decode()


def bad_value(field: str, value: object, why: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {_quoted(value)}: {why}", field)


def required(field: str, why: str = "") -> Cause:
    return Cause("FieldValueRequired", f"Required value: {why}" if why else "Required value", field)


def unsupported(field: str, value: object, supported: Iterable[str]) -> Cause:
    choices = ", ".join(_quoted(choice) for choice in supported)
    message = f"Unsupported value: {_quoted(value)}: supported values: {choices}"
    return Cause("FieldValueNotSupported", message, field)


def forbidden(field: str, why: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def duplicate(field: str, value: object) -> Cause:
    return Cause("FieldValueDuplicate", f"Duplicate value: {_quoted(value)}", field)


def too_long(field: str, limit: int) -> Cause:
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", field)


def too_many(field: str, count: int, limit: int) -> Cause:
    items = "item" if limit == 1 else "items"
    return Cause("FieldValueTooMany", f"Too many: {count}: must have at most {limit} {items}", field)


def field_not_found(field: str, value: object) -> Cause:
    return Cause("FieldValueNotFound", f"Not found: {_quoted(value)}", field)
