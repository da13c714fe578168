"""To whom published objects belong: the pod of the publisher, or who manages it, so that they go when it goes."""

from mooring.api.errors import ApiError
from mooring.api.kinds import BY_KIND, POD
from mooring.api.views.meta import ApiObject, OwnerReference
from mooring.client.contract import Client

#: No owner at all.
NOBODY = -1


class NoOwner(Exception):
    """The owner asked for is not there; the text says which and what to do."""


async def owner_of(client: Client, *, pod: str, namespace: str, level: int) -> OwnerReference | None:
    """The pod itself at level 0, its controller at 1, that one's controller at 2. Raises NoOwner, and Unreachable."""
    if level <= NOBODY:
        return None
    try:
        item: ApiObject = await client.get(POD, pod, namespace=namespace)
    except ApiError as error:
        raise NoOwner(f"cannot look up pod {namespace}/{pod}: {error.message}") from error
    reference = OwnerReference(
        api_version=POD.api_version, kind=POD.kind, name=item.name, uid=item.uid, controller=True
    )
    for step in range(1, level + 1):
        above = item.controller
        if above is None:
            raise NoOwner(
                f"{reference.kind} {namespace}/{reference.name} has no controller, so there is no owner at level "
                f"{level}; use --capacity-ownerref-level={step - 1}"
            )
        reference = OwnerReference(
            api_version=above.api_version, kind=above.kind, name=above.name, uid=above.uid, controller=True
        )
        if step < level:
            item = await _look_up(client, reference, namespace)
    return reference


async def _look_up(client: Client, reference: OwnerReference, namespace: str) -> ApiObject:
    kind = BY_KIND.get((reference.api_version, reference.kind))
    if kind is None:
        raise NoOwner(f"owners of a {reference.kind} ({reference.api_version}) cannot be looked up")
    try:
        return await client.get(kind, reference.name, namespace=namespace)
    except ApiError as error:
        raise NoOwner(f"cannot look up {reference.kind} {namespace}/{reference.name}: {error.message}") from error
