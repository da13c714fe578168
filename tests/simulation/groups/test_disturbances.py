"""Changes while the volumes of a gang are held: members, minCount and nodes go, gangs compete, coordinators are absent.

The provisioner is paused, so that the gang waits for its volumes long enough to be disturbed.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, NODE, POD, POD_GROUP, VOLUME
from mooring.cluster.storage import NAMESPACE
from mooring.provisioner.component import Provisioner
from mooring.volumes.binding import HoldState, hold_state
from support.builders import volume_body
from support.simulation.cluster import SimulatedCluster, simulate
from support.simulation.fault_scenario import AUDIT_SECONDS
from support.simulation.faults import FaultPlan, Pause
from support.simulation.gangs.rules import GroupRules
from support.simulation.groups import (
    GATES,
    HIGH,
    IMPORTANT,
    LAYOUT,
    NODES,
    GroupStorage,
    bound,
    change,
    condition,
    create,
    gang,
    members,
    messages,
    nodes,
)
from support.simulation.scenarios import BINDER
from support.simulation.storage import CONTROLLER

pytestmark = pytest.mark.req("G2.committed")

#: The provisioner is paused from the moment the gang is created.
PAUSED = FaultPlan((Pause(Provisioner.name, 5.0, 25.0),))


def run(
    scenario: Callable[[SimulatedCluster], Awaitable[None]], storage: GroupStorage, plan: FaultPlan = PAUSED
) -> None:
    async def whole(cluster: SimulatedCluster) -> None:
        rules = GroupRules(cluster)
        await create(cluster, *storage.objects())
        await cluster.clock.sleep(5.2)
        auditing = asyncio.create_task(audit(rules, cluster))
        await scenario(cluster)
        assert not auditing.done(), auditing.exception()
        auditing.cancel()
        assert list(rules.at_end()) == []

    simulate(whole, layout=LAYOUT, gates=GATES, plan=plan, extra_components=storage.extra_components)


async def audit(rules: GroupRules, cluster: SimulatedCluster) -> None:
    while True:
        assert await rules.audit(cluster) is None
        await cluster.clock.sleep(AUDIT_SECONDS)


async def within(cluster: SimulatedCluster, holds: Callable[[], Awaitable[bool]], seconds: float) -> None:
    assert await cluster.until(holds, within=seconds)


async def held(cluster: SimulatedCluster) -> bool:
    volumes = (await cluster.client.list(VOLUME)).items
    return any(hold_state(volume, hold_namespace=NAMESPACE) is HoldState.HELD for volume in volumes)


async def is_free(cluster: SimulatedCluster) -> bool:
    """No volume is reserved for a claim, and no node selected."""
    volumes = (await cluster.client.list(VOLUME)).items
    claims = (await cluster.client.list(CLAIM)).items
    taken = any(volume.spec.claim_ref is not None for volume in volumes)
    return not taken and not any(claim.selected_node for claim in claims)


ALL_NODES = GroupStorage(dict.fromkeys(NODES, 110))


async def a_held_gang(cluster: SimulatedCluster, *, min_count: int = 3) -> None:
    """A member with an existing volume, which is held, and two that wait for the provisioner."""
    await create(cluster, volume_body(name="existing", node="node-2"), gang(min_count))
    await cluster.clock.sleep(0.5)
    await create(cluster, *members(1, size="5Gi", storage_class="local"), *members(2, first=1, size="10Gi"))
    await within(cluster, partial(held, cluster), 5)


def test_gang_that_loses_a_member_is_rolled_back_and_decided_again_with_a_new_one() -> None:
    """G49"""

    async def scenario(cluster: SimulatedCluster) -> None:
        await a_held_gang(cluster)
        await cluster.client.delete(POD, "g-1", namespace="default", grace_seconds=0)
        await cluster.clock.sleep(90)
        assert await is_free(cluster)
        assert await nodes(cluster) == {}
        assert len(await cluster.driver(CONTROLLER).list_volumes()) == 0
        await create(cluster, members(1, first=1, size="10Gi")[1])
        await within(cluster, partial(bound, cluster, 3), 60)

    run(scenario, ALL_NODES)


def test_member_that_is_deleted_after_the_commit_leaves_its_volume_to_its_successor() -> None:
    """G50: there is no way back from the commit. The PV controller is paused, so that no member is bound yet."""

    async def scenario(cluster: SimulatedCluster) -> None:
        volumes = [volume_body(name=f"v-{name}", node=name) for name in NODES[:3]]
        pods = members(3, size="5Gi", storage_class="local")
        await create(cluster, *volumes, gang(3), *pods)

        async def given() -> bool:
            found = (await cluster.client.list(VOLUME)).items
            return {hold_state(volume, hold_namespace=NAMESPACE) for volume in found} == {HoldState.COMMITTED}

        await within(cluster, given, 15)
        assert await nodes(cluster) == {}
        await cluster.client.delete(POD, "g-1", namespace="default", grace_seconds=0)
        await within(cluster, partial(bound, cluster, 2), 60)
        assert set(await nodes(cluster)) == {"g-0", "g-2"}
        assert await given()
        await create(cluster, next(body for body in pods if body["metadata"]["name"] == "g-1"))
        await within(cluster, partial(bound, cluster, 3), 60)
        volume = (await cluster.client.get(CLAIM, "g-c-1", namespace="default")).spec.volume_name
        assert volume == f"v-{(await nodes(cluster))['g-1']}"

    run(scenario, ALL_NODES, FaultPlan((Pause(BINDER, 5.5, 20.0),)))


def test_gang_is_not_committed_when_min_count_is_raised() -> None:
    """G51"""

    async def scenario(cluster: SimulatedCluster) -> None:
        await a_held_gang(cluster, min_count=2)
        await change(cluster, POD_GROUP, "g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}})
        await cluster.clock.sleep(120)
        assert await nodes(cluster) == {}
        assert await is_free(cluster)
        await create(cluster, *members(1, first=3, size="10Gi"))
        await within(cluster, partial(bound, cluster, 4), 60)

    run(scenario, ALL_NODES)


@pytest.mark.parametrize("after", [0.0, 10.0, 20.0])
def test_gang_runs_whole_although_a_node_is_lost(after: float) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await a_held_gang(cluster)
        await cluster.clock.sleep(after)
        selected = [claim.selected_node for claim in (await cluster.client.list(CLAIM)).items]
        lost = next((node for node in selected if node and node != "node-2"), "node-1")
        await cluster.client.delete(NODE, lost)
        await cluster.clock.sleep(240)
        assert len(await nodes(cluster)) == 3

    run(scenario, ALL_NODES)


def test_two_gangs_with_half_of_the_capacity_each() -> None:
    """G54, I15: the reported capacity is enough for both, the driver's for one."""

    async def scenario(cluster: SimulatedCluster) -> None:
        for name in ("older", "younger"):
            await create(cluster, gang(3, name=name))
            await cluster.clock.sleep(0.1)
        await create(cluster, *members(3, group="older", size="100Gi"), *members(3, group="younger", size="100Gi"))
        await cluster.clock.sleep(400)
        sizes = [len(await nodes(cluster, name)) for name in ("older", "younger")]
        assert sorted(sizes) == [0, 3]

    run(scenario, GroupStorage({"node-1": 400}, figures={"node-1": 1000}), FaultPlan(()))


