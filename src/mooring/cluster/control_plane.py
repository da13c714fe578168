"""The table of controllers, informers shared between components, and the control plane. No HTTP, no store.

Names are kube-controller-manager's where it has such a controller, so that its `--controllers` lists work here. Shared
informers check at start that the role of each component permits list and watch of the kinds it uses.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry

from mooring import __version__
from mooring.api.health import DebugDocuments
from mooring.api.kinds import NODE, Kind
from mooring.api.views.core import Node
from mooring.client.contract import Client, V
from mooring.client.informer import Informer, Informers
from mooring.client.recorder import EventRecorder
from mooring.clock import Clock
from mooring.cluster.bootstrap import Layout, Progress, bootstrap, no_progress
from mooring.cluster.identities import BOOTSTRAP, INFORMERS, UNSHARED, Identity, identity_of
from mooring.cluster.storage import NAMESPACE as STORAGE_NAMESPACE
from mooring.cluster.storage import Storage
from mooring.control.component import Component, Context, InternalErrors, run_together
from mooring.control.component_info import ComponentInfo
from mooring.control.feature_gates import DEFAULTS, FeatureGates, FeatureRollout
from mooring.control.metrics import Metrics
from mooring.control.version_skew import VersionSkewMonitor
from mooring.controllers.account_controllers import RoleAggregationController, ServiceAccountController
from mooring.controllers.garbage_collector import GarbageCollector
from mooring.controllers.namespace_controller import NamespaceController
from mooring.controllers.node_controllers import NodeLifecycleController, PodGarbageCollector, TaintEvictionController
from mooring.controllers.storage_controllers import AttachController, EphemeralVolumeController
from mooring.controllers.workloads.daemonset_controller import DaemonSetController
from mooring.controllers.workloads.deployment_controller import DeploymentController
from mooring.controllers.workloads.disruption_controller import DisruptionController
from mooring.controllers.workloads.group_protection import PodGroupProtection
from mooring.controllers.workloads.replicaset_controller import ReplicaSetController
from mooring.controllers.workloads.statefulset_controller import StatefulSetController
from mooring.coordinator import claim_states as coordination
from mooring.coordinator.component import Coordinator
from mooring.csi.contract import ControllerCapability
from mooring.nodeagent.attacher import Attacher
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.node_objects import RENEWALS_PER_SECOND, NodeTemplate, is_powered, is_ready, is_simulated
from mooring.provisioner.capacity.publisher import CapacitySettings
from mooring.provisioner.component import Provisioner
from mooring.provisioner.rollback.lost_nodes import LostNodeController
from mooring.provisioner.settings import ProvisionerSettings
from mooring.provisioner.standins.component import StandInProvisioner
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.lost_storage_controller import LostStorageController
from mooring.pvcontroller.preset_nodes import PresetNodeController
from mooring.pvcontroller.protection import VolumeProtection
from mooring.pvcontroller.unused_claim_controller import UnusedClaimController
from mooring.pvcontroller.zonal_upgrade import ZonalUpgrade
from mooring.scheduler.attempt_log import PATH, AttemptLog
from mooring.scheduler.component import Scheduler
from mooring.server.auth.access import refusal
from mooring.server.auth.rbac import AuthorizationDecision, ResourceRequest, allows_resource

Build = Callable[[Context], Component]


class Controller(NamedTuple):
    #: As `--controllers` takes it.
    name: str
    #: As its events show it.
    source: str
    build: Build
    #: Whether `*` means it too. Off are those that would do harm, or nothing, on a cluster that is not ours.
    default: bool = True


def controllers(*, hold_namespace: str = STORAGE_NAMESPACE) -> tuple[Controller, ...]:
    """All of them; `hold_namespace` is where provisioners keep their records."""
    janitor = partial(LostNodeController, namespace=hold_namespace)
    recovery = partial(LostStorageController, namespace=hold_namespace)
    replacement = partial(UnusedClaimController, namespace=hold_namespace)
    return (
        Controller("persistentvolume-binder-controller", PersistentVolumeController.name, PersistentVolumeController),
        Controller("persistentvolume-protection-controller", VolumeProtection.name, VolumeProtection),
        Controller("persistentvolume-attach-detach-controller", AttachController.name, AttachController),
        Controller("zonal-upgrade-controller", ZonalUpgrade.name, ZonalUpgrade),
        # A pod that bypasses the scheduler has unbound claims on other clusters, and their users may rely on that.
        Controller("preset-node-controller", PresetNodeController.name, PresetNodeController, default=False),
        Controller("selected-node-janitor", LostNodeController.name, janitor),
        # These two delete claims and volumes, if their class allows it.
        Controller("lost-storage-controller", LostStorageController.name, recovery, default=False),
        Controller("unused-claim-controller", UnusedClaimController.name, replacement, default=False),
        Controller("standin-provisioner", StandInProvisioner.name, StandInProvisioner, default=False),
        Controller("statefulset-controller", StatefulSetController.name, StatefulSetController),
        Controller("replicaset-controller", ReplicaSetController.name, ReplicaSetController),
        Controller("deployment-controller", DeploymentController.name, DeploymentController),
        Controller("daemonset-controller", DaemonSetController.name, DaemonSetController),
        Controller("disruption-controller", DisruptionController.name, DisruptionController),
        Controller("podgroup-protection-controller", PodGroupProtection.name, PodGroupProtection),
        Controller("ephemeral-volume-controller", EphemeralVolumeController.name, EphemeralVolumeController),
        # These two know the kinds of Mooring's table only: elsewhere they would overlook owners and contents.
        Controller("garbage-collector-controller", GarbageCollector.name, GarbageCollector, default=False),
        Controller("namespace-controller", NamespaceController.name, NamespaceController, default=False),
        Controller("node-lifecycle-controller", NodeLifecycleController.name, NodeLifecycleController),
        Controller("taint-eviction-controller", TaintEvictionController.name, TaintEvictionController),
        Controller("pod-garbage-collector-controller", PodGarbageCollector.name, PodGarbageCollector),
        Controller("serviceaccount-controller", ServiceAccountController.name, ServiceAccountController),
        Controller("clusterrole-aggregation-controller", RoleAggregationController.name, RoleAggregationController),
    )


CONTROLLERS: Final = controllers()


class UnknownController(ValueError):
    """A name that `--controllers` does not take; the text says which, and what would do."""


def chosen(entries: Sequence[str], *, hold_namespace: str = STORAGE_NAMESPACE) -> list[Controller]:
    """What a `--controllers` list means: `*` all that are on by default, `name` one, `-name` not that one.

    Later entries do not undo earlier ones: as upstream's, what is named wins over `*`. Raises UnknownController.
    """
    known = {controller.name for controller in CONTROLLERS}
    for entry in entries:
        if entry != "*" and entry.removeprefix("-") not in known:
            raise UnknownController(f"{entry!r} is not in the list of known controllers: {', '.join(sorted(known))}")

    def is_on(controller: Controller) -> bool:
        if controller.name in entries:
            return True
        if f"-{controller.name}" in entries:
            return False
        return "*" in entries and controller.default

    return [controller for controller in controllers(hold_namespace=hold_namespace) if is_on(controller)]


class SharedInformers(Informers):
    """What one identity may see of `shared`. Running those is their owner's business."""

    def __init__(self, shared: Informers, identity: Identity) -> None:
        self._shared = shared
        self._identity = identity

    def of(self, kind: Kind[V]) -> Informer[V]:
        """Raises Forbidden."""
        for verb in ("list", "watch"):
            request = ResourceRequest(verb, kind.group, kind.plural)
            if not any(allows_resource(rule, request) for rule in self._identity.rules):
                raise refusal(self._identity.user, request, AuthorizationDecision(False))
        return self._shared.of(kind)

    async def wait_synced(self) -> None:
        await self._shared.wait_synced()

    async def run(self) -> None:
        raise RuntimeError("shared informers are run by the ControlPlane")


