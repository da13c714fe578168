"""Objects are created only in namespaces that exist and are going to stay; some namespaces always stay."""

from typing import Final

from mooring.api import keys
from mooring.api.errors import Cause, Details, Forbidden, not_found
from mooring.api.kinds import NAMESPACE
from mooring.server.admission.review import Review

#: Namespaces the cluster cannot do without. Upstream lets `kube-node-lease` go, because it makes it again at once.
IMMORTAL: Final = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})


async def require_namespace(review: Review) -> None:
    name = review.namespace
    namespace = await review.objects.view(NAMESPACE, "", name)
    if namespace is None:
        raise not_found(NAMESPACE.plural, name)
    if namespace.deleting:
        cause = Cause("NamespaceTerminating", f"namespace {name} is being terminated", "metadata.namespace")
        raise review.forbidden(
            f"unable to create new content in namespace {name} because it is being terminated", cause
        )


async def hold_until_empty(review: Review) -> None:
    """A namespace is created with a hold that only the `finalize` subresource lifts, once its contents are gone."""
    holders = review.new["spec"].setdefault("finalizers", [])
    if keys.NAMESPACE_CONTENTS not in holders:
        holders.append(keys.NAMESPACE_CONTENTS)


def refuse_immortal(name: str) -> None:
    if name in IMMORTAL:
        raise Forbidden(
            f'namespaces "{name}" is forbidden: this namespace may not be deleted',
            details=Details(name=name, kind=NAMESPACE.plural),
        )
