"""The hostpath driver in a simulated world: its core on memory, with provisioner, publisher and nodes that mount.

The very driver and provisioner of the embedded cluster; only what they stand on is different. One driver serves all
nodes, each with pools of its own. `accounts` compares what the driver really has with what the API's objects say.
"""

import random
from collections.abc import AsyncIterator, Collection, Sequence
from functools import partial
from typing import Any, Final

from mooring.api import quantity
from mooring.api.kinds import CLAIM, CONFIG_MAP, NODE, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME
from mooring.api.views.claim import Claim
from mooring.api.views.node import Node
from mooring.api.views.storage import StorageClass
from mooring.cluster.bootstrap import Layout
from mooring.cluster.storage import NAMESPACE
from mooring.control.component import Component, Context
from mooring.coordinator.component import Coordinator
from mooring.coordinator.settings import Settings as Coordination
from mooring.csi.contract import Driver, Topology
from mooring.hostpath.backing import NoBacking
from mooring.hostpath.driver import Hostpath
from mooring.hostpath.layout import DRIVER_NAME, NODE_KEY, Pool, Settings, central
from mooring.hostpath.state import MemoryState
from mooring.hostpath.volume_store import VolumeStore
from mooring.nodeagent.attacher import Attacher
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.csi_mounts import Mount
from mooring.provisioner.capacity_objects import DRIVER_LABEL, entry_of
from mooring.provisioner.class_parameters import VOLUME_NAME
from mooring.provisioner.component import Provisioner
from mooring.provisioner.janitor import SelectedNodeJanitor
from mooring.provisioner.publisher import CapacitySettings
from mooring.provisioner.settings import Settings as ProvisionerSettings
from mooring.sim.facts import Facts, Subject, reaches
from mooring.sim.history import Noted
from mooring.sim.instance import Build, Reach
from mooring.sim.invariants import Violation
from mooring.sim.world import Annex, World
from mooring.volumes.holds.intent import MalformedIntent, Phase
from mooring.volumes.holds.objects import INTENT_RECORD, IntentRecord, intent_name, intent_of

#: As the provisioner reaches it; nodes reach theirs by their own names.
CONTROLLER: Final = "hostpath"
#: Seconds. external-provisioner's defaults are five minutes and one: trials would have to wait for them.
LONGEST_PAUSE: Final = 30.0
POLL_INTERVAL: Final = 30.0


class Hostpaths:
    """Pools of these sizes on every node of a layout, a class for each pool of the same name."""

    def __init__(
        self,
        layout: Layout,
        *,
        rollback: bool = False,
        published: bool = True,
        attach: bool = False,
        joining: Sequence[str] = (),
        **pools: int,
    ) -> None:
        """`rollback` holds the volumes of pods that need several; without `published` figures schedulers are told
        nothing of room; with `attach` volumes are attached to nodes before they are mounted. Nodes that join later
        have the driver too."""
        self._layout = layout
        self._joining = joining
        self._rollback = rollback
        self._attach = attach
        self._published = published
        self._pools = tuple(Pool(name, size) for name, size in pools.items())

    def objects(self) -> list[dict[str, Any]]:
        """What introduces the driver to a cluster."""
        driver = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER_NAME},
            "spec": {"attachRequired": self._attach, "storageCapacity": self._published},
        }
        return [driver, *(self._class(pool) for pool in self._pools)]

    def annex(self, rng: random.Random) -> Annex:
        rows = self._layout.rows()
        names = (*(row.name for row in rows), *self._joining)
        layout = central({name: {NODE_KEY: name} for name in names}, pools=self._pools)
        volume_store = VolumeStore(layout, Settings(attach=self._attach), MemoryState(), NoBacking(), chance=rng)
        drivers: dict[str, Driver] = {name: Hostpath(volume_store, name) for name in names}
        ground = LastingGround()

        def node_agent(context: Context, reach: Reach) -> Component:
            reached = {name: {DRIVER_NAME: reach(name)} for name in names}
            return NodeAgent(context, rows, drivers=reached, ground=ground)

        components: dict[str, Build] = {
            NodeAgent.name: node_agent,
            Provisioner.name: partial(_provisioner, rollback=self._rollback),
            SelectedNodeJanitor.name: _janitor,
        }
        if self._rollback:
            components[Coordinator.name] = _coordinator
        if self._attach:
            components[Attacher.name] = _attacher
        return Annex({CONTROLLER: Hostpath(volume_store, ""), **drivers}, components)

    def make(self, storage_class: StorageClass, claims: list[Claim], node: Node, facts: Facts) -> bool:
        """Whether a class's pool on a node has room for more volumes, going by the volumes that the API knows."""
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


class LastingGround:
    """What nodes have mounted, remembered as on their disks: a crash of the agent does not unmount anything."""

    root = "/played"

    def __init__(self) -> None:
        self._mounts: dict[tuple[str, str], Mount] = {}

    def remembered(self) -> list[Mount]:
        return list(self._mounts.values())

    def remember(self, mount: Mount) -> None:
        self._mounts[mount.pod, mount.name] = mount

    def forget(self, mount: Mount) -> None:
        self._mounts.pop((mount.pod, mount.name), None)


