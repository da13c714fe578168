"""Which pods a disruption budget protects right now: preemption tries to spare them first. Pure.

Budgets are kept by whoever counts pods (the API's `status.disruptionsAllowed`); here they are only read.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mooring.api.label_selector import LabelSelector, SelectorError, from_view
from mooring.api.views.disruption import DisruptionBudget
from mooring.api.views.pod import Pod


class _Budget(NamedTuple):
    namespace: str
    selector: LabelSelector
    disrupted: frozenset[str]
    allowed: int

    def protects(self, pod: Pod) -> bool:
        """Pods whose eviction was granted already are past protecting."""
        return (
            pod.namespace == self.namespace
            and bool(pod.metadata.labels)
            and pod.name not in self.disrupted
            and self.selector.matches(pod.metadata.labels)
        )


class Budgets:
    """Disruption budgets by key."""

    def __init__(self) -> None:
        self._budgets: dict[str, _Budget] = {}

    def observe(self, before: DisruptionBudget | None, after: DisruptionBudget | None) -> str:
        """Answers with why a budget cannot be kept, "" in the normal case."""
        if before is not None:
            self._budgets.pop(before.key, None)
        if after is None or after.spec.selector is None:
            return ""
        view = after.spec.selector
        try:
            selector = from_view(view.match_labels, view.match_expressions)
        except SelectorError as problem:
            return str(problem)
        if selector.requirements:
            # One that selects everything protects nobody: kube-scheduler's reading.
            disrupted = frozenset(after.status.disrupted_pods)
            self._budgets[after.key] = _Budget(after.namespace, selector, disrupted, after.status.disruptions_allowed)
        return ""

    def split(self, pods: Sequence[Pod]) -> tuple[list[Pod], list[Pod]]:
        """The pods whose leaving would overdraw a budget, and the others, each in the given order."""
        left = {key: budget.allowed for key, budget in self._budgets.items()}
        overdrawn: list[Pod] = []
        others: list[Pod] = []
        for pod in pods:
            (overdrawn if self._overdraws(pod, left) else others).append(pod)
        return overdrawn, others

    def _overdraws(self, pod: Pod, left: dict[str, int]) -> bool:
        overdraws = False
        for key in self._protecting(pod):
            left[key] -= 1
            overdraws |= left[key] < 0
        return overdraws

    def _protecting(self, pod: Pod) -> Iterable[str]:
        return [key for key, budget in self._budgets.items() if budget.protects(pod)]
