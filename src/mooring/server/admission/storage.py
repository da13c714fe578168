"""Storage: the default class, protection of claims and volumes in use, and who may grow.

Upstream these are DefaultStorageClass, StorageObjectInUseProtection and PersistentVolumeClaimResize. The finalizers
added here are taken off again by the protection controller, once nothing uses the object.
"""

from collections.abc import Iterable

from mooring.api import quantity
from mooring.api.keys import DEFAULT_CLASS, DEFAULT_CLASS_BETA, PV_PROTECTION, PVC_PROTECTION, STORAGE_CLASS_BETA
from mooring.api.kinds import CLAIM, STORAGE_CLASS
from mooring.api.views.storage import StorageClass
from mooring.server.admission.review import Review
from mooring.server.body import Body, meta, part


async def choose_default_class(review: Review) -> None:
    """A claim that names no class gets the default one; naming the empty class counts as naming one."""
    spec = review.new["spec"]
    if "storageClassName" in spec or STORAGE_CLASS_BETA in part(meta(review.new), "annotations"):
        return
    if name := default_class(await review.objects.views(STORAGE_CLASS)):
        spec["storageClassName"] = name


def default_class(classes: Iterable[StorageClass]) -> str:
    """The newest class that is marked as the default, by name where they are equally old; "" where none is."""
    marked = [c for c in classes if _is_default(c.metadata.annotations)]
    if not marked:
        return ""
    newest = max(c.metadata.creation_timestamp or "" for c in marked)
    return min(c.name for c in marked if (c.metadata.creation_timestamp or "") == newest)


def _is_default(annotations: dict[str, str]) -> bool:
    return annotations.get(DEFAULT_CLASS) == "true" or annotations.get(DEFAULT_CLASS_BETA) == "true"


async def protect(review: Review) -> None:
    finalizer = PVC_PROTECTION if review.kind is CLAIM else PV_PROTECTION
    finalizers = meta(review.new).setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)


async def warn_of_fraction(review: Review) -> None:
    """Storage comes in whole bytes; upstream accepts other amounts and says so."""
    request = part(review.new, "spec", "resources", "requests").get("storage", "0")
    if quantity.parse(request) % quantity.NANOS_PER_UNIT:
        review.warnings.append(
            f'spec.resources.requests[storage]: fractional byte value "{request}" is invalid, must be an integer'
        )


async def check_growth(review: Review) -> None:
    """A claim may ask for more only where its class says that volumes can grow."""
    if review.old is None or _request(review.new) <= _request(review.old):
        return
    legacy = part(meta(review.new), "annotations").get(STORAGE_CLASS_BETA)
    name = part(review.new, "spec").get("storageClassName", "") if legacy is None else legacy
    storage_class = await review.objects.view(STORAGE_CLASS, "", name) if name else None
    if storage_class is None or not storage_class.allow_volume_expansion:
        raise review.forbidden(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
            "support resize"
        )
    review.warnings.append(
        "spec.resources.requests[storage]: this server resizes no volumes; the claim keeps its size until a resizer "
        "that you run expands it"
    )


def _request(claim: Body) -> quantity.Quantity:
    return quantity.parse(part(claim, "spec", "resources", "requests").get("storage", "0"))
