"""Views of Deployment, ReplicaSet, StatefulSet, DaemonSet, PodDisruptionBudget and ControllerRevision."""

import msgspec

from mooring.api.views.meta import ApiObject, Condition, LabelSelectorView, View


class WorkloadSpec(View, frozen=True, gc=False):
    """What the specs of all workloads have."""

    selector: LabelSelectorView | None = None
    #: Raw JSON, including fields that views lack: pods, claims and ReplicaSets are created from it.
    template: msgspec.Raw = msgspec.Raw(b"{}")
    min_ready_seconds: int = 0


class ReplicaCounts(View, frozen=True, gc=False):
    """What the statuses of workloads with replicas have."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0


class RollingUpdateBounds(View, frozen=True, gc=False):
    #: Numbers or percentages; the server's defaults are 1 and 0 for DaemonSets, 25% for Deployments.
    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class RolloutStrategy(View, frozen=True, gc=False):
    """Of DaemonSets and Deployments."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdateBounds | None = None


class DaemonSetSpec(WorkloadSpec, frozen=True, gc=False):
    update_strategy: RolloutStrategy = RolloutStrategy()
    revision_history_limit: int | None = None


class DaemonSetStatus(View, frozen=True, gc=False):
    observed_generation: int = 0
    current_number_scheduled: int = 0
    desired_number_scheduled: int = 0
    number_misscheduled: int = 0
    number_ready: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    collision_count: int | None = None
    conditions: tuple[Condition, ...] = ()


class DaemonSet(ApiObject, frozen=True, gc=False):
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class DeploymentSpec(WorkloadSpec, frozen=True, gc=False):
    replicas: int = 1
    strategy: RolloutStrategy = RolloutStrategy()
    revision_history_limit: int | None = None
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentCondition(Condition, frozen=True, gc=False):
    """Unlike other conditions it has an update time, from which progress is measured."""

    last_update_time: str | None = None


class DeploymentStatus(ReplicaCounts, frozen=True, gc=False):
    updated_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()
    collision_count: int | None = None


class Deployment(ApiObject, frozen=True, gc=False):
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(WorkloadSpec, frozen=True, gc=False):
    replicas: int = 1


class ReplicaSetStatus(ReplicaCounts, frozen=True, gc=False):
    fully_labeled_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(ApiObject, frozen=True, gc=False):
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class DisruptionBudgetSpec(View, frozen=True, gc=False):
    #: Numbers or percentages of the expected pods; at most one of the two is set.
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    #: None selects nothing, an empty selector all pods of the namespace.
    selector: LabelSelectorView | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetCondition(Condition, frozen=True, gc=False):
    observed_generation: int = 0


class DisruptionBudgetStatus(View, frozen=True, gc=False):
    observed_generation: int = 0
    #: Pods whose eviction was admitted but not yet observed: name to time of admission.
    disrupted_pods: dict[str, str] = {}
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[BudgetCondition, ...] = ()


class DisruptionBudget(ApiObject, frozen=True, gc=False):
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()


class ControllerRevision(ApiObject, frozen=True, gc=False):
    #: Raw JSON: a patch of the owning controller.
    data: msgspec.Raw = msgspec.Raw(b"null")
    revision: int = 0


class RollingUpdate(View, frozen=True, gc=False):
    partition: int = 0
    #: A number or a percentage.
    max_unavailable: int | str | None = None


class UpdateStrategy(View, frozen=True, gc=False):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class ClaimRetention(View, frozen=True, gc=False):
    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class Ordinals(View, frozen=True, gc=False):
    start: int = 0


class StatefulSetSpec(WorkloadSpec, frozen=True, gc=False):
    replicas: int = 1
    volume_claim_templates: tuple[msgspec.Raw, ...] = ()
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    update_strategy: UpdateStrategy = UpdateStrategy()
    persistent_volume_claim_retention_policy: ClaimRetention | None = None
    ordinals: Ordinals | None = None
    revision_history_limit: int | None = None


class StatefulSetStatus(ReplicaCounts, frozen=True, gc=False):
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    conditions: tuple[Condition, ...] = ()


class StatefulSet(ApiObject, frozen=True, gc=False):
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()
