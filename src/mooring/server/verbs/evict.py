"""Evict: delete a pod gracefully, and say on the pod that somebody wanted it gone.

What `kubectl drain` asks for instead of a plain delete, so that a disruption budget may refuse. As upstream, up to
three writes: the budget's count, then the condition, so that watchers of the pod see why it goes, then the deletion.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

from mooring.api.errors import BadRequest, Conflict, success
from mooring.api.kinds import POD
from mooring.server import disruption_budgets
from mooring.server.body import Body, meta
from mooring.server.contract import DeleteOptions, Target, WriteOptions, Written
from mooring.server.decoding import Undecodable, decode
from mooring.server.delete_options import checked, from_body
from mooring.server.deletion import check_preconditions
from mooring.server.environment import Environment
from mooring.server.objects import retrying
from mooring.server.system_fields import place
from mooring.server.verbs.create import CREATED
from mooring.server.verbs.delete import delete_object

_KIND: Final = "Eviction"
#: The second is what clients older than Kubernetes 1.22 send.
_API_VERSIONS: Final = ("policy/v1", "policy/v1beta1")
_CONDITION: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


async def evict_pod(
    environment: Environment, target: Target, body: Mapping[str, Any], options: WriteOptions
) -> Written:
    """`target` is the pod."""
    eviction, warnings = await environment.run(partial(_read, target, body, options), options.body_bytes)
    deletion = _deletion(eviction, options)
    pod = POD.decode((await environment.objects.require(target)).body)
    budget = ""
    if not disruption_budgets.is_exempt(pod):
        budget = await disruption_budgets.ask(environment, pod, dry_run=deletion.dry_run)
    if not budget:
        await _disturb(environment, target, deletion)
    else:
        await _disturb_unhealthy(environment, target, deletion, pod.metadata.resource_version, budget)
    return Written(msgspec.json.encode(success(code=CREATED)), CREATED, warnings)


async def _disturb_unhealthy(
    environment: Environment, target: Target, deletion: DeleteOptions, version: str, budget: str
) -> None:
    """The budget lets this pod go because it is not healthy: if it changes, the budget is to be asked again."""
    bound = msgspec.structs.replace(deletion, resource_version=deletion.resource_version or version)
    try:
        await _disturb(environment, target, bound)
    except Conflict:
        if deletion.resource_version:
            raise
        raise disruption_budgets.being_processed(budget) from None


async def _disturb(environment: Environment, target: Target, deletion: DeleteOptions) -> None:
    async def announce() -> DeleteOptions:
        """The deletion to go on with: of this very pod, and of this version of it if one was asked for."""
        stored = await environment.objects.require(target)
        pod = stored.decode()
        check_preconditions(target, pod, deletion)
        if not deletion.dry_run and _disrupt(pod, environment.now()):
            stored = await environment.objects.replace(stored, pod)
        version = stored.version if deletion.resource_version else ""
        return msgspec.structs.replace(deletion, uid=meta(pod)["uid"], resource_version=version)

    await delete_object(environment, target, await retrying(target, announce))


def _read(target: Target, body: Mapping[str, Any], options: WriteOptions) -> tuple[Body, tuple[str, ...]]:
    version, kind = body.get("apiVersion") or _API_VERSIONS[0], body.get("kind") or _KIND
    refusal = f'{kind} in version "{str(version).rpartition("/")[2]}" cannot be handled as a {_KIND}'
    if kind != _KIND or version not in _API_VERSIONS:
        raise BadRequest(f"{refusal}: an eviction is a {_KIND} of {' or '.join(_API_VERSIONS)}")
    try:
        eviction, warnings = decode(version, _KIND, body, options.field_validation)
    except Undecodable as problem:
        raise BadRequest(f"{refusal}: {problem}") from problem
    place(eviction, target)
    if meta(eviction).get("name") != target.name:
        raise BadRequest(f"name in URL does not match name in {_KIND} object")
    return eviction, warnings


def _deletion(eviction: Body, options: WriteOptions) -> DeleteOptions:
    """A dry run may be asked for in the query or in the body."""
    deletion = checked(from_body(eviction.get("deleteOptions", {})))
    return msgspec.structs.replace(deletion, dry_run=deletion.dry_run or options.dry_run)


def _disrupt(pod: Body, now: str) -> bool:
    """Puts the condition on the pod; False where it is there already."""
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    before: Body = next((row for row in conditions if row["type"] == _CONDITION["type"]), {})
    if before.items() >= _CONDITION.items():
        return False
    if not before:
        conditions.append(before)
    if before.get("status") != _CONDITION["status"]:
        before["lastTransitionTime"] = now
    before |= _CONDITION
    return True
