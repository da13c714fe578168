"""Which node a pod is nominated to after a rollback, for schedulers that remember no failures. Pure.

kube-scheduler clears `status.nominatedNodeName` when a binding fails, and then selects the node with the highest score
again, where the volumes have just been rolled back. A nominated node is what it evaluates first: if the node passes all
filters the pod goes there, otherwise the scheduler selects as usual. So a nomination is a hint, and what it costs when
it is wrong is one attempt.
"""

from collections.abc import Collection, Iterable
from typing import Final

from mooring.api.node_selectors import TopologySelector, node_selector_from_view
from mooring.api.patches.contract import MergePatch
from mooring.api.pod_requirements import FORBIDDING, NO_SCHEDULE, tolerated
from mooring.api.views.core import Node, Taint
from mooring.api.views.pods import Pod
from mooring.api.views.storage import CsiNode
from mooring.volumes.holds.policy import RollbackReason

#: Rollbacks after which another node may have what this one lacks.
NODE_REASONS: Final = frozenset({RollbackReason.SIBLING_FAILED, RollbackReason.TOO_LONG})
#: Nominations after one rollback. A scheduler clears the first if the failed attempt is still under way; one that
#: cannot place the pod at all clears each of them.
MAX_NOMINATIONS: Final = 3
#: kube-scheduler treats a cordoned node as one with this taint.
_CORDONED: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


class _Attempts:
    """The nodes that one pod was tried on or nominated to, and what is left to do since the last rollback."""

    def __init__(self) -> None:
        self.tried: set[str] = set()
        self.failed = ""
        self.nominated = ""
        self.left = 0


class Nominations:
    """Failed nodes by the uid of a waiting pod. A restart forgets them, which only costs attempts."""

    def __init__(self) -> None:
        self._pods: dict[str, _Attempts] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def rolled_back(self, uid: str, node: str) -> None:
        """Volumes of the pod were rolled back on the node. Repeated for each of its volumes."""
        attempts = self._pods.setdefault(uid, _Attempts())
        attempts.tried.add(node)
        attempts.failed, attempts.nominated, attempts.left = node, "", MAX_NOMINATIONS

    def due(self, pod: Pod) -> bool:
        """Whether the pod waits without a nominated node. What a scheduler nominated is never replaced."""
        attempts = self._pods.get(pod.uid)
        nominated = pod.status.nominated_node_name or pod.spec.scheduling_gates
        return attempts is not None and attempts.left > 0 and pod.waits and not nominated

    def failed_node(self, uid: str) -> str:
        """The node of the last rollback."""
        return self._pods[uid].failed

    def choose(self, uid: str, candidates: Collection[str]) -> str:
        """The node to nominate: the next by name after the last failed one, so that pods that failed on different nodes
        do not all go to one. Once every candidate was tried, all but the last failed one are tried again. "" if there
        is no other node."""
        attempts = self._pods[uid]
        if attempts.nominated in candidates:
            return attempts.nominated
        untried = [name for name in candidates if name not in attempts.tried]
        if not untried:
            attempts.tried = {attempts.failed}
            untried = [name for name in candidates if name != attempts.failed]
        return min(untried, key=lambda name: (name <= attempts.failed, name), default="")

    def nominated(self, uid: str, node: str) -> None:
        """The nomination is written. It counts as an attempt: the scheduler may find that the pod does not fit."""
        if (attempts := self._pods.get(uid)) is not None:
            attempts.tried.add(node)
            attempts.nominated = node
            attempts.left -= 1

    def forget(self, uid: str) -> None:
        self._pods.pop(uid, None)


def admits(node: Node, pod: Pod) -> bool:
    """Whether labels and taints of the node admit the pod. Resources and other pods are left to the scheduler."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is not None:
        selector = node_selector_from_view(required.node_selector_terms)
        if not selector.matches(labels, fields={"metadata.name": node.name}):
            return False
    taints = (*node.spec.taints, *((_CORDONED,) if node.spec.unschedulable else ()))
    return all(taint.effect not in FORBIDDING or tolerated(pod.spec.tolerations, taint) for taint in taints)


def allowed(node: Node, topologies: Iterable[TopologySelector]) -> bool:
    """Whether all classes of the pod's claims allow volumes for the node."""
    return all(each.matches(node.metadata.labels) for each in topologies)


def drivers_on(csi_node: CsiNode | None) -> frozenset[str]:
    listed = csi_node.spec.drivers if csi_node is not None else ()
    return frozenset(driver.name for driver in listed or ())


def nomination_patch(pod: Pod, node: str) -> MergePatch:
    """A patch of the pod's status, only for the pod as it was read: a scheduler's later write is not replaced."""
    unchanged = {"uid": pod.uid, "resourceVersion": pod.metadata.resource_version}
    return MergePatch({"metadata": unchanged, "status": {"nominatedNodeName": node}})
