"""What a request wants to do, reduced to what rules speak of; and the answer."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from mooring.api import field_selector
from mooring.api.kinds import NAMESPACE
from mooring.api.object_names import check_path_segment
from mooring.server.contract import Target, User

#: The group that may do everything, whatever the roles say: without it a cluster could lock its owners out.
MASTERS: Final = "system:masters"

#: Words after `namespaces/{name}/` that are subresources of the Namespace rather than a collection inside it.
NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})

_VERBS: Final[Mapping[str, str]] = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_ON_COLLECTION: Final[Mapping[str, str]] = {"get": "list", "delete": "deletecollection"}
#: The verbs for which a field selector may name the object.
_BY_SELECTOR: Final = frozenset({"list", "watch"})


class ResourceRequest(msgspec.Struct, frozen=True, gc=False):
    """A verb on a resource. Verbs are not only those of HTTP: `bind`, `escalate` and `impersonate` are some too."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def full_resource(self) -> str:
        """As rules spell it: `pods`, `pods/status`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class PathRequest(msgspec.Struct, frozen=True, gc=False):
    """A verb (a lower-case HTTP method) on a path that is no resource."""

    verb: str
    path: str


Request: TypeAlias = ResourceRequest | PathRequest


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The reason says who granted it, or why a grant could not be looked at; often it is empty."""

    allowed: bool
    reason: str = ""


def request_for(verb: str, target: Target, *, fields: str = "") -> ResourceRequest:
    """What a verb on a target needs. `fields` is the field selector, if there is one."""
    kind = target.kind
    namespace = target.name if kind is NAMESPACE else target.namespace
    name = target.name or _selected_name(verb, fields)
    return ResourceRequest(verb, kind.group, kind.plural, target.subresource, namespace, name)


def request_at(method: str, path: Sequence[str], *, watching: bool = False, fields: str = "") -> Request:
    """What a method on a path needs, whether or not the server has such a resource: only callers who are allowed to
    use a resource learn that it does not exist. `fields` is the field selector of the query, `watching` its flag."""
    match path:
        case ("api", _, resource, *below):
            group = ""
        case ("apis", group, _, resource, *below):
            pass
        case _:
            return PathRequest(method.lower(), f"/{'/'.join(path)}")
    namespace = ""
    if resource == NAMESPACE.plural and below:
        # A namespace is an object of its own namespace: a Role there may grant access to it.
        namespace = below[0]
        if below[1:] and below[1] not in NAMESPACE_SUBRESOURCES:
            resource, below = below[1], below[2:]
    name, subresource = (*below, "", "")[:2]
    verb = _VERBS.get(method, "")
    if not name:
        verb = _ON_COLLECTION.get(verb, verb)
        if verb == "list" and watching:
            verb = "watch"
    return ResourceRequest(verb, group, resource, subresource, namespace, name or _selected_name(verb, fields))


def _selected_name(verb: str, fields: str) -> str:
    """The one name that a field selector leaves: a right to that object by name is enough to list or watch it.

    Only there. Every other verb ignores the selector, or as `deletecollection` is never granted by name.
    """
    if not fields or verb not in _BY_SELECTOR:
        return ""
    try:
        terms = field_selector.parse(fields).terms
    except field_selector.FieldSelectorError:
        return ""  # the verb refuses the selector
    name = next((term.value for term in terms if (term.path, term.operator) == ("metadata.name", "=")), "")
    return "" if check_path_segment(name) else name


def is_master(user: User) -> bool:
    return MASTERS in user.groups
