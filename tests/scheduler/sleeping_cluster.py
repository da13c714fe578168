"""A snapshot and a queue, fed as the scheduler's component feeds them, for tests about who is woken when.

`decide` asks all plugins anew about a pod, whatever the queue says: what waking everybody would find.
"""

import random
from collections.abc import Sequence

import msgspec

from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.namespace import Namespace
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.storage import CsiDriver, CsiNode, StorageCapacity, StorageClass
from mooring.api.views.volume import Volume
from mooring.scheduler import changes, cycle
from mooring.scheduler.contract import Change, Cycle, Decision
from mooring.scheduler.cycle import Reservation
from mooring.scheduler.interests import Topic
from mooring.scheduler.nominations import Nominations
from mooring.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from mooring.scheduler.profile import Profile
from mooring.scheduler.queue import Patience, SchedulingQueue, State
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot import Snapshot
from mooring.scheduler.unbinding import in_the_way
from mooring.volumes.assume import OutOfSync
from mooring.volumes.nodeset import EMPTY, NodeSet

#: With every plugin's strictest arguments.
PROFILE = Profile(
    tuple(NodeVolumeLimits(requires_drivers=True) if p.name == NodeVolumeLimits.name else p for p in DEFAULT.plugins)
)


#: The plugins whose changes of mind are worth a try. NodeVolumeLimits also changes its own when a class goes, and then
#: the others refuse.
VOLUMES = ("VolumeBinding", "VolumeZone")


