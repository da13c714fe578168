"""Pods that their kubelet rejected after this scheduler bound them: detection, metric and event.

Two schedulers on one cluster may both assign the same resources before each observes the other's pods. The kubelet
checks again at admission and fails the pod, and the pod's owner creates another. Pods that were bound by other
schedulers, or by hand, do not count.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.kinds import POD
from mooring.api.views.pods import Pod
from mooring.client.recorder import WARNING, EventRecorder
from mooring.scheduler.metrics import SchedulerMetrics
from mooring.scheduler.snapshot.snapshot import Snapshot

#: Prefix of reasons such as OutOfcpu, OutOfpods.
OUT_OF: Final = "OutOf"

#: Meanings of the kubelet's other reasons: another pod has the resource.
_TAKEN: Final[Mapping[str, str]] = {
    "NodePorts": "a host port that it needs is in use",
    "UnexpectedAdmissionError": "devices or other node-local resources could not be allocated",
    "TopologyAffinityError": "its resources are not available on one NUMA node",
}
#: The node has changed.
_CHANGED: Final[Mapping[str, str]] = {
    "NodeAffinity": "the node's labels no longer match its node affinity",
    "TaintToleration": "the node has a taint that it does not tolerate",
    "NodeShutdown": "the node is being shut down",
    "InvalidNodeInfo": "the kubelet could not read its node object",
}


class KubeletRejection(NamedTuple):
    node: str
    #: The kubelet's, as in the pod's status.
    reason: str
    message: str

    @property
    def lost_a_race(self) -> bool:
        """Whether another pod has the resource, rather than the node having changed."""
        return self.reason.startswith(OUT_OF) or self.reason in _TAKEN

    @property
    def meaning(self) -> str:
        if self.reason.startswith(OUT_OF):
            return f"not enough {self.reason.removeprefix(OUT_OF)} at admission"
        return _TAKEN.get(self.reason) or _CHANGED[self.reason]


def rejection_of(pod: Pod) -> KubeletRejection | None:
    """The rejection of a failed pod; None for any other pod."""
    status = pod.status
    known = status.reason.startswith(OUT_OF) or status.reason in _TAKEN or status.reason in _CHANGED
    if status.phase != "Failed" or not pod.spec.node_name or not known:
        return None
    return KubeletRejection(pod.spec.node_name, status.reason, status.message)


def pods_of_other_schedulers(pods: Iterable[Pod], ours: Collection[str]) -> Counter[str]:
    """The number of pods of other schedulers, by schedulerName; `ours` are the served names."""
    return Counter(pod.spec.scheduler_name for pod in pods if pod.spec.scheduler_name not in ours)


def rejection_message(rejection: KubeletRejection, others: Mapping[str, int]) -> str:
    """The event message. `others` counts the node's pods of other schedulers (`pods_of_other_schedulers`)."""
    parts = [f"kubelet of node {rejection.node} rejected the pod ({rejection.reason}): {rejection.meaning}"]
    if rejection.lost_a_race and others:
        counted = ", ".join(f"{count} of {name}" for name, count in sorted(others.items()))
        parts.append(f"pods of other schedulers run there ({counted}) and may have got the same resources")
    elif rejection.lost_a_race:
        parts.append("the node has less allocatable than its status says, or a pod was bound there without a scheduler")
    parts.append("the pod stays failed; its owner creates another, which is scheduled again")
    return "; ".join(parts)


log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Event reason.
REJECTED: Final = "RejectedByNode"

#: Pod phases before admission.
_BEFORE_ADMISSION: Final = ("", "Pending")


class KubeletRejectionWatch:
    """Watches bound pods until they are admitted. `recorders` are by schedulerName, of the served names."""

    def __init__(self, snapshot: Snapshot, metrics: SchedulerMetrics, recorders: Mapping[str, EventRecorder]) -> None:
        self._snapshot = snapshot
        self._metrics = metrics
        self._recorders = recorders
        self._scheduled: set[str] = set()

    def scheduled(self, pod: Pod) -> None:
        self._scheduled.add(pod.uid)

    def observe(self, before: Pod | None, after: Pod | None) -> None:
        """Call it after the snapshot has been updated."""
        pod = after or before
        is_waiting = after is not None and after.status.phase in _BEFORE_ADMISSION
        if pod is None or pod.uid not in self._scheduled or is_waiting:
            return
        self._scheduled.discard(pod.uid)
        rejection = None if after is None else rejection_of(after)
        if rejection is None:
            return
        others = pods_of_other_schedulers(self._snapshot.pods_on(rejection.node), self._recorders)
        self._metrics.rejections.labels(rejection.reason).inc()
        log.warning("pod rejected by kubelet", pod=pod.key, node=rejection.node, reason=rejection.reason)
        self._recorders[pod.spec.scheduler_name].record(
            pod, POD, WARNING, REJECTED, rejection_message(rejection, others)
        )
