"""Groups in the queue: members, quorum, order and what users see, in a simulated cluster of six nodes."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import pytest

from mooring.api.kinds import POD, POD_GROUP, VOLUME
from mooring.api.patches.contract import MergePatch
from support.builders import pod_body, volume_body
from support.simulation.cluster import SimulatedCluster, simulate
from support.simulation.groups import (
    GATES,
    LAYOUT,
    bound,
    change,
    condition,
    cordon,
    create,
    gang,
    members,
    messages,
    nodes,
)

pytestmark = pytest.mark.req("G3.woken")

T = TypeVar("T")

SHORT = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"


def run(scenario: Callable[[SimulatedCluster], Awaitable[T]], *, seed: int = 0) -> T:
    return simulate(scenario, layout=LAYOUT, seed=seed, gates=GATES)


async def within(cluster: SimulatedCluster, holds: Callable[[], Awaitable[bool]], seconds: float) -> None:
    assert await cluster.until(holds, within=seconds)


def test_gang_without_claims_is_bound_and_scheduled() -> None:
    """G01"""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, gang(3), *members(3))
        await within(cluster, partial(bound, cluster, 3), 5)
        await cluster.clock.sleep(1)
        assert await condition(cluster) == ("True", "Scheduled", "")
        assert await messages(cluster, "g-0", "Scheduled")

    run(scenario)


def test_pods_wait_for_their_pod_group() -> None:
    """G02"""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, *members(3))
        await cluster.clock.sleep(60)
        assert await nodes(cluster) == {}
        text = 'pod group "g": waiting for the PodGroup to be created'
        assert await messages(cluster, "g-0", "GroupMissing") == {text}
        await create(cluster, gang(3))
        await within(cluster, partial(bound, cluster, 3), 1)

    run(scenario)


def test_gang_waits_for_missing_member() -> None:
    """G03"""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, gang(3), *members(2))
        await cluster.clock.sleep(60)
        assert await nodes(cluster) == {}
        assert await messages(cluster, "g", "WaitingForMembers") == {"2 of 3 members exist"}
        assert await messages(cluster, "g-1", "WaitingForMembers") == {"2 of 3 members exist"}
        await create(cluster, *members(1, first=2))
        await within(cluster, partial(bound, cluster, 3), 1)

    run(scenario)


def test_gated_extra_does_not_block_the_quorum() -> None:
    """G04: kube-scheduler schedules none of them."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, gang(3), *members(3), *members(1, first=3, gates=("example.com/wait",)))
        await within(cluster, partial(bound, cluster, 3), 5)
        await cluster.clock.sleep(30)
        assert (await nodes(cluster)).keys() == {"g-0", "g-1", "g-2"}
        await change(cluster, POD, "g-3", {"spec": {"schedulingGates": None}})
        await within(cluster, partial(bound, cluster, 4), 2)

    run(scenario)


def test_refused_gang_is_scheduled_once_min_count_is_lowered() -> None:
    """G05"""

    async def scenario(cluster: SimulatedCluster) -> None:
        await cordon(cluster, "node-3", "node-4", "node-5", "node-6")
        await create(cluster, gang(3), *members(3, cpu="5"))
        await cluster.clock.sleep(60)
        assert await nodes(cluster) == {}
        status = await condition(cluster)
        assert status is not None
        assert status[:2] == ("False", "Unschedulable")
        assert status[2].startswith(SHORT)
        assert await messages(cluster, "g-2", "FailedScheduling")
        await change(cluster, POD_GROUP, "g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}})
        await within(cluster, partial(bound, cluster, 2), 1)

    run(scenario)


def test_extra_waits_and_is_scheduled_by_itself() -> None:
    """G06"""

    async def scenario(cluster: SimulatedCluster) -> None:
        await cordon(cluster, "node-4", "node-5", "node-6")
        await create(cluster, gang(2), *members(4, cpu="5"))
        await within(cluster, partial(bound, cluster, 3), 5)
        await cluster.clock.sleep(60)
        placed = await nodes(cluster)
        [left] = {f"g-{number}" for number in range(4)} - placed.keys()
        [text] = await messages(cluster, left, "FailedScheduling")
        assert text.startswith("0/6 nodes are available: 3 Insufficient cpu, 3 node(s) were unschedulable.")
        await cordon(cluster, "node-4", on=False)
        await within(cluster, partial(bound, cluster, 4), 1)
        assert await condition(cluster) == ("True", "Scheduled", "")

    run(scenario)


def test_members_of_different_priority_are_an_error() -> None:
    """G07"""

    async def scenario(cluster: SimulatedCluster) -> None:
        high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
        await create(cluster, high, gang(3), *members(1), *members(2, first=1, more_spec={"priorityClassName": "high"}))
        await cluster.clock.sleep(60)
        assert await nodes(cluster) == {}
        text = "all pods in a single pod group should have the same priority as the pod group's priority, got 7 and 0"
        assert await condition(cluster) == ("False", "SchedulerError", text)
        assert await messages(cluster, "g-0", "FailedScheduling") == {text}

    run(scenario)


def test_member_of_another_scheduler_is_named() -> None:
    """G08 (ii)"""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, gang(3), *members(2), *members(1, first=2, scheduler="elsewhere"))
        await cluster.clock.sleep(60)
        assert await nodes(cluster) == {}
        text = '2 of 3 members exist; pod default/g-2 waits for scheduler "elsewhere"'
        assert await messages(cluster, "g", "WaitingForMembers") == {text}

    run(scenario)


