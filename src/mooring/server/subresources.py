"""Which endpoints an object has besides its own, and what each of them takes."""

from typing import Final

from mooring.api.errors import method_not_allowed, no_such_resource
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.server.contract import Target

#: What the `status` subresource takes.
STATUS_VERBS: Final = ("get", "patch", "update")


def subresources(kind: Kind[ApiObject]) -> dict[str, tuple[str, ...]]:
    """Each subresource with the verbs it takes, `status` first."""
    status = {"status": STATUS_VERBS} if kind.has_status else {}
    return status | dict(kind.subresources)


def require_endpoint(target: Target, verb: str) -> None:
    """NotFound where the object has no such subresource, MethodNotAllowed where that does not take the verb."""
    if not target.subresource:
        return
    allowed = subresources(target.kind).get(target.subresource)
    if allowed is None:
        raise no_such_resource()
    if verb not in allowed:
        raise method_not_allowed()
