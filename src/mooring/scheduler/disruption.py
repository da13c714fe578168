"""Which pods a disruption budget protects right now: preemption tries to spare them first. Pure.

Budgets are kept by whoever counts pods (the API's `status.disruptionsAllowed`); here they are only read.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from mooring.api.label_selector import LabelSelector, SelectorError, from_view
from mooring.api.selector_index import SelectorIndex
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
        self._selectors: SelectorIndex[str] = SelectorIndex()

    def observe(self, before: DisruptionBudget | None, after: DisruptionBudget | None) -> str:
        """Answers with why a budget cannot be kept, "" in the normal case."""
        for one in (before, after):
            if one is not None:
                self._budgets.pop(one.key, None)
                self._selectors.remove(one.key)
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
            self._selectors.put(after.key, selector)
        return ""

    def overdrawn(self, pods: Sequence[Pod]) -> list[bool]:
        """Of each pod, whether its leaving would overdraw a budget, all those before it having left."""
        if not self._budgets:
            return [False] * len(pods)
        taken: Counter[str] = Counter()
        return [self._overdraws(pod, taken) for pod in pods]

    def _overdraws(self, pod: Pod, taken: Counter[str]) -> bool:
        overdraws = False
        for key in self._selectors.candidates(pod.metadata.labels):
            budget = self._budgets[key]
            if budget.protects(pod):
                taken[key] += 1
                overdraws |= taken[key] > budget.allowed
        return overdraws