def test_members_of_a_basic_group_are_scheduled_as_they_fit() -> None:
    """G09"""

    async def scenario(cluster: SimulatedCluster) -> None:
        await cordon(cluster, "node-2", "node-3", "node-4", "node-5", "node-6")
        await create(cluster, gang(1, basic=True), *members(3, cpu="5"))
        await within(cluster, partial(bound, cluster, 1), 5)
        await cluster.clock.sleep(60)
        assert await bound(cluster, 1)
        await cordon(cluster, "node-2", on=False)
        await within(cluster, partial(bound, cluster, 2), 11)

    run(scenario)


def test_ended_members_do_not_count() -> None:
    """G10"""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, gang(3), *members(3))
        await within(cluster, partial(bound, cluster, 3), 5)
        await cluster.clock.sleep(5)
        for name in ("g-0", "g-1"):
            pod = await cluster.client.get(POD, name, namespace="default")
            status = {"metadata": {"uid": pod.uid}, "status": {"phase": "Succeeded"}}
            await cluster.client.patch(POD, name, MergePatch(status), namespace="default", subresource="status")
        await cluster.client.delete(POD, "g-2", namespace="default", grace_seconds=0)
        await cluster.clock.sleep(60)
        await create(cluster, *members(1, first=2))
        await cluster.clock.sleep(60)
        assert "g-2" not in await nodes(cluster)
        assert await messages(cluster, "g", "WaitingForMembers") == {"1 of 3 members exist; 2 ended and do not count"}

    run(scenario)


@pytest.mark.parametrize("seed", range(2))
def test_gangs_and_single_pods_are_scheduled_in_their_order(seed: int) -> None:
    """G11"""

    async def scenario(cluster: SimulatedCluster) -> None:
        for number in range(30):
            name = f"g{number}"
            await create(cluster, gang(3, name=name), *members(3, group=name, cpu="100m"))
            await create(cluster, pod_body(name=f"single-{number}", requests={"cpu": "100m"}))

        async def all_bound() -> bool:
            pods = (await cluster.client.list(POD)).items
            return len(pods) == 120 and all(pod.spec.node_name for pod in pods)

        await within(cluster, all_bound, 10)

    run(scenario, seed=seed)


@pytest.mark.parametrize("size", [40])
def test_gang_short_of_one_volume_is_woken_by_it(size: int) -> None:
    """G12: kube-scheduler retries after up to 10 s times the square root of the number of members."""

    async def scenario(cluster: SimulatedCluster) -> None:
        volumes = [volume_body(name=f"v-{number}", node=f"node-{number % 6 + 1}") for number in range(size)]
        await create(cluster, *volumes[1:], gang(size), *members(size, cpu="100m", size="5Gi", storage_class="local"))
        await cluster.clock.sleep(120)
        assert await nodes(cluster) == {}
        assert not [one for one in (await cluster.client.list(VOLUME)).items if one.spec.claim_ref is not None]
        await create(cluster, volumes[0])
        await within(cluster, partial(bound, cluster, size), 5)

    run(scenario)
