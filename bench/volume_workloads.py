"""Clusters with local storage and streams of pods, decided without an API server: for comparing scoring policies.

`StorageNodes` feeds a scheduler's `Snapshot` with real views and runs the real scheduling cycle; what the PV
controller, the provisioner and the capacity publisher would write is observed at once. Storage is local to nodes, as
PersistentVolumes that exist, as pools in which volumes are provisioned, or half of each. Requests come from a seed, so
that all policies are given the same pods.
"""

import enum
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from mooring.api import well_known
from mooring.api.kinds import STATEFUL_SET
from mooring.api.times import to_micro_time
from mooring.api.views.core import Node
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, StorageCapacity, Volume
from mooring.api.views.workloads import StatefulSet
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.snapshot.snapshot import Snapshot
from support.builders import a_capacity, a_claim, a_class, a_driver, a_node, a_pod, a_volume
from support.builders.claims import claim_ref

GI: Final = 1 << 30
CLASS: Final = "fast"
DRIVER: Final = "csi.example.com"
#: GiB of storage of a node: two of three nodes are small.
NODE_SIZES: Final = (320, 320, 640)
#: GiB of existing volumes, the small ones more often.
VOLUME_SIZES: Final = {20: 40, 40: 30, 80: 20, 160: 10}
#: GiB that pods request with mixed sizes.
CLAIM_SIZES: Final = {10: 35, 20: 30, 40: 20, 80: 10, 160: 5}
UNIFORM_SIZE: Final = 40
#: Of ten pods with mixed sizes, those with two claims.
TWO_CLAIMS: Final = 3
REPLICAS: Final = 3


class Storage(enum.Enum):
    EXISTING = "existing"
    PROVISIONED = "provisioned"
    BOTH = "both"


class Workload(enum.Enum):
    UNIFORM = "uniform"
    MIXED = "mixed"
    CHURN = "churn"


class Request(NamedTuple):
    """A pod with claims of these sizes in GiB. Pods of one application are replicas of a StatefulSet."""

    name: str
    application: str
    sizes: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.sizes)


def requests(workload: Workload, rng: random.Random) -> Iterator[Request]:
    """Pods without end. The replicas of an application request the same and come one after the other."""
    number = 0
    while True:
        sizes: tuple[int, ...] = (UNIFORM_SIZE,)
        if workload is not Workload.UNIFORM:
            count = 2 if rng.randrange(10) < TWO_CLAIMS else 1
            sizes = tuple(rng.choices(tuple(CLAIM_SIZES), tuple(CLAIM_SIZES.values()), k=count))
        for replica in range(REPLICAS):
            yield Request(f"app-{number}-{replica}", f"app-{number}", sizes)
        number += 1


def existing_sizes(total: int, rng: random.Random) -> Iterator[int]:
    """Sizes of existing volumes that add up to at most `total`."""
    while total >= min(VOLUME_SIZES):
        size = rng.choices(tuple(VOLUME_SIZES), tuple(VOLUME_SIZES.values()))[0]
        if size <= total:
            total -= size
            yield size


@dataclass
class StorageNode:
    """What a node has, in GiB."""

    node: Node
    pool: int
    free: int
    capacity: StorageCapacity | None = None
    #: Existing volumes, and the names of those that are free.
    volumes: dict[str, Volume] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    unused: set[str] = field(default_factory=set)

    @property
    def total(self) -> int:
        return self.pool + sum(self.sizes.values())

    @property
    def total_free(self) -> int:
        return self.free + sum(self.sizes[name] for name in self.unused)

    @property
    def largest(self) -> int:
        """The largest volume that would still fit."""
        return max([self.free, *(self.sizes[name] for name in self.unused)])

    def fitting(self, size: int) -> int:
        """How many volumes of this size would still fit."""
        return self.free // size + sum(self.sizes[name] >= size for name in self.unused)


@dataclass
class PlacedPod:
    """A pod on its node, with what it has there."""

    request: Request
    node: str
    pod: Pod
    claims: list[Claim] = field(default_factory=list)
    existing: list[str] = field(default_factory=list)
    provisioned: list[tuple[Volume, int]] = field(default_factory=list)


