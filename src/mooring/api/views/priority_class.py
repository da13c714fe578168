"""PriorityClasses: names for how important a pod is."""

from mooring.api.views.meta import ApiObject


class PriorityClass(ApiObject, frozen=True, gc=False):
    value: int = 0
    #: At most one class is meant for pods that name none.
    global_default: bool = False
    description: str = ""
    preemption_policy: str = "PreemptLowerPriority"
