"""DaemonSets: one pod on every node that will have it."""

import msgspec

from mooring.api.views.meta import ApiObject, Condition, LabelSelectorView, View


class RollingDaemonSet(View, frozen=True, gc=False):
    #: Numbers or percentages; the server fills in 1 and 0 where nothing is said.
    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class DaemonSetStrategy(View, frozen=True, gc=False):
    type: str = "RollingUpdate"
    rolling_update: RollingDaemonSet | None = None


class DaemonSetSpec(View, frozen=True, gc=False):
    selector: LabelSelectorView | None = None
    #: Raw JSON, as the pods will be.
    template: msgspec.Raw = msgspec.Raw(b"{}")
    update_strategy: DaemonSetStrategy = DaemonSetStrategy()
    min_ready_seconds: int = 0
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
