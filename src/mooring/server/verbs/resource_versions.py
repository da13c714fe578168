"""Rules of `resourceVersion` in lists and watches, and continue tokens.

Versions are the store's revisions. Continue tokens have kube-apiserver's encoding, which some tools read; their key is
relative to the listed collection, so that a token cannot reach another one.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

import msgspec

from mooring.api import errors
from mooring.server.contract import ListOptions, WatchOptions
from mooring.server.environment import RequestContext
from mooring.server.verbs.deletion import invalid_options
from mooring.store.contract import Revision

#: Instead of a revision: continue with the newest state.
NEWEST: Final = -1

_VERSION: Final = "meta.k8s.io/v1"
_NO_KEY: Final = "continue key is not valid"


class ContinueToken(msgspec.Struct, frozen=True):
    v: str = ""
    rv: int = 0
    start: str = ""


def encode_continue_token(revision: int, key: str, prefix: str) -> str:
    """`key` is the first key of the next page, below `prefix`."""
    token = ContinueToken(_VERSION, revision, key.removeprefix(prefix))
    return urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def decode_continue_token(text: str, prefix: str) -> tuple[int, str]:
    """The revision, or NEWEST, and the first key of the page. Raises BadRequest."""
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=ContinueToken)
    except (ValueError, msgspec.DecodeError) as problem:
        raise _refusal(f"{_NO_KEY}: {problem}") from problem
    if token.v != _VERSION:
        raise _refusal(f"{_NO_KEY}: server does not recognize this encoded version {token.v}")
    if token.rv == 0:
        raise _refusal(f"{_NO_KEY}: incorrect encoded start resourceVersion (version {_VERSION})")
    if not token.start:
        raise _refusal(f"{_NO_KEY}: encoded start key empty (version {_VERSION})")
    steps = token.start.removeprefix("/").split("/")
    if any(step in ("", ".", "..") for step in steps):
        raise _refusal(f"{_NO_KEY}: {token.start}")
    return token.rv, prefix + "/".join(steps)


def _refusal(why: str) -> errors.BadRequest:
    return errors.BadRequest(f"invalid continue token: {why}")


EXACT: Final = "Exact"
NOT_OLDER_THAN: Final = "NotOlderThan"
#: Any state, however old.
ANY: Final = "0"

#: Time a read waits for a version that the store has not reached; kube-apiserver's value.
MAX_WAIT_SECONDS: Final = 3.0
_POLL_INTERVAL_SECONDS: Final = 0.05
#: Versions are unsigned 64-bit numbers; more leading zeros than _MAX_DIGITS are out of range too.
_MAX_VERSION: Final = (1 << 64) - 1
_MAX_DIGITS: Final = 100


class BadVersion(errors.UnknownError):
    """An invalid resourceVersion: kube-apiserver responds with 500 to most requests."""


def parse(text: str) -> Revision:
    """The revision of a resourceVersion, 0 if it is empty. Raises BadVersion."""
    if text and not (text.isascii() and text.isdigit()):
        raise _no_number(text, "invalid syntax")
    if len(text) > _MAX_DIGITS or int(text or "0") > _MAX_VERSION:
        raise _no_number(text, "value out of range")
    return Revision(int(text or "0"))


def _no_number(text: str, why: str) -> BadVersion:
    shown = errors.clipped(text)
    return BadVersion(f'resourceVersion: Invalid value: "{shown}": strconv.ParseUint: parsing "{shown}": {why}')


def check_list(options: ListOptions) -> None:
    """Rejects invalid combinations, with kube-apiserver's messages."""
    match, version = options.resource_version_match, options.resource_version
    causes: list[errors.Cause] = []
    if match:
        field = "resourceVersionMatch"
        if not version:
            causes.append(
                errors.forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided")
            )
        if options.continue_token:
            causes.append(errors.forbidden(field, "resourceVersionMatch is forbidden when continue is provided"))
        if match not in (EXACT, NOT_OLDER_THAN):
            causes.append(errors.unsupported(field, match, (EXACT, NOT_OLDER_THAN, "")))
        if match == EXACT and version == ANY:
            causes.append(errors.forbidden(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if causes:
        raise invalid_options("ListOptions", causes)


def check_watch(options: WatchOptions) -> None:
    match, initial = options.resource_version_match, options.send_initial_events
    causes: list[errors.Cause] = []
    field = "resourceVersionMatch"
    if initial is not None and match != NOT_OLDER_THAN:
        causes.append(
            errors.forbidden(field, f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}")
        )
    if match and initial is None:
        causes.append(
            errors.forbidden(field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        )
    if match and match != NOT_OLDER_THAN:
        causes.append(errors.unsupported(field, match, (NOT_OLDER_THAN,)))
    if causes:
        raise invalid_options("ListOptions", causes)


def wants_exactly(options: ListOptions) -> bool:
    """Whether the state at exactly that version is requested; the default if there is a limit."""
    if options.resource_version in ("", ANY):
        return False
    legacy = not options.resource_version_match and options.limit > 0
    return options.resource_version_match == EXACT or legacy


def too_old() -> errors.Expired:
    return errors.Expired("The resourceVersion for the provided list is too old.")


async def reached(context: RequestContext, revision: Revision) -> None:
    """Waits until the store has reached the revision. Raises ServerTimeout."""
    clock, objects = context.clock, context.objects
    deadline = clock.monotonic() + MAX_WAIT_SECONDS
    while objects.revision < revision:
        if clock.monotonic() >= deadline:
            message = f"Too large resource version: {revision}, current: {objects.revision}"
            cause = errors.Cause(reason="ResourceVersionTooLarge", message="Too large resource version")
            details = errors.Details(causes=(cause,), retry_after_seconds=1)
            raise errors.ServerTimeout(f"Timeout: {message}", details=details)
        await clock.sleep(_POLL_INTERVAL_SECONDS)
