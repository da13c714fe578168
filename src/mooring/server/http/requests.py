"""Kubernetes' URL grammar and query parameters, parsed into targets and options. Pure.

    /api/v1/{plural}[/{name}[/{subresource}]]
    /api/v1/namespaces/{namespace}/{plural}[/{name}[/{subresource}]]
    /apis/{group}/{version}/…                       the same for named groups

Unknown parameters are ignored; a malformed number is a BadRequest, an unsupported option value is Invalid. The legacy
`/api/v1/watch/…` form is not served.
"""

import enum
import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

from multidict import MultiDict, MultiMapping

from mooring.api import errors
from mooring.api.kinds import BY_PLURAL, GROUP_VERSIONS, NAMESPACE, POD, Kind
from mooring.api.views.meta import ApiObject
from mooring.server.auth.rbac import NAMESPACE_SUBRESOURCES
from mooring.server.contract import (
    BOOKMARK_SECONDS,
    DeleteOptions,
    ListOptions,
    Target,
    WatchOptions,
    WriteOptions,
    subresources,
)
from mooring.server.verbs import deletion


class Verb(enum.StrEnum):
    """API verbs, as spelled in RBAC and discovery."""

    GET = "get"
    LIST = "list"
    WATCH = "watch"
    CREATE = "create"
    UPDATE = "update"
    PATCH = "patch"
    DELETE = "delete"
    DELETE_COLLECTION = "deletecollection"


#: Pod subresources that need running containers.
_OF_CONTAINERS: Final[Mapping[str, str]] = {
    "log": "there are no logs",
    "exec": "there is nothing to execute a command in",
    "attach": "there is no process to attach to",
    "portforward": "there is no port to forward to",
    "proxy": "there is no port to connect to",
}

#: Not served. Discovery lists it, because otherwise kubectl itself rejects it, with the advice to install CRDs first.
#: Now it sends the request, and the response says what to do. Controllers skip kinds that cannot be listed.
CUSTOM_RESOURCE_DEFINITION: Final = Kind(
    "apiextensions.k8s.io",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
    view=ApiObject,
    short=("crd", "crds"),
    verbs=("create",),
)
_NO_CUSTOM_RESOURCES: Final = (
    "this API server has no custom resources: leave CustomResourceDefinitions and their objects out, or use a real API "
    "server, to which mooring nodeagent adds simulated nodes; mooring docs kinds lists the kinds that are served"
)

_ON_COLLECTION: Final = {"GET": Verb.LIST, "POST": Verb.CREATE, "DELETE": Verb.DELETE_COLLECTION}
_ON_OBJECT: Final = {"GET": Verb.GET, "PUT": Verb.UPDATE, "PATCH": Verb.PATCH, "DELETE": Verb.DELETE}
_ON_SUBRESOURCE: Final = _ON_OBJECT | {"POST": Verb.CREATE}


def segments(raw_path: str) -> tuple[str, ...]:
    """The elements of an encoded path; trailing and doubled slashes are ignored."""
    parts = filter(None, raw_path.split("/"))
    return tuple(map(unquote, parts) if "%" in raw_path else parts)


def resolve(path: Sequence[str], *, disabled: Collection[Kind[ApiObject]] = ()) -> Target | None:
    """The collection, object or subresource of a path; None outside the served group versions. Kinds in `disabled` are
    unknown: their feature gate is off.

    Raises NotFound for an unknown resource in a served group version, and NotSupported for subresources that
    need running containers and for custom resource definitions.
    """
    match path:
        case ("api", version, *rest):
            group = ""
        case ("apis", group, version, *rest):
            pass
        case _:
            return None
    if (group, version) not in GROUP_VERSIONS or not rest:
        definition = CUSTOM_RESOURCE_DEFINITION
        if (group, version, *rest[:1]) == (definition.group, definition.version, definition.plural):
            raise errors.NotSupported(_NO_CUSTOM_RESOURCES)
        return None
    namespace = ""
    if rest[0] == NAMESPACE.plural and len(rest) >= 3 and not (group == "" and rest[2] in NAMESPACE_SUBRESOURCES):
        namespace, rest = rest[1], rest[2:]
    plural, *names = rest
    kind = BY_PLURAL.get((group, version, plural))
    if kind is None or kind in disabled or len(names) > 2:
        raise errors.no_such_resource()
    name, subresource = (*names, "", "")[:2]
    if kind is POD and subresource in _OF_CONTAINERS:
        instead = f"kubectl describe pod {name} and mooring timeline pod/{name} show what happened to it"
        raise errors.NotSupported(f"pods are simulated and run no containers: {_OF_CONTAINERS[subresource]}; {instead}")
    # A namespaced object without a namespace, or a namespace with a cluster-scoped kind.
    out_of_scope = bool(name) and not namespace if kind.namespaced else bool(namespace)
    if out_of_scope or (subresource and subresource not in subresources(kind)):
        raise errors.no_such_resource()
    return Target(kind, namespace, name, subresource)


