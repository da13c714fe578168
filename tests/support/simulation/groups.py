"""Groups of pods in a simulated cluster of six nodes with 8 CPUs, and storage whose pools a test sizes node by node."""

import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from mooring.api import well_known
from mooring.api.kinds import EVENT, NODE, POD, POD_GROUP, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject, Condition
from mooring.cluster.bootstrap import Layout
from mooring.cluster.storage import NAMESPACE
from mooring.control.component import Component, Context
from mooring.control.feature_gates import EMBEDDED, FeatureGates, parse_feature_gates
from mooring.coordinator.claim_states import CoordinatorSettings
from mooring.coordinator.component import Coordinator
from mooring.csi.contract import Driver
from mooring.hostpath.driver import Hostpath
from mooring.hostpath.files import Backing
from mooring.hostpath.records import DRIVER_NAME, NODE_KEY, DriverLayout, HostpathSettings, Pool, Site
from mooring.hostpath.state_file import MemoryState
from mooring.hostpath.volume_store import VolumeStore
from mooring.nodeagent.component import NodeAgent
from mooring.provisioner.capacity.publisher import CapacitySettings
from mooring.provisioner.component import Provisioner
from mooring.provisioner.settings import ProvisionerSettings
from support.builders import Body, capacity_body, claim_body
from support.builders.groups import member_body, pod_group_body
from support.scenarios import simulated
from support.simulation.cluster import Build, ExtraComponents, Reach, SimulatedCluster
from support.simulation.storage import CONTROLLER, POLL_INTERVAL, RETRY_INTERVAL_MAX, PersistentMountStore

V = TypeVar("V", bound=ApiObject)

GI: Final = 2**30
#: Zones a: node-1 and node-4, b: node-2 and node-5, c: node-3 and node-6.
LAYOUT: Final = Layout(nodes=6, zones=3, local_volumes=0)
NODES: Final = tuple(row.name for row in LAYOUT.rows())
#: As `mooring up` has them.
GATES: Final[FeatureGates] = parse_feature_gates("", EMBEDDED)
ZONE_KEY: Final = "topology.hostpath.csi/zone"
#: The class of the driver.
CLASS: Final = "node"
#: A PriorityClass, and the part of a spec that names it.
HIGH: Final[Body] = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1000,
}
IMPORTANT: Final[Body] = {"priorityClassName": "high"}


class GroupStorage:
    """The hostpath driver with one pool per node or zone, of these GiB; elsewhere it has none.

    `figures` are CSIStorageCapacity objects in GiB instead of those of the publisher, right or wrong.
    """

    def __init__(
        self,
        pools: Mapping[str, int],
        *,
        figures: Mapping[str, int] | None = None,
        by_zone: bool = False,
        coordinator: bool = True,
        additive: bool = True,
        limit: int = 0,
    ) -> None:
        """Without `additive` a figure is compared with each volume by itself. `limit` is that of volumes on a node."""
        self._limit = limit
        self._pools = pools
        self._additive = additive
        self._figures = figures
        self._by_zone = by_zone
        self._coordinator = coordinator

    def objects(self) -> list[Body]:
        driver: Body = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER_NAME},
            "spec": {"attachRequired": False, "storageCapacity": True},
        }
        storage_class: Body = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": CLASS,
                "annotations": {well_known.CAPACITY_USE: well_known.CAPACITY_ADDITIVE} if self._additive else {},
            },
            "provisioner": DRIVER_NAME,
            "parameters": {"pool": CLASS},
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
        }
        return [driver, storage_class, *(figure(place, size, self._by_zone) for place, size in self.figures.items())]

    @property
    def promised(self) -> Mapping[str, int]:
        """What the published figures say, in GiB."""
        return self._pools if self._figures is None else self._figures

    @property
    def figures(self) -> Mapping[str, int]:
        return self._figures or {}

    def extra_components(self, rng: random.Random) -> ExtraComponents:
        rows = LAYOUT.rows()
        segments = {row.name: {ZONE_KEY: row.zone} if self._by_zone else {NODE_KEY: row.name} for row in rows}
        sites: dict[str, Site] = {}
        for row in rows:
            place = row.zone if self._by_zone else row.name
            sites.setdefault(place, Site(segments[row.name], (Pool(CLASS, self._pools.get(place, 0) * GI),)))
        layout = DriverLayout(sites=tuple(sites.values()), nodes=segments)
        settings = HostpathSettings(max_volumes_per_node=self._limit)
        store = VolumeStore(layout, settings, MemoryState(), Backing(), chance=rng)
        drivers: dict[str, Driver] = {row.name: Hostpath(store, row.name) for row in rows}
        mounts = PersistentMountStore()

        def node_agent(context: Context, reach: Reach) -> Component:
            reached = {row.name: {DRIVER_NAME: reach(row.name)} for row in rows}
            return NodeAgent(context, rows, drivers=reached, mount_store=mounts)

        components: dict[str, Build] = {
            NodeAgent.name: node_agent,
            Provisioner.name: partial(_provisioner, publishes=self._figures is None, rollback=self._coordinator),
        }
        if self._coordinator:
            components[Coordinator.name] = _build_coordinator
        return ExtraComponents({CONTROLLER: Hostpath(store, ""), **drivers}, components)


