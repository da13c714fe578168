"""Delete one object, or begin to.

Where upstream first marks a pod and then removes it, a pod without grace and finalizers goes in one write here;
its watchers see one event less.
"""

from typing import Any, Final

import msgspec

from mooring.api.errors import Details, success
from mooring.api.kinds import (
    CLAIM,
    CSI_DRIVER,
    CSI_NODE,
    DEVICE_CLASS,
    NAMESPACE,
    POD,
    POD_TEMPLATE,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_QUOTA,
    RESOURCE_SLICE,
    SERVICE,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
    VOLUME,
    VOLUME_ATTACHMENT,
    VOLUME_ATTRIBUTES_CLASS,
    Kind,
)
from mooring.server.admission.namespace_lifecycle import refuse_immortal
from mooring.server.body import Body, meta
from mooring.server.contract import DeleteOptions, Target, Written
from mooring.server.deletion import Outcome, check_delete_options, check_preconditions, mark
from mooring.server.environment import Environment
from mooring.server.objects import Stored, retrying
from mooring.server.stamping import stamped, stored_form

#: Kinds whose deletion answers with the object that went; the others answer with a Status.
_ANSWERED_WITH_OBJECT: Final[frozenset[Kind[Any]]] = frozenset(
    {
        *(POD, CLAIM, VOLUME, NAMESPACE, SERVICE, SERVICE_ACCOUNT, POD_TEMPLATE, RESOURCE_QUOTA),
        *(STORAGE_CLASS, CSI_NODE, CSI_DRIVER, VOLUME_ATTACHMENT, VOLUME_ATTRIBUTES_CLASS),
        *(RESOURCE_SLICE, DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE),
    }
)


async def delete_object(environment: Environment, target: Target, options: DeleteOptions) -> Written:
    check_delete_options(options)

    async def attempt() -> Written:
        stored = await environment.objects.require(target)
        if target.kind is NAMESPACE:
            refuse_immortal(target.name)
        obj = stored.decode()
        check_preconditions(target, obj, options)
        outcome = mark(target, obj, options, environment.clock.now())
        return Written(await _carry_out(environment, target, stored, obj, outcome, dry_run=options.dry_run))

    return await retrying(target, attempt)


async def _carry_out(
    environment: Environment, target: Target, stored: Stored, obj: Body, outcome: Outcome, *, dry_run: bool
) -> bytes:
    kind, revision = target.kind, stored.record.revision
    match outcome:
        case Outcome.UNCHANGED:
            return stored.body
        case Outcome.MARKED:
            if not dry_run:
                return (await environment.objects.replace(stored, obj)).body
        case Outcome.GONE:
            if not dry_run:
                revision = await environment.objects.remove(stored)
            if kind not in _ANSWERED_WITH_OBJECT:
                return _status(kind, obj)
    return stamped(kind, stored_form(kind, obj), revision)


def _status(kind: Kind[Any], obj: Body) -> bytes:
    """kubectl waits for the very object it deleted, so the answer says which that was."""
    details = Details(name=meta(obj)["name"], group=kind.group, kind=kind.plural, uid=meta(obj)["uid"])
    return msgspec.json.encode(success(details))
