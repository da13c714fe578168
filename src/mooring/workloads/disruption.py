"""How many pods of a budget may be taken away now: the status of PodDisruptionBudgets.

Pure. How many there should be follows from the owners of the pods, where the budget gives a share or a number that may
be missing; a number that must stay needs no owners. Evictions that were granted and not seen yet count as gone.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from mooring.api import timestamps
from mooring.api.views.disruption import DisruptionBudget
from mooring.api.views.pod import Pod
from mooring.workloads import shares

#: How long an eviction that was granted may take to be seen; upstream's.
DISRUPTION_SECONDS: Final = 120.0

Body = dict[str, Any]


class Expected(NamedTuple):
    """How many pods there should be, or why that cannot be said."""

    number: int
    problem: str = ""


def needs_owners(budget: DisruptionBudget) -> bool:
    """Whether the wanted number depends on how many pods their owners want."""
    spec = budget.spec
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def desired(budget: DisruptionBudget, expected: int) -> int:
    """How many healthy pods have to stay."""
    spec = budget.spec
    if spec.max_unavailable is not None:
        return max(expected - shares.resolved(spec.max_unavailable, expected, up=True, default=0), 0)
    return shares.resolved(spec.min_available, expected, up=True, default=0)


def status(budget: DisruptionBudget, pods: Collection[Pod], expected: Expected, *, now: float) -> Body:
    """`pods` are those the budget selects."""
    counted = [pod for pod in pods if not pod.finished]
    disrupted = _outstanding(budget, {pod.name: pod for pod in counted}, now)
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


def _outstanding(budget: DisruptionBudget, pods: Mapping[str, Pod], now: float) -> dict[str, str]:
    """Evictions granted for pods that are still there and not being deleted."""
    return {
        name: granted
        for name, granted in budget.status.disrupted_pods.items()
        if name in pods and not pods[name].deleting and now - timestamps.from_time(granted) < DISRUPTION_SECONDS
    }


def next_expiry(budget: DisruptionBudget, *, now: float) -> float | None:
    """Seconds until an eviction that was granted and never happened is forgotten."""
    left = [
        timestamps.from_time(granted) + DISRUPTION_SECONDS - now for granted in budget.status.disrupted_pods.values()
    ]
    return max(min(left), 1.0) if left else None


def _condition(budget: DisruptionBudget, allowed: int, problem: str, now: float) -> Body:
    word = "True" if allowed > 0 else "False"
    reason = "SyncFailed" if problem else "SufficientPods" if allowed > 0 else "InsufficientPods"
    before = next((c for c in budget.status.conditions if c.type == "DisruptionAllowed"), None)
    since = before.last_transition_time if before is not None and before.status == word else None
    return {
        "type": "DisruptionAllowed",
        "status": word,
        "reason": reason,
        "message": problem,
        "observedGeneration": budget.metadata.generation,
        "lastTransitionTime": since or timestamps.to_time(now),
    }


def change(budget: DisruptionBudget, wanted: Body) -> Body:
    """The merge patch from what the status says to what it should say: evictions that are over have to be named."""
    over = dict.fromkeys(budget.status.disrupted_pods)
    return {**wanted, "disruptedPods": {**over, **wanted["disruptedPods"]}}


def reported(budget: DisruptionBudget) -> Body:
    """What the status says now, in the form `status` gives."""
    said = budget.status
    return {
        "observedGeneration": said.observed_generation,
        "currentHealthy": said.current_healthy,
        "desiredHealthy": said.desired_healthy,
        "expectedPods": said.expected_pods,
        "disruptionsAllowed": said.disruptions_allowed,
        "disruptedPods": dict(said.disrupted_pods),
        "conditions": [
            {
                "type": c.type,
                "status": c.status,
                "reason": c.reason,
                "message": c.message,
                "observedGeneration": c.observed_generation,
                "lastTransitionTime": c.last_transition_time,
            }
            for c in said.conditions
        ],
    }
