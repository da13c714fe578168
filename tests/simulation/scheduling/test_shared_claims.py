"""Pods that share a delayed claim, in virtual time: whatever the order, all of them run if that is possible."""

import random

import pytest

from mooring.api import well_known
from mooring.api.kinds import POD
from mooring.api.patches.contract import MergePatch
from mooring.cluster.bootstrap import Layout
from support.builders import Body, claim_body, pod_body
from support.scenarios import simulated
from support.scenarios.placements import Placed
from support.simulation.cluster import SimulatedCluster, simulate

pytestmark = pytest.mark.req("T49.together")

GATE = "example.com/wait"


async def _release(cluster: SimulatedCluster, names: list[str]) -> None:
    """Ungate pods one by one, each once the one before runs: the first has to think of the others."""
    for number, name in enumerate(names, start=1):
        await cluster.client.patch(POD, name, MergePatch({"spec": {"schedulingGates": None}}), namespace="default")
        assert await cluster.until(lambda count=number: _running(cluster, count), within=60)  # type: ignore[misc]


async def _running(cluster: SimulatedCluster, count: int) -> bool:
    pods = (await cluster.client.list(POD)).items
    return sum(pod.status.phase == "Running" for pod in pods) == count


def _user(name: str, *, hostname: str = "", cpu: str = "1") -> Body:
    selector = {well_known.HOSTNAME: hostname} if hostname else None
    return pod_body(name=name, claims=["shared"], gates=[GATE], node_selector=selector, requests={"cpu": cpu})


@pytest.mark.parametrize("seed", range(10))
def test_pods_with_one_local_volume_run_on_the_only_node_of_one_of_them(seed: int) -> None:
    hostname = f"node-{random.Random(seed).randrange(1, 7)}"

    async def scenario(cluster: SimulatedCluster) -> list[Placed]:
        users = [_user("free-1"), _user("fixed", hostname=hostname), _user("free-2")]
        await simulated.create(cluster, claim_body(name="shared"), *users)
        names = ["free-1", "free-2", "fixed"]
        await _release(cluster, names)
        return await simulated.placed(cluster)

    found = simulate(scenario, layout=Layout(nodes=6, local_volumes=1), seed=seed)
    assert [(one.node, one.together) for one in found] == [(hostname, True)] * 3


@pytest.mark.parametrize("seed", range(10))
def test_pods_with_one_local_volume_run_where_there_are_resources_for_all(seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> list[Placed]:
        rng = random.Random(seed)
        busy = [f"node-{number}" for number in range(1, 6)]
        roomy = busy.pop(rng.randrange(len(busy)))
        fillers = [pod_body(name=f"busy-{node}", node=node, requests={"cpu": "2"}) for node in busy]
        await simulated.create(
            cluster, *fillers, claim_body(name="shared"), _user("one", cpu="2"), _user("two", cpu="2")
        )
        for name in ("one", "two"):
            gone = MergePatch({"spec": {"schedulingGates": None}})
            await cluster.client.patch(POD, name, gone, namespace="default")
        assert await cluster.until(lambda: simulated.all_run(cluster, len(busy) + 2), within=60)
        return [one for one in await simulated.placed(cluster) if one.pod in ("one", "two") and one.node == roomy]

    assert len(simulate(scenario, layout=Layout(nodes=5, local_volumes=1), seed=seed)) == 2
