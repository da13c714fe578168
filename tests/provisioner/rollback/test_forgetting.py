"""What a provisioner and volume protection remember of objects goes when the objects do, or is bounded."""

from collections.abc import Callable
from typing import Any

import pytest

from mooring.api.kinds import CLAIM, NAMESPACE, POD, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.backoff import KeyedBackoff
from mooring.csi.contract import Code, CreateVolume, DriverError
from mooring.provisioner.provision.request import ProvisioningPlan
from mooring.provisioner.rollback.attempts import HeldAttempt
from mooring.provisioner.rollback.orphans import DELETED_CLAIM_TTL_SECONDS, MAX_DELETED_CLAIMS, OrphanCollector
from mooring.provisioner.rollback.rollback import HoldRollback
from mooring.pvcontroller.protection import VolumeProtection
from mooring.volumes.holds.transitions import Intent, IntentPhase
from provisioner.rollback.test_held_provisioning import TIGHT, choose, play
from support.builders import claim_body, class_body, pod_body
from support.csi_drivers.recording import FakeCsiDriver
from support.partial_control_plane import Plane, run_plane
from support.provisioner.cluster import GI, ask, furnish, plane_of, volumes

Capture = Callable[[type[Any]], list[Any]]


@pytest.fixture
def capture(monkeypatch: pytest.MonkeyPatch) -> Capture:
    """All instances of a class that are made from now on."""

    def capturing(kind: type[Any]) -> list[Any]:
        made: list[Any] = []
        init = kind.__init__

        def remember(self: object, *given: object, **options: object) -> None:
            made.append(self)
            init(self, *given, **options)

        monkeypatch.setattr(kind, "__init__", remember)
        return made

    return capturing


@pytest.mark.parametrize("code", [Code.INVALID_ARGUMENT, Code.INTERNAL, Code.RESOURCE_EXHAUSTED])
def test_backoff_of_deleted_claims_is_dropped(capture: Capture, code: Code) -> None:
    backoffs = capture(KeyedBackoff)
    driver = FakeCsiDriver({"node-1": 10 * GI})
    driver.errors["create"] = [DriverError(code, "no")] * 1000

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        names = [f"claim-{number}" for number in range(10)]
        for name in names:
            await ask(plane, name)
        await plane.pass_time(30.0)
        for name in names:
            await plane.client.delete(CLAIM, name, namespace="default")
        await plane.pass_time(700.0)

    run_plane(plane_of(driver), scenario)
    assert backoffs
    assert [(one._failures, one._suspended) for one in backoffs] == [({}, {})] * len(backoffs)


def test_ended_attempts_are_bounded_in_number_and_time(capture: Capture) -> None:
    made = capture(OrphanCollector)

    def ended(uid: str) -> HeldAttempt:
        claim = {"namespace": "default", "name": "c", "uid": uid}
        plan = ProvisioningPlan(CreateVolume("v", GI), claim, "made", "node-1", None, {})
        return HeldAttempt(uid, Intent(1, "node-1", IntentPhase.FAILED), plan, "1")

    async def scenario(plane: Plane) -> None:
        [sweeping] = made
        for number in range(3 * MAX_DELETED_CLAIMS):
            sweeping.claim_deleted(ended(f"uid-{number}"))
        assert len(sweeping._deleted_claims) == MAX_DELETED_CLAIMS
        await plane.pass_time(DELETED_CLAIM_TTL_SECONDS + 1.0)
        sweeping.claim_deleted(ended("last"))
        assert len(sweeping._deleted_claims) == 1

    play(FakeCsiDriver(TIGHT), scenario)


def test_deleted_storage_is_dropped_with_its_object(capture: Capture) -> None:
    """Another party removes the object between DeleteVolume and the end of the rollback."""
    made = capture(HoldRollback)

    async def scenario(plane: Plane) -> None:
        await choose(plane, "node-1")

        async def is_deleted() -> bool:
            return any(one._deleted for one in made)

        await plane.until(is_deleted, within=60.0)
        for volume in await volumes(plane):
            await plane.client.patch(VOLUME, volume.name, MergePatch({"metadata": {"finalizers": None}}))
            await plane.client.delete(VOLUME, volume.name)
        await plane.pass_time(60.0)
        assert [one._deleted for one in made] == [{}] * len(made)

    play(FakeCsiDriver(TIGHT), scenario)


def test_protection_forgets_namespaces_of_claims_that_are_gone(capture: Capture) -> None:
    made = capture(VolumeProtection)

    async def scenario(plane: Plane) -> None:
        await plane.create(STORAGE_CLASS, class_body())
        for number in range(10):
            namespace = f"shop-{number}"
            await plane.create(NAMESPACE, {"metadata": {"name": namespace}})
            await plane.create(CLAIM, claim_body(name="c", namespace=namespace))
            await plane.create(POD, pod_body(name="p", namespace=namespace, claims=("c",)))
            await plane.client.bind("p", namespace=namespace, uid="", node="n1")
            await plane.client.delete(CLAIM, "c", namespace=namespace)
        await plane.pass_time(5.0)
        assert len(made[0]._dying) == 10, "their pods protect them"
        for number in range(10):
            await plane.client.delete(POD, "p", namespace=f"shop-{number}", grace_seconds=0)
        await plane.pass_time(5.0)
        assert not (await plane.client.list(CLAIM)).items
        assert made[0]._dying == {}

    run_plane([VolumeProtection], scenario)
