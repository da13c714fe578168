"""Assertions in the product: a violation is logged with the object, counted, and stops that object only."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from mooring.api import well_known
from mooring.api.kinds import CLAIM, NAMESPACE, POD, STORAGE_CLASS, VOLUME
from mooring.api.views.storage import Claim
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.clock import SystemClock
from mooring.control.component import Component, Context
from mooring.control.invariants import INVARIANTS, VIOLATED, Invariant, InvariantChecks, InvariantViolated
from mooring.control.metrics import Metrics
from mooring.control.workqueue import WorkQueue, work
from mooring.coordinator.component import Coordinator
from mooring.provisioner.rollback.attempts import HeldAttempts
from mooring.provisioner.rollback.rollback import HoldRollback
from mooring.pvcontroller import claim_sync
from mooring.pvcontroller.actions import ReserveVolume, SyncStep
from mooring.pvcontroller.cache import BindingCache
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.scheduler.binding.binder import Binder
from mooring.volumes.binding import HOLD_NAMESPACE, ROLLBACK_PREFIX, BindingPlan, Provisioning
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock
from support.builders import a_claim, a_pod, a_volume, claim_body, claim_ref, class_body, pod_body, volume_body
from support.partial_control_plane import Plane, run_plane

Raising = Callable[[Context, Plane], Awaitable[None]]


def violations(raising: Raising) -> list[str]:
    """What was counted while something was done in an empty plane; it must raise InvariantViolated."""
    metrics = Metrics(SystemClock())

    async def scenario(plane: Plane) -> None:
        rng = random.Random(0)
        informers = Informers(plane.client, plane.clock, rng)
        recorder = EventRecorder(plane.client, plane.clock, "test", rng)
        context = Context(plane.client, informers, recorder, plane.clock, rng, invariants=metrics.invariants)
        await plane.create(NAMESPACE, {"metadata": {"name": HOLD_NAMESPACE}})
        with capture_logs() as logs, pytest.raises(InvariantViolated):
            await raising(context, plane)
        [line] = [line for line in logs if line["event"] == VIOLATED]
        assert line["object"]
        assert line["history"] == []
        assert line["log_level"] == "error"

    run_plane([], scenario)
    name = "mooring_invariant_violations_total"
    counted = {one: metrics.registry.get_sample_value(name, {"invariant": one.value}) for one in Invariant}
    return [one.value for one, count in counted.items() if count]


def test_every_invariant_says_what_it_protects() -> None:
    assert set(INVARIANTS) == set(Invariant)


def test_held_volume_is_not_committed_to_another_claim() -> None:
    async def commit(context: Context, plane: Plane) -> None:
        held = {"namespace": HOLD_NAMESPACE, "name": "hold-first"}
        await Coordinator(context)._commit(a_volume(claim_ref=held), a_claim(uid="second"))

    assert violations(commit) == [Invariant.COMMIT_MATCHES_CLAIM.value]


def test_rollback_does_not_delete_storage_of_a_volume_that_was_bound() -> None:
    deleted: list[str] = []

    async def undo(context: Context, plane: Plane) -> None:
        reference = {"namespace": HOLD_NAMESPACE, "name": f"{ROLLBACK_PREFIX}uid"}
        csi = {"csi": {"driver": "csi.example.com", "volumeHandle": "h"}}
        notes = {"hold.mooring.dev/claim": "default/c", well_known.PROVISIONED_BY: "csi.example.com"}
        body = volume_body(name="pv", claim_ref=reference, source=csi, annotations=notes)
        await plane.create(VOLUME, body)
        await plane.client.update(VOLUME, body | {"status": {"phase": "Bound"}}, subresource="status")

        async def delete(volume: object) -> str:
            deleted.append("storage")
            return ""

        async def remove(volume: object, claim: object) -> None: ...

        rollback = HoldRollback(
            context,
            HeldAttempts(plane.client, driver="", namespace=HOLD_NAMESPACE),
            delete_storage=delete,
            remove_object=remove,
            attached=lambda name: False,
        )
        await rollback.roll_back("pv")

    assert violations(undo) == [Invariant.ROLLBACK_NEVER_BOUND.value]
    assert deleted == []


def test_pod_is_not_bound_while_a_claim_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(*given: object) -> None: ...

    monkeypatch.setattr(Binder, "_write", at_once)
    monkeypatch.setattr(Binder, "_volumes_bound", at_once)

    async def bind(context: Context, plane: Plane) -> None:
        plan = BindingPlan("n1", provision=(Provisioning(a_claim()),))
        await Binder(context, driver_over_limit=lambda pod, node: "").bind(a_pod(claims=["claim-1"]), plan)

    assert violations(bind) == [Invariant.CLAIMS_BOUND_BEFORE_POD.value]


def test_volume_of_another_claim_is_not_reserved_and_other_claims_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = Metrics(SystemClock())
    decide = claim_sync.next_claim_step

    def wrong(claim: Claim, facts: BindingCache) -> SyncStep:
        if claim.name == "poison":
            taken = facts.volumes.get("taken")
            assert taken is not None
            return SyncStep(ReserveVolume(taken, claim, True))
        return decide(claim, facts)

    monkeypatch.setattr("mooring.pvcontroller.component.claim_sync.next_claim_step", wrong)

    def build(context: Context) -> Component:
        with_checks = Context(
            context.client,
            context.informers,
            context.recorder,
            context.clock,
            context.rng,
            invariants=metrics.invariants,
        )
        return PersistentVolumeController(with_checks)

    async def scenario(plane: Plane) -> None:
        await plane.create(STORAGE_CLASS, class_body(name="now", binding_mode="Immediate"))
        taken = volume_body(
            name="taken", storage_class="now", node="n1", claim_ref=claim_ref(name="other", uid="other")
        )
        await plane.create(VOLUME, taken)
        await plane.create(CLAIM, claim_body(name="poison", storage_class="now"))
        await plane.create(VOLUME, volume_body(name="free", storage_class="now", node="n1"))
        await plane.create(CLAIM, claim_body(name="sound", storage_class="now"))
        await plane.create(POD, pod_body(claims=["poison"]))
        await plane.pass_time(5.0)
        assert (await plane.get(CLAIM, "sound")).spec.volume_name == "free"
        found = (await plane.get(VOLUME, "taken")).spec.claim_ref
        assert found is None or found.name == "other"

    with capture_logs() as logs:
        run_plane([build], scenario)
    [history, *_] = [line["history"] for line in logs if line["event"] == VIOLATED]
    assert len(history) == 2, "when the volume was created, and when its phase was set"
    assert all("resourceVersion" in change for change in history)
    labels = {"invariant": Invariant.RESERVATION_MATCHES_CLAIM.value}
    assert metrics.registry.get_sample_value("mooring_invariant_violations_total", labels)


def test_worker_leaves_the_object_alone_until_it_changes() -> None:
    handled: list[str] = []

    async def main(clock: VirtualClock) -> None:
        queue: WorkQueue[str] = WorkQueue(clock)

        async def reconcile(key: str) -> None:
            handled.append(key)
            if key == "poison":
                InvariantChecks().require(False, Invariant.COMMIT_MATCHES_CLAIM, a_volume(), "no")

        for key in ("poison", "sound"):
            queue.add(key)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(work(queue, reconcile, workers=1, name="test"))
            await clock.sleep(5000.0)
            assert handled == ["poison", "sound"]
            queue.add("poison")
            await clock.sleep(1.0)
            assert handled == ["poison", "sound", "poison"]
            running.cancel()

    virtual_time.run_in_virtual_time(main)
