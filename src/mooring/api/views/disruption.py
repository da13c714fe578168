"""PodDisruptionBudgets: how many pods of a group may be taken away at once."""

from mooring.api.views.meta import ApiObject, Condition, LabelSelectorView, View


class DisruptionBudgetSpec(View, frozen=True, gc=False):
    #: Numbers or percentages of the pods that should be there; at most one of the two is set.
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    #: None selects nothing, an empty selector everything in the namespace.
    selector: LabelSelectorView | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetCondition(Condition, frozen=True, gc=False):
    observed_generation: int = 0


class DisruptionBudgetStatus(View, frozen=True, gc=False):
    observed_generation: int = 0
    #: Pods whose eviction was granted but not seen yet, by name, with the moment it was granted.
    disrupted_pods: dict[str, str] = {}
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[BudgetCondition, ...] = ()


class DisruptionBudget(ApiObject, frozen=True, gc=False):
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()
