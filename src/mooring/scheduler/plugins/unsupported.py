"""Unsupported: says no to pods that ask for what Mooring does not do yet, instead of placing them wrongly.

Upstream has no such plugin. What is left of it is devices, which upstream's plugin DynamicResources hands out.
"""

from typing import ClassVar, Final

from mooring.api.views.pod import Pod
from mooring.scheduler import changes
from mooring.scheduler.contract import Change, Cycle, Hint, PreFilter

REASON: Final = "mooring does not support resourceClaims yet"


def _itself(pod: Pod, change: Change) -> bool:
    """Nothing in the cluster helps such a pod; only another pod under its name would."""
    return (change.namespace, change.name) == (pod.namespace, pod.name)


class Unsupported:
    name: ClassVar[str] = "Unsupported"
    wakes_on: ClassVar[tuple[Hint, ...]] = (Hint("Pod", frozenset({changes.UPDATE}), _itself),)

    def prefilter(self, cycle: Cycle) -> str | None:
        return REASON if cycle.pod.spec.resource_claims else None


_contract: PreFilter = Unsupported()