def figure(place: str, size: int, by_zone: bool = False) -> Body:
    """A CSIStorageCapacity object of the class."""
    key = ZONE_KEY if by_zone else NODE_KEY
    topology = {"matchLabels": {key: place}}
    name = f"{CLASS}-{place}"
    return capacity_body(name=name, namespace="default", storage_class=CLASS, topology=topology, capacity=f"{size}Gi")


def _provisioner(context: Context, reach: Reach, *, publishes: bool, rollback: bool) -> Component:
    settings = ProvisionerSettings(
        strict_topology=True,
        extra_create_metadata=True,
        namespace=NAMESPACE,
        retry_interval_max=RETRY_INTERVAL_MAX,
        rollback=rollback,
    )
    capacity = CapacitySettings(NAMESPACE, poll_interval=POLL_INTERVAL, retry_interval_max=RETRY_INTERVAL_MAX)
    return Provisioner(context, reach(CONTROLLER), settings, capacity=capacity if publishes else None)


def _build_coordinator(context: Context, _: Reach) -> Component:
    return Coordinator(context, CoordinatorSettings(hold_namespace=NAMESPACE, renews_lease=True))


def members(
    count: int,
    *,
    group: str = "g",
    cpu: str = "1",
    size: str = "",
    storage_class: str = CLASS,
    first: int = 0,
    claims: Sequence[str] = (),
    **of_pod: Any,  # noqa: ANN401  arguments of pod_body
) -> list[Body]:
    """Members g-0 and so on, each with a claim of its own of this size if one is given, and with these `claims`."""
    bodies: list[Body] = []
    for number in range(first, first + count):
        own = (f"{group}-c-{number}",) if size else ()
        bodies += [claim_body(name=name, size=size, storage_class=storage_class) for name in own]
        name, mounted = f"{group}-{number}", (*own, *claims)
        bodies.append(member_body(group=group, name=name, requests={"cpu": cpu}, claims=mounted, **of_pod))
    return bodies


def gang(min_count: int, *, name: str = "g", **of_group: Any) -> Body:  # noqa: ANN401  arguments of pod_group_body
    return pod_group_body(name=name, min_count=min_count, **of_group)


def preferring(node: str) -> Body:
    """The affinity of pods that prefer a node."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    preference = {"weight": 100, "preference": term}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}


async def nodes(cluster: SimulatedCluster, group: str = "g") -> dict[str, str]:
    """Members that have a node."""
    pods = (await cluster.client.list(POD)).items
    return {pod.name: pod.spec.node_name for pod in pods if pod.group_key == f"default/{group}" and pod.spec.node_name}


async def bound(cluster: SimulatedCluster, count: int, group: str = "g") -> bool:
    return len(await nodes(cluster, group)) == count


async def condition(cluster: SimulatedCluster, group: str = "g") -> tuple[str, str, str] | None:
    """Status, reason and message of PodGroupInitiallyScheduled."""
    found: Condition | None = (await cluster.client.get(POD_GROUP, group, namespace="default")).scheduled
    return None if found is None else (found.status, found.reason, found.message)


async def messages(cluster: SimulatedCluster, name: str, reason: str) -> set[str]:
    """Messages of events of one reason about an object."""
    events = (await cluster.client.list(EVENT, namespace="default")).items
    return {each.message for each in events if each.involved_object.name == name and each.reason == reason}


async def cordon(cluster: SimulatedCluster, *names: str, on: bool = True) -> None:
    for name in names:
        await cluster.client.patch(NODE, name, MergePatch({"spec": {"unschedulable": on}}))


async def change(cluster: SimulatedCluster, kind: Kind[V], name: str, body: Mapping[str, Any]) -> None:
    await cluster.client.patch(kind, name, MergePatch(body), namespace="default" if kind.namespaced else "")


async def create(cluster: SimulatedCluster, *bodies: Body) -> None:
    await simulated.create(cluster, *bodies)
