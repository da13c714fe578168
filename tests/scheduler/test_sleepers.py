"""Nobody sleeps who could be placed: after any event, every pod that was left parked is one that no node takes.

Waking everybody after every event would be right and slow; this compares with it. Nodes, classes, drivers, what they
report, volumes and claims come, change and go at random, pods are promised volumes and give them back. More than that:
VolumeBinding and VolumeZone, where they had rejected a sleeping pod, take back their no to no node, since preemption
might have made use of it, and no claim could be unbound for its sake that could not before.
"""

import random
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import (
    a_capacity,
    a_claim,
    a_class,
    a_csi_node,
    a_driver,
    a_node,
    a_pod,
    a_volume,
    claim_ref,
    owned_by,
    pod_body,
)
from builders.drivers import DRIVER
from mooring.api import keys
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject, Condition
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
from mooring.volumes.clean_claims import CLEAN
from mooring.volumes.nodeset import EMPTY, NodeSet

pytestmark = [pytest.mark.req("T26.volumes"), pytest.mark.level("u")]

OTHER = "other.csi.example.com"
EBS = {"awsElasticBlockStore": {"volumeID": "v"}}
AT_NODE = ({"matchLabels": {keys.HOSTNAME: "n1"}}, {"matchLabels": {keys.HOSTNAME: "n2"}})

BY_CONTROLLER = {keys.BOUND_BY_CONTROLLER: keys.YES}


def clean(claim: Claim) -> Claim:
    """One that was bound, and whose volume nobody has used."""
    status = msgspec.structs.replace(claim.status, conditions=(Condition(type=CLEAN, status="True"),))
    return msgspec.structs.replace(claim, status=status)


#: Every object there may be, in the states it may be in; None for not being there.
WORLD: dict[str, Sequence[ApiObject | None]] = {
    "node n1": [a_node(name="n1", labels={keys.ZONE: zone}) for zone in "ab"],
    "node n2": [None, a_node(name="n2", labels={keys.ZONE: "b", "topology.ebs.csi.aws.com/zone": "a"})],
    "class local": [None, a_class(name="local")],
    "class made": [
        None,
        a_class(name="made", provisioner=DRIVER),
        a_class(name="made", provisioner=DRIVER, allowed_topologies=[{keys.ZONE: ["b"]}]),
        a_class(name="made", provisioner=OTHER, uid="another"),
        a_class(name="made", provisioner=DRIVER, annotations={keys.CAPACITY_USE: keys.CAPACITY_ADDITIVE}),
    ],
    "class also": [
        a_class(name="also", provisioner=DRIVER),
        a_class(name="also", binding_mode="Immediate", uid="another"),
    ],
    "driver": [None, a_driver(tracks_capacity=True), a_driver(tracks_capacity=False, required=True)],
    "csi node n1": [
        None,
        a_csi_node(name="n1", limits={DRIVER: 0}),
        a_csi_node(name="n1", limits={DRIVER: 1, OTHER: 0}),
        a_csi_node(name="n1", limits={DRIVER: None}, migrated="kubernetes.io/aws-ebs"),
    ],
    "csi node n2": [None, a_csi_node(name="n2", limits={DRIVER: 0}, migrated="kubernetes.io/aws-ebs")],
    **{
        f"capacity {name}": [
            None,
            *(
                a_capacity(name=name, storage_class=storage_class, topology=topology, capacity=free, largest=largest)
                for free, largest in (("1Gi", None), ("5Gi", None), ("20Gi", "5Gi"), ("much", None))
            ),
        ]
        for name, storage_class, topology in (
            ("made-1", "made", AT_NODE[0]),
            ("made-2", "made", AT_NODE[1]),
            ("also-1", "also", AT_NODE[0]),
        )
    },
    **{
        f"volume {name}": [
            None,
            a_volume(name=name, storage_class=storage_class, node=node),
            a_volume(name=name, storage_class=storage_class, size="1Gi"),
            a_volume(name=name, storage_class=storage_class, size="much"),
            a_volume(name=name, storage_class=storage_class, phase="Released"),
            a_volume(name=name, storage_class=storage_class, deleting=True),
            a_volume(name=name, storage_class=storage_class, labels={"kind": "fast", keys.ZONE: "b"}),
            a_volume(name=name, storage_class=storage_class, claim_ref=claim_ref(name="c1"), node="n2"),
            a_volume(name=name, storage_class=storage_class, claim_ref=claim_ref(name="c2", uid="uid-c2")),
            a_volume(name=name, storage_class=storage_class, claim_ref=claim_ref(name="c2", uid="gone")),
            a_volume(
                name=name,
                storage_class=storage_class,
                claim_ref=claim_ref(name="c2", uid="uid-c2"),
                node="n2",
                annotations=BY_CONTROLLER,
            ),
            a_volume(name=name, annotations={keys.STORAGE_CLASS_BETA: "made"}, storage_class=storage_class),
            a_volume(
                name=name,
                storage_class=storage_class,
                source={"csi": {"driver": OTHER, "volumeHandle": name}},
                node=node,
            ),
            a_volume(
                name=name,
                storage_class=storage_class,
                source=EBS,
                affinity={
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": keys.ZONE, "operator": "In", "values": ["a"]}]}]
                },
            ),
        ]
        for name, storage_class, node in (("v1", "local", "n1"), ("v2", "made", "n2"), ("v3", "made", "n1"))
    },
    **{
        f"claim {name}": [
            None,
            a_claim(name=name, storage_class=storage_class, uid=f"uid-{name}"),
            a_claim(name=name, storage_class=storage_class, uid=f"anew-{name}", size="1Gi"),
            a_claim(name=name, storage_class=storage_class, uid=f"uid-{name}", selected_node="n2"),
            a_claim(name=name, storage_class=storage_class, uid=f"uid-{name}", volume="v2", bound=True),
            a_claim(name=name, storage_class=storage_class, uid=f"uid-{name}", volume="v1", bound=True),
            a_claim(name=name, storage_class=storage_class, uid=f"uid-{name}", volume="v3"),
            a_claim(name=name, storage_class=storage_class, uid=f"uid-{name}", volume="v2", bound=True, phase="Lost"),
            a_claim(
                name=name,
                storage_class=storage_class,
                uid=f"uid-{name}",
                selector={"matchLabels": {"kind": "fast"}},
            ),
            a_claim(name=name, storage_class="", uid=f"uid-{name}"),
            clean(
                a_claim(
                    name=name,
                    storage_class=storage_class,
                    uid=f"uid-{name}",
                    volume="v2",
                    bound=True,
                    annotations=BY_CONTROLLER,
                )
            ),
        ]
        for name, storage_class in (("c1", "local"), ("c2", "made"), ("c3", "also"))
    },
    "claim mine": [
        None,
        a_claim(name="own-x", storage_class="made", owners=[owned_by(pod_body(name="own"), uid="own")]),
        a_claim(name="own-x", storage_class="made"),
    ],
}
PODS = (
    a_pod(name="one", claims=["c1"]),
    a_pod(name="two", claims=["c2"]),
    a_pod(name="both", claims=["c1", "c2"]),
    a_pod(name="also", claims=["c2", "c3"]),
    a_pod(name="own", uid="own", ephemeral=["x"]),
    a_pod(name="disk", volumes=[{"name": "disk"} | EBS]),
)
#: With every plugin's strictest arguments.
PROFILE = Profile(
    tuple(NodeVolumeLimits(requires_drivers=True) if p.name == NodeVolumeLimits.name else p for p in DEFAULT.plugins)
)


