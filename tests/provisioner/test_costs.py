"""What provisioning costs in requests and cache scans, whatever is at rest; and the order in which pods are served."""

from collections import Counter
from collections.abc import Mapping

import pytest

from mooring.api.kinds import CLAIM, LEASE, NAMESPACE, POD, VOLUME
from mooring.coordinator.component import Coordinator
from mooring.csi.contract import CreateVolume, DriverVolume
from mooring.provisioner.rollback.lost_nodes import LostNodeController
from mooring.provisioner.settings import ProvisionerSettings
from mooring.volumes.binding import HOLD_NAMESPACE
from provisioner.rollback.test_held_provisioning import SETTINGS
from support.builders import claim_body, pod_body, volume_body
from support.csi_drivers.recording import FakeCsiDriver
from support.partial_control_plane import Plane, run_plane
from support.partial_control_plane.counting import CountingClient, scanned
from support.provisioner.cluster import GI, ask, bound, coordinator_lease, furnish, plane_of, select


async def begin(plane: Plane) -> None:
    await plane.create(NAMESPACE, {"metadata": {"name": HOLD_NAMESPACE}})
    await plane.client.create(LEASE, coordinator_lease(plane), namespace=HOLD_NAMESPACE)
    await furnish(plane)


async def rest(plane: Plane, volumes: int) -> None:
    """Claims that are bound to their volumes."""
    for number in range(volumes):
        body = claim_body(name=f"bound-{number}", storage_class="made", volume=f"pv-{number}")
        claim = await plane.create(CLAIM, body)
        reference = claim.reference.body()
        volume = volume_body(name=f"pv-{number}", node="node-2", storage_class="made", claim_ref=reference)
        await plane.create(VOLUME, volume)
    await plane.pass_time(5)


def cost(monkeypatch: pytest.MonkeyPatch, *, volumes: int) -> tuple[Counter[str], Counter[str]]:
    """Requests, and objects looked at in caches, for a pod with two volumes beside so many volumes at rest."""
    requests: Counter[str] = Counter()

    async def scenario(plane: Plane) -> Counter[str]:
        await begin(plane)
        await rest(plane, volumes)
        with monkeypatch.context() as patched:
            seen = scanned(patched)
            requests.clear()
            for name in ("a", "b"):
                await ask(plane, name, node=None)
            await plane.create(POD, pod_body(name="p", claims=("a", "b")))
            for name in ("a", "b"):
                await select(plane, "node-1", name)
            for name in ("a", "b"):
                await plane.until(lambda name=name: bound(plane, name), within=2.0)  # type: ignore[misc]
            await plane.pass_time(1)
            return seen

    builds = [*plane_of(FakeCsiDriver({"node-1": 10 * GI}), SETTINGS), Coordinator, LostNodeController]
    seen = run_plane(builds, scenario, client=lambda api, user: CountingClient(api, user, requests))
    return requests, seen


def test_cost_of_a_pod_does_not_grow_with_volumes_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = [cost(monkeypatch, volumes=number) for number in (100, 200, 400)]
    assert costs[0] == costs[1] == costs[2]
    requests, seen = costs[0]
    assert not seen[CLAIM.plural]
    assert not seen[VOLUME.plural]
    # For each of two volumes: the provisioner looks at claim and volume, the coordinator at claim, volume and record.
    assert {each: count for each, count in requests.items() if each.startswith("get")} == {
        "get persistentvolumeclaims": 4,
        "get persistentvolumes": 4,
        "get configmaps": 2,
        "get leases": 1,
    }
    writes = {each: count for each, count in requests.items() if each.endswith(("configmaps", "persistentvolumes"))}
    assert {each: count for each, count in writes.items() if not each.startswith("get")} == {
        "create configmaps": 2,
        "patch configmaps": 2,
        "delete configmaps": 2,
        "create persistentvolumes": 2,
        # To its claim by the coordinator; phase Available, then Bound, by the PV controller.
        "patch persistentvolumes": 6,
    }


class SlowDriver(FakeCsiDriver):
    """A CreateVolume call takes a second."""

    plane: Plane

    async def create_volume(self, request: CreateVolume, *, secrets: Mapping[str, str]) -> DriverVolume:
        await self.plane.clock.sleep(1.0)
        return await super().create_volume(request, secrets=secrets)


@pytest.mark.parametrize("workers", [2, 5])
def test_pods_get_complete_in_the_order_in_which_they_came(workers: int) -> None:
    """A scheduler may request the first volumes of all pods before the second of any."""
    driver = SlowDriver({"node-1": 100 * GI})
    pods = 10
    settings = ProvisionerSettings(
        worker_threads=workers, namespace=HOLD_NAMESPACE, rollback=True, strict_topology=True
    )

    async def scenario(plane: Plane) -> list[int]:
        driver.plane = plane
        await begin(plane)
        for number in range(pods):
            for letter in "ab":
                await ask(plane, f"{letter}{number}", node=None)
            await plane.create(POD, pod_body(name=f"p{number}", claims=(f"a{number}", f"b{number}")))
            await plane.pass_time(1.0)
        for letter in "ab":
            for number in range(pods):
                await select(plane, "node-1", f"{letter}{number}")
        complete: list[int] = []

        async def all_complete() -> bool:
            for number in range(pods):
                if number not in complete and all([await bound(plane, f"{letter}{number}") for letter in "ab"]):
                    complete.append(number)
            return len(complete) == pods

        async def one_complete() -> bool:
            await all_complete()
            return bool(complete)

        await plane.until(one_complete, within=5.0)
        assert len(driver.requests) <= 3 * workers, "the volumes of other pods came before the first pod's"
        await plane.until(all_complete)
        return complete

    complete = run_plane([*plane_of(driver, settings), Coordinator], scenario)
    late = [place - number for place, number in enumerate(complete)]
    assert max(map(abs, late)) <= workers, complete
