"""From a method and a path to what the request is about: Kubernetes' URL grammar over the kinds table.

    /api/v1/{plural}[/{name}[/{subresource}]]
    /api/v1/namespaces/{namespace}/{plural}[/{name}[/{subresource}]]
    /apis/{group}/{version}/…                       the same for named groups

Pure: knows neither HTTP objects nor the documents (discovery, OpenAPI) that live on fixed paths beside these.
The legacy `/api/v1/watch/…` form is not served.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from mooring.api.errors import NotImplementedHere, method_not_allowed, no_such_resource
from mooring.api.kinds import BY_PLURAL, GROUP_VERSIONS, NAMESPACE, POD, Kind
from mooring.api.views.meta import ApiObject
from mooring.server.authorization.attributes import NAMESPACE_SUBRESOURCES
from mooring.server.contract import Target
from mooring.server.subresources import subresources


class Verb(enum.StrEnum):
    """What a request wants, as authorisation and discovery spell it."""

    GET = "get"
    LIST = "list"
    WATCH = "watch"
    CREATE = "create"
    UPDATE = "update"
    PATCH = "patch"
    DELETE = "delete"
    DELETE_COLLECTION = "deletecollection"


#: What Kubernetes offers of a pod's containers, and why there is none of it.
_OF_CONTAINERS: Final[Mapping[str, str]] = {
    "log": "there are no logs",
    "exec": "there is nothing to execute a command in",
    "attach": "there is no process to attach to",
    "portforward": "there is no port to forward to",
    "proxy": "there is no port to connect to",
}

_ON_COLLECTION: Final = {"GET": Verb.LIST, "POST": Verb.CREATE, "DELETE": Verb.DELETE_COLLECTION}
_ON_OBJECT: Final = {"GET": Verb.GET, "PUT": Verb.UPDATE, "PATCH": Verb.PATCH, "DELETE": Verb.DELETE}
_ON_SUBRESOURCE: Final = _ON_OBJECT | {"POST": Verb.CREATE}


def segments(raw_path: str) -> tuple[str, ...]:
    """The parts of an encoded path. Trailing and doubled slashes count for nothing."""
    parts = filter(None, raw_path.split("/"))
    return tuple(map(unquote, parts) if "%" in raw_path else parts)


def resolve(path: Sequence[str]) -> Target | None:
    """The collection, object or subresource a path names; None where it lies in no group version we serve.

    Raises NotFound for a path inside a served group version that names nothing, and NotImplementedHere for what
    containers would have to run for.
    """
    match path:
        case ("api", version, *rest):
            group = ""
        case ("apis", group, version, *rest):
            pass
        case _:
            return None
    if (group, version) not in GROUP_VERSIONS or not rest:
        return None
    namespace = ""
    if rest[0] == NAMESPACE.plural and len(rest) >= 3 and not (group == "" and rest[2] in NAMESPACE_SUBRESOURCES):
        namespace, rest = rest[1], rest[2:]
    plural, *names = rest
    kind = BY_PLURAL.get((group, version, plural))
    if kind is None or len(names) > 2:
        raise no_such_resource()
    name, subresource = (*names, "", "")[:2]
    if kind is POD and subresource in _OF_CONTAINERS:
        raise NotImplementedHere(f"pods are played here and run no containers: {_OF_CONTAINERS[subresource]}")
    if _out_of_scope(kind, namespace, name) or (subresource and subresource not in subresources(kind)):
        raise no_such_resource()
    return Target(kind, namespace, name, subresource)


def verb_of(method: str, target: Target, *, watching: bool) -> Verb:
    """What a method means on this target. Raises MethodNotAllowed.

    `watching` counts on collections only: `GET object?watch=1` is a plain get, as upstream answers it.
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
        raise method_not_allowed()
    return verb


def _out_of_scope(kind: Kind[ApiObject], namespace: str, name: str) -> bool:
    """A namespace on a cluster-wide kind, or an object of a namespaced kind without one."""
    if kind.namespaced:
        return bool(name) and not namespace
    return bool(namespace)
