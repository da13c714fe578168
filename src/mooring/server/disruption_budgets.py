"""Whether a PodDisruptionBudget lets a pod be evicted, and the mark on the budget that one more was.

The disruption controller keeps a budget's status; evictions between two of its rounds are counted here, by taking
one off `disruptionsAllowed` and noting the pod, so that two evictions cannot both have the last one.
"""

from typing import Final

from mooring.api import label_selector
from mooring.api.errors import Cause, Details, Forbidden, TooManyRequests, Unexplained
from mooring.api.kinds import DISRUPTION_BUDGET
from mooring.api.views.disruption import DisruptionBudget
from mooring.api.views.pod import Pod
from mooring.server.body import Body
from mooring.server.contract import Target
from mooring.server.environment import Environment
from mooring.server.objects import Stored, retrying

#: Evictions the controller has not confirmed yet; upstream's bound.
_MAX_UNCONFIRMED: Final = 2000
_RETRY_SECONDS: Final = 10
_REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_CONDITION: Final = "DisruptionAllowed"


def is_exempt(pod: Pod) -> bool:
    """A pod that does not run, or is going, is not missed."""
    return pod.status.phase in ("Pending", "Succeeded", "Failed") or pod.deleting


async def ask(environment: Environment, pod: Pod, *, dry_run: bool) -> str:
    """Raises TooManyRequests where the budget forbids it. The name of the budget where the permission holds only while
    the pod stays as unhealthy as it is, "" otherwise."""
    budgets = [stored for stored in await _budgets(environment, pod.namespace) if _covers(stored, pod)]
    if not budgets:
        return ""
    if len(budgets) > 1:
        raise Unexplained(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    budget = _read(budgets[0])
    if not pod.ready and _lets_the_unhealthy_go(budget):
        return budget.name
    target = Target(DISRUPTION_BUDGET, pod.namespace, budget.name)

    async def attempt() -> None:
        stored = await environment.objects.require(target)
        _check(_read(stored))
        if not dry_run:
            await environment.objects.replace(stored, _counted(stored.decode(), pod.name, environment.now()))

    await retrying(target, attempt)
    return ""


def being_processed(budget: str) -> TooManyRequests:
    """The budget, or what it was asked about, changed meanwhile: ask again."""
    return _refusal(f"The disruption budget {budget} is still being processed by the server.", _RETRY_SECONDS)


async def _budgets(environment: Environment, namespace: str) -> list[Stored]:
    listing = await environment.objects.list(DISRUPTION_BUDGET, namespace)
    return [Stored(DISRUPTION_BUDGET, record) for record in listing.records]


def _read(stored: Stored) -> DisruptionBudget:
    return DISRUPTION_BUDGET.decode(stored.record.value)


def _covers(stored: Stored, pod: Pod) -> bool:
    selector = _read(stored).spec.selector
    if selector is None:
        return False
    try:
        chosen = label_selector.from_view(selector.match_labels, selector.match_expressions)
    except label_selector.SelectorError:
        return False
    return chosen.matches(pod.metadata.labels)


def _lets_the_unhealthy_go(budget: DisruptionBudget) -> bool:
    if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        return True
    return budget.status.current_healthy >= budget.status.desired_healthy > 0


def _check(budget: DisruptionBudget) -> None:
    status = budget.status
    if status.observed_generation < budget.metadata.generation:
        raise being_processed(budget.name)
    if status.disruptions_allowed < 0:
        raise _forbidden(budget.name, "pdb disruptions allowed is negative")
    if len(status.disrupted_pods) > _MAX_UNCONFIRMED:
        raise _forbidden(budget.name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller")
    if status.disruptions_allowed == 0:
        raise _refusal(_why(budget))


def _why(budget: DisruptionBudget) -> str:
    name, status = budget.name, budget.status
    said = next((c for c in status.conditions if c.type == _CONDITION and c.status == "False" and c.message), None)
    if said is not None and said.reason == "SyncFailed":
        return (
            f"The disruption budget {name} does not allow evicting pods currently because it failed sync: "
            f"{said.message}"
        )
    if status.current_healthy <= status.desired_healthy:
        wanted, there = status.desired_healthy, status.current_healthy
        return f"The disruption budget {name} needs {wanted} healthy pods and has {there} currently"
    if said is not None:
        return f"The disruption budget {name} does not allow evicting pods currently ({said.reason}): {said.message}"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _counted(budget: Body, pod: str, now: str) -> Body:
    status = budget["status"]
    status["disruptionsAllowed"] -= 1
    status["disruptedPods"] = status.get("disruptedPods", {}) | {pod: now}
    if status["disruptionsAllowed"] == 0:
        _exhaust(status, budget["metadata"].get("generation", 0), now)
    return budget


def _exhaust(status: Body, generation: int, now: str) -> None:
    conditions = status.setdefault("conditions", [])
    condition: Body = next((row for row in conditions if row["type"] == _CONDITION), {})
    if not condition:
        conditions.append(condition)
    if condition.get("status") != "False":
        condition["lastTransitionTime"] = now
    condition |= {
        "type": _CONDITION,
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "observedGeneration": generation,
    }


def _refusal(why: str, retry_after: int = 0) -> TooManyRequests:
    details = Details(causes=(Cause("DisruptionBudget", why),), retry_after_seconds=retry_after)
    return TooManyRequests(_REFUSED, details=details)


def _forbidden(name: str, why: str) -> Forbidden:
    return Forbidden(
        f'poddisruptionbudget.policy "{name}" is forbidden: {why}',
        details=Details(name=name, group="policy", kind="poddisruptionbudget"),
    )