#: How often readiness is looked at while the cluster comes up; short against the second a start takes.
POLL_INTERVAL_SECONDS: Final = 0.02
#: Looks at which nothing has changed after which nothing will: half a minute. Looks and not seconds, since a process
#: that is busy or was suspended looks rarely.
MAX_GLANCES: Final = 1500

#: Volumes that are made at once. Few, because all that a pod waits for shares this process: with upstream's 100, the
#: first volumes of all pods were made before the last of any, and half of the pods ran only at the very end.
PROVISIONER_WORKERS: Final = 16

SCHEDULER: Final = "default-scheduler"
#: What this process is called among those of the control plane.
PROCESS: Final = "mooring-control-plane"
#: The client of a component, by its name; those of `identities` are asked for.
Connect = Callable[[str], Client]


def build_components(
    layout: Layout,
    registry: CollectorRegistry | None = None,
    storage: Storage | None = None,
    *,
    pace: float = RENEWALS_PER_SECOND,
    attempts: AttemptLog | None = None,
) -> Sequence[tuple[str, Build]]:
    """Every component and the name its events carry, in the order they are started.

    `registry` is where those with metrics of their own show them. `storage` brings those that make volumes.
    Nodes renew their Leases `pace` times a second at most, all together. `attempts` is what the scheduler writes down.
    """
    rows = layout.rows()
    return (
        *((controller.source, controller.build) for controller in CONTROLLERS),
        (SCHEDULER, lambda context: Scheduler(context, only_scheduler=True, registry=registry, attempts=attempts)),
        (NodeAgent.name, lambda context: _node_agent(context, rows, storage, pace)),
        *(_provisioners(storage, registry) if storage is not None else ()),
    )


