"""DeleteOptions, and what a delete does to an object. Pure, without the store.

grace period (pods)  the object stays, with a deletionTimestamp, until a delete without grace period
finalizers           the object stays, terminating, until the last one is removed; of a namespace also in its spec
neither              the object is removed
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.api.documents import Body
from mooring.api.errors import BadRequest, Cause, Conflict, Details, Invalid, bad_value, conflict, invalid, unsupported
from mooring.api.kinds import NAMESPACE, POD, REPLICATION_CONTROLLER, Kind
from mooring.api.times import from_time, to_time
from mooring.api.well_known import FOREGROUND_DELETION, ORPHAN_DEPENDENTS
from mooring.server.contract import DeleteOptions, Target
from mooring.server.encoding import finalizers, is_deleting, meta, part

FOREGROUND: Final = "Foreground"
BACKGROUND: Final = "Background"
ORPHAN: Final = "Orphan"
_PROPAGATIONS: Final = (FOREGROUND, BACKGROUND, ORPHAN)
_DEPENDENT_FINALIZERS: Final = {FOREGROUND: FOREGROUND_DELETION, ORPHAN: ORPHAN_DEPENDENTS}

#: Phase of a namespace that is being deleted.
TERMINATING: Final = "Terminating"

#: Upper bound for computing deletionTimestamp, a century: clients may send any 64-bit number.
_MAX_GRACE_SECONDS: Final = 100 * 365 * 24 * 3600


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteRequest(msgspec.Struct, frozen=True, rename="camel"):
    """`meta/v1.DeleteOptions`: body or query of a DELETE, or part of an Eviction."""

    kind: str = "DeleteOptions"
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions | None = None
    dry_run: tuple[str, ...] | None = None


def decode_delete_request(body: Mapping[str, Any]) -> DeleteRequest:
    """Raises BadRequest if the body is not DeleteOptions."""
    try:
        asked = msgspec.convert(body, DeleteRequest)
    except msgspec.ValidationError as error:
        raise BadRequest(f"the body of a DELETE request must be DeleteOptions: {error}") from error
    if asked.kind not in ("", "DeleteOptions"):
        raise BadRequest(f'the body of a DELETE request must be DeleteOptions, not "{asked.kind}"')
    return asked


def checked_delete_options(asked: DeleteRequest) -> DeleteOptions:
    """Raises Invalid."""
    causes = dry_run_causes(asked.dry_run or ())
    policy, orphan = asked.propagation_policy, asked.orphan_dependents
    if policy is not None and orphan is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(bad_value("propagationPolicy", policy, why))
    if policy is not None and policy not in _PROPAGATIONS:
        causes.append(unsupported("propagationPolicy", policy, (*_PROPAGATIONS, "nil")))
    if causes:
        raise invalid_options("DeleteOptions", causes)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    must = asked.preconditions or Preconditions()
    return DeleteOptions(
        grace_seconds=asked.grace_period_seconds,
        propagation=policy or "",
        uid=must.uid or "",
        resource_version=must.resource_version or "",
        dry_run=bool(asked.dry_run),
    )


def dry_run_causes(values: Sequence[str]) -> list[Cause]:
    """`dryRun` has one valid value, in the options of every write."""
    return [] if set(values) <= {"All"} else [unsupported("dryRun", list(values), ["All"])]


def invalid_options(kind: str, causes: Sequence[Cause]) -> Invalid:
    """`kind` is that of the options, such as DeleteOptions."""
    return invalid(kind, "", causes, group="meta.k8s.io")


class DeletionResult(enum.Enum):
    """What a delete does to an object."""

    #: It can be removed from the store at once.
    REMOVED = "removed"
    #: It changed: it is terminating, until its grace period or its finalizers end.
    TERMINATING = "terminating"
    #: It was terminating before, and this delete does not shorten its grace period.
    UNCHANGED = "unchanged"


def check_delete_options(options: DeleteOptions) -> None:
    """Raises Invalid."""
    if options.propagation not in ("", *_PROPAGATIONS):
        cause = unsupported("propagationPolicy", options.propagation, (*_PROPAGATIONS, "nil"))
        raise invalid_options("DeleteOptions", [cause])


def check_preconditions(target: Target, obj: Body, options: DeleteOptions) -> None:
    """Raises Conflict. As in kube-apiserver, its messages for deletions name the Kind, not the resource."""
    uid, version = meta(obj)["uid"], meta(obj)["resourceVersion"]
    if options.uid and options.uid != uid:
        what, asked, found, guess = "UID", options.uid, uid, "deleted and then recreated"
    elif options.resource_version and options.resource_version != version:
        what, asked, found, guess = "ResourceVersion", options.resource_version, version, "modified"
    else:
        return
    kind, name = target.kind.stored_as or target.kind, meta(obj)["name"]
    if kind is NAMESPACE:
        # kube-apiserver's messages for namespaces are different.
        why = f"Precondition failed: {what} in precondition: {asked}, {what} in object meta: {found}"
        raise conflict(kind.plural, name, why)
    why = (
        f"the {what} in the precondition ({asked}) does not match the {what} in record ({found}). "
        f"The object might have been {guess}"
    )
    resource = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    raise Conflict(
        f'Operation cannot be fulfilled on {resource} "{name}": {why}',
        details=Details(name=name, group=kind.group, kind=kind.kind),
    )


def begin_deletion(target: Target, obj: Body, options: DeleteOptions, now: float) -> DeletionResult:
    """Changes the object as a delete at `now` does."""
    if target.kind is NAMESPACE:
        return _begin_namespace_deletion(obj, options, now)
    before = {**meta(obj)}
    if target.kind is POD and not _shorten_grace(obj, options, now):
        return DeletionResult.UNCHANGED
    if target.kind is REPLICATION_CONTROLLER and not options.propagation:
        # The only kind whose dependents are orphaned by default: it is older than garbage collection.
        options = msgspec.structs.replace(options, propagation=ORPHAN)
    _set_propagation_finalizer(obj, options)
    if not is_deletion_blocked(target.kind, obj):
        return DeletionResult.REMOVED
    if not is_deleting(obj):
        _begin(obj, to_time(now), 0)
    return DeletionResult.UNCHANGED if meta(obj) == before else DeletionResult.TERMINATING


def is_deletion_blocked(kind: Kind[Any], obj: Body) -> bool:
    """Whether a deleted object has to stay, for a finalizer or a running grace period."""
    if kind is NAMESPACE and part(obj, "spec").get("finalizers"):
        return True
    return bool(finalizers(obj) or meta(obj).get("deletionGracePeriodSeconds"))


def _begin_namespace_deletion(namespace: Body, options: DeleteOptions, now: float) -> DeletionResult:
    """The phase Terminating rejects new objects in the namespace. As in kube-apiserver, there is no grace period, and a
    second delete changes nothing."""
    if is_deleting(namespace):
        return DeletionResult.UNCHANGED
    _set_propagation_finalizer(namespace, options)
    meta(namespace)["deletionTimestamp"] = to_time(now)
    namespace["status"]["phase"] = TERMINATING
    return DeletionResult.TERMINATING if is_deletion_blocked(NAMESPACE, namespace) else DeletionResult.REMOVED


def _shorten_grace(pod: Body, options: DeleteOptions, now: float) -> bool:
    """Sets or shortens the grace period of a pod; False if it is as short already."""
    metadata = meta(pod)
    if not is_deleting(pod):
        grace = _grace(pod, options)
        _begin(pod, to_time(now + min(grace, _MAX_GRACE_SECONDS)), grace)
        return True
    current = metadata.get("deletionGracePeriodSeconds", 0)
    if current == 0:
        return True
    requested = _requested_grace(options, otherwise=current)
    if requested >= current:
        return False
    begun = from_time(metadata["deletionTimestamp"]) - min(current, _MAX_GRACE_SECONDS)
    metadata["deletionTimestamp"] = to_time(begun + min(requested, _MAX_GRACE_SECONDS))
    metadata["deletionGracePeriodSeconds"] = requested
    return True


def _grace(pod: Body, options: DeleteOptions) -> int:
    """0 for a pod without running containers."""
    spec = part(pod, "spec")
    if not spec.get("nodeName") or part(pod, "status").get("phase") in ("Succeeded", "Failed"):
        return 0
    return _requested_grace(options, otherwise=spec["terminationGracePeriodSeconds"])


def _requested_grace(options: DeleteOptions, *, otherwise: int) -> int:
    """As in kube-apiserver, a negative grace period means one second."""
    if options.grace_seconds is None:
        return otherwise
    return 1 if options.grace_seconds < 0 else options.grace_seconds


def _begin(obj: Body, moment: str, grace: int) -> None:
    metadata = meta(obj)
    metadata["deletionTimestamp"] = moment
    metadata["deletionGracePeriodSeconds"] = grace
    if "generation" in metadata:
        metadata["generation"] += 1


def _set_propagation_finalizer(obj: Body, options: DeleteOptions) -> None:
    """Adds the garbage collector's finalizer of the policy and removes the other; no policy changes nothing."""
    if not options.propagation:
        return
    kept = [name for name in finalizers(obj) if name not in _DEPENDENT_FINALIZERS.values()]
    if (finalizer := _DEPENDENT_FINALIZERS.get(options.propagation)) is not None:
        kept.append(finalizer)
    if set(kept) == set(finalizers(obj)):
        return
    meta(obj)["finalizers"] = kept
    if not kept:
        del meta(obj)["finalizers"]
