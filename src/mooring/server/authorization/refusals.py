"""How a request that is not allowed is refused, in upstream's words."""

from mooring.api.errors import Details, Forbidden
from mooring.server.authorization.access import Access
from mooring.server.authorization.attributes import Decision, PathRequest, Request
from mooring.server.contract import User


async def require(access: Access, user: User, request: Request) -> None:
    """Raises Forbidden."""
    decision = await access.decide(user, request)
    if not decision.allowed:
        raise refusal(user, request, decision)


def refusal(user: User, request: Request, decision: Decision) -> Forbidden:
    why = f": {decision.reason}" if decision.reason else ""
    if isinstance(request, PathRequest):
        text = f'forbidden: User "{user.name}" cannot {request.verb} path "{request.path}"{why}'
        return Forbidden(text, details=Details())
    where = f'in the namespace "{request.namespace}"' if request.namespace else "at the cluster scope"
    about = f"{request.resource}.{request.group}" if request.group else request.resource
    subject = f'{about} "{request.name}"' if request.name else about
    return Forbidden(
        f'{subject} is forbidden: User "{user.name}" cannot {request.verb} resource "{request.full_resource}" '
        f'in API group "{request.group}" {where}{why}',
        details=Details(name=request.name, group=request.group, kind=request.resource),
    )
