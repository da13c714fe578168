"""Query parameters and DeleteOptions bodies, read into the options the verbs take.

Kubernetes' rules: unknown parameters are ignored, a flag is false only when absent, `0` or `false`, a number that
is none is a BadRequest, an option with an impossible value is Invalid on the options object. What options mean is
the verbs' business; here they are only read.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from multidict import MultiDict, MultiMapping

from mooring.api.errors import BadRequest, Cause, invalid
from mooring.api.field_errors import bad_value, forbidden, required, too_long, unsupported
from mooring.server.contract import DeleteOptions, ListOptions, WatchOptions, WriteOptions
from mooring.server.delete_options import AskedDeletion, checked, dry_run_causes, from_body
from mooring.server.http.routing import Verb

Query = MultiMapping[str]

FIELD_VALIDATIONS: Final = ("Ignore", "Strict", "Warn")
#: Seconds between bookmarks; upstream's figure.
BOOKMARK_EVERY: Final = 60.0
#: Upstream's bound on the name of a field manager.
MAX_MANAGER_BYTES: Final = 128

#: A client says the same of itself in every request.
_PROGRAMS_REMEMBERED: Final = 256

_OPTIONS_KIND: Final = {
    Verb.CREATE: "CreateOptions",
    Verb.UPDATE: "UpdateOptions",
    Verb.PATCH: "PatchOptions",
}
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")  # fits int64, as upstream parses


def flag(query: Query, name: str) -> bool:
    return query.get(name, "0").lower() not in ("0", "false")


def number(query: Query, name: str) -> int | None:
    """None when absent or empty. Raises BadRequest."""
    text = query.get(name, "")
    if not text:
        return None
    if not _INTEGER.fullmatch(text):
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def list_options(query: Query) -> ListOptions:
    if "sendInitialEvents" in query:
        why = "sendInitialEvents is forbidden for list"
        raise _invalid_options("ListOptions", [forbidden("sendInitialEvents", why)])
    return ListOptions(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        resource_version=query.get("resourceVersion", ""),
        resource_version_match=query.get("resourceVersionMatch", ""),
        limit=number(query, "limit") or 0,
        continue_token=query.get("continue", ""),
    )


def watch_options(query: Query) -> WatchOptions:
    return WatchOptions(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        resource_version=query.get("resourceVersion", ""),
        resource_version_match=query.get("resourceVersionMatch", ""),
        send_initial_events=flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
        bookmarks=flag(query, "allowWatchBookmarks"),
        bookmark_every=BOOKMARK_EVERY,
    )


def write_options(query: Query, verb: Verb, user_agent: str) -> WriteOptions:
    """Raises Invalid. The field manager defaults to the program's name, the first word of its user agent."""
    dry_run = query.getall("dryRun", [])
    validation = query.get("fieldValidation", "") or "Warn"
    manager = query.get("fieldManager", "") or _program(user_agent)
    causes = dry_run_causes(dry_run)
    if validation not in FIELD_VALIDATIONS:
        causes.append(unsupported("fieldValidation", validation, ("", *FIELD_VALIDATIONS)))
    if len(manager.encode()) > MAX_MANAGER_BYTES:
        causes.append(too_long("fieldManager", MAX_MANAGER_BYTES))
    if not manager.isprintable():
        causes.append(bad_value("fieldManager", manager, "should only contain printable characters"))
    if verb is Verb.PATCH and "force" in query:
        causes.append(forbidden("force", "may not be specified for non-apply patch"))
    if causes:
        raise _invalid_options(_OPTIONS_KIND[verb], causes)
    return WriteOptions(dry_run=bool(dry_run), field_validation=validation, field_manager=manager)


def apply_options(query: Query) -> tuple[WriteOptions, bool]:
    """The options of a server-side apply, which must name its manager, and whether it is forced. Raises Invalid."""
    if not query.get("fieldManager"):
        raise _invalid_options("PatchOptions", [required("fieldManager", "is required for apply patch")])
    plain = MultiDict((name, value) for name, value in query.items() if name != "force")
    return write_options(plain, Verb.PATCH, ""), "force" in query and flag(query, "force")


def delete_options(query: Query, body: Mapping[str, Any] | None) -> DeleteOptions:
    """A body, where there is one, is taken instead of the query and not beside it, as upstream does."""
    return checked(_from_query(query) if body is None else from_body(body))


@lru_cache(maxsize=_PROGRAMS_REMEMBERED)
def _program(user_agent: str) -> str:
    """`kubectl` of `kubectl/v1.32 (linux/amd64)`; a header may hold anything, so only what can be shown is kept."""
    name = "".join(letter for letter in user_agent.partition("/")[0] if letter.isprintable())
    return name.encode()[:MAX_MANAGER_BYTES].decode(errors="ignore")


def _from_query(query: Query) -> AskedDeletion:
    return AskedDeletion(
        grace_period_seconds=number(query, "gracePeriodSeconds"),
        propagation_policy=query.get("propagationPolicy") or None,
        orphan_dependents=flag(query, "orphanDependents") if "orphanDependents" in query else None,
        dry_run=tuple(query.getall("dryRun", [])),
    )


def _invalid_options(kind: str, causes: Sequence[Cause]) -> Exception:
    return invalid(kind, "", causes, group="meta.k8s.io")
