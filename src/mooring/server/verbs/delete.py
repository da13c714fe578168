"""Delete an object, delete a collection, and evict a pod subject to PodDisruptionBudgets.

kube-apiserver first marks a pod and then removes it; here a pod without grace period and finalizers is removed in one
write, so that watchers get one event less. As in kube-apiserver, an eviction is up to three writes: the count in the
budget's status, the DisruptionTarget condition of the pod, and the deletion. Counting in the budget between two syncs
of the disruption controller keeps two evictions from both taking the last allowed disruption.
"""

from functools import partial
from typing import Any, Final

import msgspec

from mooring.api import errors, selectors
from mooring.api.documents import Body
from mooring.api.kinds import DISRUPTION_BUDGET, NAMESPACE, POD, Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.workloads import DisruptionBudget
from mooring.server.admission.chain import protect_system_namespaces
from mooring.server.contract import DeleteOptions, ListOptions, Page, SentBody, Target, WriteOptions, Written
from mooring.server.decoding import Decoded, cannot_be_handled, read_as
from mooring.server.encoding import meta, stored_form, with_resource_version
from mooring.server.environment import RequestContext
from mooring.server.kinds.registry import rules_of
from mooring.server.objects import Stored, retry_on_conflict
from mooring.server.system_fields import set_namespace
from mooring.server.verbs.deletion import (
    DeletionResult,
    begin_deletion,
    check_delete_options,
    check_preconditions,
    checked_delete_options,
    decode_delete_request,
)
from mooring.server.verbs.read import list_objects
from mooring.server.verbs.write import CREATED

#: Evictions that the disruption controller has not confirmed yet; kube-apiserver's bound.
_MAX_UNCONFIRMED: Final = 2000
_RETRY_SECONDS: Final = 10
_REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_BUDGET_CONDITION: Final = "DisruptionAllowed"


def is_exempt_from_budgets(pod: Pod) -> bool:
    """Whether a pod can be evicted without a budget: it is not running, or terminating."""
    return pod.status.phase in ("Pending", "Succeeded", "Failed") or pod.deleting


async def count_disruption(context: RequestContext, pod: Pod, *, dry_run: bool) -> str:
    """Raises TooManyRequests if the budget does not allow it. Returns the budget's name if it is allowed only while the
    pod stays unhealthy, else ""."""
    listed = await context.objects.views(DISRUPTION_BUDGET, pod.namespace)
    budgets = [budget for budget in listed if _covers(budget, pod)]
    if not budgets:
        return ""
    if len(budgets) > 1:
        raise errors.UnknownError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    budget = budgets[0]
    if not pod.ready and _allows_unhealthy_eviction(budget):
        return budget.name
    target = Target(DISRUPTION_BUDGET, pod.namespace, budget.name)

    async def attempt() -> None:
        stored = await context.objects.require(target)
        _require_disruption_allowed(DISRUPTION_BUDGET.decode(stored.record.value))
        if not dry_run:
            await context.objects.replace(stored, _with_disruption(stored.decode(), pod.name, context.now()))

    await retry_on_conflict(target, attempt)
    return ""


def budget_being_processed(budget: str) -> errors.TooManyRequests:
    """For a budget or pod that changed during the eviction."""
    return _refusal(f"The disruption budget {budget} is still being processed by the server.", _RETRY_SECONDS)


def _covers(budget: DisruptionBudget, pod: Pod) -> bool:
    try:
        selector = selectors.label_selector_from_view(budget.spec.selector)
    except selectors.SelectorError:
        return False
    return selector.matches(pod.metadata.labels)


def _allows_unhealthy_eviction(budget: DisruptionBudget) -> bool:
    if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        return True
    return budget.status.current_healthy >= budget.status.desired_healthy > 0


def _require_disruption_allowed(budget: DisruptionBudget) -> None:
    status = budget.status
    if status.observed_generation < budget.metadata.generation:
        raise budget_being_processed(budget.name)
    if status.disruptions_allowed < 0:
        why = "pdb disruptions allowed is negative"
        raise _forbidden(budget.name, why, why)
    if len(status.disrupted_pods) > _MAX_UNCONFIRMED:
        why = "too many evictions not confirmed by PDB controller"
        cause = "too many pending evictions not confirmed by PDB controller"
        raise _forbidden(budget.name, f"DisruptedPods map too big - {why}", cause)
    if status.disruptions_allowed == 0:
        raise _refusal(_insufficient_pods_message(budget))


