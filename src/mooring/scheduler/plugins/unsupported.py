"""Unsupported: says no to pods that ask for what Mooring does not do yet, instead of placing them wrongly.

Upstream has no such plugin. What is left of it is devices, which upstream's plugin DynamicResources hands out, and pods
of a PodGroup, which upstream's GangScheduling places together or not at all: one placed alone would hold what the
others need, perhaps for ever.
"""

from typing import ClassVar, Final

from mooring.api.views.pod import Pod
from mooring.scheduler import changes
from mooring.scheduler.contract import Change, Cycle, Hint, PreFilter

DEVICES: Final = "mooring does not support resourceClaims yet"
GROUP: Final = "mooring does not support schedulingGroup yet: pods of a group are not placed one by one"


def _itself(pod: Pod, change: Change) -> bool:
    """Nothing in the cluster helps such a pod; only another pod under its name would."""
    return (change.namespace, change.name) == (pod.namespace, pod.name)


class Unsupported:
    name: ClassVar[str] = "Unsupported"
    wakes_on: ClassVar[tuple[Hint, ...]] = (Hint("Pod", frozenset({changes.UPDATE}), _itself),)

    def prefilter(self, cycle: Cycle) -> str | None:
        if cycle.pod.spec.resource_claims:
            return DEVICES
        return GROUP if cycle.pod.spec.scheduling_group is not None else None


_contract: PreFilter = Unsupported()
