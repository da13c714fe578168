"""The control plane of a what-if world: the embedded cluster's components around one store, without their crashes.

The scheduler, the PV controller, the provisioner, the coordinator of clusters that have one and the workload
controllers are the real ones. Left out is what would
act on time passing or on what nobody listed: node health and its evictions, the garbage collector, namespaces,
attaching. Nodes and drivers are played. All share one set of informers, so that fifty thousand pods are read once.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from mooring.api.kinds import CLAIM, CONFIG_MAP, EVENT, LEASE, VOLUME, Kind
from mooring.api.object_names import check_label_value
from mooring.client.contract import Client, Listing, V
from mooring.client.informer import Informers
from mooring.clock import Clock
from mooring.cluster.local_client import LocalClient
from mooring.cluster.wiring import GLANCE_SECONDS
from mooring.control.component import Component, Context, run_together
from mooring.control.feature_gates import CLAIM_ROLLBACK
from mooring.coordinator.component import Coordinator
from mooring.coordinator.settings import Settings as Coordination
from mooring.provisioner.component import Provisioner
from mooring.provisioner.janitor import SelectedNodeJanitor
from mooring.provisioner.settings import Settings
from mooring.provisioner.standins.component import StandInProvisioner
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.protection import VolumeProtection
from mooring.scheduler.component import Scheduler
from mooring.scheduler.registry import DEFAULT
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.sim.whatif.drivers import Played
from mooring.sim.whatif.evictions import Evictions
from mooring.sim.whatif.figures import Figures
from mooring.sim.whatif.hearsay import Hearsay
from mooring.sim.whatif.kubelets import Kubelets
from mooring.sim.whatif.pools import pools_of
from mooring.sim.whatif.question import Prepared
from mooring.sim.whatif.remains import Remains
from mooring.sim.whatif.reported_storage import ReportedStorage
from mooring.store.contract import Change, Record, Revision
from mooring.store.memory import MemoryStore
from mooring.workloads.daemonset_controller import DaemonSetController
from mooring.workloads.deployment_controller import DeploymentController
from mooring.workloads.disruption_controller import DisruptionController
from mooring.workloads.ephemeral_volumes import EphemeralVolumeController
from mooring.workloads.replicaset_controller import ReplicaSetController
from mooring.workloads.statefulset_controller import StatefulSetController

#: Simulated seconds in which everybody gets ready: what takes longer never will.
START_SECONDS: Final = 300.0
#: Writes that say nothing about whether anything still happens.
_IDLE_WRITES: Final = (EVENT.store_prefix(), LEASE.store_prefix())

CONTROLLERS: Final = (
    PersistentVolumeController,
    VolumeProtection,
    StandInProvisioner,
    StatefulSetController,
    ReplicaSetController,
    DeploymentController,
    DaemonSetController,
    DisruptionController,
    EphemeralVolumeController,
    Remains,
)


class CalmStore(MemoryStore):
    """Knows when something was last written."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.last_write = clock.monotonic()

    async def write(self, key: str, value: bytes | None, *, expect: Revision, given: Record | None = None) -> Change:
        if not key.startswith(_IDLE_WRITES):
            self.last_write = self._clock.monotonic()
        return await super().write(key, value, expect=expect, given=given)


class Unrecorded(LocalClient):
    """For provisioners of played drivers: these always answer, so that there are no records of attempts without an
    answer to be found. Looking for them would also take a name that labels can have, which not all provisioners do."""

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> Listing[V]:
        if kind.plural == CONFIG_MAP.plural:
            return Listing((), "0")
        return await super().list(kind, namespace=namespace, labels=labels, fields=fields)


class Plane:
    """Everything of one what-if world. Built without side effects; `running` brings it up."""

    def __init__(self, begin: Prepared, *, clock: Clock, rng: random.Random) -> None:
        """By whatever name pods ask for a scheduler: all of them are the default one here."""
        self.clock = clock
        self.store = CalmStore(clock)
        rollback = begin.rollback
        unbinds = rollback.gates.enabled(CLAIM_ROLLBACK)
        server = ApiServer(self.store, clock, random.Random(rng.random()), claim_rollback=unbinds)
        user = User("what-if", ("system:masters",))
        self.client: Client = LocalClient(server, user)
        self.informers = Informers(self.client, clock, rng)
        self.hearsay = Hearsay(self.client, clock, rng)
        context = Context(self.client, self.informers, self.hearsay, clock, rng, rollback.gates)
        self.kubelets = Kubelets(context)
        self.evictions = Evictions(context, begin.drained, begin.copies)
        profiles = dict.fromkeys(sorted(begin.schedulers), DEFAULT)
        coordination = Coordination(hold_namespace=rollback.namespace, alone=True)
        self._components: list[Component] = [
            *(build(context) for build in CONTROLLERS),
            SelectedNodeJanitor(context, namespace=rollback.namespace),
            Scheduler(context, profiles=profiles, alone=True, hold_namespace=rollback.namespace),
            self.kubelets,
            self.evictions,
            *([Coordinator(context, coordination)] if rollback.coordinator else ()),
            *_storage(context, Unrecorded(server, user), begin),
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Up and ready inside the block."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self.informers.run(), name="informers"),
                group.create_task(run_together(self._components), name="components"),
            ]
            while waiting := [component.name for component in self._components if not component.ready]:
                if self.clock.monotonic() > START_SECONDS:
                    raise RuntimeError(f"{', '.join(waiting)} did not get ready")
                await self.clock.sleep(GLANCE_SECONDS)
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()


def _storage(context: Context, unrecorded: Client, begin: Prepared) -> list[Component]:
    """A provisioner for each driver that has to be played, and who keeps the figures of all."""
    inventory, rollback = begin.inventory, begin.rollback
    pools = pools_of(inventory)
    volumes = inventory.of(VOLUME)
    figures = Figures(context, pools)
    class_of = partial(_class_of, context)

    def provisioner(driver: Played) -> Provisioner:
        # Records of held attempts are found by the driver's name.
        holds = rollback.coordinator and not check_label_value(driver.name)
        settings = Settings(
            strict_topology=True, extra_create_metadata=True, namespace=rollback.namespace, rollback=holds
        )
        storage = ReportedStorage(
            driver.name, pools, class_of, figures.changed, topology=driver.topology, volumes=volumes
        )
        return Provisioner(context if holds else replace(context, client=unrecorded), storage, settings)

    return [figures, *map(provisioner, begin.drivers)]


def _class_of(context: Context, claim_key: str) -> str:
    claim = context.informers.of(CLAIM).get(claim_key)
    return "" if claim is None else claim.storage_class