def _insufficient_pods_message(budget: DisruptionBudget) -> str:
    name, status = budget.name, budget.status
    condition = next(
        (c for c in status.conditions if c.type == _BUDGET_CONDITION and c.status == "False" and c.message), None
    )
    if condition is not None and condition.reason == "SyncFailed":
        return (
            f"The disruption budget {name} does not allow evicting pods currently because it failed sync: "
            f"{condition.message}"
        )
    if status.current_healthy <= status.desired_healthy:
        desired, current = status.desired_healthy, status.current_healthy
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    if condition is not None:
        return (
            f"The disruption budget {name} does not allow evicting pods currently ({condition.reason}): "
            f"{condition.message}"
        )
    return f"The disruption budget {name} does not allow evicting pods currently"


def _with_disruption(budget: Body, pod: str, now: str) -> Body:
    status = budget["status"]
    status["disruptionsAllowed"] -= 1
    status["disruptedPods"] = status.get("disruptedPods", {}) | {pod: now}
    if status["disruptionsAllowed"] == 0:
        condition = {
            "type": _BUDGET_CONDITION,
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
            "observedGeneration": meta(budget).get("generation", 0),
        }
        _set_condition(status, condition, now)
    return budget


def _set_condition(status: Body, condition: Body, now: str) -> bool:
    """Sets a condition of an object's status; False if it is set already."""
    conditions = status.setdefault("conditions", [])
    before: Body = next((row for row in conditions if row["type"] == condition["type"]), {})
    if before.items() >= condition.items():
        return False
    if not before:
        conditions.append(before)
    if before.get("status") != condition["status"]:
        before["lastTransitionTime"] = now
    before |= condition
    return True


#: The reason of a cause that names a budget.
_CAUSE: Final = "DisruptionBudget"


def _refusal(why: str, retry_after: int = 0) -> errors.TooManyRequests:
    details = errors.Details(causes=(errors.Cause(_CAUSE, why),), retry_after_seconds=retry_after)
    return errors.TooManyRequests(_REFUSED, details=details)


def _forbidden(name: str, why: str, cause: str) -> errors.Forbidden:
    causes = (errors.Cause(_CAUSE, f"The disruption budget {name} does not allow evicting pods currently: {cause}"),)
    return errors.Forbidden(
        f'poddisruptionbudget.policy "{name}" is forbidden: {why}',
        details=errors.Details(name=name, group="policy", kind="poddisruptionbudget", causes=causes),
    )


async def delete_object(context: RequestContext, target: Target, options: DeleteOptions) -> Written:
    check_delete_options(options)

    async def attempt() -> Written:
        stored = await context.objects.require(target)
        if target.kind is NAMESPACE:
            protect_system_namespaces(target.name)
        obj = stored.decode()
        check_preconditions(target, obj, options)
        result = begin_deletion(target, obj, options, context.clock.now())
        return Written(await _write_result(context, target, stored, obj, result, dry_run=options.dry_run))

    return await retry_on_conflict(target, attempt)


async def _write_result(
    context: RequestContext, target: Target, stored: Stored, obj: Body, result: DeletionResult, *, dry_run: bool
) -> bytes:
    kind, revision = target.kind, stored.record.revision
    match result:
        case DeletionResult.UNCHANGED:
            return stored.body
        case DeletionResult.TERMINATING:
            if not dry_run:
                return (await context.objects.replace(stored, obj)).body
        case DeletionResult.REMOVED:
            if not dry_run:
                revision = await context.objects.remove(stored)
            if not rules_of(kind).deletion_returns_object:
                return _status(kind, obj)
    return with_resource_version(kind, stored_form(kind, obj), revision)


