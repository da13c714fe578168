"""Our PV controller, volume protection, zonal upgrade and stand-ins on kube-apiserver."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import pytest

from mooring.api import well_known
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, EVENT, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.storage import Volume
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.control.component import Component, Context
from mooring.provisioner.standins.component import StandInProvisioner
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.preset_nodes import PresetNodeController
from mooring.pvcontroller.protection import VolumeProtection
from mooring.pvcontroller.zonal_upgrade import UndoResult, ZonalUpgrade, undo_zonal_upgrade
from support.builders import claim_body, claim_ref, class_body, node_body, pod_body, volume_body
from support.conformance.control_plane import ControlPlane
from support.conformance.releases import Release
from support.conformance.running import running
from support.conformance.waiting import TIMEOUT_SECONDS

COMPONENTS: Final = (PersistentVolumeController, VolumeProtection, ZonalUpgrade, StandInProvisioner)
ZONAL: Final = "zonal.standins.mooring.dev"
#: The release whose kube-apiserver has the gate MutablePVNodeAffinity.
MUTABLE_AFFINITY_SINCE: Final = 35
DISK: Final = {"csi": {"driver": "disks.example.com", "volumeHandle": "disk"}}


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.1)


async def bound_to(client: HttpClient, name: str) -> str:
    """The volume of a claim, once both are bound."""

    async def bound() -> bool:
        claim = await client.get(CLAIM, name, namespace="default")
        if claim.status.phase != "Bound":
            return False
        return (await client.get(VOLUME, claim.spec.volume_name)).status.phase == "Bound"

    await until(bound)
    return (await client.get(CLAIM, name, namespace="default")).spec.volume_name


async def gone(client: HttpClient, name: str) -> bool:
    try:
        await client.get(VOLUME, name)
    except NotFound:
        return True
    return False


@pytest.mark.req("T42.real-server")
@pytest.mark.version_matrix("kube-apiserver", "PV controller", "binding and release")
async def test_claims_and_volumes_are_bound_and_released(client: HttpClient) -> None:
    """Matched, reserved from either side, and provisioned; then claims are deleted, and volumes retained or deleted."""
    await client.create(STORAGE_CLASS, class_body(name="pv-now", binding_mode="Immediate"))
    await client.create(STORAGE_CLASS, class_body(name="pv-made", provisioner=ZONAL, binding_mode="Immediate"))
    await client.create(NODE, node_body(name="pv-node", zone="pv-zone"))
    async with running(client, COMPONENTS):
        await client.create(VOLUME, volume_body(name="pv-found", storage_class="pv-now", source=DISK))
        await client.create(VOLUME, volume_body(name="pv-named", storage_class="pv-none", source=DISK))
        reserved = claim_ref(name="pv-reserved")
        await client.create(
            VOLUME, volume_body(name="pv-reserved", storage_class="pv-none", source=DISK, claim_ref=reserved)
        )
        for name, storage_class, volume in (
            ("pv-found", "pv-now", ""),
            ("pv-named", "pv-none", "pv-named"),
            ("pv-reserved", "pv-none", ""),
            ("pv-made", "pv-made", ""),
        ):
            body = claim_body(name=name, storage_class=storage_class, volume=volume)
            await client.create(CLAIM, body, namespace="default")
        for name in ("pv-found", "pv-named", "pv-reserved"):
            assert await bound_to(client, name) == name
        made = await bound_to(client, "pv-made")
        assert made.startswith("pvc-")

        for name in ("pv-found", "pv-named", "pv-reserved", "pv-made"):
            await client.delete(CLAIM, name, namespace="default")
        await until(lambda: gone(client, made))

        async def released() -> bool:
            kept = [await client.get(VOLUME, name) for name in ("pv-found", "pv-named", "pv-reserved")]
            return all(volume.status.phase == "Released" for volume in kept)

        await until(released)
    await client.delete(NODE, "pv-node")


@pytest.mark.req("T42.real-server")
@pytest.mark.version_matrix("kube-apiserver", "PV controller", "protection of claims in use")
async def test_claim_in_use_is_kept_until_its_pod_is_deleted(client: HttpClient) -> None:
    async with running(client, COMPONENTS):
        await client.create(VOLUME, volume_body(name="pv-used", storage_class="pv-used", source=DISK))
        await client.create(CLAIM, claim_body(name="pv-used", storage_class="pv-used"), namespace="default")
        await bound_to(client, "pv-used")
        await client.create(POD, pod_body(name="pv-user", claims=["pv-used"], node="nowhere"), namespace="default")
        await client.delete(CLAIM, "pv-used", namespace="default")
        await asyncio.sleep(1.0)
        assert (await client.get(CLAIM, "pv-used", namespace="default")).deleting
        await client.delete(POD, "pv-user", namespace="default", grace_seconds=0)

        async def released() -> bool:
            return (await client.get(VOLUME, "pv-used")).status.phase == "Released"

        await until(released)


@pytest.mark.req("T42.real-server")
@pytest.mark.version_matrix("kube-apiserver", "PV controller", "lost volumes")
async def test_claim_of_deleted_volume_is_lost(client: HttpClient) -> None:
    async with running(client, COMPONENTS):
        await client.create(VOLUME, volume_body(name="pv-lost", storage_class="pv-lost", source=DISK))
        await client.create(CLAIM, claim_body(name="pv-lost", storage_class="pv-lost"), namespace="default")
        await bound_to(client, "pv-lost")
        await client.delete(VOLUME, "pv-lost")
        await client.patch(VOLUME, "pv-lost", MergePatch({"metadata": {"finalizers": None}}))

        async def is_lost() -> bool:
            events = await client.list(EVENT, namespace="default", fields="involvedObject.name=pv-lost")
            lost = (await client.get(CLAIM, "pv-lost", namespace="default")).status.phase == "Lost"
            return lost and any(event.reason == "ClaimLost" for event in events.items)

        await until(is_lost)


@pytest.mark.req("T36.controller")
@pytest.mark.version_matrix("kube-apiserver", "PV controller", "volumes with zone labels")
async def test_labelled_volumes_are_upgraded(client: HttpClient) -> None:
    """kube-apiserver adds nothing by itself, and accepts an added affinity once."""
    labels = {well_known.ZONE: "a__b", well_known.REGION: "r"}
    await client.create(VOLUME, volume_body(name="pv-labelled", storage_class="pv-x", source=DISK, labels=labels))
    assert (await client.get(VOLUME, "pv-labelled")).spec.node_affinity is None
    async with running(client, COMPONENTS):

        async def upgraded() -> bool:
            return (await client.get(VOLUME, "pv-labelled")).spec.node_affinity is not None

        await until(upgraded)
    required = (await client.get(VOLUME, "pv-labelled")).required_affinity
    assert required is not None
    [term] = required.node_selector_terms
    assert {one.key: one.values for one in term.match_expressions} == {
        well_known.ZONE: ("a", "b"),
        well_known.REGION: ("r",),
    }


@pytest.mark.req("T52.undone")
@pytest.mark.version_matrix("kube-apiserver", "PV controller", "zonal upgrade undone")
async def test_zonal_upgrade_is_undone_where_the_server_allows_it(
    start_kube: Callable[[], ControlPlane], release: Release
) -> None:
    """Without the gate MutablePVNodeAffinity the volume keeps its affinity, with the server's reason; with it, the
    affinity goes and does not come back. The labels stay in both cases."""
    kube = start_kube()
    labels = {well_known.ZONE: "a"}
    client = HttpClient(kube.access, component="conformance", clock=SystemClock())

    async def volume() -> Volume:
        return await client.get(VOLUME, "pv-zonal")

    async def upgraded() -> bool:
        return (await volume()).spec.node_affinity is not None

    try:
        await client.create(NODE, node_body(name="pv-zonal-node", zone="a"))
        await client.create(VOLUME, volume_body(name="pv-zonal", storage_class="pv-x", source=DISK, labels=labels))
        async with running(client, COMPONENTS):
            await until(upgraded)
        [kept] = [result async for result in undo_zonal_upgrade(client)]
        assert kept.volume == "pv-zonal"
        assert "immutable" in kept.kept
        assert (await volume()).metadata.labels == labels
        assert await upgraded()

        if release.minor < MUTABLE_AFFINITY_SINCE:
            return
        kube.stop_apiserver()
        kube.start_apiserver("--feature-gates=MutablePVNodeAffinity=true")
        assert [result async for result in undo_zonal_upgrade(client)] == [UndoResult("pv-zonal")]
        undone = await volume()
        assert undone.spec.node_affinity is None
        assert undone.metadata.labels == labels
        async with running(client, COMPONENTS):
            # Upgraded after the undone one, if that were upgraded at all.
            await client.create(VOLUME, volume_body(name="pv-later", storage_class="pv-x", source=DISK, labels=labels))
            await until(partial(_has_affinity, client, "pv-later"))
            assert not await upgraded()
    finally:
        await client.close()


async def _has_affinity(client: HttpClient, name: str) -> bool:
    return (await client.get(VOLUME, name)).spec.node_affinity is not None


@pytest.mark.req("T17.real-server")
@pytest.mark.version_matrix("kube-apiserver", "PV controller", "provisioning on another node")
async def test_node_without_provisioning_is_cleared(client: HttpClient) -> None:
    storage_class = class_body(name="pv-full", provisioner=ZONAL, parameters={"capacityPerDomain": "1Gi"})
    await client.create(STORAGE_CLASS, storage_class)
    await client.create(NODE, node_body(name="pv-full", zone="pv-zone"))
    async with running(client, COMPONENTS):
        body = claim_body(name="pv-full", storage_class="pv-full", selected_node="pv-full")
        await client.create(CLAIM, body, namespace="default")

        async def is_returned_to_scheduler() -> bool:
            return (await client.get(CLAIM, "pv-full", namespace="default")).selected_node is None

        await until(is_returned_to_scheduler)
    await client.delete(NODE, "pv-full")


@pytest.mark.req("T48.bound")
@pytest.mark.version_matrix("kube-controller-manager", "preset-node controller", "claims of pods with a preset node")
async def test_claims_of_a_preset_pod_are_bound_by_kubernetes_own_controller(
    kube: ControlPlane, client: HttpClient
) -> None:
    """One claim to an existing volume of the node, one provisioned for it; without the controller both stay pending."""
    await client.create(STORAGE_CLASS, class_body(name="preset-static"))
    await client.create(STORAGE_CLASS, class_body(name="preset-made", provisioner=ZONAL))
    for name in ("preset-a", "preset-b"):
        labels = {well_known.HOSTNAME: name}
        await client.create(NODE, node_body(name=name, zone=f"zone-{name}", labels=labels))
        await client.create(VOLUME, volume_body(name=f"on-{name}", storage_class="preset-static", node=name))
    names = ("preset-static", "preset-made")
    for name in names:
        await client.create(CLAIM, claim_body(name=name, storage_class=name), namespace="default")
    await client.create(POD, pod_body(name="preset", claims=names, node="preset-b"), namespace="default")
    with kube.controllers("persistentvolume-binder-controller"):
        builds: Sequence[Callable[[Context], Component]] = (StandInProvisioner,)
        async with running(client, builds):
            await asyncio.sleep(2.0)
            for name in names:
                assert (await client.get(CLAIM, name, namespace="default")).status.phase == "Pending"
        async with running(client, (StandInProvisioner, PresetNodeController)):
            assert await bound_to(client, "preset-static") == "on-preset-b"
            made = await client.get(VOLUME, await bound_to(client, "preset-made"))
    assert made.required_affinity is not None
    [term] = made.required_affinity.node_selector_terms
    assert ("zone-preset-b",) in [one.values for one in term.match_expressions]
    assert (await client.get(VOLUME, "on-preset-a")).spec.claim_ref is None
    await client.delete(POD, "preset", namespace="default", grace_seconds=0)
    for name in ("preset-a", "preset-b"):
        await client.delete(NODE, name)
