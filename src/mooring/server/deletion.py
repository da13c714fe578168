"""What deleting an object comes to: pure decisions over the object and the options, without the store.

grace (pods)  ─► it stays, with a moment by which it should be gone, until somebody deletes it without grace
finalizers    ─► it stays, marked, until the last of them is taken off; a namespace has some in its spec too
neither       ─► it goes
"""

import enum
from typing import Any, Final

import msgspec

from mooring.api.errors import Conflict, Details, conflict, invalid
from mooring.api.field_errors import unsupported
from mooring.api.keys import FOREGROUND_DELETION, ORPHAN_DEPENDENTS
from mooring.api.kinds import NAMESPACE, POD, REPLICATION_CONTROLLER, Kind
from mooring.api.timestamps import from_time, to_time
from mooring.server.body import Body, finalizers, is_deleting, meta, part
from mooring.server.contract import DeleteOptions, Target

FOREGROUND: Final = "Foreground"
BACKGROUND: Final = "Background"
ORPHAN: Final = "Orphan"

#: The phase of a namespace that is being deleted.
TERMINATING: Final = "Terminating"

#: Seconds of grace that count for the moment by which a pod should be gone, a century: what is asked for has 64 bits.
_LONGEST_GRACE: Final = 100 * 365 * 24 * 3600

_DEPENDENT_FINALIZERS: Final = {FOREGROUND: FOREGROUND_DELETION, ORPHAN: ORPHAN_DEPENDENTS}


class Outcome(enum.Enum):
    """What is left of an object after a delete."""

    #: Nothing; it can be removed at once.
    GONE = "gone"
    #: The object, changed: it waits for its grace or its finalizers.
    MARKED = "marked"
    #: The object as it was: it is on its way out already, and this delete asks for nothing sooner.
    UNCHANGED = "unchanged"


def check_delete_options(options: DeleteOptions) -> None:
    if options.propagation not in ("", FOREGROUND, BACKGROUND, ORPHAN):
        choices = (FOREGROUND, BACKGROUND, ORPHAN, "nil")
        cause = unsupported("propagationPolicy", options.propagation, choices)
        raise invalid("DeleteOptions", "", [cause], group="meta.k8s.io")


def check_preconditions(target: Target, obj: Body, options: DeleteOptions) -> None:
    """The texts name the Kind, not the plural: upstream's habit for deletions."""
    uid, version = meta(obj)["uid"], meta(obj)["resourceVersion"]
    if options.uid and options.uid != uid:
        what, asked, found, guess = "UID", options.uid, uid, "deleted and then recreated"
    elif options.resource_version and options.resource_version != version:
        what, asked, found, guess = "ResourceVersion", options.resource_version, version, "modified"
    else:
        return
    kind, name = target.kind.stored_as or target.kind, meta(obj)["name"]
    if kind is NAMESPACE:
        # Upstream deletes namespaces by a path of their own, with words of its own.
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


def mark(target: Target, obj: Body, options: DeleteOptions, now: float) -> Outcome:
    """Changes the object into what a delete at `now` makes of it, and says what that is."""
    if target.kind is NAMESPACE:
        return _mark_namespace(obj, options, now)
    before = {**meta(obj)}
    if target.kind is POD and not _shorten_grace(obj, options, now):
        return Outcome.UNCHANGED
    if target.kind is REPLICATION_CONTROLLER and not options.propagation:
        # The one kind whose dependents stay unless somebody says otherwise: it is older than garbage collection.
        options = msgspec.structs.replace(options, propagation=ORPHAN)
    _choose_dependents_fate(obj, options)
    if not is_held(target.kind, obj):
        return Outcome.GONE
    if not is_deleting(obj):
        _begin(obj, to_time(now), 0)
    return Outcome.UNCHANGED if meta(obj) == before else Outcome.MARKED


def is_held(kind: Kind[Any], obj: Body) -> bool:
    """Whether an object that is to go has to stay: for a finalizer, or for grace that still runs."""
    if kind is NAMESPACE and part(obj, "spec").get("finalizers"):
        return True
    return bool(finalizers(obj) or meta(obj).get("deletionGracePeriodSeconds"))


def _mark_namespace(namespace: Body, options: DeleteOptions, now: float) -> Outcome:
    """Its phase tells that it goes, which closes it to newcomers. As upstream, nothing is said of grace, and asking
    again changes nothing."""
    if is_deleting(namespace):
        return Outcome.UNCHANGED
    _choose_dependents_fate(namespace, options)
    meta(namespace)["deletionTimestamp"] = to_time(now)
    namespace["status"]["phase"] = TERMINATING
    return Outcome.MARKED if is_held(NAMESPACE, namespace) else Outcome.GONE


def _shorten_grace(pod: Body, options: DeleteOptions, now: float) -> bool:
    """Gives a pod its time to end; False where it already has no more than that."""
    metadata = meta(pod)
    if not is_deleting(pod):
        grace = _grace(pod, options)
        _begin(pod, to_time(now + min(grace, _LONGEST_GRACE)), grace)
        return True
    current = metadata.get("deletionGracePeriodSeconds", 0)
    if current == 0:
        return True
    wanted = _asked(options, otherwise=current)
    if wanted >= current:
        return False
    begun = from_time(metadata["deletionTimestamp"]) - min(current, _LONGEST_GRACE)
    metadata["deletionTimestamp"] = to_time(begun + min(wanted, _LONGEST_GRACE))
    metadata["deletionGracePeriodSeconds"] = wanted
    return True


def _grace(pod: Body, options: DeleteOptions) -> int:
    """Nobody has to be given time where nothing runs."""
    spec = part(pod, "spec")
    if not spec.get("nodeName") or part(pod, "status").get("phase") in ("Succeeded", "Failed"):
        return 0
    return _asked(options, otherwise=spec["terminationGracePeriodSeconds"])


def _asked(options: DeleteOptions, *, otherwise: int) -> int:
    """Upstream reads a negative grace as the shortest there is."""
    if options.grace_seconds is None:
        return otherwise
    return 1 if options.grace_seconds < 0 else options.grace_seconds


def _begin(obj: Body, moment: str, grace: int) -> None:
    metadata = meta(obj)
    metadata["deletionTimestamp"] = moment
    metadata["deletionGracePeriodSeconds"] = grace
    if "generation" in metadata:
        metadata["generation"] += 1


def _choose_dependents_fate(obj: Body, options: DeleteOptions) -> None:
    """The policy says which of the two finalizers for the garbage collector there is; no policy leaves them be."""
    if not options.propagation:
        return
    kept = [name for name in finalizers(obj) if name not in _DEPENDENT_FINALIZERS.values()]
    if (wanted := _DEPENDENT_FINALIZERS.get(options.propagation)) is not None:
        kept.append(wanted)
    if set(kept) == set(finalizers(obj)):
        return
    meta(obj)["finalizers"] = kept
    if not kept:
        del meta(obj)["finalizers"]