def _status(kind: Kind[Any], obj: Body) -> bytes:
    """With the uid, because kubectl waits for the deletion of this object."""
    details = errors.Details(name=meta(obj)["name"], group=kind.group, kind=kind.plural, uid=meta(obj)["uid"])
    return msgspec.json.encode(errors.success(details))


_decode = msgspec.json.Decoder(ApiObject).decode


async def delete_objects(
    context: RequestContext, target: Target, selection: ListOptions, options: DeleteOptions
) -> Page:
    """Deletes what a list with the same options returns, and returns it. Objects deleted meanwhile are skipped; a limit
    is respected."""
    if "deletecollection" not in target.kind.verbs:
        raise errors.method_not_allowed()
    check_delete_options(options)
    page = await list_objects(context, target, selection)
    # A list at resourceVersion 0 ignores the limit.
    items = page.items[: selection.limit] if selection.limit > 0 else page.items
    for item in items:
        found = _decode(item)
        one = Target(target.kind, found.namespace, found.name)
        try:
            await delete_object(context, one, options)
        except errors.NotFound:
            continue
    return Page(items, page.resource_version, page.continue_token, page.remaining)


_KIND: Final = "Eviction"
#: v1beta1 is sent by clients older than Kubernetes 1.22.
_API_VERSIONS: Final = ("policy/v1", "policy/v1beta1")
_POD_CONDITION: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


async def evict_pod(context: RequestContext, target: Target, body: SentBody, options: WriteOptions) -> Written:
    """`target` is the pod."""
    eviction, warnings = await context.run(partial(_decode_eviction, target, body, options), options.body_bytes)
    deletion = checked_delete_options(decode_delete_request(eviction.get("deleteOptions", {})))
    # A dry run may be requested in the query or in the body.
    deletion = msgspec.structs.replace(deletion, dry_run=deletion.dry_run or options.dry_run)
    pod = POD.decode((await context.objects.require(target)).body)
    budget = ""
    if not is_exempt_from_budgets(pod):
        budget = await count_disruption(context, pod, dry_run=deletion.dry_run)
    if not budget:
        await _evict_once(context, target, deletion)
    else:
        await _evict_unhealthy(context, target, deletion, pod.metadata.resource_version, budget)
    return Written(msgspec.json.encode(errors.success(code=CREATED)), CREATED, warnings)


async def _evict_unhealthy(
    context: RequestContext, target: Target, deletion: DeleteOptions, version: str, budget: str
) -> None:
    """The budget allows this eviction because the pod is unhealthy: if the pod changes, the client has to retry."""
    bound = msgspec.structs.replace(deletion, resource_version=deletion.resource_version or version)
    try:
        await _evict_once(context, target, bound)
    except errors.Conflict:
        if deletion.resource_version:
            raise
        raise budget_being_processed(budget) from None


async def _evict_once(context: RequestContext, target: Target, deletion: DeleteOptions) -> None:
    async def announce() -> DeleteOptions:
        """The deletion of this pod by uid, and by its version if one was requested."""
        stored = await context.objects.require(target)
        pod = stored.decode()
        check_preconditions(target, pod, deletion)
        if not deletion.dry_run and _set_condition(pod.setdefault("status", {}), _POD_CONDITION, context.now()):
            stored = await context.objects.replace(stored, pod)
        version = stored.version if deletion.resource_version else ""
        return msgspec.structs.replace(deletion, uid=meta(pod)["uid"], resource_version=version)

    await delete_object(context, target, await retry_on_conflict(target, announce))


def _decode_eviction(target: Target, body: SentBody, options: WriteOptions) -> Decoded:
    version, kind = str(body.get("apiVersion") or _API_VERSIONS[0]), body.get("kind") or _KIND
    if kind != _KIND or version not in _API_VERSIONS:
        refusal = cannot_be_handled(str(kind), version, _KIND)
        raise errors.BadRequest(f"{refusal}: an eviction is a {_KIND} of {' or '.join(_API_VERSIONS)}")
    decoded = read_as(version, _KIND, body, options)
    set_namespace(decoded.obj, target)
    if meta(decoded.obj).get("name") != target.name:
        raise errors.BadRequest(f"name in URL does not match name in {_KIND} object")
    return decoded
