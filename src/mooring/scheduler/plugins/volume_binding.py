"""VolumeBinding: a pod goes where its volumes are or can be.

Bound claims limit the nodes to those that reach their volumes; claims bound late need, on the chosen node, a volume
each or a class that can provision one. All of it is decided by the volume library; this is its place in the cycle.
"""

from collections.abc import Iterable
from typing import ClassVar

from mooring.api.views.pod import Pod
from mooring.scheduler import changes
from mooring.scheduler.contract import Change, Cycle, Filter, Hint, PreFilter, Rejection, Reserve
from mooring.volumes.plan import BindingPlan
from mooring.volumes.state import PodClaims


def _uses_claim(pod: Pod, change: Change) -> bool:
    return change.namespace == pod.namespace and any(
        pod.claim_name(volume) == change.name for volume in pod.spec.volumes
    )
