"""A cluster before and after, compared: who found a place, who waits and why, what is left where. Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

from mooring.api import quantity
from mooring.api.quantity import QuantityError
from mooring.api.views.claim import Claim
from mooring.api.views.deployment import ReplicaSet
from mooring.api.views.meta import Amount
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.storage import StorageCapacity
from mooring.api.views.volume import Volume
from mooring.api.views.workload import StatefulSet
from mooring.sim.whatif.outcome import (
    Blocked,
    ClaimOutcome,
    Difference,
    Lost,
    Pending,
    Placement,
    Segment,
    Shortfall,
)
from mooring.volumes.capacity import CapacityView
from mooring.volumes.topology import TopologyIndex

UNTOLD: Final = "nobody has said why yet"
NOBODY: Final = "it has no controller that would make it anew"
IN_ORDER: Final = "the next one is made when those before it are ready"


class Cluster(NamedTuple):
    """What is compared, at one moment."""

    nodes: Collection[Node]
    pods: Collection[Pod]
    claims: Collection[Claim]
    volumes: Collection[Volume]
    capacities: Collection[StorageCapacity]
    stateful_sets: Collection[StatefulSet] = ()
    replica_sets: Collection[ReplicaSet] = ()


class Told(NamedTuple):
    """What was said while it ran: about pods that do not start, evictions, and workloads that make no pods."""

    obstacles: Mapping[str, str]
    refused: Mapping[str, str]
    #: Why a pod has no node, or why a claim of it has no volume; "" where nobody has said.
    why_waiting: Callable[[Pod], str]
    #: Why a workload of this kind and key cannot make pods; "" where it can.
    why_not_made: Callable[[str, str], str]


class Comparison:
    def __init__(self, before: Cluster, after: Cluster, told: Told) -> None:
        self._before = before
        self._after = after
        self._told = told
        self._was = {pod.key: pod for pod in before.pods}
        self._is = {pod.key: pod for pod in after.pods}
        self._claims = {claim.key: claim for claim in after.claims}
        self._volumes = {volume.name: volume for volume in after.volumes}
        self._old_volumes = {volume.name for volume in before.volumes}
        self._placed_before = {pod.uid for pod in before.pods if pod.spec.node_name}

    def placements(self) -> tuple[Placement, ...]:
        """Pods that were given a node and can run there, in the order of nodes and names."""
        found = [pod for pod in self._new_on_nodes() if pod.key not in self._told.obstacles]
        return tuple(self._placement(pod) for pod in sorted(found, key=lambda pod: (pod.spec.node_name, pod.key)))

    def pending(self) -> tuple[Pending, ...]:
        return tuple(sorted((*self._unplaced(), *self._unstarted()), key=lambda each: (each.already, each.pod)))

    def shortfalls(self) -> tuple[Shortfall, ...]:
        """Workloads whose missing pods are not even made; those that wait for a node are pending."""
        owned = Counter(owner.uid for pod in self._after.pods if (owner := pod.controller) and not pod.finished)
        return tuple(sorted(self._short(owned), key=lambda each: each.workload))

    def lost(self) -> tuple[Lost, ...]:
        gone = [pod for pod in self._before.pods if pod.key not in self._is and _runs(pod) and pod.controller is None]
        return tuple(Lost(pod.key, pod.spec.node_name, NOBODY) for pod in sorted(gone, key=lambda pod: pod.key))

    def blocked(self) -> tuple[Blocked, ...]:
        told = self._told.refused
        stuck = [(self._is[key], why) for key, why in sorted(told.items()) if key in self._is]
        return tuple(Blocked(pod.key, pod.spec.node_name, why) for pod, why in stuck)

    def capacity(self) -> tuple[Segment, ...]:
        topology = TopologyIndex()
        for node in self._after.nodes:
            topology.put(node.name, node.metadata.labels)
        view = CapacityView(topology)
        was = {each.key: each for each in self._before.capacities}
        now = {each.key: each for each in self._after.capacities}
        return tuple(
            sorted(
                (_segment(was.get(key), now.get(key), view, topology) for key in was.keys() | now.keys()),
                key=lambda each: (each.storage_class, sorted(each.segment.items()), each.name),
            )
        )

    def difference(self, drained: Collection[str]) -> Difference:
        nodes_were, nodes_are = ({node.name for node in cluster.nodes} for cluster in (self._before, self._after))
        moved = [
            f"{key}: {was.spec.node_name} → {now.spec.node_name or 'nowhere'}"
            for key, now in sorted(self._is.items())
            if (was := self._was.get(key)) is not None and was.spec.node_name not in ("", now.spec.node_name)
        ]
        bound_before = {claim.key for claim in self._before.claims if claim.spec.volume_name}
        return Difference(
            nodes_added=tuple(sorted(nodes_are - nodes_were)),
            nodes_removed=tuple(sorted(nodes_were - nodes_are)),
            nodes_drained=tuple(sorted(drained)),
            pods_added=tuple(sorted(self._is.keys() - self._was.keys())),
            pods_moved=tuple(moved),
            pods_removed=tuple(sorted(self._was.keys() - self._is.keys())),
            claims_bound=tuple(
                f"{claim.key}: {claim.spec.volume_name}"
                for claim in sorted(self._after.claims, key=lambda claim: claim.key)
                if claim.spec.volume_name and claim.key not in bound_before
            ),
            volumes_made=tuple(sorted(self._volumes.keys() - self._old_volumes)),
            volumes_removed=tuple(sorted(self._old_volumes - self._volumes.keys())),
        )

    def _new_on_nodes(self) -> Iterator[Pod]:
        return (pod for pod in self._after.pods if _runs(pod) and pod.uid not in self._placed_before)

    def _placement(self, pod: Pod) -> Placement:
        was = self._was.get(pod.key)
        claims = [self._claims[key] for key in pod.claim_keys if key in self._claims]
        return Placement(
            pod.key,
            pod.spec.node_name,
            was.spec.node_name if was is not None else "",
            tuple(self._claim(claim) for claim in claims),
        )

    def _claim(self, claim: Claim) -> ClaimOutcome:
        name = claim.spec.volume_name
        volume = self._volumes.get(name)
        amount = volume.size if volume is not None else claim.request
        return ClaimOutcome(
            claim.key, name, claim.storage_class, _amount(amount), bool(name) and name not in self._old_volumes
        )

    def _unplaced(self) -> Iterator[Pending]:
        for pod in self._after.pods:
            if pod.spec.node_name or pod.finished or pod.deleting:
                continue
            was = self._was.get(pod.key)
            already = was is not None and was.uid == pod.uid and not was.spec.node_name
            before = was.spec.node_name if was is not None else ""
            yield Pending(pod.key, self._told.why_waiting(pod) or UNTOLD, before, already)

    def _unstarted(self) -> Iterator[Pending]:
        """Pods that have a node and cannot start there."""
        for key, why in self._told.obstacles.items():
            pod = self._is.get(key)
            if pod is not None and pod.spec.node_name:
                yield Pending(key, why, pod.spec.node_name, pod.uid in self._placed_before)

    def _short(self, owned: Mapping[str, int]) -> Iterator[Shortfall]:
        for kind, sets in (("statefulset", self._after.stateful_sets), ("replicaset", self._after.replica_sets)):
            for each in sets:
                wanted, there = each.spec.replicas, owned.get(each.uid, 0)
                if there < wanted and not each.deleting:
                    why = self._told.why_not_made(kind, each.key)
                    if not why and isinstance(each, StatefulSet) and each.spec.pod_management_policy != "Parallel":
                        why = IN_ORDER
                    yield Shortfall(f"{kind}/{each.key}", wanted, there, why or UNTOLD)


def _runs(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not pod.finished


def _segment(
    was: StorageCapacity | None, now: StorageCapacity | None, view: CapacityView, topology: TopologyIndex
) -> Segment:
    shown = now or was
    assert shown is not None, "a key is of one of them"
    view.observe(shown.key, shown)
    room = view.room(shown.key)
    return Segment(
        name=shown.key,
        storage_class=shown.storage_class_name,
        segment=dict(shown.node_topology.match_labels) if shown.node_topology is not None else {},
        nodes=topology.matching(room.segment).bit_count() if room is not None else 0,
        before=_reported(was),
        after=_reported(now),
    )


def _reported(capacity: StorageCapacity | None) -> str | None:
    return None if capacity is None or capacity.capacity is None else _amount(capacity.capacity)


def _amount(amount: Amount) -> str:
    try:
        return quantity.canonical(amount)
    except QuantityError:
        return str(amount)