def _provisioner(context: Context, reach: Reach, *, rollback: bool) -> Component:
    settings = ProvisionerSettings(
        strict_topology=True,
        extra_create_metadata=True,
        namespace=NAMESPACE,
        retry_interval_max=LONGEST_PAUSE,
        rollback=rollback,
    )
    capacity = CapacitySettings(NAMESPACE, poll_interval=POLL_INTERVAL, retry_interval_max=LONGEST_PAUSE)
    return Provisioner(context, reach(CONTROLLER), settings, capacity=capacity)


def _coordinator(context: Context, _: Reach) -> Component:
    return Coordinator(context, Coordination(hold_namespace=NAMESPACE, alone=True))


def _attacher(context: Context, reach: Reach) -> Component:
    return Attacher(context, DRIVER_NAME, reach(CONTROLLER))


def _janitor(context: Context, _: Reach) -> Component:
    return SelectedNodeJanitor(context, namespace=NAMESPACE)


async def accounts(world: World) -> Sequence[Violation]:
    """Where the driver and the API's objects disagree once everything is settled."""
    return [violation async for violation in _differences(world)]


async def _differences(world: World) -> AsyncIterator[Violation]:
    driver = world.driver(CONTROLLER)
    listed = {volume.volume_id: volume.context[VOLUME_NAME] for volume in await driver.list_volumes()}
    known = {
        volume.spec.csi.volume_handle: volume.name
        for volume in (await world.client.list(VOLUME)).items
        if volume.spec.csi is not None and volume.spec.csi.driver == DRIVER_NAME
    }
    for handle in sorted(listed.keys() - known.keys()):
        if not await _is_excused(world, listed[handle]):
            subject = Subject(VOLUME, listed[handle])
            yield Violation("no volume is leaked", f"no object knows of {handle}, made as {subject}", (subject,))
    for handle in sorted(known.keys() - listed.keys()):
        subject = Subject(VOLUME, known[handle])
        yield Violation("no volume is lost", f"{subject} names {handle}, which the driver does not have", (subject,))
    claims = {claim.uid for claim in (await world.client.list(CLAIM)).items}
    for record in (await world.client.list(INTENT_RECORD, namespace=NAMESPACE)).items:
        if _under_way(record, claims):
            yield Violation("attempts end", f"{record.name} is still on record", (Subject(CONFIG_MAP, record.key),))
    async for violation in _wrong_figures(world, driver):
        yield violation


def _under_way(record: IntentRecord, claims: Collection[str]) -> bool:
    """Whether a record says that an attempt has not ended: numbered ones stay with their claims, others do not."""
    if not record.name.startswith(intent_name("")):
        return False
    try:
        intent = intent_of(record)
    except MalformedIntent:
        return True
    gone = all(record.name != intent_name(uid) for uid in claims)
    return intent.phase is Phase.CREATING or (gone and not intent.closed)


async def _is_excused(world: World, name: str) -> bool:
    """A volume that nobody can know of without comparing lists: its maker was killed before it could write an object,
    and the claim was deleted before the next one came up."""
    claims = (await world.client.list(CLAIM)).items
    notes = [entry for entry in world.history.entries if isinstance(entry, Noted)]
    died = any(entry.who.startswith(Provisioner.name) and "crashed" in entry.what for entry in notes)
    written = any(entry.kind is VOLUME and entry.key == name for entry in world.history.writes())
    return died and not written and all(name != f"pvc-{claim.uid}" for claim in claims)


async def _wrong_figures(world: World, driver: Driver) -> AsyncIterator[Violation]:
    """For each node and class one object, with the figures of the driver."""
    labels = f"{DRIVER_LABEL}={DRIVER_NAME}"
    published: dict[tuple[str, str], list[int]] = {}
    for found in (await world.client.list(STORAGE_CAPACITY, namespace=NAMESPACE, labels=labels)).items:
        entry = entry_of(found)
        place = dict(entry.segment).get(NODE_KEY, "") if entry is not None else ""
        amount = quantity.to_bytes(found.capacity) if found.capacity is not None else -1
        published.setdefault((place, found.storage_class_name), []).append(amount)
    wanted: dict[tuple[str, str], list[int]] = {}
    classes = [one for one in (await world.client.list(STORAGE_CLASS)).items if one.provisioner == DRIVER_NAME]
    for node in (await world.client.list(NODE)).items:
        for one in classes:
            here = Topology({NODE_KEY: node.name})
            said = await driver.get_capacity(capabilities=(), parameters=one.parameters, accessible_from=here)
            wanted[node.name, one.name] = [said.available_bytes]
    if published != wanted:
        wrong = {key: (published.get(key), wanted.get(key)) for key in published.keys() | wanted.keys()}
        text = "; ".join(f"{key}: published {a}, driver {b}" for key, (a, b) in sorted(wrong.items()) if a != b)
        yield Violation("capacity objects match the driver", text, ())
