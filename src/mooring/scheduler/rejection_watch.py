"""Watches what becomes of pods that were given a node: counts those that their node turned down, and says so.

Between `component`, which tells it of every pod, and the pure `kubelet_rejection`. Only pods that this scheduler chose
the node of count: those that somebody put on a node by hand lost no race of ours.
"""

from collections.abc import Mapping
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.kinds import POD
from mooring.api.views.pod import Pod
from mooring.client.recorder import WARNING, EventRecorder
from mooring.scheduler.kubelet_rejection import in_words, of_others, rejection_of
from mooring.scheduler.metrics import SchedulerMetrics
from mooring.scheduler.snapshot import Snapshot

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: The event on a pod that its node would not have.
REJECTED: Final = "RejectedByNode"

#: What the pod says of itself before its node has taken it.
_WAITING: Final = ("", "Pending")


class RejectionWatch:
    """Pods on their way to their nodes, by uid. `recorders` are by scheduler name, of the names that are served."""

    def __init__(self, snapshot: Snapshot, metrics: SchedulerMetrics, recorders: Mapping[str, EventRecorder]) -> None:
        self._snapshot = snapshot
        self._metrics = metrics
        self._recorders = recorders
        self._given: set[str] = set()

    def given(self, pod: Pod) -> None:
        """A node was chosen for the pod; from here on it may say no."""
        self._given.add(pod.uid)

    def observe(self, before: Pod | None, after: Pod | None) -> None:
        """A pod changed or went, and the snapshot knows. Once a pod runs, its node has taken it."""
        pod = after or before
        if pod is None or pod.uid not in self._given or (after is not None and after.status.phase in _WAITING):
            return
        self._given.discard(pod.uid)
        rejection = None if after is None else rejection_of(after)
        if rejection is None:
            return
        told = in_words(rejection, of_others(self._snapshot.pods_on(rejection.node), self._recorders))
        self._metrics.rejected(rejection.reason)
        log.warning("pod turned down by its node", pod=pod.key, node=rejection.node, reason=rejection.reason)
        self._recorders[pod.spec.scheduler_name].record(pod, POD, WARNING, REJECTED, told)
