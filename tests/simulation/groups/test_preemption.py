"""Preemption for groups in a simulated cluster: only where it lets the group run."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from mooring.api.kinds import POD
from support.builders import Body, pod_body, volume_body
from support.simulation.cluster import SimulatedCluster, simulate
from support.simulation.groups import (
    GATES,
    HIGH,
    IMPORTANT,
    LAYOUT,
    NODES,
    bound,
    condition,
    create,
    gang,
    members,
    nodes,
)

pytestmark = pytest.mark.req("G3.woken")


def fillers() -> list[Body]:
    """One pod of lower priority that fills each node."""
    return [
        pod_body(name=f"low-{name}", requests={"cpu": "8"}, node_selector={"kubernetes.io/hostname": name})
        for name in NODES
    ]


def run(scenario: Callable[[SimulatedCluster], Awaitable[None]], low: list[Body]) -> None:
    async def whole(cluster: SimulatedCluster) -> None:
        await create(cluster, HIGH, *low)
        await cluster.clock.sleep(10)
        await scenario(cluster)

    simulate(whole, layout=LAYOUT, gates=GATES)


async def low_pods(cluster: SimulatedCluster) -> set[str]:
    pods = (await cluster.client.list(POD)).items
    return {pod.name for pod in pods if pod.name.startswith("low-") and pod.spec.node_name and not pod.deleting}


def test_victims_are_evicted_on_the_nodes_that_reach_the_volumes() -> None:
    """G71"""

    async def scenario(cluster: SimulatedCluster) -> None:
        volumes = [volume_body(name=f"v-{name}", node=name) for name in ("node-2", "node-5")]
        group = gang(2, more_spec=IMPORTANT)
        pods = members(2, cpu="8", size="5Gi", storage_class="local", more_spec=IMPORTANT)
        await create(cluster, *volumes, group, *pods)
        assert await cluster.until(partial(bound, cluster, 2), within=120)
        assert sorted((await nodes(cluster)).values()) == ["node-2", "node-5"]
        assert await low_pods(cluster) == {f"low-{name}" for name in NODES} - {"low-node-2", "low-node-5"}

    run(scenario, fillers())


def test_no_pod_is_evicted_for_a_gang_that_lacks_volumes() -> None:
    """G72"""

    async def scenario(cluster: SimulatedCluster) -> None:
        group = gang(2, more_spec=IMPORTANT)
        pods = members(2, cpu="8", size="5Gi", storage_class="local", more_spec=IMPORTANT)
        await create(cluster, group, *pods)
        await cluster.clock.sleep(60)
        assert len(await low_pods(cluster)) == 6
        short = "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining"
        text = f"{short}, pod group preemption: {short}"
        assert await condition(cluster) == ("False", "Unschedulable", text)

    run(scenario, fillers())


def test_gang_without_pods_of_lower_priority_evicts_none() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, gang(2), *members(2, cpu="8"))
        await cluster.clock.sleep(60)
        assert len(await low_pods(cluster)) == 6
        short = "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining"
        text = f"{short}, pod group preemption: No preemption victims found for incoming preemptor"
        assert await condition(cluster) == ("False", "Unschedulable", text)

    run(scenario, fillers())


@pytest.mark.parametrize("together", [True, False], ids=["all", "single"])
def test_disruption_mode_all_evicts_every_member_of_the_victim(together: bool) -> None:
    """G73"""

    async def scenario(cluster: SimulatedCluster) -> None:
        await create(cluster, gang(1, name="high", more_spec=IMPORTANT))
        await create(cluster, *members(1, group="high", cpu="8", more_spec=IMPORTANT))
        assert await cluster.until(partial(bound, cluster, 1, "high"), within=120)
        await cluster.clock.sleep(60)
        assert len(await nodes(cluster, "low")) == (0 if together else 5)

    low = [gang(6, name="low", disrupted_together=together), *members(6, group="low", cpu="8")]
    run(scenario, low)
