"""Storage lost with its node: a recovery that crashes after any of its writes is continued by the next run.

With the real API server, PV controller, protection and garbage collector, in virtual time.
"""

from contextlib import suppress

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CONFIG_MAP, NAMESPACE, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.client.contract import Unreachable
from mooring.client.live_reads import get_or_none
from mooring.controllers.garbage_collector import GarbageCollector
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.lost_storage_recovery import RecoveryOutcome, RecoveryProgress, StorageRecovery
from mooring.pvcontroller.protection import VolumeProtection
from mooring.volumes.lost_storage import Confirmation, RecoveryRefusalCode
from mooring.volumes.lost_storage_record import RecoveryRecord, record_body
from support.builders import Body, claim_body, class_body, node_body, pod_body, volume_body
from support.partial_control_plane import Plane, run_plane
from support.provisioner.crashing_process import CrashingClient

PARTS = [PersistentVolumeController, VolumeProtection, GarbageCollector]
CONFIRMED = Confirmation(nodes=("n9",))
#: More writes than a recovery makes: record, claim, pod, volume, finalizer, claim, record.
ENOUGH = 9
OUT = {"spec": {"taints": [{"key": well_known.OUT_OF_SERVICE, "effect": "NoExecute", "value": "nodeshutdown"}]}}


async def furnish(plane: Plane, *, reclaim: str = "Delete", policy: str = "confirmed") -> None:
    """A claim that is bound to a volume of n9, used by a pod there; then n9 is deleted."""
    await plane.create(NAMESPACE, {"metadata": {"name": "kube-system"}})
    await plane.create(
        STORAGE_CLASS, class_body(binding_mode="Immediate", annotations={well_known.LOST_STORAGE: policy})
    )
    await plane.create(NODE, node_body(name="n9"))
    guards = [well_known.EXTERNAL_PROVISIONER]
    await plane.create(VOLUME, volume_body(name="disk", node="n9", reclaim=reclaim, finalizers=guards))
    await plane.create(CLAIM, claim_body(name="data", labels={"app": "db"}))
    await plane.until(lambda: bound_to(plane, "disk"))
    await plane.create(POD, pod_body(name="db-0", claims=["data"], node="n9"))
    await plane.client.delete(NODE, "n9")


async def bound_to(plane: Plane, volume: str) -> bool:
    claim = await plane.get(CLAIM, "data")
    return claim.status.phase == "Bound" and claim.spec.volume_name == volume


def recovery(plane: Plane, client: CrashingClient | None = None) -> StorageRecovery:
    return StorageRecovery(client or plane.client, plane.clock)  # type: ignore[arg-type]  # all of the contract used


async def run_again(plane: Plane) -> list[RecoveryOutcome]:
    """What the next `--apply` does: continue the records, then the plan."""
    mine = recovery(plane)
    done = [await mine.resume(record, CONFIRMED) for record in await mine.records()]
    return done or [await mine.recover("disk", CONFIRMED)]


async def uid_of(plane: Plane) -> str:
    return (await plane.get(CLAIM, "data")).uid


@pytest.mark.parametrize("reclaim", ["Delete", "Retain"])
@pytest.mark.parametrize("writes", range(1, ENOUGH))
@pytest.mark.req("R9.given-up")
def test_crash_after_any_write_is_continued(writes: int, reclaim: str) -> None:
    async def scenario(plane: Plane) -> None:
        await furnish(plane, reclaim=reclaim)
        old = await uid_of(plane)
        client = CrashingClient(plane.client, writes)
        try:
            outcome = await recovery(plane, client).recover("disk", CONFIRMED)
            assert outcome.progress is RecoveryProgress.DONE
        except Unreachable:
            assert client.dead.is_set()
            found = await get_or_none(plane.client, CLAIM, "data", namespace="default")
            recorded = await recovery(plane).records()
            assert found is not None or recorded, "a claim that is deleted and not recorded would be lost"
            if recorded:
                assert [each.progress for each in await run_again(plane)] == [RecoveryProgress.DONE]
        await plane.pass_time(5.0)
        claim = await plane.get(CLAIM, "data")
        assert claim.uid != old
        assert (claim.spec.volume_name, claim.metadata.labels) == ("", {"app": "db"})
        assert await plane.names(VOLUME) == ([] if reclaim == "Delete" else ["disk"])
        assert await plane.names(POD) == []
        assert await plane.names(CONFIG_MAP) == []

    run_plane(PARTS, scenario)


