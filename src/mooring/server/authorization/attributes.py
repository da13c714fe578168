"""What a request wants to do, reduced to what rules speak of; and the answer."""

from typing import Final, TypeAlias

import msgspec

from mooring.api import field_selector
from mooring.server.contract import Target, User

#: The group that may do everything, whatever the roles say: without it a cluster could lock its owners out.
MASTERS: Final = "system:masters"


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
    """`fields` is the field selector of a list or a watch: whoever selects one object by its name asks for that one,
    so a right to it by name is enough."""
    kind = target.kind
    name = target.name or (_selected_name(fields) if fields else "")
    return ResourceRequest(verb, kind.group, kind.plural, target.subresource, target.namespace, name)


def _selected_name(fields: str) -> str:
    """The only name that can pass the selector, "" where there may be several."""
    try:
        terms = field_selector.parse(fields).terms
    except field_selector.FieldSelectorError:
        return ""  # the verb will say what is wrong with it
    return next((term.value for term in terms if (term.path, term.operator) == ("metadata.name", "=")), "")


def is_master(user: User) -> bool:
    return MASTERS in user.groups
