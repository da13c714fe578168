"""Volumes of groups beside a stock scheduler: provisioner, coordinator and PV controller, with a driver of their own.

The test plays kube-scheduler, which selects nodes pod by pod and writes no record.
"""

from collections.abc import Awaitable, Callable

import pytest

from mooring.api.kinds import LEASE, NAMESPACE, POD, POD_GROUP
from mooring.api.views.storage import Volume
from mooring.control.feature_gates import DEFAULTS, FeatureGates
from mooring.provisioner.settings import ProvisionerSettings
from mooring.volumes.binding import HOLD_NAMESPACE, HoldState, hold_state
from mooring.volumes.holds import group_objects
from mooring.volumes.holds.group_record import GROUP_LABEL
from support.builders.groups import member_body, pod_group_body
from support.builders.held_groups import GATES, coordinator
from support.csi_drivers.recording import FakeCsiDriver
from support.partial_control_plane import Plane, run_plane
from support.provisioner.cluster import (
    GI,
    accounted,
    all_gone,
    ask,
    bound,
    furnish,
    plane_of,
    select,
    selected,
    volumes,
)

SETTINGS = ProvisionerSettings(worker_threads=5, namespace=HOLD_NAMESPACE, rollback=True, strict_topology=True)
NAMES = ("claim-1", "claim-2", "claim-3")


def play(
    driver: FakeCsiDriver,
    scenario: Callable[[Plane], Awaitable[None]],
    *,
    gates: FeatureGates = GATES,
    min_count: int = 3,
    basic: bool = False,
    coordinated: bool = True,
) -> None:
    async def run(plane: Plane) -> None:
        await plane.create(NAMESPACE, {"metadata": {"name": HOLD_NAMESPACE}})
        await furnish(plane)
        await plane.create(POD_GROUP, pod_group_body(min_count=min_count, basic=basic))
        for number, name in enumerate(NAMES):
            await ask(plane, name, node=None)
            await plane.create(POD, member_body(name=f"g-{number}", claims=(name,)))
        await plane.pass_time(12)
        await scenario(plane)

    builds = plane_of(driver, SETTINGS)
    run_plane([*builds, coordinator] if coordinated else builds, run, gates=gates)


def held(found: tuple[Volume, ...]) -> list[bool]:
    return [hold_state(each, hold_namespace=HOLD_NAMESPACE) is HoldState.HELD for each in found]


def test_single_volumes_of_members_are_held_until_the_quorum_has_its_volumes() -> None:
    """Case G64: two members fail on the first node, come back, and end on the second."""
    driver = FakeCsiDriver({"node-1": GI, "node-2": 10 * GI})

    async def scenario(plane: Plane) -> None:
        for name in NAMES:
            await select(plane, "node-1", name)
        await plane.pass_time(3)
        known = await volumes(plane)
        assert held(known) == [True]
        group = await plane.get(POD_GROUP, "g")
        assert known[0].metadata.labels[GROUP_LABEL] == group.uid
        assert [await bound(plane, name) for name in NAMES] == [False] * 3
        for name in NAMES:
            if await selected(plane, name) is None:
                await select(plane, "node-2", name)
        await plane.pass_time(5)
        assert [await bound(plane, name) for name in NAMES] == [True] * 3
        assert accounted(driver, await volumes(plane))
        assert not any(GROUP_LABEL in each.metadata.labels for each in await volumes(plane))

    play(driver, scenario)


def test_group_that_gets_no_quorum_keeps_nothing() -> None:
    """Case G65."""
    driver = FakeCsiDriver({"node-1": GI, "node-2": 0})

    async def scenario(plane: Plane) -> None:
        for name in NAMES:
            await select(plane, "node-1", name)

        async def nothing() -> bool:
            return await all_gone(plane)

        await plane.pass_time(3)
        assert held(await volumes(plane)) == [True]
        await plane.until(nothing, within=60)
        assert not driver.volumes
        assert [await selected(plane, name) for name in NAMES] == [None] * 3
        assert [await bound(plane, name) for name in NAMES] == [False] * 3

    play(driver, scenario)


@pytest.mark.parametrize(
    ("gates", "basic", "coordinated"),
    [
        pytest.param(DEFAULTS, False, True, id="gate off"),
        pytest.param(GATES, True, True, id="basic group"),
        pytest.param(GATES, False, False, id="no coordinator"),
    ],
)
def test_single_volumes_are_bound_at_once_without_a_group_to_hold_for(
    gates: FeatureGates, basic: bool, coordinated: bool
) -> None:
    driver = FakeCsiDriver({"node-1": GI, "node-2": 0})

    async def scenario(plane: Plane) -> None:
        await select(plane, "node-1", "claim-1")
        await plane.pass_time(3)
        assert await bound(plane, "claim-1")

    play(driver, scenario, gates=gates, basic=basic, coordinated=coordinated)


def test_coordinator_that_does_not_announce_groups_meets_no_marks() -> None:
    """An earlier version holds the Lease: its announcement is missing, or is another holder's."""
    driver = FakeCsiDriver({"node-1": 10 * GI, "node-2": 0})

    async def scenario(plane: Plane) -> None:
        spec = {"holderIdentity": "an earlier version", "leaseDurationSeconds": 100_000}
        spec["renewTime"] = "2026-01-01T00:00:00.000000Z"
        notes = {group_objects.ANNOUNCEMENT: "mooring-coordinator"}
        body = {"metadata": {"name": "mooring-coordinator", "annotations": notes}, "spec": spec}
        await plane.client.create(LEASE, body, namespace=HOLD_NAMESPACE)
        await select(plane, "node-1", "claim-1")
        await plane.pass_time(3)
        assert not any(GROUP_LABEL in each.metadata.labels for each in await volumes(plane))

    play(driver, scenario, coordinated=False)


def test_pod_that_comes_to_a_committed_group_is_decided_by_itself() -> None:
    driver = FakeCsiDriver({"node-1": 10 * GI, "node-2": 10 * GI})

    async def scenario(plane: Plane) -> None:
        for name in NAMES:
            await select(plane, "node-1", name)
        await plane.pass_time(5)
        assert [await bound(plane, name) for name in NAMES] == [True] * 3
        await ask(plane, "late", node=None)
        await plane.create(POD, member_body(name="g-late", claims=("late",)))
        await select(plane, "node-2", "late")
        await plane.pass_time(5)
        assert await bound(plane, "late")

    play(driver, scenario)