class StorageNodes:
    """A cluster whose pods are decided by one profile."""

    def __init__(
        self,
        nodes: int,
        storage: Storage,
        profile: Profile,
        rng: random.Random,
        *,
        node_sizes: Sequence[int] = NODE_SIZES,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Nodes have `node_sizes` in turn; `annotations` are of the StorageClass."""
        self.snapshot = Snapshot()
        self._profile = profile
        self._rng = rng
        self._clock = 1_000_000.0
        self._version = 0
        provisions = storage is not Storage.EXISTING
        provisioner = DRIVER if provisions else well_known.NO_PROVISIONER
        self.snapshot.volumes.observe_class(
            None, a_class(name=CLASS, provisioner=provisioner, annotations=annotations or {})
        )
        self.snapshot.volumes.observe_driver(None, a_driver(name=DRIVER, tracks_capacity=True))
        self.nodes: dict[str, StorageNode] = {}
        self.pods: dict[str, PlacedPod] = {}
        self._applications: set[str] = set()
        for number in range(nodes):
            self._add_node(f"node-{number:03}", node_sizes[number % len(node_sizes)], storage)

    @property
    def total(self) -> int:
        return sum(each.total for each in self.nodes.values())

    @property
    def requested(self) -> int:
        return sum(each.request.total for each in self.pods.values())

    def pods_per_node(self) -> Counter[str]:
        return Counter(each.node for each in self.pods.values())

    def place(self, request: Request) -> str:
        """Decide and bind; the node, or "" where none was feasible."""
        placed = self._pending(request)
        state = CycleState(placed.pod, self.snapshot)
        decision = cycle.run_cycle(state, self._profile, self._rng)
        if not decision.node:
            for claim in placed.claims:
                self.snapshot.volumes.observe_claim(claim, None)
            return ""
        placed.node = decision.node
        plan = cycle.reserve(state, self._profile, decision.node)
        for binding in plan.static:
            self._bind_existing(placed, binding.claim, binding.volume.name)
        for provisioning in plan.provision:
            self._provision(placed, provisioning.claim)
        bound = self._pod(request, placed.node)
        self.snapshot.observe_pod(placed.pod, bound)
        placed.pod = bound
        self.pods[request.name] = placed
        return placed.node

    def remove(self, name: str) -> None:
        """Delete a pod with its claims. Existing volumes are free again, as local-volume provisioners make them."""
        placed = self.pods.pop(name)
        here = self.nodes[placed.node]
        self.snapshot.observe_pod(placed.pod, None)
        for claim in placed.claims:
            self.snapshot.volumes.observe_claim(claim, None)
        for volume in placed.existing:
            self._observe_existing(here, volume, None)
        for made, size in placed.provisioned:
            self.snapshot.volumes.observe_volume(made, None)
            here.free += size
        if placed.provisioned:
            self._publish(here)

    def lose(self, name: str) -> int:
        """Lose a node with its storage, give its pods new claims, and count those that find another node. Everything is
        as before then."""
        here = self.nodes.pop(name)
        lost = [each for each in self.pods.values() if each.node == name]
        self.snapshot.observe_node(here.node, None)
        for volume in here.unused:
            self.snapshot.volumes.observe_volume(here.volumes[volume], None)
        if here.capacity is not None:
            self.snapshot.volumes.observe_capacity(here.capacity, None)
            here.capacity = None
        again = [Request(f"{each.request.name}-again", each.request.application, each.request.sizes) for each in lost]
        found = [request.name for request in again if self.place(request)]
        for returned in found:
            self.remove(returned)
        self.nodes[name] = here
        self.snapshot.observe_node(None, here.node)
        for volume in sorted(here.unused):
            self.snapshot.volumes.observe_volume(None, here.volumes[volume])
        if here.pool:
            self._publish(here)
        return len(found)

    def _add_node(self, name: str, size: int, storage: Storage) -> None:
        existing = {Storage.EXISTING: size, Storage.PROVISIONED: 0, Storage.BOTH: size // 2}[storage]
        node = a_node(name=name, allocatable={"cpu": str(size // 10), "memory": f"{size}Gi", "pods": "250"})
        here = self.nodes[name] = StorageNode(node, size - existing, size - existing)
        self.snapshot.observe_node(None, node)
        for number, volume_size in enumerate(existing_sizes(existing, self._rng)):
            volume = f"{name}-{number}"
            here.sizes[volume] = volume_size
            self._observe_existing(here, volume, None)
        if here.pool:
            self._publish(here)

    def _pending(self, request: Request) -> PlacedPod:
        if request.application not in self._applications:
            self._applications.add(request.application)
            self.snapshot.spread_selectors.observe_controller(None, _stateful_set(request.application))
        placed = PlacedPod(request, "", self._pod(request, ""))
        for number, size in enumerate(request.sizes):
            name = f"{request.name}-{number}"
            claim = a_claim(name=name, uid=name, version=self._next(), size=size * GI, storage_class=CLASS)
            self.snapshot.volumes.observe_claim(None, claim)
            placed.claims.append(claim)
        return placed

    def _pod(self, request: Request, node: str) -> Pod:
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": request.application, "controller": True}
        return a_pod(
            name=request.name,
            uid=request.name,
            labels={"app": request.application},
            claims=[f"{request.name}-{number}" for number in range(len(request.sizes))],
            requests={"cpu": "250m", "memory": "256Mi"},
            owners=[owner],
            node=node,
        )

    def _bind_existing(self, placed: PlacedPod, claim: Claim, volume: str) -> None:
        self._observe_existing(self.nodes[placed.node], volume, claim)
        placed.existing.append(volume)
        self._bound(placed, claim, volume)

    def _provision(self, placed: PlacedPod, claim: Claim) -> None:
        here, name = self.nodes[placed.node], f"pvc-{claim.uid}"
        size = placed.request.sizes[int(claim.name.rpartition("-")[2])]
        self._clock += 1.0
        volume = a_volume(
            name=name,
            size=size * GI,
            storage_class=CLASS,
            node=placed.node,
            claim_ref=claim_ref(name=claim.name, uid=claim.uid),
            source={"csi": {"driver": DRIVER, "volumeHandle": name}},
            phase="Bound",
            version=self._next(),
            annotations={well_known.PROVISIONED_BY: DRIVER, well_known.VOLUME_CREATED_AT: to_micro_time(self._clock)},
        )
        self.snapshot.volumes.observe_volume(None, volume)
        placed.provisioned.append((volume, size))
        self._bound(placed, claim, name)
        here.free -= size
        assert here.free >= 0, f"{placed.node} has more volumes than storage"
        self._publish(here)

    def _bound(self, placed: PlacedPod, claim: Claim, volume: str) -> None:
        number = int(claim.name.rpartition("-")[2])
        bound = a_claim(
            name=claim.name,
            uid=claim.uid,
            version=self._next(),
            size=placed.request.sizes[number] * GI,
            storage_class=CLASS,
            volume=volume,
            bound=True,
        )
        self.snapshot.volumes.observe_claim(placed.claims[number], bound)
        placed.claims[number] = bound

    def _observe_existing(self, here: StorageNode, name: str, claim: Claim | None) -> None:
        volume = a_volume(
            name=name,
            size=here.sizes[name] * GI,
            storage_class=CLASS,
            node=here.node.name,
            claim_ref=None if claim is None else claim_ref(name=claim.name, uid=claim.uid),
            phase="Available" if claim is None else "Bound",
            version=self._next(),
        )
        problem = self.snapshot.volumes.observe_volume(here.volumes.get(name), volume)
        assert not problem, problem
        here.volumes[name] = volume
        (here.unused.add if claim is None else here.unused.discard)(name)

    def _publish(self, here: StorageNode) -> None:
        self._clock += 1.0
        published = a_capacity(
            name=here.node.name,
            storage_class=CLASS,
            capacity=here.free * GI,
            largest=here.free * GI,
            topology={"matchLabels": {well_known.HOSTNAME: here.node.name}},
            version=self._next(),
            annotations={well_known.CAPACITY_POLLED_AT: to_micro_time(self._clock)},
        )
        problem = self.snapshot.volumes.observe_capacity(here.capacity, published)
        assert not problem, problem
        here.capacity = published

    def _next(self) -> str:
        self._version += 1
        return str(self._version)


def _stateful_set(name: str) -> StatefulSet:
    spec = {"selector": {"matchLabels": {"app": name}}}
    return STATEFUL_SET.decode(msgspec.json.encode({"metadata": {"name": name, "namespace": "default"}, "spec": spec}))
