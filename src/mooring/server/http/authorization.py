"""Who may do what: members of `system:masters` everything, everybody else nothing but look around.

Any authenticated user may read discovery and OpenAPI, as upstream's `system:discovery` role allows, so that a
refused user hears which right is missing instead of "no such resource". Roles and bindings are not evaluated.
"""

from typing import Final

from mooring.api.errors import Details, Forbidden
from mooring.server.contract import Target, User
from mooring.server.http.routing import Verb

MASTERS: Final = "system:masters"


def authorize(user: User, verb: Verb, target: Target) -> None:
    """Raises Forbidden in upstream's words."""
    if MASTERS in user.groups:
        return
    kind = target.kind
    resource = f"{kind.plural}/{target.subresource}" if target.subresource else kind.plural
    where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    about = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
    subject = f'{about} "{target.name}"' if target.name else about
    raise Forbidden(
        f'{subject} is forbidden: User "{user.name}" cannot {verb} resource "{resource}" '
        f'in API group "{kind.group}" {where}',
        details=Details(name=target.name, group=kind.group, kind=kind.plural),
    )


def authorize_path(user: User, method: str, path: str) -> None:
    """The same for a path that names no resource."""
    if MASTERS not in user.groups:
        raise Forbidden(f'forbidden: User "{user.name}" cannot {method.lower()} path "{path}"')