#: The plugins whose changes of mind are worth a try. NodeVolumeLimits also changes its own when a class goes, and then
#: the others refuse.
VOLUMES = ("VolumeBinding", "VolumeZone")


class Cluster:
    """Snapshot and queue fed as the component feeds them."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self.queue = SchedulingQueue(PROFILE.plugins, patience=Patience(0.0, 0.0))
        self.promised: dict[str, Reservation] = {}
        #: By pod that is parked, which nodes the plugins that matter said no to.
        self.rejected: dict[str, dict[str, NodeSet]] = {}
        #: Pods whose claims are being unbound for them, which brings them news of its own.
        self.unbinds: set[str] = set()
        self._relies_on: dict[str, frozenset[Topic]] = {}
        self._objects: dict[str, ApiObject] = {}
        self._version = 0

    def happens(self, key: str, after: ApiObject | None) -> None:
        before = self._objects.pop(key, None)
        if after is not None:
            self._version += 1
            metadata = msgspec.structs.replace(after.metadata, resource_version=str(self._version))
            after = self._objects[key] = msgspec.structs.replace(after, metadata=metadata)
        if before is None and after is None:
            return
        change = self._observe(before, after)
        self._wake(change)
        # A pod that is being bound is not, when what it relies on changes.
        for pod in PODS:
            if pod.key in self.promised and change and not self._relies_on[pod.key].isdisjoint(change.topics):
                self.give_back(pod)

    def give_back(self, pod: Pod) -> None:
        reservation = self.promised.pop(pod.key, None)
        if reservation is None:
            return
        cycle.unreserve(self.snapshot, reservation)
        self.snapshot.forget(pod)
        self._wake(Change("Pod", changes.DELETE, pod.namespace, pod.name, object=pod))
        for change in changes.of_restored(reservation.plan, self.snapshot.volumes):
            self._wake(change)
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


EVENTS = st.one_of(
    *(st.tuples(st.just(key), st.sampled_from(states)) for key, states in WORLD.items()),
    st.tuples(st.just("give back"), st.sampled_from(PODS)),
)


@settings(max_examples=300)
@given(
    st.fixed_dictionaries({key: st.sampled_from(states) for key, states in WORLD.items()}),
    st.lists(EVENTS, max_size=12),
)
def test_no_pod_that_could_be_placed_stays_asleep(
    start: dict[str, ApiObject | None], events: list[tuple[str, ApiObject | None]]
) -> None:
    cluster = Cluster()
    for key, state in start.items():
        cluster.happens(key, state)
    for pod in PODS:
        cluster.queue.put(pod, 0.0)
    cluster.try_all()
    for key, state in events:
        if isinstance(state, Pod):
            cluster.give_back(state)
        else:
            cluster.happens(key, state)
        for pod in PODS:
            if cluster.queue.state_of(pod.key) is State.PARKED:
                attempt, decision = cluster.decide(pod)
                assert not decision.node, f"{pod.key} sleeps through {key}: {decision.node} would take it"
                for plugin, nodes in cluster.rejected[pod.key].items():
                    better = nodes & ~rejections(decision, cluster.snapshot).get(plugin, EMPTY) & cluster.snapshot.nodes
                    assert not better, f"{pod.key} sleeps through {key}: {plugin} has changed its mind"
                if pod.key not in cluster.unbinds:
                    helps = in_the_way(attempt, PROFILE, random.Random(0))
                    assert not helps, f"{pod.key} sleeps through {key}: its claims could be unbound for it"
        cluster.try_all()
