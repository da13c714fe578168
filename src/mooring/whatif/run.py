"""The simulated control plane, run in virtual time until nothing changes, and the result compared with the beginning.

The scheduler, the PV controller, the provisioner, the coordinator of clusters that have one and the workload
controllers are the real ones. Left out is what would act on time passing or on objects that are not listed: node
health and its evictions, the garbage collector, namespaces, attaching. Nodes and drivers are simulated. All share one
set of informers, so that fifty thousand pods are read once. The same question gets the same answer, byte for byte.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, Protocol, TypeVar

import msgspec

from mooring.api import kinds, well_known
from mooring.api.errors import ApiError
from mooring.api.kinds import Kind
from mooring.api.names import check_label_value
from mooring.api.patches.contract import MergePatch
from mooring.api.times import time_or_none
from mooring.api.views.pods import Pod
from mooring.api.views.storage import StorageCapacity
from mooring.client.contract import Client, ObjectList, V
from mooring.client.informer import Informers
from mooring.clock import Clock
from mooring.cluster.bootstrap import Progress, no_progress
from mooring.cluster.control_plane import POLL_INTERVAL_SECONDS
from mooring.cluster.local_client import LocalClient
from mooring.control.component import Component, Context, run_together
from mooring.control.feature_gates import CLAIM_ROLLBACK
from mooring.controllers.storage_controllers import EphemeralVolumeController
from mooring.controllers.workloads.daemonset_controller import DaemonSetController
from mooring.controllers.workloads.deployment_controller import DeploymentController
from mooring.controllers.workloads.disruption_controller import DisruptionController
from mooring.controllers.workloads.replicaset_controller import ReplicaSetController
from mooring.controllers.workloads.statefulset_controller import StatefulSetController
from mooring.coordinator.claim_states import CoordinatorSettings
from mooring.coordinator.component import Coordinator
from mooring.provisioner.component import Provisioner
from mooring.provisioner.rollback.lost_nodes import LostNodeController
from mooring.provisioner.settings import ProvisionerSettings
from mooring.provisioner.standins.component import StandInProvisioner
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.protection import VolumeProtection
from mooring.scheduler.component import Scheduler
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.store.contract import ABSENT, Record, Revision, StoreChange
from mooring.store.watch_cache import MemoryStore
from mooring.whatif import results, virtual_time
from mooring.whatif.actors import CapacityUpdater, Evictions, Kubelets, LatestWarnings, OwnedClaimCollector
from mooring.whatif.drivers import SimulatedDriver, pools_of
from mooring.whatif.inventory import KINDS, BadQuestion, Inventory
from mooring.whatif.question import Moves, Prepared, WhatIfQuestion, prepared
from mooring.whatif.rebalance import SimulatedState
from mooring.whatif.simulated_driver import ReportedStorage
from mooring.whatif.virtual_time import EPOCH, VirtualClock

T = TypeVar("T")

#: Simulated seconds within which all components must become ready.
START_SECONDS: Final = 300.0
#: Writes that say nothing about whether anything still happens.
_HEARTBEAT_PREFIXES: Final = (kinds.EVENT.store_prefix(), kinds.LEASE.store_prefix())

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
    OwnedClaimCollector,
)


class LastWriteStore(MemoryStore):
    """Knows when something was last written."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.last_write = clock.monotonic()

    async def write(
        self, key: str, value: bytes | None, *, expect: Revision, precondition: Record | None = None
    ) -> StoreChange:
        if not key.startswith(_HEARTBEAT_PREFIXES):
            self.last_write = self._clock.monotonic()
        return await super().write(key, value, expect=expect, precondition=precondition)


class TimedChanges(Protocol):
    """What happens to the cluster while the simulation runs."""

    @property
    def later(self) -> Sequence[StorageCapacity]:
        """Capacity objects that it creates."""

    async def play(self, client: Client, store: MemoryStore, informers: Informers, clock: Clock) -> None:
        """Do it all, at its time."""


class AttemptlessClient(LocalClient):
    """For provisioners of played drivers: these always answer, so that there are no records of attempts without an
    answer to be found. Looking for them would also take a name that labels can have, which not all provisioners do."""

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> ObjectList[V]:
        if kind.plural == kinds.CONFIG_MAP.plural:
            return ObjectList((), "0")
        return await super().list(kind, namespace=namespace, labels=labels, fields=fields)


