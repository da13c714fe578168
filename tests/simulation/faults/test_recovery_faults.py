"""Recovery under random faults: lost nodes, pods that come and go, lost requests, and controllers that crash.

The PV controller loses requests and responses; the recovering controller crashes after random writes. Whatever happens,
no storage goes while its node may have it, and none that a pod had.
"""

import random
from typing import Final

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CONFIG_MAP, NAMESPACE, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.times import to_time
from mooring.api.views.storage import Claim
from mooring.client.live_reads import get_or_none
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.lost_storage_controller import LostStorageController
from mooring.pvcontroller.protection import VolumeProtection
from mooring.pvcontroller.unused_claim_controller import UnusedClaimController
from mooring.volumes.unused.record import UNUSED
from support.builders import claim_body, claim_ref, class_body, node_body, pod_body, volume_body
from support.partial_control_plane import Plane, flaky, run_plane
from support.provisioner.crashing_process import CrashingClient, alive
from support.simulation.scenarios import seeds

OTHERS: Final = [PersistentVolumeController, VolumeProtection]
NODES: Final = ("n1", "n2", "n3")
DELAY: Final = 60.0
#: Between a decision and the end of the write that follows it.
IN_FLIGHT: Final = 1.0


class LossTrial:
    """Nodes that are deleted and come back, and what may happen to their claims meanwhile."""

    def __init__(self, plane: Plane, rng: random.Random) -> None:
        self._plane, self._rng = plane, rng
        self._uids: dict[str, str] = {}
        self._lost: dict[str, float] = {}
        self._back: dict[str, float] = {}
        self.replaced: set[str] = set()

    async def furnish(self) -> None:
        plane = self._plane
        await plane.create(NAMESPACE, {"metadata": {"name": "kube-system"}})
        notes = {well_known.LOST_STORAGE: "1m"}
        await plane.create(STORAGE_CLASS, class_body(binding_mode="Immediate", annotations=notes))
        for node in NODES:
            await plane.create(NODE, node_body(name=node))
            reference = claim_ref(name=f"data-{node}")
            await plane.create(
                VOLUME, volume_body(name=f"disk-{node}", node=node, reclaim="Delete", claim_ref=reference)
            )
            self._uids[node] = (await plane.create(CLAIM, claim_body(name=f"data-{node}"))).uid
            await plane.until(lambda node=node: self._is_bound(node))

    async def _is_bound(self, node: str) -> bool:
        return (await self._plane.get(CLAIM, f"data-{node}")).status.phase == "Bound"

    async def disturb(self) -> None:
        node = self._rng.choice(NODES)
        if node in self._lost:
            await self._plane.create(NODE, node_body(name=node))
            del self._lost[node]
            self._back[node] = self._plane.clock.monotonic()
        else:
            await self._plane.client.delete(NODE, node)
            self._lost[node] = self._plane.clock.monotonic()
            self._back.pop(node, None)

    async def pass_time(self, seconds: float) -> None:
        """Look at every claim twice a second."""
        for _ in range(round(2 * seconds)):
            await self._plane.pass_time(0.5)
            for node in NODES:
                await self._look(node)

    async def _look(self, node: str) -> None:
        claim = await get_or_none(self._plane.client, CLAIM, f"data-{node}", namespace="default")
        intact = claim is not None and claim.uid == self._uids[node] and not claim.deleting
        now = self._plane.clock.monotonic()
        if node in self.replaced:
            return
        if not intact:
            lost = node in self._lost and now - self._lost[node] >= DELAY - IN_FLIGHT
            just_back = now - self._back.get(node, -DELAY) <= IN_FLIGHT
            assert lost or just_back, f"claim of {node} was deleted while its node may come back"
            self.replaced.add(node)
        else:
            assert await get_or_none(self._plane.client, VOLUME, f"disk-{node}") is not None

    async def settle(self) -> None:
        await self.pass_time(4 * DELAY)
        assert await self._plane.names(CONFIG_MAP) == []
        for node in NODES:
            claim = await self._plane.get(CLAIM, f"data-{node}")
            assert not claim.deleting
            assert (claim.uid != self._uids[node]) is (node in self.replaced)
        assert set(self._lost) <= self.replaced, "a lost node's claim waits"