@pytest.mark.parametrize("writes", range(1, ENOUGH))
@pytest.mark.req("R9.given-up")
def test_node_that_comes_back_after_a_crash_keeps_what_is_not_deleted(writes: int) -> None:
    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        old = await uid_of(plane)
        with suppress(Unreachable):
            await recovery(plane, CrashingClient(plane.client, writes)).recover("disk", CONFIRMED)
        before = await get_or_none(plane.client, CLAIM, "data", namespace="default")
        intact = before is not None and before.uid == old and not before.deleting
        kept = await get_or_none(plane.client, VOLUME, "disk")
        await plane.create(NODE, node_body(name="n9"))
        waiting = before is not None and before.uid == old and before.deleting
        if waiting and await get_or_none(plane.client, POD, "db-0", namespace="default") is not None:
            # The node runs the pod, whose end is no longer the recovery's business.
            await plane.client.delete(POD, "db-0", namespace="default", grace_seconds=0)
        mine = recovery(plane)
        for record in await mine.records():
            outcome = await mine.resume(record, CONFIRMED)
            if intact:
                assert outcome.refusal is not None
                assert outcome.refusal.code is RecoveryRefusalCode.NODE_EXISTS
        assert await plane.names(CONFIG_MAP) == []
        assert (await uid_of(plane) == old) is intact
        if kept is not None and not kept.deleting:
            volume = await plane.get(VOLUME, "disk")
            assert not volume.deleting, "the storage of a node that came back is its driver's"

    run_plane(PARTS, scenario)


def existing(**changes: object) -> Body:
    return node_body(name="n9", **changes)  # type: ignore[arg-type]  # the builder's own arguments


@pytest.mark.parametrize(
    ("node", "known", "policy", "code"),
    [
        pytest.param(None, Confirmation(), "confirmed", RecoveryRefusalCode.UNCONFIRMED, id="unconfirmed"),
        pytest.param(None, Confirmation(), "1s", RecoveryRefusalCode.UNCONFIRMED, id="no time known"),
        pytest.param(existing(), CONFIRMED, "confirmed", RecoveryRefusalCode.NODE_EXISTS, id="the Node exists"),
        pytest.param(existing(ready=False), CONFIRMED, "1s", RecoveryRefusalCode.NODE_EXISTS, id="it is only NotReady"),
    ],
)
@pytest.mark.req("R9.given-up")
def test_refusal_writes_nothing(node: Body | None, known: Confirmation, policy: str, code: RecoveryRefusalCode) -> None:
    async def scenario(plane: Plane) -> None:
        await furnish(plane, policy=policy)
        if node is not None:
            await plane.create(NODE, node)
        before = await plane.get(CLAIM, "data")
        client = CrashingClient(plane.client, 1)
        outcome = await recovery(plane, client).recover("disk", known)
        assert outcome.refusal is not None
        assert outcome.refusal.code is code
        assert not client.dead.is_set(), "it wrote"
        assert await plane.get(CLAIM, "data") == before

    run_plane(PARTS, scenario)


@pytest.mark.req("R9.given-up")
def test_out_of_service_node_is_enough() -> None:
    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.create(NODE, existing(ready=False))
        await plane.client.patch(NODE, "n9", MergePatch(OUT))
        old = await uid_of(plane)
        assert (await recovery(plane).recover("disk", CONFIRMED)).progress is RecoveryProgress.DONE
        assert await uid_of(plane) != old

    run_plane(PARTS, scenario)


@pytest.mark.req("R9.given-up")
def test_record_alone_does_not_confirm_the_loss() -> None:
    """The node may have come back and been lost again since the record was written."""

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        old = await uid_of(plane)
        with suppress(Unreachable):
            await recovery(plane, CrashingClient(plane.client, 1)).recover("disk", CONFIRMED)
        mine = recovery(plane)
        [record] = await mine.records()
        outcome = await mine.resume(record, Confirmation())
        assert outcome.refusal is not None
        assert outcome.refusal.code is RecoveryRefusalCode.UNCONFIRMED
        assert await uid_of(plane) == old
        assert await plane.names(CONFIG_MAP) == []

    run_plane(PARTS, scenario)


def test_claim_that_a_finalizer_keeps_is_continued_later() -> None:
    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        keep = {"metadata": {"finalizers": ["example.com/backup", well_known.PVC_PROTECTION]}}
        await plane.client.patch(CLAIM, "data", MergePatch(keep), namespace="default")
        outcome = await recovery(plane).recover("disk", CONFIRMED)
        assert outcome.progress is RecoveryProgress.WAITING
        assert "example.com/backup" in outcome.detail
        await plane.client.patch(CLAIM, "data", MergePatch({"metadata": {"finalizers": None}}), namespace="default")
        assert [each.progress for each in await run_again(plane)] == [RecoveryProgress.DONE]

    run_plane(PARTS, scenario)


def test_namespace_that_was_deleted_ends_the_record() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(NAMESPACE, {"metadata": {"name": "kube-system"}})
        body = claim_body(name="data", namespace="deleted")
        record = RecoveryRecord("deleted", "data", "old", "disk", "disk-uid", "n9", well_known.HOSTNAME, body)
        await plane.client.create(CONFIG_MAP, record_body(record), namespace="kube-system")
        mine = recovery(plane)
        assert [(await mine.resume(each, CONFIRMED)).progress for each in await mine.records()] == [
            RecoveryProgress.DONE
        ]
        assert await plane.names(CONFIG_MAP) == []

    run_plane(PARTS, scenario)