def _node_agent(context: Context, rows: Sequence[NodeTemplate], storage: Storage | None, pace: float) -> NodeAgent:
    if storage is None:
        return NodeAgent(context, rows, pace=pace)
    drivers = {node: {storage.facts.name: driver} for node, driver in storage.nodes.items()}
    return NodeAgent(context, rows, drivers=drivers, mount_store=storage.mounts, pace=pace)


def _provisioners(storage: Storage, registry: CollectorRegistry | None) -> Sequence[tuple[str, Build]]:
    settings = ProvisionerSettings(
        strict_topology=True,
        extra_create_metadata=True,
        namespace=STORAGE_NAMESPACE,
        rollback=True,
        worker_threads=PROVISIONER_WORKERS,
    )
    capacity = CapacitySettings(
        namespace=STORAGE_NAMESPACE,
        poll_interval=storage.poll_interval,
        threads=storage.capacity_threads,
        shared_informer=True,
    )

    def provisioner(context: Context) -> Component:
        return Provisioner(
            context, storage.controller, settings, facts=storage.facts, capacity=capacity, registry=registry
        )

    def coordinator(context: Context) -> Component:
        settings = coordination.CoordinatorSettings(hold_namespace=STORAGE_NAMESPACE, renews_lease=True)
        return Coordinator(context, settings, registry=registry)

    def attacher(context: Context) -> Component:
        return Attacher(context, storage.facts.name, storage.controller)

    attaches = ControllerCapability.PUBLISH_UNPUBLISH_VOLUME in storage.facts.controller_capabilities
    always: tuple[tuple[str, Build], ...] = ((Coordinator.name, coordinator), (Provisioner.name, provisioner))
    return (*always, (Attacher.name, attacher)) if attaches else always


class NotReady(Exception):
    """What did not start in time: components, or all nodes."""


