"""The hostpath driver in a simulated cluster: in memory, with provisioner, capacity publisher and node agent.

One driver serves all nodes, each with its own pools. `storage_differences` compares the driver's volumes and capacity
with the API objects.
"""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from mooring.api import quantity
from mooring.api.kinds import CLAIM, CONFIG_MAP, NODE, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME, Kind
from mooring.api.views.core import Node
from mooring.api.views.storage import Claim, StorageClass
from mooring.client.contract import Client, ObjectList, V, WatchEvent
from mooring.cluster.bootstrap import Layout
from mooring.cluster.storage import NAMESPACE
from mooring.control.component import Component, Context
from mooring.coordinator.claim_states import CoordinatorSettings
from mooring.coordinator.component import Coordinator
from mooring.csi.contract import Driver, Topology
from mooring.hostpath.driver import Hostpath
from mooring.hostpath.files import Backing
from mooring.hostpath.records import DRIVER_NAME, NODE_KEY, HostpathSettings, Pool, central
from mooring.hostpath.state_file import MemoryState
from mooring.hostpath.volume_store import VolumeStore
from mooring.nodeagent.attacher import Attacher
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.mounts import Mount
from mooring.nodeagent.volume_manager import MountStore
from mooring.provisioner.capacity.objects import DRIVER_LABEL, entry_of
from mooring.provisioner.capacity.publisher import CapacitySettings
from mooring.provisioner.capacity.volume_changes import SNAPSHOT_CONTENT
from mooring.provisioner.component import Provisioner
from mooring.provisioner.provision.request import VOLUME_NAME
from mooring.provisioner.rollback.lost_nodes import LostNodeController
from mooring.provisioner.settings import ProvisionerSettings
from mooring.volumes.holds.objects import INTENT_RECORD, IntentRecord, intent_name, intent_of
from mooring.volumes.holds.transitions import IntentPhase, MalformedIntent
from support.fake_client import FakeClient
from support.simulation.cluster import Build, ExtraComponents, Reach, SimulatedCluster
from support.simulation.invariants import Facts, Subject, Violation, reaches

#: Name of the driver for the provisioner; nodes use their own names.
CONTROLLER: Final = "hostpath"
#: Seconds. external-provisioner's defaults are five minutes and one minute, longer than scenarios settle.
RETRY_INTERVAL_MAX: Final = 30.0
POLL_INTERVAL: Final = 30.0


class HostpathStorage:
    """Pools of these sizes on every node of a layout, and a class per pool of the same name."""

    def __init__(
        self,
        layout: Layout,
        *,
        rollback: bool = False,
        published: bool = True,
        attach: bool = False,
        joining: Sequence[str] = (),
        snapshots: FakeClient | None = None,
        **pools: int,
    ) -> None:
        """`rollback` holds the volumes of pods with several claims; without `published` no capacity is published;
        with `attach` volumes are attached before they are mounted. `joining` nodes, added later, run the driver too.
        `snapshots` has the VolumeSnapshotContents, which the provisioner watches then."""
        self._layout = layout
        self._joining = joining
        self.rollback = rollback
        self._attach = attach
        self._published = published
        self._snapshots = snapshots
        self._pools = tuple(Pool(name, size) for name, size in pools.items())

    def objects(self) -> list[dict[str, Any]]:
        """CSIDriver and StorageClasses."""
        driver = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER_NAME},
            "spec": {"attachRequired": self._attach, "storageCapacity": self._published},
        }
        return [driver, *(self._class(pool) for pool in self._pools)]

    def extra_components(self, rng: random.Random) -> ExtraComponents:
        rows = self._layout.rows()
        names = (*(row.name for row in rows), *self._joining)
        layout = central({name: {NODE_KEY: name} for name in names}, pools=self._pools)
        volume_store = VolumeStore(layout, HostpathSettings(attach=self._attach), MemoryState(), Backing(), chance=rng)
        drivers: dict[str, Driver] = {name: Hostpath(volume_store, name) for name in names}
        mounts = PersistentMountStore()

        def node_agent(context: Context, reach: Reach) -> Component:
            reached = {name: {DRIVER_NAME: reach(name)} for name in names}
            return NodeAgent(context, rows, drivers=reached, mount_store=mounts)

        components: dict[str, Build] = {
            NodeAgent.name: node_agent,
            Provisioner.name: partial(_provisioner, rollback=self.rollback, snapshots=self._snapshots),
            LostNodeController.name: _janitor,
        }
        if self.rollback:
            components[Coordinator.name] = _coordinator
        if self._attach:
            components[Attacher.name] = _attacher
        return ExtraComponents({CONTROLLER: Hostpath(volume_store, ""), **drivers}, components)

    def can_provision(self, storage_class: StorageClass, claims: list[Claim], node: Node, facts: Facts) -> bool:
        """Whether a class's pool on a node has capacity for more volumes, by the PersistentVolumes."""
        pool = next((pool for pool in self._pools if pool.name == storage_class.parameters.get("pool")), None)
        if storage_class.provisioner != DRIVER_NAME or pool is None or pool.size is None:
            return False
        there = [v for v in facts.volumes.values() if v.storage_class == storage_class.name and reaches(node, v)]
        used = sum(quantity.to_bytes(volume.size) for volume in there)
        return used + sum(quantity.to_bytes(claim.request) for claim in claims) <= pool.size

    def _class(self, pool: Pool) -> dict[str, Any]:
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": pool.name},
            "provisioner": DRIVER_NAME,
            "parameters": {"pool": pool.name},
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
        }


