"""Groups with late-bound volumes in a simulated cluster: all of the quorum's volumes, or none."""

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import pytest

from mooring.api.kinds import CLAIM, POD, STORAGE_CAPACITY, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.cluster.storage import NAMESPACE
from mooring.volumes.binding import HoldState, hold_state
from support.builders import claim_body, pod_body, volume_body
from support.simulation.cluster import SimulatedCluster, simulate
from support.simulation.groups import (
    CLASS,
    GATES,
    LAYOUT,
    GroupStorage,
    bound,
    condition,
    create,
    gang,
    members,
    messages,
    nodes,
    preferring,
)
from support.simulation.storage import CONTROLLER

pytestmark = pytest.mark.req("G2.committed")

T = TypeVar("T")


def run(scenario: Callable[[SimulatedCluster], Awaitable[T]], storage: GroupStorage, *, seed: int = 0) -> T:
    async def whole(cluster: SimulatedCluster) -> T:
        await create(cluster, *storage.objects())
        # The first figures are published, and the coordinator renews its Lease.
        await cluster.clock.sleep(5)
        return await scenario(cluster)

    return simulate(whole, layout=LAYOUT, seed=seed, gates=GATES, extra_components=storage.extra_components)


async def within(cluster: SimulatedCluster, holds: Callable[[], Awaitable[bool]], seconds: float) -> None:
    assert await cluster.until(holds, within=seconds)


async def created_volumes(cluster: SimulatedCluster) -> int:
    return len(await cluster.driver(CONTROLLER).list_volumes())


async def assert_untouched(cluster: SimulatedCluster) -> None:
    """No hold, no selected node, no nomination, no pod bound, and no volume of the driver."""
    assert await nodes(cluster) == {}
    assert await created_volumes(cluster) == 0
    for claim in (await cluster.client.list(CLAIM)).items:
        assert claim.selected_node is None
        assert not claim.spec.volume_name
    for volume in (await cluster.client.list(VOLUME)).items:
        assert volume.spec.claim_ref is None
    for pod in (await cluster.client.list(POD)).items:
        assert not pod.status.nominated_node_name


def committed_before_all_were_held(cluster: SimulatedCluster, count: int) -> list[str]:
    """The volumes that were bound to a claim before this many had been held."""
    held: set[str] = set()
    early = []
    for written in cluster.history.writes():
        if written.kind is not VOLUME or written.change.after is None:
            continue
        volume = VOLUME.decode(written.change.after.value)
        state = hold_state(volume, hold_namespace=NAMESPACE)
        if state is HoldState.HELD:
            held.add(volume.name)
        elif volume.spec.claim_ref is not None and len(held) < count:
            early.append(volume.name)
    return early


LOCAL = tuple(volume_body(name=f"v-{number}", node=f"node-{number}", size="10Gi") for number in (1, 2, 3))


def test_local_volumes_are_held_for_all_members_before_any_is_committed() -> None:
    """G13"""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, *LOCAL, gang(3), *members(3, size="5Gi", storage_class="local"))
        await within(cluster, partial(bound, cluster, 3), 30)
        placed = await nodes(cluster)
        assert sorted(placed.values()) == ["node-1", "node-2", "node-3"]
        assert await condition(cluster) == ("True", "Scheduled", "")
        assert committed_before_all_were_held(cluster, 3) == []

    run(scenario, GroupStorage({}))


def test_gang_short_of_a_local_volume_touches_none() -> None:
    """G14"""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, *LOCAL[:2], gang(3), *members(3, size="5Gi", storage_class="local"))
        await cluster.clock.sleep(120)
        await assert_untouched(cluster)
        status = await condition(cluster)
        assert status is not None
        assert status[:2] == ("False", "Unschedulable")
        await create(cluster, LOCAL[2])
        await within(cluster, partial(bound, cluster, 3), 30)

    run(scenario, GroupStorage({}))


def test_volumes_of_a_gang_are_not_taken_by_a_single_pod() -> None:
    """G18"""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, *LOCAL[:2], gang(2), *members(2, size="5Gi", storage_class="local"))
        single = (claim_body(name="own", size="5Gi"), pod_body(name="single", claims=("own",)))
        await create(cluster, *single)
        await within(cluster, partial(bound, cluster, 2), 30)
        await cluster.clock.sleep(60)
        assert (await cluster.client.get(POD, "single", namespace="default")).spec.node_name == ""

    run(scenario, GroupStorage({}))