def test_without_a_coordinator_nothing_is_held_and_the_decision_is_joint() -> None:
    """G56"""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, gang(3), *members(3, size="100Gi"))
        await within(cluster, partial(bound, cluster, 3), 60)
        assert sorted((await nodes(cluster)).values()) == ["node-1", "node-2", "node-3"]
        assert await condition(cluster) == ("True", "Scheduled", "")
        assert not await messages(cluster, "g", "GroupHolding")

    pools = {"node-1": 150, "node-2": 110, "node-3": 110}
    run(scenario, GroupStorage(pools, coordinator=False), FaultPlan(()))


def test_members_of_a_gang_with_a_topology_constraint_share_a_zone() -> None:
    """G44, I6: later members follow those that are placed."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, gang(2, topology=well_known.ZONE), *members(2, size="10Gi"))
        await within(cluster, partial(bound, cluster, 2), 60)
        await create(cluster, *members(2, first=2, size="10Gi"))
        await within(cluster, partial(bound, cluster, 4), 60)
        zones = {row.name: row.zone for row in LAYOUT.rows()}
        assert len(Counter(zones[node] for node in (await nodes(cluster)).values())) == 1

    run(scenario, ALL_NODES, FaultPlan(()))


def test_gang_with_a_topology_constraint_that_no_zone_satisfies_is_refused() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, gang(3, topology=well_known.ZONE), *members(3, cpu="8"))
        await cluster.clock.sleep(30)
        assert await nodes(cluster) == {}
        status = await condition(cluster)
        assert status is not None
        available = "pod group is unschedulable, 0/3 placements are available, first placement status: minCount (3)"
        assert status[2].startswith(available)

    run(scenario, ALL_NODES, FaultPlan(()))


@pytest.mark.parametrize("existing", [True, False], ids=["existing volume", "capacity"])
def test_gang_of_higher_priority_gets_what_a_lower_one_holds(existing: bool) -> None:
    """G55: the lower one gives up, and what a third one was given is untouched."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, HIGH, volume_body(name="taken", node="node-6"), gang(1, name="given"))
        await create(cluster, *members(1, group="given", size="5Gi", storage_class="local"))
        await within(cluster, partial(bound, cluster, 1, "given"), 5)
        await a_held_gang(cluster)
        count, size, storage_class = (1, "5Gi", "local") if existing else (6, "105Gi", "node")
        await create(cluster, gang(count, name="high", more_spec=IMPORTANT))
        of_class = {"size": size, "storage_class": storage_class}
        await create(cluster, *members(count, group="high", more_spec=IMPORTANT, **of_class))
        await within(cluster, partial(bound, cluster, count, "high"), 120)
        assert any("Superseded" in text for text in await messages(cluster, "g", "GroupGivenUp"))
        assert await nodes(cluster) == {}
        assert len(await nodes(cluster, "given")) == 1
        await cluster.clock.sleep(60)
        status = await condition(cluster)
        assert status is not None
        assert status[:2] == ("False", "Unschedulable")

    run(scenario, ALL_NODES)