class PersistentMountStore(MountStore):
    """Mounts of all nodes: a crash of the node agent does not unmount anything."""

    root = "/simulated"

    def __init__(self) -> None:
        self._mounts: dict[tuple[str, str], Mount] = {}

    def load(self) -> list[Mount]:
        return list(self._mounts.values())

    async def record(self, mount: Mount) -> None:
        self._mounts[mount.pod, mount.name] = mount

    async def remove(self, mount: Mount) -> None:
        self._mounts.pop((mount.pod, mount.name), None)


class SnapshotClient:
    """A client of an API server that serves VolumeSnapshotContents as well, as with their CRD."""

    def __init__(self, client: Client, snapshots: FakeClient) -> None:
        self._client = client
        self._snapshots = snapshots

    async def list(self, kind: Kind[V], **scope: str) -> ObjectList[V]:
        return await (self._snapshots if kind is SNAPSHOT_CONTENT else self._client).list(kind, **scope)

    def watch(self, kind: Kind[V], *, after: str | None, **scope: str) -> AsyncGenerator[WatchEvent[V], None]:
        return (self._snapshots if kind is SNAPSHOT_CONTENT else self._client).watch(kind, after=after, **scope)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  every other request
        return getattr(self._client, name)


def _provisioner(context: Context, reach: Reach, *, rollback: bool, snapshots: FakeClient | None) -> Component:
    settings = ProvisionerSettings(
        strict_topology=True,
        extra_create_metadata=True,
        namespace=NAMESPACE,
        retry_interval_max=RETRY_INTERVAL_MAX,
        rollback=rollback,
    )
    capacity = CapacitySettings(
        NAMESPACE,
        poll_interval=POLL_INTERVAL,
        retry_interval_max=RETRY_INTERVAL_MAX,
        watch_snapshots=snapshots is not None,
    )
    if snapshots is not None:
        context = replace(context, client=SnapshotClient(context.client, snapshots))
    return Provisioner(context, reach(CONTROLLER), settings, capacity=capacity)


def _coordinator(context: Context, _: Reach) -> Component:
    return Coordinator(context, CoordinatorSettings(hold_namespace=NAMESPACE, renews_lease=True))


def _attacher(context: Context, reach: Reach) -> Component:
    return Attacher(context, DRIVER_NAME, reach(CONTROLLER))


def _janitor(context: Context, _: Reach) -> Component:
    return LostNodeController(context, namespace=NAMESPACE)


async def storage_differences(cluster: SimulatedCluster, *, published: bool = True) -> Sequence[Violation]:
    """Differences between the driver and the API objects after convergence; without `published` capacity objects are
    those of the test."""
    return [violation async for violation in _differences(cluster, published)]


async def _differences(cluster: SimulatedCluster, published: bool) -> AsyncIterator[Violation]:
    driver = cluster.driver(CONTROLLER)
    listed = {volume.volume_id: volume.context[VOLUME_NAME] for volume in await driver.list_volumes()}
    known = {
        volume.spec.csi.volume_handle: volume.name
        for volume in (await cluster.client.list(VOLUME)).items
        if volume.spec.csi is not None and volume.spec.csi.driver == DRIVER_NAME
    }
    for handle in sorted(listed.keys() - known.keys()):
        # Without excuse: a call that is still on its way has not created a volume yet.
        subject = Subject(VOLUME, listed[handle])
        yield Violation("no volume is leaked", f"no object refers to {handle}, created as {subject}", (subject,))
    for handle in sorted(known.keys() - listed.keys()):
        subject = Subject(VOLUME, known[handle])
        yield Violation("no volume is lost", f"{subject} names {handle}, which the driver does not have", (subject,))
    claims = {claim.uid for claim in (await cluster.client.list(CLAIM)).items}
    for record in (await cluster.client.list(INTENT_RECORD, namespace=NAMESPACE)).items:
        if _under_way(record, claims):
            yield Violation("attempts end", f"{record.name} is still recorded", (Subject(CONFIG_MAP, record.key),))
    if not published:
        return
    async for violation in _wrong_capacities(cluster, driver):
        yield violation


def _under_way(record: IntentRecord, claims: Collection[str]) -> bool:
    """Whether the recorded attempt has not ended: numbered records are deleted with their claims."""
    if not record.name.startswith(intent_name("")):
        return False
    try:
        intent = intent_of(record)
    except MalformedIntent:
        return True
    gone = all(record.name != intent_name(uid) for uid in claims)
    return intent.phase is IntentPhase.CREATING or (gone and not intent.closed)


async def _wrong_capacities(cluster: SimulatedCluster, driver: Driver) -> AsyncIterator[Violation]:
    """There is one object per node and class, with the driver's capacity."""
    labels = f"{DRIVER_LABEL}={DRIVER_NAME}"
    published: dict[tuple[str, str], list[int]] = {}
    for found in (await cluster.client.list(STORAGE_CAPACITY, namespace=NAMESPACE, labels=labels)).items:
        entry = entry_of(found)
        node_name = dict(entry.segment).get(NODE_KEY, "") if entry is not None else ""
        amount = quantity.to_bytes(found.capacity) if found.capacity is not None else -1
        published.setdefault((node_name, found.storage_class_name), []).append(amount)
    expected: dict[tuple[str, str], list[int]] = {}
    classes = [one for one in (await cluster.client.list(STORAGE_CLASS)).items if one.provisioner == DRIVER_NAME]
    for node in (await cluster.client.list(NODE)).items:
        for one in classes:
            here = Topology({NODE_KEY: node.name})
            reported = await driver.get_capacity(capabilities=(), parameters=one.parameters, accessible_from=here)
            expected[node.name, one.name] = [reported.available_bytes]
    if published != expected:
        wrong = {key: (published.get(key), expected.get(key)) for key in published.keys() | expected.keys()}
        text = "; ".join(f"{key}: published {a}, driver {b}" for key, (a, b) in sorted(wrong.items()) if a != b)
        yield Violation("capacity objects match the driver", text, ())
