"""Status of PodDisruptionBudgets. Pure. Granted evictions that are not observed yet count as disrupted."""

from collections.abc import Collection
from typing import Final, NamedTuple

from mooring.api import selectors, times
from mooring.api.documents import Body
from mooring.api.views.pods import Pod
from mooring.api.views.workloads import DisruptionBudget
from mooring.controllers.workloads import pod_rules

#: After which a granted eviction that did not happen is ignored, as upstream.
DISRUPTION_SECONDS: Final = 120.0


class Expected(NamedTuple):
    """Number of pods that their controllers request, or why it is unknown."""

    number: int
    problem: str = ""


def covers(budget: DisruptionBudget, pod: Pod) -> bool:
    if budget.namespace != pod.namespace:
        return False
    return selectors.label_selector_from_view(budget.spec.selector).matches(pod.metadata.labels)


def needs_owners(budget: DisruptionBudget) -> bool:
    """Whether the desired number depends on the replicas of the pods' controllers."""
    spec = budget.spec
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def desired(budget: DisruptionBudget, expected: int) -> int:
    """Healthy pods that must remain."""
    spec = budget.spec
    if spec.max_unavailable is not None:
        return max(expected - pod_rules.resolve_int_or_percent(spec.max_unavailable, expected, up=True, default=0), 0)
    return pod_rules.resolve_int_or_percent(spec.min_available, expected, up=True, default=0)


def status(budget: DisruptionBudget, pods: Collection[Pod], expected: Expected, *, now: float) -> Body:
    """`pods` are those the budget selects."""
    counted = [pod for pod in pods if not pod.finished]
    staying = {pod.name for pod in counted if not pod.deleting}
    # Evictions granted for pods that are not being deleted yet.
    disrupted = {
        name: granted
        for name, granted in budget.status.disrupted_pods.items()
        if name in staying and now - times.from_time(granted) < DISRUPTION_SECONDS
    }
    healthy = sum(pod.ready and not pod.deleting and pod.name not in disrupted for pod in counted)
    needed = desired(budget, expected.number)
    allowed = 0 if expected.problem or expected.number <= 0 else max(healthy - needed, 0)
    return {
        "observedGeneration": budget.metadata.generation,
        "currentHealthy": healthy,
        "desiredHealthy": needed,
        "expectedPods": expected.number,
        "disruptionsAllowed": allowed,
        "disruptedPods": disrupted,
        "conditions": [_condition(budget, allowed, expected.problem, now)],
    }


def next_expiry(budget: DisruptionBudget, *, now: float) -> float | None:
    """Seconds until the next granted eviction expires."""
    left = [times.from_time(granted) + DISRUPTION_SECONDS - now for granted in budget.status.disrupted_pods.values()]
    return max(min(left), 1.0) if left else None


def _condition(budget: DisruptionBudget, allowed: int, problem: str, now: float) -> Body:
    word = "True" if allowed > 0 else "False"
    reason = "SyncFailed" if problem else "SufficientPods" if allowed > 0 else "InsufficientPods"
    condition = pod_rules.condition_body(
        budget.status.conditions, "DisruptionAllowed", word, reason, problem, date=times.to_time(now)
    )
    return condition | {"observedGeneration": budget.metadata.generation}


def status_patch(budget: DisruptionBudget, desired_status: Body) -> Body:
    """The status as a merge patch: disruptedPods to remove are null."""
    over = dict.fromkeys(budget.status.disrupted_pods)
    return {**desired_status, "disruptedPods": {**over, **desired_status["disruptedPods"]}}
