"""A snapshot and a scheduling queue without API server, for tests of requeueing.

Events reach them as in the scheduler component. `decide` runs a scheduling cycle for a pod whatever its state in the
queue: the result that requeueing all pods would have.
"""

import random
from collections.abc import Sequence

import msgspec

from mooring.api.views.core import Namespace, Node
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, CsiDriver, CsiNode, StorageCapacity, StorageClass, Volume
from mooring.scheduler import cluster_events
from mooring.scheduler.binding.claim_rollback import blocking_claims
from mooring.scheduler.cluster_events import ClusterEvent, InterestKey
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.interface import CycleState, Decision
from mooring.scheduler.preemption.nominator import Nominator
from mooring.scheduler.queue import PodBackoff, PodState, SchedulingQueue
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.binding import BindingPlan, OutOfSync
from mooring.volumes.topology import EMPTY, NodeSet

#: The plugins whose changed results must requeue a pod. The result of NodeVolumeLimits also changes when a class is
#: deleted, but then other plugins reject the pod.
VOLUMES = ("VolumeBinding", "VolumeZone")


def state_of(queue: SchedulingQueue, key: str) -> PodState | None:
    queued = queue._pods.get(key)
    return None if queued is None else queued.state


class QueueCluster:
    """Pods to schedule, and a cluster whose objects a test sets."""

    def __init__(self, pods: Sequence[Pod]) -> None:
        self._pods = pods
        self.snapshot = Snapshot()
        self.queue = SchedulingQueue(DEFAULT.plugins, backoff=PodBackoff(0.0, 0.0))
        self.reserved: dict[str, BindingPlan] = {}
        #: By unschedulable pod and plugin of `VOLUMES`, the rejected nodes.
        self.rejected: dict[str, dict[str, NodeSet]] = {}
        #: Pods with a requested claim rollback, which causes events of its own.
        self.claim_rollbacks: set[str] = set()
        self._interest_keys: dict[str, frozenset[InterestKey]] = {}
        self._confirmed: dict[str, Pod] = {}
        self._objects: dict[str, ApiObject] = {}
        self._version = 0

    def set_object(self, key: str, after: ApiObject | None) -> None:
        """Create, update or, with None, delete the object of this key."""
        before = self._objects.pop(key, None)
        if after is not None:
            self._version += 1
            metadata = msgspec.structs.replace(after.metadata, resource_version=str(self._version))
            after = self._objects[key] = msgspec.structs.replace(after, metadata=metadata)
        if before and after and (before.uid != after.uid or (before.deleting and not after.deleting)):
            # Recreated under this name: no object stops terminating.
            self._deliver(before, None)
            self._deliver(None, after)
        elif before is not None or after is not None:
            self._deliver(before, after)

    def _deliver(self, before: ApiObject | None, after: ApiObject | None) -> None:
        change = self._observe(before, after)
        self._requeue(change)
        # Binding fails if an object changes that the decision depends on.
        for pod in self._pods:
            if (
                pod.key in self.reserved
                and change
                and not self._interest_keys[pod.key].isdisjoint(change.interest_keys)
            ):
                self.unreserve(pod)

    def start(self) -> None:
        """Add the pods to the queue and schedule them."""
        for pod in self._pods:
            self.queue.add_or_update(pod, 0.0)
        self.schedule_all()

    def unschedulable_pods(self) -> list[Pod]:
        return [pod for pod in self._pods if state_of(self.queue, pod.key) is PodState.UNSCHEDULABLE]

    def unreserve(self, pod: Pod) -> None:
        plan = self.reserved.pop(pod.key, None)
        if plan is None:
            return
        self.snapshot.volumes.restore(plan)
        self.snapshot.forget(pod)
        self._requeue(cluster_events.node_released_event(pod))
        for change in cluster_events.restored_events(plan, self.snapshot.volumes):
            self._requeue(change)
        self.queue.add_or_update(pod, 0.0)

    def confirm_bindings(self) -> bool:
        """Observe all pods with a reservation as bound. Returns whether there were any."""
        reserved, self.reserved = self.reserved, {}
        for pod in self._pods:
            if pod.key in reserved:
                bound = msgspec.structs.replace(pod.spec, node_name=reserved[pod.key].node)
                self._confirmed[pod.key] = msgspec.structs.replace(pod, spec=bound)
                self._requeue(self._observe(pod, self._confirmed[pod.key]))
        return bool(reserved)

    def recreate(self, pod: Pod) -> None:
        """Delete a bound pod and add an equal one to the queue."""
        bound = self._confirmed.pop(pod.key, None)
        if bound is not None:
            self._requeue(self._observe(bound, None))
            self.queue.add_or_update(pod, 0.0)

    def decide(self, pod: Pod) -> tuple[CycleState, Decision]:
        attempt = CycleState(pod, self.snapshot)
        return attempt, cycle.run_cycle(attempt, DEFAULT, random.Random(0), nominator=Nominator())

    def schedule_all(self) -> None:
        while (entry := self.queue.pop(0.0)) is not None:
            pod = entry.pod
            attempt, decision = self.decide(pod)
            self.claim_rollbacks.discard(pod.key)
            if not decision.node:
                self.queue.add_unschedulable(entry, decision.unschedulable_plugins, attempt.interests, 0.0)
                nodes = rejections(decision, self.snapshot)
                self.rejected[pod.key] = {
                    plugin: nodes[plugin] for plugin in decision.unschedulable_plugins if plugin in VOLUMES
                }
                if not decision.refusals and blocking_claims(attempt, DEFAULT, random.Random(0)):
                    self.claim_rollbacks.add(pod.key)
                continue
            try:
                self.reserved[pod.key] = cycle.reserve(attempt, DEFAULT, decision.node)
            except OutOfSync:
                self.queue.requeue_with_backoff(entry, 0.0)
                continue
            self._interest_keys[pod.key] = attempt.interests.keys
            self.snapshot.assume(pod, decision.node)
            self.queue.remove(pod.key)

    def _requeue(self, change: ClusterEvent | None) -> None:
        if change is not None:
            self.queue.requeue_for_event(change, 0.0)
        if grown := self.snapshot.volumes.classes_with_more_capacity():
            self.queue.requeue_for_event(cluster_events.capacity_freed_event(grown), 0.0)

    def _observe(self, before: ApiObject | None, after: ApiObject | None) -> ClusterEvent | None:
        volumes = self.snapshot.volumes
        match before, after:
            case (Pod() | None, Pod() | None):
                self.snapshot.observe_pod(before, after)
                return cluster_events.pod_event(before, after)
            case (Namespace() | None, Namespace() | None):
                self.snapshot.observe_namespace(before, after)
                return cluster_events.namespace_event(before, after)
            case (Node() | None, Node() | None):
                self.snapshot.observe_node(before, after)
                return cluster_events.node_event(before, after)
            case (StorageClass() | None, StorageClass() | None):
                volumes.observe_class(before, after)
                return cluster_events.class_event(before, after)
            case (CsiDriver() | None, CsiDriver() | None):
                volumes.observe_driver(before, after)
                return cluster_events.driver_event(before, after)
            case (CsiNode() | None, CsiNode() | None):
                volumes.observe_csi_node(before, after)
                return cluster_events.csi_node_event(before, after)
            case (StorageCapacity() | None, StorageCapacity() | None):
                volumes.observe_capacity(before, after)
                return cluster_events.capacity_event(before, after)
            case (Volume() | None, Volume() | None):
                known = before and volumes.volume(before.name)
                volumes.observe_volume(before, after)
                return cluster_events.volume_event(known, after)
            case (Claim() | None, Claim() | None):
                known = before and volumes.claim(before.key)
                volumes.observe_claim(before, after)
                return cluster_events.claim_event(known, after)
            case _:
                raise TypeError(f"unexpected kind: {before or after}")


def rejections(decision: Decision, snapshot: Snapshot) -> dict[str, NodeSet]:
    """The rejected nodes by plugin."""
    nodes = {refusal.plugin: snapshot.nodes for refusal in decision.refusals}
    for plugin, rejected in decision.filter_results:
        for rejection in rejected:
            nodes[plugin] = nodes.get(plugin, EMPTY) | rejection.nodes & snapshot.nodes
    return nodes