class SimulatedControlPlane:
    """Everything of one what-if world. Built without side effects; `running` brings it up."""

    def __init__(self, begin: Prepared, *, clock: Clock, rng: random.Random) -> None:
        self.clock = clock
        self.store = LastWriteStore(clock)
        rollback = begin.rollback
        unbinds = rollback.gates.enabled(CLAIM_ROLLBACK)
        server = ApiServer(self.store, clock, random.Random(rng.random()), claim_rollback=unbinds)
        user = User("what-if", ("system:masters",))
        self.client: Client = LocalClient(server, user)
        self.informers = Informers(self.client, clock, rng)
        self.warnings = LatestWarnings(self.client, clock, rng)
        context = Context(self.client, self.informers, self.warnings, clock, rng, rollback.gates)
        self.kubelets = Kubelets(context)
        self.evictions = Evictions(context, begin.drained, begin.copies, moved=begin.moved)
        coordination = CoordinatorSettings(hold_namespace=rollback.namespace, renews_lease=True)
        self._components: list[Component] = [
            *(build(context) for build in CONTROLLERS),
            LostNodeController(context, namespace=rollback.namespace),
            Scheduler(context, profiles=begin.profiles, only_scheduler=True, hold_namespace=rollback.namespace),
            self.kubelets,
            self.evictions,
            *([Coordinator(context, coordination)] if rollback.coordinator else ()),
            *_storage(context, AttemptlessClient(server, user), begin),
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
                await self.clock.sleep(POLL_INTERVAL_SECONDS)
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()


def _storage(context: Context, unrecorded: Client, begin: Prepared) -> list[Component]:
    """A provisioner for each driver that has to be played, and who keeps the figures of all."""
    inventory, rollback = begin.inventory, begin.rollback
    pools = pools_of(inventory, begin.later)
    volumes = inventory.of(kinds.VOLUME)
    reported_values = CapacityUpdater(context, pools)

    def class_of(claim_key: str) -> str:
        claim = context.informers.of(kinds.CLAIM).get(claim_key)
        return "" if claim is None else claim.storage_class

    def provisioner(driver: SimulatedDriver) -> Provisioner:
        # Records of held attempts are found by the driver's name.
        holds = rollback.coordinator and not check_label_value(driver.name)
        settings = ProvisionerSettings(
            strict_topology=True, extra_create_metadata=True, namespace=rollback.namespace, rollback=holds
        )
        storage = ReportedStorage(
            driver.name, pools, class_of, reported_values.changed, topology=driver.topology, volumes=volumes
        )
        return Provisioner(context if holds else replace(context, client=unrecorded), storage, settings)

    return [reported_values, *map(provisioner, begin.drivers)]


#: Simulated seconds without a write after which nothing more will happen: longer than the scheduler's longest backoff,
#: a provisioner's first retries and the pause between two evictions.
QUIET_SECONDS: Final = 60.0
#: Simulated seconds after which a cluster that finds no rest is judged as it is.
MAX_SIMULATED_SECONDS: Final = 4 * 3600.0
#: Simulated seconds between two looks whether something still happens.
_POLL_SECONDS: Final = 1.0
#: Objects put into the store between two reports of progress.
_PROGRESS_BATCH: Final = 2000

_SETS: Final = {"statefulset": kinds.STATEFUL_SET, "replicaset": kinds.REPLICA_SET}


def answer(question: WhatIfQuestion, progress: Progress = no_progress) -> results.SimulationResult:
    """Raises BadQuestion."""
    return _simulated(question, progress, lambda _, __, result: result)


def state_with(question: WhatIfQuestion, moves: Moves | None, progress: Progress = no_progress) -> SimulatedState:
    """What the question ends in if these pods are moved. Raises BadQuestion."""

    def state(begin: Prepared, plane: SimulatedControlPlane, result: results.SimulationResult) -> SimulatedState:
        objects = results.objects_at_end(lambda kind: plane.informers.of(kind).items(), now=plane.clock.now())
        budgets = plane.informers.of(kinds.DISRUPTION_BUDGET).items()
        default = begin.profiles[well_known.DEFAULT_SCHEDULER]
        return SimulatedState(result, objects, tuple(budgets), lambda name: begin.profiles.get(name, default))

    copied = replace(question, inventory=question.inventory.copied(), moves=moves)
    return _simulated(copied, progress, state)


def replayed(
    question: WhatIfQuestion, timed: TimedChanges, progress: Progress = no_progress
) -> results.SimulationResult:
    """The question while these changes happen. Raises BadQuestion."""
    return _simulated(question, progress, lambda _, __, result: result, timed)


def _simulated(
    question: WhatIfQuestion,
    progress: Progress,
    ended: Callable[[Prepared, SimulatedControlPlane, results.SimulationResult], T],
    timed: TimedChanges | None = None,
) -> T:
    begin = replace(prepared(question), later=timed.later if timed is not None else ())

    async def main(clock: VirtualClock) -> T:
        rng = random.Random(question.seed)
        plane = SimulatedControlPlane(begin, clock=clock, rng=rng)
        await _load(plane, begin.inventory, progress)
        async with plane.running():
            if timed is not None:
                await timed.play(plane.client, plane.store, plane.informers, clock)
            seconds = await _settle(plane, progress)
            if begin.cordoned:
                uncordoned = MergePatch({"spec": {"unschedulable": None}})
                await plane.client.patch(kinds.NODE, begin.cordoned, uncordoned)
                seconds += QUIET_SECONDS + await _settle(plane, progress)
            return ended(begin, plane, _simulation_result(plane, begin, seconds))

    return virtual_time.run_in_virtual_time(main, start=_newest(begin.inventory))


async def _load(plane: SimulatedControlPlane, inventory: Inventory, progress: Progress) -> None:
    """Write existing objects into the store before watches start; create new ones through the API."""
    total = len(inventory)
    for count, (key, value) in enumerate(inventory.stored()):
        if count % _PROGRESS_BATCH == 0:
            progress("loading", count, total)
        await plane.store.write(key, value, expect=ABSENT)
    for kind, key, body in inventory.coming():
        namespace = body["metadata"].get("namespace") or well_known.DEFAULT_NAMESPACE if kind.namespaced else ""
        try:
            if inventory.is_there(kind, key):
                await plane.client.patch(kind, body["metadata"]["name"], MergePatch(body), namespace=namespace)
            else:
                await plane.client.create(kind, body, namespace=namespace)
        except ApiError as error:
            raise BadQuestion(f"{kind.kind} {key}: {error.message}") from error


async def _settle(plane: SimulatedControlPlane, progress: Progress) -> float:
    """Let time pass until nothing was written for a while; answers with when the last write was."""
    clock = plane.clock
    waiting: set[str] = set()

    def on_pod(before: Pod | None, after: Pod | None) -> None:
        for pod in (before, after):
            if pod is not None:
                (waiting.discard if pod is before or pod.spec.node_name else waiting.add)(pod.key)

    plane.informers.of(kinds.POD).on_change(on_pod)
    most = len(waiting)
    quiet = QUIET_SECONDS + _slowest(plane.informers)
    started = clock.monotonic()
    while clock.monotonic() - plane.store.last_write < quiet and clock.monotonic() - started < MAX_SIMULATED_SECONDS:
        most = max(most, len(waiting))
        progress("simulating", most - len(waiting), most)
        await clock.sleep(_POLL_SECONDS)
    return plane.store.last_write - started


def _slowest(informers: Informers) -> int:
    """Seconds that pods of some owner have to be ready before the next one comes."""
    waits = [
        *(each.spec.min_ready_seconds for each in informers.of(kinds.STATEFUL_SET).items()),
        *(each.spec.min_ready_seconds for each in informers.of(kinds.DEPLOYMENT).items()),
        *(each.spec.min_ready_seconds for each in informers.of(kinds.REPLICA_SET).items()),
        *(each.spec.min_ready_seconds for each in informers.of(kinds.DAEMON_SET).items()),
    ]
    return max(waits, default=0)


def _simulation_result(plane: SimulatedControlPlane, begin: Prepared, seconds: float) -> results.SimulationResult:
    def objects(kind: Kind[V]) -> Collection[V]:
        return plane.informers.of(kind).items()

    messages = results.SimulationMessages(
        obstacles=plane.kubelets.obstacles,
        refused=plane.evictions.refused,
        why_waiting=lambda pod: _why_waiting(plane, pod),
        why_not_created=lambda kind, key: plane.warnings.warning(_SETS[kind], key, "FailedCreate"),
    )
    pods = plane.informers.of(kinds.POD)
    compared = results.Comparison(begin.before, results.cluster_of(objects), messages)
    pending = compared.pending()
    notes = [*begin.notes]
    if seconds > MAX_SIMULATED_SECONDS - QUIET_SECONDS:
        notes.append(
            f"still changing after {MAX_SIMULATED_SECONDS / 3600:.0f} simulated hours; the state then is shown"
        )
    found = results.SimulationResult(
        verdict="",
        ok=True,
        seconds=round(max(seconds, 0.0), 3),
        placements=compared.placements(),
        pending=pending,
        shortfalls=compared.shortfalls(),
        blocked=compared.blocked(),
        lost=compared.lost(),
        capacity=compared.capacity(),
        difference=compared.difference(begin.drained),
        explanations=results.explanations(pending, pods.get, objects, now=plane.clock.now()),
        groups=results.pending_groups(pending, objects, now=plane.clock.now()),
        notes=tuple(notes),
    )
    return msgspec.structs.replace(found, verdict=results.verdict(found), ok=results.is_good(found))


def _why_waiting(plane: SimulatedControlPlane, pod: Pod) -> str:
    """What the scheduler says on the pod, else what the provisioner says of its claims."""
    said = next((c.message for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"), "")
    failed = [plane.warnings.warning(kinds.CLAIM, key, "ProvisioningFailed") for key in pod.claim_keys]
    return said or next(filter(None, failed), "")


def _newest(inventory: Inventory) -> float:
    """The latest moment that any object speaks of: simulated time goes on from there."""
    moments = [each.metadata.creation_timestamp for kind in KINDS for each in inventory.of(kind)]
    moments += [
        condition.last_transition_time for pod in inventory.of(kinds.POD) for condition in pod.status.conditions
    ]
    # Nodes renew theirs all the time, so these tell best when the cluster was listed.
    moments += [lease.spec.renew_time for lease in inventory.leases]
    # A figure that is later than the volumes provisioned from now on would count as one that knows them.
    moments += [
        each.metadata.annotations.get(well_known.CAPACITY_POLLED_AT) for each in inventory.of(kinds.STORAGE_CAPACITY)
    ]
    # All are of one form, in which later moments sort later; what is no moment is passed over.
    known = (time_or_none(moment) for moment in sorted({each for each in moments if each}, reverse=True))
    return max(next((moment for moment in known if moment is not None), EPOCH), EPOCH)
