"""Bound claims that no pod ever used, with the real kube-apiserver, PV controller, protection and kube-scheduler.

The test is the provisioner. There is no node, so that every pod is unschedulable.
"""

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CONFIG_MAP, NAMESPACE, POD, STORAGE_CLASS, VOLUME
from mooring.client.http import HttpClient
from mooring.client.live_reads import get_or_none
from mooring.clock import SystemClock
from mooring.pvcontroller.unused_claim_controller import UnusedClaimController
from mooring.volumes.unused.record import RECORD_SELECTOR, UNUSED
from support.builders import claim_body, claim_ref, class_body, pod_body, volume_body
from support.conformance.control_plane import ControlPlane
from support.conformance.waiting import TIMEOUT_SECONDS
from support.partial_control_plane import Plane
from support.provisioner.crashing_process import CrashingClient, alive

CONTROLLERS = ("persistentvolume-binder-controller", "persistentvolumeclaim-protection-controller")


class Trial:
    """A claim in a namespace of its own, with the controller of this process."""

    def __init__(self, client: HttpClient, name: str) -> None:
        self.plane = Plane(client, SystemClock())  # type: ignore[arg-type]  # sleeps in real time
        self.name = name

    async def furnish(self) -> str:
        """A claim without a volume, and a pod that uses it; returns the claim's uid."""
        await self.plane.create(NAMESPACE, {"metadata": {"name": self.name}})
        notes = {well_known.UNUSED_CLAIMS: "2s"}
        made = class_body(name=self.name, provisioner="csi.example.com", annotations=notes)
        await self.plane.create(STORAGE_CLASS, made)
        claim = claim_body(name="data", namespace=self.name, storage_class=self.name, labels={"app": "db"})
        uid = (await self.plane.create(CLAIM, claim)).uid
        await self.plane.create(POD, pod_body(name="db-0", namespace=self.name, claims=["data"]))
        return uid

    async def bind(self, uid: str) -> str:
        """Do what the provisioner does; returns the volume's name."""
        notes, reference = (
            {well_known.PROVISIONED_BY: "csi.example.com"},
            claim_ref(name="data", namespace=self.name, uid=uid),
        )
        body = volume_body(
            name=f"pvc-{uid}", node="n1", storage_class=self.name, claim_ref=reference, annotations=notes
        )
        await self.plane.create(VOLUME, body)
        await self.until_bound(f"pvc-{uid}")
        return f"pvc-{uid}"

    async def until_bound(self, volume: str) -> None:
        async def bound() -> bool:
            claim = await get_or_none(self.plane.client, CLAIM, "data", namespace=self.name)
            return claim is not None and claim.status.phase == "Bound" and claim.spec.volume_name == volume

        await self.plane.until(bound, within=TIMEOUT_SECONDS)

    async def until_replaced(self, uid: str) -> None:
        async def replaced() -> bool:
            claim = await get_or_none(self.plane.client, CLAIM, "data", namespace=self.name)
            return claim is not None and claim.uid != uid

        await self.plane.until(replaced, within=TIMEOUT_SECONDS)

    async def records(self) -> int:
        return len((await self.plane.client.list(CONFIG_MAP, namespace="kube-system", labels=RECORD_SELECTOR)).items)

    async def until_finished(self) -> None:
        async def finished() -> bool:
            return await self.records() == 0

        await self.plane.until(finished, within=TIMEOUT_SECONDS)


@pytest.mark.req("R8.released")
async def test_unused_claim_is_replaced_beside_kube_scheduler(kube: ControlPlane, client: HttpClient) -> None:
    trial = Trial(client, "unused-claims")
    with kube.controllers(*CONTROLLERS), kube.scheduler():
        async with alive(trial.plane, UnusedClaimController):
            old = await trial.furnish()
            volume = await trial.bind(old)
            await trial.until_replaced(old)
            claim = await trial.plane.get(CLAIM, "data", namespace=trial.name)
            assert (claim.spec.volume_name, claim.metadata.labels) == ("", {"app": "db"})
            kept = await trial.plane.get(VOLUME, volume)
            assert kept.metadata.annotations[UNUSED] == old
            assert kept.spec.persistent_volume_reclaim_policy == "Retain"
            await trial.until_finished()


@pytest.mark.req("R8.released")
async def test_volume_is_returned_after_a_crash(kube: ControlPlane, client: HttpClient) -> None:
    """The process that deleted the claim takes what it knew about pods with it."""
    trial = Trial(client, "returned-claims")
    with kube.controllers(*CONTROLLERS), kube.scheduler():
        # The record, the finalizer, the deletion; the volume is retained already.
        async with alive(trial.plane, UnusedClaimController, own := CrashingClient(client, 3)):
            old = await trial.furnish()
            volume = await trial.bind(old)
            await own.dead.wait()
        async with alive(trial.plane, UnusedClaimController):
            await trial.until_replaced(old)
            await trial.until_bound(volume)
            assert UNUSED not in (await trial.plane.get(VOLUME, volume)).metadata.annotations
            await trial.until_finished()
