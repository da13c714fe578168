"""Provisioners in a small cluster: real API server in memory, virtual time, a fake driver, the PV controller."""

from collections.abc import Mapping
from functools import partial

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CSI_NODE, NODE, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.times import to_micro_time
from mooring.api.views.storage import Claim, Volume
from mooring.control.component import Component, Context
from mooring.provisioner.capacity.publisher import CapacitySettings
from mooring.provisioner.component import Provisioner
from mooring.provisioner.settings import ProvisionerSettings
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.protection import VolumeProtection
from support.builders import Body, claim_body, class_body, node_body
from support.csi_drivers.recording import DRIVER, KEY, FakeCsiDriver
from support.partial_control_plane import Build, Plane

GI = 2**30
NODES = ("node-1", "node-2")
CAPACITY = CapacitySettings(namespace="default")


def provisioner(
    driver: FakeCsiDriver, settings: ProvisionerSettings | None = None, capacity: CapacitySettings | None = None
) -> Build:
    def build(context: Context) -> Component:
        return Provisioner(context, driver, settings or ProvisionerSettings(worker_threads=5), capacity=capacity)

    return build


def plane_of(
    driver: FakeCsiDriver, settings: ProvisionerSettings | None = None, capacity: CapacitySettings | None = None
) -> list[Build]:
    return [PersistentVolumeController, VolumeProtection, provisioner(driver, settings, capacity)]


def coordinator_lease(plane: Plane) -> Body:
    """A coordinator that lives for as long as any test."""
    spec = {
        "holderIdentity": "the one",
        "leaseDurationSeconds": 100_000,
        "renewTime": to_micro_time(plane.clock.now()),
    }
    return {"metadata": {"name": well_known.COORDINATOR_LEASE}, "spec": spec}


waiting_class = partial(class_body, name="made", provisioner=DRIVER)
immediate_class = partial(waiting_class, binding_mode="Immediate")


def csi_node(name: str) -> Body:
    return {
        "metadata": {"name": name},
        "spec": {"drivers": [{"name": DRIVER, "nodeID": name, "topologyKeys": [KEY]}]},
    }


async def furnish(plane: Plane, *classes: Body) -> None:
    """Create two nodes with the driver, and these classes."""
    for name in NODES:
        await plane.create(NODE, node_body(name=name, labels={KEY: name}))
        await plane.create(CSI_NODE, csi_node(name))
    for body in classes or (waiting_class(),):
        await plane.create(STORAGE_CLASS, body)


async def ask(
    plane: Plane,
    name: str = "claim-1",
    *,
    node: str | None = "node-1",
    size: str = "1Gi",
    storage_class: str = "made",
    annotations: Mapping[str, str] | None = None,
) -> Claim:
    """Create a claim, with the selected node that a scheduler would set."""
    body = claim_body(name=name, storage_class=storage_class, size=size, selected_node=node, annotations=annotations)
    return await plane.create(CLAIM, body)


async def volumes(plane: Plane) -> tuple[Volume, ...]:
    return (await plane.client.list(VOLUME)).items


async def bound(plane: Plane, name: str = "claim-1") -> bool:
    return (await plane.get(CLAIM, name)).status.phase == "Bound"


async def all_gone(plane: Plane) -> bool:
    return not await volumes(plane)


async def selected(plane: Plane, name: str = "claim-1") -> str | None:
    return (await plane.get(CLAIM, name)).selected_node


async def select(plane: Plane, node: str | None, name: str = "claim-1") -> None:
    """Set the selected node, like a scheduler."""
    note: Mapping[str, str | None] = {well_known.SELECTED_NODE: node}
    await plane.client.patch(CLAIM, name, MergePatch({"metadata": {"annotations": note}}), namespace="default")


def accounted(driver: FakeCsiDriver, known: tuple[Volume, ...]) -> bool:
    """Whether the driver has exactly the volumes of the PersistentVolumes."""
    named = sorted(each.spec.csi.volume_handle for each in known if each.spec.csi is not None)
    return named == sorted(each.volume_id for each in driver.volumes.values())
