"""Objects are created only in namespaces that exist and are going to stay; some namespaces always stay."""

from typing import Final

from mooring.api.errors import Cause, Details, Forbidden, NotImplementedHere, not_found
from mooring.api.kinds import NAMESPACE
from mooring.server.admission.review import Review

#: Namespaces the cluster cannot do without.
IMMORTAL: Final = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})

_TERMINATING: Final = "Terminating"


async def require_namespace(review: Review) -> None:
    name = review.namespace
    namespace = await review.objects.view(NAMESPACE, "", name)
    if namespace is None:
        raise not_found(NAMESPACE.plural, name)
    if namespace.deleting or namespace.status.phase == _TERMINATING:
        cause = Cause("NamespaceTerminating", f"namespace {name} is being terminated", "metadata.namespace")
        raise review.forbidden(
            f"unable to create new content in namespace {name} because it is being terminated", cause
        )


def refuse_namespace_deletion(name: str) -> None:
    """Raises always: a namespace whose contents nobody removes must not go."""
    if name in IMMORTAL:
        raise Forbidden(
            f'namespaces "{name}" is forbidden: this namespace may not be deleted',
            details=Details(name=name, kind=NAMESPACE.plural),
        )
    raise NotImplementedHere(
        f'namespaces "{name}" cannot be deleted: this server does not remove the contents of a namespace yet; '
        "delete the objects in it instead",
        details=Details(name=name, kind=NAMESPACE.plural),
    )
