"""The rules of `resourceVersion` in lists and watches: which combinations are allowed, and what a number asks for.

Versions are the store's revisions. Waiting for a version that does not exist yet is bounded.
"""

from typing import Final

from mooring.api.errors import Cause, Details, Expired, Invalid, ServerTimeout, Unexplained, clipped, invalid
from mooring.api.field_errors import forbidden, unsupported
from mooring.server.contract import ListOptions, WatchOptions
from mooring.server.environment import Environment
from mooring.store.contract import Revision

EXACT: Final = "Exact"
NOT_OLDER_THAN: Final = "NotOlderThan"
#: Any state will do, however old.
ANY: Final = "0"

#: How long a reader waits for a version that does not exist yet; kube-apiserver's figure.
PATIENCE: Final = 3.0
#: How often it looks meanwhile.
_GLANCE: Final = 0.05
#: Versions have 64 bits without a sign to Kubernetes. More leading zeros than this are out of range too.
_MAX_VERSION: Final = (1 << 64) - 1
_MAX_DIGITS: Final = 100


class BadVersion(Unexplained):
    """A resourceVersion that is no number, where upstream calls that an internal error (500)."""


def parse(text: str) -> Revision:
    """The revision a resourceVersion stands for; ValueError where it is none. Empty is 0."""
    if text and not (text.isascii() and text.isdigit()):
        raise _no_number(text, "invalid syntax")
    if len(text) > _MAX_DIGITS or int(text or "0") > _MAX_VERSION:
        raise _no_number(text, "value out of range")
    return Revision(int(text or "0"))


def _no_number(text: str, why: str) -> ValueError:
    """In Go's words, which people search for."""
    shown = clipped(text)
    return ValueError(f'resourceVersion: Invalid value: "{shown}": strconv.ParseUint: parsing "{shown}": {why}')


def check_list(options: ListOptions) -> None:
    """Refuses combinations that mean nothing; the texts are upstream's."""
    match, version = options.resource_version_match, options.resource_version
    causes: list[Cause] = []
    if match:
        field = "resourceVersionMatch"
        if not version:
            causes.append(forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if options.continue_token:
            causes.append(forbidden(field, "resourceVersionMatch is forbidden when continue is provided"))
        if match not in (EXACT, NOT_OLDER_THAN):
            causes.append(unsupported(field, match, (EXACT, NOT_OLDER_THAN, "")))
        if match == EXACT and version == ANY:
            causes.append(forbidden(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if causes:
        raise _invalid(causes)


def check_watch(options: WatchOptions) -> None:
    match, initial = options.resource_version_match, options.send_initial_events
    causes: list[Cause] = []
    field = "resourceVersionMatch"
    if initial is not None and match != NOT_OLDER_THAN:
        causes.append(forbidden(field, f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}"))
    if match and initial is None:
        causes.append(
            forbidden(field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        )
    if match and match != NOT_OLDER_THAN:
        causes.append(unsupported(field, match, (NOT_OLDER_THAN,)))
    if causes:
        raise _invalid(causes)


def wants_exactly(options: ListOptions) -> bool:
    """Whether only the state at that very version will do; with a limit that is so unless said otherwise."""
    if options.resource_version in ("", ANY):
        return False
    legacy = not options.resource_version_match and options.limit > 0
    return options.resource_version_match == EXACT or legacy


def _invalid(causes: list[Cause]) -> Invalid:
    return invalid("ListOptions", "", causes, group="meta.k8s.io")


def too_old() -> Expired:
    return Expired("The resourceVersion for the provided list is too old.")


async def reached(environment: Environment, wanted: Revision) -> None:
    """Returns once the store is not older than `wanted`; ServerTimeout when that takes too long."""
    clock, objects = environment.clock, environment.objects
    deadline = clock.monotonic() + PATIENCE
    while objects.revision < wanted:
        if clock.monotonic() >= deadline:
            message = f"Too large resource version: {wanted}, current: {objects.revision}"
            cause = Cause(reason="ResourceVersionTooLarge", message="Too large resource version")
            details = Details(causes=(cause,), retry_after_seconds=1)
            raise ServerTimeout(f"Timeout: {message}", details=details)
        await clock.sleep(_GLANCE)