def verb_of(method: str, target: Target, *, watching: bool) -> Verb:
    """The verb of a method on a target. Raises MethodNotAllowed.

    `watching` applies to collections only: `GET object?watch=1` is a get, as upstream.
    """
    kind = target.kind
    if target.subresource:
        verb, allowed = _ON_SUBRESOURCE.get(method), subresources(kind)[target.subresource]
    elif target.name:
        verb, allowed = _ON_OBJECT.get(method), kind.verbs
    else:
        verb, allowed = _ON_COLLECTION.get(method), kind.verbs
        if verb is Verb.LIST and watching:
            verb = Verb.WATCH
        if kind.namespaced and not target.namespace and verb not in (Verb.LIST, Verb.WATCH):
            verb = None
    if verb is None or verb not in allowed:
        raise errors.method_not_allowed()
    return verb


Query = MultiMapping[str]

FIELD_VALIDATIONS: Final = ("Ignore", "Strict", "Warn")
#: kube-apiserver's.
MAX_MANAGER_BYTES: Final = 128

#: Minor version of the oldest kubectl that the tests use.
OLDEST_KUBECTL: Final = 30

_USER_AGENT_CACHE_SIZE: Final = 256

_OPTIONS_KIND: Final = {Verb.CREATE: "CreateOptions", Verb.UPDATE: "UpdateOptions", Verb.PATCH: "PatchOptions"}
_KUBECTL: Final = re.compile(r"kubectl(?:\.exe)?/v1\.([0-9]{1,3})\.")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")  # fits int64, as upstream parses


def flag(query: Query, name: str) -> bool:
    return query.get(name, "0").lower() not in ("0", "false")


def number(query: Query, name: str) -> int | None:
    """None when absent or empty. Raises BadRequest."""
    text = query.get(name, "")
    if not text:
        return None
    if not _INTEGER.fullmatch(text):
        raise errors.BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def list_options(query: Query) -> ListOptions:
    if "sendInitialEvents" in query:
        why = "sendInitialEvents is forbidden for list"
        raise deletion.invalid_options("ListOptions", [errors.forbidden("sendInitialEvents", why)])
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
        bookmark_every=BOOKMARK_SECONDS,
    )


def write_options(query: Query, verb: Verb, user_agent: str) -> WriteOptions:
    """Raises Invalid. The field manager defaults to the program name in the user agent."""
    dry_run = query.getall("dryRun", [])
    validation = query.get("fieldValidation", "") or "Warn"
    manager = query.get("fieldManager", "") or _program(user_agent)
    causes = deletion.dry_run_causes(dry_run)
    if validation not in FIELD_VALIDATIONS:
        causes.append(errors.unsupported("fieldValidation", validation, ("", *FIELD_VALIDATIONS)))
    if len(manager.encode()) > MAX_MANAGER_BYTES:
        causes.append(errors.too_long("fieldManager", MAX_MANAGER_BYTES))
    if not manager.isprintable():
        causes.append(errors.bad_value("fieldManager", manager, "should only contain printable characters"))
    if verb is Verb.PATCH and "force" in query:
        causes.append(errors.forbidden("force", "may not be specified for non-apply patch"))
    if causes:
        raise deletion.invalid_options(_OPTIONS_KIND[verb], causes)
    return WriteOptions(dry_run=bool(dry_run), field_validation=validation, field_manager=manager)


def apply_options(query: Query) -> tuple[WriteOptions, bool]:
    """The options of a server-side apply, and whether it is forced. Raises Invalid without a field manager."""
    if not query.get("fieldManager"):
        raise deletion.invalid_options("PatchOptions", [errors.required("fieldManager", "is required for apply patch")])
    plain = MultiDict((name, value) for name, value in query.items() if name != "force")
    return write_options(plain, Verb.PATCH, ""), "force" in query and flag(query, "force")


def delete_options(query: Query, body: Mapping[str, Any] | None) -> DeleteOptions:
    """A body replaces the query parameters, as upstream."""
    return deletion.checked_delete_options(_from_query(query) if body is None else deletion.decode_delete_request(body))


@lru_cache(maxsize=_USER_AGENT_CACHE_SIZE)
def _program(user_agent: str) -> str:
    """`kubectl` of `kubectl/v1.32 (linux/amd64)`, without unprintable characters."""
    name = "".join(letter for letter in user_agent.partition("/")[0] if letter.isprintable())
    return name.encode()[:MAX_MANAGER_BYTES].decode(errors="ignore")


def outdated_client(user_agent: str) -> str:
    """A warning for kubectl versions that are too old, of `kubectl/v1.20.2 (linux/amd64)`; empty for all others."""
    found = _KUBECTL.match(user_agent)
    if found is None or int(found[1]) >= OLDEST_KUBECTL:
        return ""
    return (
        f"kubectl 1.{int(found[1])} is older than 1.{OLDEST_KUBECTL}, the oldest version that is supported: some "
        f"commands fail or show less; install kubectl 1.{OLDEST_KUBECTL} or newer"
    )


def _from_query(query: Query) -> deletion.DeleteRequest:
    return deletion.DeleteRequest(
        grace_period_seconds=number(query, "gracePeriodSeconds"),
        propagation_policy=query.get("propagationPolicy") or None,
        orphan_dependents=flag(query, "orphanDependents") if "orphanDependents" in query else None,
        dry_run=tuple(query.getall("dryRun", [])),
    )
