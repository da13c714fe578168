"""StatefulSets."""

import msgspec

from mooring.api.views.meta import ApiObject, Condition, LabelSelectorView, View


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


class StatefulSetSpec(View, frozen=True, gc=False):
    replicas: int = 1
    selector: LabelSelectorView | None = None
    #: Raw JSON: pods and claims are made from what the user wrote, including fields no view knows.
    template: msgspec.Raw = msgspec.Raw(b"{}")
    volume_claim_templates: tuple[msgspec.Raw, ...] = ()
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    update_strategy: UpdateStrategy = UpdateStrategy()
    persistent_volume_claim_retention_policy: ClaimRetention | None = None
    ordinals: Ordinals | None = None
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None


class StatefulSetStatus(View, frozen=True, gc=False):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    conditions: tuple[Condition, ...] = ()


class StatefulSet(ApiObject, frozen=True, gc=False):
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()