class ControlPlane:
    """Built without side effects; `run` brings it up and keeps it up until cancelled."""

    def __init__(
        self,
        connect: Connect,
        layout: Layout,
        *,
        clock: Clock,
        rng: random.Random,
        gates: FeatureGates = DEFAULTS,
        left_out: Collection[str] = (),
        storage: Storage | None = None,
        progress: Progress = no_progress,
    ) -> None:
        """`left_out`: components that run elsewhere; without `storage` no volumes are provisioned."""
        self.metrics = Metrics(clock)
        attempts = AttemptLog()
        #: What may be looked at beside the metrics; without the scheduler there is nothing.
        self.debug: DebugDocuments = {} if SCHEDULER in left_out else {PATH: attempts.document}
        self._connect = connect
        self._clock = clock
        self._layout = layout
        #: In the layout's order.
        self._nodes = dict.fromkeys(row.name for row in layout.rows())
        #: Nodes of the layout that are not ready, and those of them that a start waits for. Kept by the changes of the
        #: informer: a start looks often, and would look at all nodes each time.
        self._unready = set(self._nodes)
        self._awaited = set(self._nodes)
        self._storage = storage
        self._progress = progress
        #: Set once the first objects are there.
        self._created = asyncio.Event()
        others = {kind: connect(component) for kind, component in UNSHARED.items()}
        count = self.metrics.count_internal_error
        shared = connect(INFORMERS)
        recorder = EventRecorder(shared, clock, INFORMERS, rng, count_internal_error=count)
        report = InternalErrors(recorder, count)
        self._informers = Informers(shared, clock, rng, other_clients=others, report=report)
        self._informers.of(NODE).on_change(self._on_node)
        self._recorders = [recorder]
        self.components: list[Component] = []
        self.metrics.memory.add("informers", self._informers)
        rows = build_components(layout, self.metrics.registry, storage, attempts=attempts)
        table = [row for row in rows if row[0] not in left_out]
        table.append((VersionSkewMonitor.name, self._skew_watch(frozenset(source for source, _ in table), gates)))
        rollout = FeatureRollout()
        for source, build in table:
            client, informers = connect(source), SharedInformers(self._informers, identity_of(source))
            recorder = EventRecorder(client, clock, source, rng, count_internal_error=count)
            self._recorders.append(recorder)
            metrics = self.metrics
            context = Context(
                client,
                informers,
                recorder,
                clock,
                rng,
                gates,
                metrics.queue,
                metrics.invariants,
                count,
                metrics.registry,
                rollout,
            )
            self.components.append(build(context))
            self.metrics.memory.add(source, self.components[-1])
        self.metrics.memory.add("recorders", self._recorders)

    def _skew_watch(self, sources: frozenset[str], gates: FeatureGates) -> Build:
        """Components of one process fit together; those of others may not."""
        parts = sources | ({"scheduler"} if SCHEDULER in sources else set())
        mine = ComponentInfo(PROCESS, __version__, gates, parts)
        return lambda context: VersionSkewMonitor(context, mine, registry=self.metrics.registry)

    def missing_components(self) -> list[str]:
        """Names of the components that do not act yet."""
        return [component.name for component in self.components if not component.ready]

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        """Nothing here will report as ready a node that is switched off, or that another agent has registered under a
        name of the layout."""
        name = (after or before or Node()).name
        self._unready.discard(name)
        self._awaited.discard(name)
        if name in self._nodes and (after is None or not is_ready(after)):
            self._unready.add(name)
            if after is None or (is_simulated(after) and is_powered(after)):
                self._awaited.add(name)

    def unready_nodes(self) -> list[str]:
        return [name for name in self._nodes if name in self._unready]

    async def wait_ready(self) -> None:
        """Until all components act and every node that is awaited has reported, or no further one does.

        Raises NotReady where a component stays behind, or all nodes do.
        """
        await self._created.wait()
        last, glances = (0, 0), 0
        while True:
            components, nodes = self.missing_components(), len(self._awaited)
            missing = (len(components), nodes)
            glances = glances + 1 if missing == last else 0
            last = missing
            if not components and not nodes:
                return
            if glances == MAX_GLANCES:
                if components or nodes == len(self._nodes):
                    raise NotReady(", ".join(components or ("any node",)))
                return
            if components:
                total = len(self.components)
                self._progress(f"waiting for {', '.join(components[:3])}", total - len(components), total)
            else:
                self._progress("waiting for nodes", len(self._nodes) - nodes, len(self._nodes))
            await self._clock.sleep(POLL_INTERVAL_SECONDS)

    async def run(self) -> None:
        await bootstrap(self._connect(BOOTSTRAP), self._layout, self._storage, self._progress)
        for component in self.components:
            if isinstance(component, NodeAgent):
                await component.register_missing(partial(self._progress, "nodes"))
        self._created.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informers.run(), name="informers")
            for recorder in self._recorders:
                group.create_task(recorder.run(), name="events")
            monitors = [component for component in self.components if isinstance(component, VersionSkewMonitor)]
            group.create_task(run_together(monitors), name="announcement")
            for monitor in monitors:
                # A feature that another process lacks must not be used at first.
                await monitor.compared.wait()
            others = [component for component in self.components if component not in monitors]
            group.create_task(run_together(others), name="components")

    async def flush(self) -> None:
        """Have the last events written, while `run` runs."""
        await asyncio.gather(*(recorder.flush() for recorder in self._recorders))


@asynccontextmanager
async def running_control_plane(plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    """The control plane, up and ready inside the block. Its failure ends the block with the reason."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(plane.run(), name="control plane")
        await plane.wait_ready()
        yield plane
        await plane.flush()
        task.cancel()
