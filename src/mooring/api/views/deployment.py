"""Deployments and the ReplicaSets they are made of."""

import msgspec

from mooring.api.views.meta import ApiObject, Condition, LabelSelectorView, View


class RollingDeployment(View, frozen=True, gc=False):
    #: Numbers or percentages; the server fills in 25% where nothing is said.
    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class DeploymentStrategy(View, frozen=True, gc=False):
    type: str = "RollingUpdate"
    rolling_update: RollingDeployment | None = None


class DeploymentSpec(View, frozen=True, gc=False):
    replicas: int = 1
    selector: LabelSelectorView | None = None
    #: Raw JSON: ReplicaSets are made from what the user wrote, including fields no view knows.
    template: msgspec.Raw = msgspec.Raw(b"{}")
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentCondition(Condition, frozen=True, gc=False):
    """Unlike others it also says when it was last looked at: progress is measured from there."""

    last_update_time: str | None = None


class DeploymentStatus(View, frozen=True, gc=False):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()
    collision_count: int | None = None


class Deployment(ApiObject, frozen=True, gc=False):
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(View, frozen=True, gc=False):
    replicas: int = 1
    selector: LabelSelectorView | None = None
    #: Raw JSON, as the pods will be.
    template: msgspec.Raw = msgspec.Raw(b"{}")
    min_ready_seconds: int = 0


class ReplicaSetStatus(View, frozen=True, gc=False):
    observed_generation: int = 0
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(ApiObject, frozen=True, gc=False):
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()
