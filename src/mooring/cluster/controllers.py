"""The controllers of a control plane as one table: what `mooring up` runs all of and `mooring controller` some.

Names are kube-controller-manager's where it has such a controller, so that its `--controllers` lists can be used
here. The scheduler, the node agent and what makes volumes are not controllers in this sense: they are components of
their own.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from mooring.cluster.storage import NAMESPACE as STORAGE_NAMESPACE
from mooring.control.component import Component, Context
from mooring.provisioner.janitor import SelectedNodeJanitor
from mooring.provisioner.standins.component import StandInProvisioner
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.protection import VolumeProtection
from mooring.pvcontroller.zonal_upgrade import ZonalUpgrade
from mooring.workloads.attach_controller import AttachController
from mooring.workloads.daemonset_controller import DaemonSetController
from mooring.workloads.deployment_controller import DeploymentController
from mooring.workloads.disruption_controller import DisruptionController
from mooring.workloads.ephemeral_volumes import EphemeralVolumeController
from mooring.workloads.garbage import GarbageCollector
from mooring.workloads.namespaces import NamespaceController
from mooring.workloads.node_lifecycle import NodeLifecycleController
from mooring.workloads.replicaset_controller import ReplicaSetController
from mooring.workloads.role_aggregation import RoleAggregationController
from mooring.workloads.service_accounts import ServiceAccountController
from mooring.workloads.statefulset_controller import StatefulSetController
from mooring.workloads.stranded_pods import StrandedPodCollector
from mooring.workloads.taint_eviction import TaintEvictionController

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
    return (
        Controller("persistentvolume-binder-controller", PersistentVolumeController.name, PersistentVolumeController),
        Controller("persistentvolume-protection-controller", VolumeProtection.name, VolumeProtection),
        Controller("persistentvolume-attach-detach-controller", AttachController.name, AttachController),
        Controller("zonal-upgrade-controller", ZonalUpgrade.name, ZonalUpgrade),
        Controller(
            "selected-node-janitor",
            SelectedNodeJanitor.name,
            lambda context: SelectedNodeJanitor(context, namespace=hold_namespace),
        ),
        Controller("standin-provisioner", StandInProvisioner.name, StandInProvisioner, default=False),
        Controller("statefulset-controller", StatefulSetController.name, StatefulSetController),
        Controller("replicaset-controller", ReplicaSetController.name, ReplicaSetController),
        Controller("deployment-controller", DeploymentController.name, DeploymentController),
        Controller("daemonset-controller", DaemonSetController.name, DaemonSetController),
        Controller("disruption-controller", DisruptionController.name, DisruptionController),
        Controller("ephemeral-volume-controller", EphemeralVolumeController.name, EphemeralVolumeController),
        # These two know the kinds of Mooring's table only: elsewhere they would overlook owners and contents.
        Controller("garbage-collector-controller", GarbageCollector.name, GarbageCollector, default=False),
        Controller("namespace-controller", NamespaceController.name, NamespaceController, default=False),
        Controller("node-lifecycle-controller", NodeLifecycleController.name, NodeLifecycleController),
        Controller("taint-eviction-controller", TaintEvictionController.name, TaintEvictionController),
        Controller("pod-garbage-collector-controller", StrandedPodCollector.name, StrandedPodCollector),
        Controller("serviceaccount-controller", ServiceAccountController.name, ServiceAccountController),
        Controller("clusterrole-aggregation-controller", RoleAggregationController.name, RoleAggregationController),
    )


CONTROLLERS: Final = controllers()


class UnknownController(ValueError):
    """A name that `--controllers` does not take; the text says which, and what would do."""


def chosen(wanted: Sequence[str], *, hold_namespace: str = STORAGE_NAMESPACE) -> list[Controller]:
    """What a `--controllers` list means: `*` all that are on by default, `name` one, `-name` not that one.

    Later entries do not undo earlier ones: as upstream's, what is named wins over `*`. Raises UnknownController.
    """
    known = {controller.name for controller in CONTROLLERS}
    for entry in wanted:
        if entry != "*" and entry.removeprefix("-") not in known:
            raise UnknownController(f"{entry!r} is not in the list of known controllers: {', '.join(sorted(known))}")

    def is_on(controller: Controller) -> bool:
        if controller.name in wanted:
            return True
        if f"-{controller.name}" in wanted:
            return False
        return "*" in wanted and controller.default

    return [controller for controller in controllers(hold_namespace=hold_namespace) if is_on(controller)]