@pytest.mark.req("R9.given-up")
@pytest.mark.parametrize("seed", seeds(6))
def test_claims_of_lost_nodes_are_replaced_and_no_others(seed: int) -> None:
    rng = random.Random(seed)

    async def scenario(plane: Plane) -> None:
        trial = LossTrial(plane, rng)
        await trial.furnish()
        for _ in range(4):
            async with alive(plane, LostStorageController, CrashingClient(plane.client, rng.randint(1, 9))):
                for _ in range(rng.randint(1, 3)):
                    await trial.disturb()
                    await trial.pass_time(rng.choice([5.0, 30.0, 70.0, 130.0]))
        async with alive(plane, LostStorageController):
            await trial.settle()

    run_plane(OTHERS, scenario, client=flaky(0.1, seed=seed))


class UseTrial:
    """A claim that keeps one pod pending while others come and go with it."""

    def __init__(self, plane: Plane, rng: random.Random) -> None:
        self._plane, self._rng = plane, rng
        self._running = False
        self._used: set[str] = set()
        self.replaced = 0

    async def furnish(self) -> None:
        plane = self._plane
        await plane.create(NAMESPACE, {"metadata": {"name": "kube-system"}})
        notes = {well_known.UNUSED_CLAIMS: "5s"}
        await plane.create(STORAGE_CLASS, class_body(provisioner="csi.example.com", annotations=notes))
        await plane.create(CLAIM, claim_body(name="data", selected_node="n1"))
        await plane.create(POD, pod_body(name="waiting", claims=["data"]))
        rejected = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        rejected["lastTransitionTime"] = to_time(plane.clock.now())
        status = MergePatch({"status": {"conditions": [rejected]}})
        await plane.client.patch(POD, "waiting", status, namespace="default", subresource="status")

    async def disturb(self) -> None:
        await self._provision()
        if self._running:
            await self._plane.client.delete(POD, "other", namespace="default", grace_seconds=0)
        elif self._rng.random() < 0.4:
            await self._plane.create(POD, pod_body(name="other", claims=["data"], node="n1"))
            claim = await self._claim()
            if claim is not None and claim.status.phase == "Bound" and not claim.deleting:
                # Its node mounts the volume.
                self._used.add(claim.spec.volume_name)
        else:
            return
        self._running = not self._running

    async def _claim(self) -> Claim | None:
        return await get_or_none(self._plane.client, CLAIM, "data", namespace="default")

    async def _provision(self) -> None:
        """What a provisioner does for a claim without a volume."""
        claim = await self._claim()
        if claim is None or claim.spec.volume_name or claim.deleting:
            return
        notes, reference = {well_known.PROVISIONED_BY: "csi.example.com"}, claim_ref(name="data", uid=claim.uid)
        reserved = [each.spec.claim_ref for each in (await self._plane.client.list(VOLUME)).items]
        if any(each is not None and each.uid in ("", claim.uid) for each in reserved):
            return
        name = f"pvc-{claim.uid}"
        await self._plane.create(
            VOLUME, volume_body(name=name, node="n1", reclaim="Delete", claim_ref=reference, annotations=notes)
        )

    async def check(self) -> None:
        for volume in (await self._plane.client.list(VOLUME)).items:
            doomed = volume.status.phase == "Released" and volume.spec.persistent_volume_reclaim_policy == "Delete"
            marked = UNUSED in volume.metadata.annotations
            assert volume.name not in self._used or not (doomed or marked), f"{volume.name} was used"
            self.replaced += marked

    async def settle(self) -> None:
        if self._running:
            await self.disturb()
        for _ in range(40):
            await self._provision()
            await self._plane.pass_time(5.0)
        await self.check()
        claim = await self._plane.get(CLAIM, "data")
        for name in self._used:
            assert claim.spec.volume_name == name, "the data stays with its claim"


REPLACED: Final[list[int]] = []


@pytest.mark.req("R8.released")
@pytest.mark.parametrize("seed", seeds(10))
def test_claim_that_a_pod_had_keeps_its_volume(seed: int) -> None:
    rng = random.Random(seed)

    async def scenario(plane: Plane) -> None:
        trial = UseTrial(plane, rng)
        async with alive(plane, UnusedClaimController, CrashingClient(plane.client, rng.randint(1, 12))):
            await trial.furnish()
            for _ in range(8):
                await trial.disturb()
                await plane.pass_time(rng.choice([0.1, 1.0, 6.0, 70.0]))
                await trial.check()
        async with alive(plane, UnusedClaimController):
            await trial.settle()
        REPLACED.append(trial.replaced)

    run_plane(OTHERS, scenario, client=flaky(0.1, seed=seed))


def test_some_of_those_claims_were_replaced() -> None:
    """Otherwise nothing would be shown above."""
    assert not REPLACED or any(REPLACED)