def test_every_member_gets_a_pool_with_capacity() -> None:
    """G22: kube-scheduler promises the largest pool to all three."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, gang(3), *members(3, size="100Gi"))
        await within(cluster, partial(bound, cluster, 3), 60)
        assert sorted((await nodes(cluster)).values()) == ["node-1", "node-2", "node-3"]
        assert await created_volumes(cluster) == 3

    run(scenario, GroupStorage({"node-1": 150, "node-2": 110, "node-3": 110}))


def test_gang_short_of_capacity_creates_no_volume() -> None:
    """G24"""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, gang(3), *members(3, size="100Gi"))
        await cluster.clock.sleep(120)
        await assert_untouched(cluster)
        status = await condition(cluster)
        assert status is not None
        assert status[2].startswith("minCount (3) cannot be satisfied: 2 scheduled")
        [text] = await messages(cluster, "g", "FailedScheduling")
        assert "class node" in text
        assert "100Gi" in text

    run(scenario, GroupStorage({"node-1": 150, "node-2": 110, "node-3": 50}))


@pytest.mark.parametrize("additive", [True, False], ids=["figures add up", "each volume by itself"])
def test_member_beyond_the_quorum_waits_for_capacity(additive: bool) -> None:
    """G25; where figures do not add up the member is tried on a full node first."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, gang(2), *members(3, size="100Gi"))
        await within(cluster, partial(bound, cluster, 2), 60)
        await cluster.clock.sleep(60)
        assert sorted((await nodes(cluster)).values()) == ["node-1", "node-2"]
        assert await condition(cluster) == ("True", "Scheduled", "")
        more = MergePatch({"capacity": "110Gi"})
        await cluster.client.patch(STORAGE_CAPACITY, f"{CLASS}-node-3", more, namespace="default")
        await within(cluster, partial(bound, cluster, 3), 30)

    pools = {"node-1": 150, "node-2": 110, "node-3": 110}
    figures = {"node-1": 150, "node-2": 110, "node-3": 50}
    run(scenario, GroupStorage(pools, figures=figures, additive=additive))


def test_member_moves_when_its_volume_cannot_be_provisioned() -> None:
    """G31"""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, gang(3), *members(3, size="100Gi", affinity=preferring("node-1")))
        await within(cluster, partial(bound, cluster, 3), 120)
        assert Counter((await nodes(cluster)).values()) == {"node-1": 2, "node-2": 1}
        assert await created_volumes(cluster) == 3
        assert committed_before_all_were_held(cluster, 3) == []

    run(scenario, GroupStorage({"node-1": 200, "node-2": 110}, figures={"node-1": 300, "node-2": 110}))


@pytest.mark.parametrize("refreshed", [True, False], ids=["figure is refreshed", "figure stays"])
def test_gang_that_cannot_have_its_volumes_is_rolled_back(refreshed: bool) -> None:
    """G32"""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, gang(3), *members(3, size="100Gi", affinity=preferring("node-1")))
        if refreshed:

            async def tried() -> bool:
                return await created_volumes(cluster) > 0

            await within(cluster, tried, 60)
            less = MergePatch({"capacity": "200Gi"})
            await cluster.client.patch(STORAGE_CAPACITY, f"{CLASS}-node-1", less, namespace="default")
        await cluster.clock.sleep(200)
        assert await nodes(cluster) == {}
        if refreshed:
            await assert_untouched(cluster)
        status = await condition(cluster)
        assert status is not None
        assert status[0] == "False"

    run(scenario, GroupStorage({"node-1": 200}, figures={"node-1": 300}))


def test_launcher_without_claims_waits_for_the_workers_volumes() -> None:
    """G34"""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, gang(3), *members(1), *members(2, first=1, size="100Gi"))
        await cluster.clock.sleep(120)
        await assert_untouched(cluster)

    run(scenario, GroupStorage({"node-1": 150}))


def test_members_on_two_nodes_share_one_volume() -> None:
    """G36: kube-scheduler never schedules them."""

    async def scenario(cluster: SimulatedCluster) -> None:
        shared = claim_body(name="dataset", size="100Gi", storage_class=CLASS, access_modes=("ReadWriteMany",))
        await create(cluster, shared, gang(4), *members(4, cpu="4", claims=("dataset",)))
        await within(cluster, partial(bound, cluster, 4), 60)
        assert Counter((await nodes(cluster)).values()) == {"node-1": 2, "node-4": 2}
        assert await created_volumes(cluster) == 1

    run(scenario, GroupStorage({"zone-a": 150}, by_zone=True))