class Cluster:
    """Some pods wait for a place in it; all else happens to it."""

    def __init__(self, pods: Sequence[Pod]) -> None:
        self._pods = pods
        self.snapshot = Snapshot()
        self.queue = SchedulingQueue(PROFILE.plugins, patience=Patience(0.0, 0.0))
        self.promised: dict[str, Reservation] = {}
        #: By pod that is parked, which nodes the plugins that matter said no to.
        self.rejected: dict[str, dict[str, NodeSet]] = {}
        #: Pods whose claims are being unbound for them, which brings them news of its own.
        self.unbinds: set[str] = set()
        self._relies_on: dict[str, frozenset[Topic]] = {}
        self._confirmed: dict[str, Pod] = {}
        self._objects: dict[str, ApiObject] = {}
        self._version = 0

    def happens(self, key: str, after: ApiObject | None) -> None:
        before = self._objects.pop(key, None)
        if after is not None:
            self._version += 1
            metadata = msgspec.structs.replace(after.metadata, resource_version=str(self._version))
            after = self._objects[key] = msgspec.structs.replace(after, metadata=metadata)
        if before is not None and after is not None and before.uid != after.uid:
            # Another one under this name, of which informers tell apart.
            self._happened(before, None)
            self._happened(None, after)
        elif before is not None or after is not None:
            self._happened(before, after)

    def _happened(self, before: ApiObject | None, after: ApiObject | None) -> None:
        change = self._observe(before, after)
        self._wake(change)
        # A pod that is being bound is not, when what it relies on changes.
        for pod in self._pods:
            if pod.key in self.promised and change and not self._relies_on[pod.key].isdisjoint(change.topics):
                self.give_back(pod)

    def start(self) -> None:
        """The pods come, and are tried."""
        for pod in self._pods:
            self.queue.put(pod, 0.0)
        self.try_all()

    def sleeping(self) -> list[Pod]:
        return [pod for pod in self._pods if self.queue.state_of(pod.key) is State.PARKED]

    def give_back(self, pod: Pod) -> None:
        reservation = self.promised.pop(pod.key, None)
        if reservation is None:
            return
        cycle.unreserve(self.snapshot, reservation)
        self.snapshot.forget(pod)
        self._wake(changes.of_room_left_by(pod))
        for change in changes.of_restored(reservation.plan, self.snapshot.volumes):
            self._wake(change)
        self.queue.put(pod, 0.0)

    def confirm(self) -> bool:
        """All who were promised a node are there, as the API says. Answers whether anybody was."""
        promised, self.promised = self.promised, {}
        for pod in self._pods:
            if pod.key in promised:
                there = msgspec.structs.replace(pod.spec, node_name=promised[pod.key].node)
                self._confirmed[pod.key] = msgspec.structs.replace(pod, spec=there)
                self._wake(self._observe(pod, self._confirmed[pod.key]))
        return bool(promised)

    def leave(self, pod: Pod) -> None:
        """One who was confirmed goes, and another one like it comes."""
        there = self._confirmed.pop(pod.key, None)
        if there is not None:
            self._wake(self._observe(there, None))
            self.queue.put(pod, 0.0)

    def decide(self, pod: Pod) -> tuple[Cycle, Decision]:
        attempt = Cycle(pod, self.snapshot)
        return attempt, cycle.run(attempt, PROFILE, random.Random(0), nominations=Nominations())

    def try_all(self) -> None:
        while (entry := self.queue.pop(0.0)) is not None:
            pod = entry.pod
            attempt, decision = self.decide(pod)
            self.unbinds.discard(pod.key)
            if not decision.node:
                self.queue.park(entry, decision.rejectors, attempt.interests, 0.0)
                said = rejections(decision, self.snapshot)
                self.rejected[pod.key] = {plugin: said[plugin] for plugin in decision.rejectors if plugin in VOLUMES}
                if not decision.refusals and in_the_way(attempt, PROFILE, random.Random(0)):
                    self.unbinds.add(pod.key)
                continue
            try:
                self.promised[pod.key] = cycle.reserve(attempt, PROFILE, decision.node)
            except OutOfSync:
                self.queue.retry(entry, 0.0)
                continue
            self._relies_on[pod.key] = attempt.interests.topics
            self.snapshot.assume(pod, decision.node)
            self.queue.remove(pod.key)

    def _wake(self, change: Change | None) -> None:
        if change is not None:
            self.queue.wake(change, 0.0)
        if grown := self.snapshot.volumes.room_grew():
            self.queue.wake(changes.of_grown_room(grown), 0.0)

    def _observe(self, before: ApiObject | None, after: ApiObject | None) -> Change | None:
        volumes = self.snapshot.volumes
        match before, after:
            case (Pod() | None, Pod() | None):
                self.snapshot.observe_pod(before, after)
                return changes.of_pod(before, after)
            case (Namespace() | None, Namespace() | None):
                self.snapshot.observe_namespace(before, after)
                return changes.of_namespace(before, after)
            case (Node() | None, Node() | None):
                self.snapshot.observe_node(before, after)
                return changes.of_node(before, after)
            case (StorageClass() | None, StorageClass() | None):
                volumes.observe_class(before, after)
                return changes.of_class(before, after)
            case (CsiDriver() | None, CsiDriver() | None):
                volumes.observe_driver(before, after)
                return changes.of_driver(before, after)
            case (CsiNode() | None, CsiNode() | None):
                volumes.observe_csi_node(before, after)
                return changes.of_csi_node(before, after)
            case (StorageCapacity() | None, StorageCapacity() | None):
                volumes.observe_capacity(before, after)
                return changes.of_capacity(before, after)
            case (Volume() | None, Volume() | None):
                taken_for = before and volumes.volume(before.name)
                volumes.observe_volume(before, after)
                return changes.of_volume(taken_for, after)
            case (Claim() | None, Claim() | None):
                held_to_be = before and volumes.claim(before.key)
                volumes.observe_claim(before, after)
                return changes.of_claim(held_to_be, after)
            case _:
                raise TypeError(f"nobody follows {before} or {after}")


def rejections(decision: Decision, snapshot: Snapshot) -> dict[str, NodeSet]:
    """By plugin, the nodes it says no to."""
    said = {refusal.plugin: snapshot.nodes for refusal in decision.refusals}
    for plugin, rejected in decision.said:
        for rejection in rejected:
            said[plugin] = said.get(plugin, EMPTY) | rejection.nodes & snapshot.nodes
    return said
