"""The anti-affinity StatefulSet in virtual time, through the same API a user would use."""

from typing import Any

import msgspec
import pytest

from mooring.api.kinds import BY_KIND, CLAIM, EVENT, POD, VOLUME
from mooring.cluster.bootstrap import Layout
from mooring.sim.world import World, simulate
from scenarios import anti_affinity
from scenarios.anti_affinity import Placed


def plain(item: msgspec.Struct) -> dict[str, Any]:
    body = msgspec.json.decode(msgspec.json.encode(item))
    assert isinstance(body, dict)
    return body


async def apply(world: World) -> None:
    for document in anti_affinity.manifests():
        kind = BY_KIND[document["apiVersion"], document["kind"]]
        await world.client.create(kind, document, namespace="default")


async def placements(world: World) -> list[Placed]:
    pods, claims, volumes = [(await world.client.list(kind)).items for kind in (POD, CLAIM, VOLUME)]
    return anti_affinity.placements([plain(p) for p in pods], [plain(c) for c in claims], [plain(v) for v in volumes])


@pytest.mark.req("T43")
@pytest.mark.parametrize("seed", range(5))
def test_local_volumes_on_every_node_place_every_replica(seed: int) -> None:
    async def scenario(world: World) -> list[Placed]:
        await apply(world)

        async def all_run() -> bool:
            placed = await placements(world)
            return len(placed) == 3 and all(p.phase == "Running" for p in placed)

        assert await world.until(all_run, within=60)
        return await placements(world)

    anti_affinity.assert_all_placed(simulate(scenario, layout=Layout(), seed=seed))


@pytest.mark.req("T43")
@pytest.mark.parametrize("seed", range(5))
def test_local_volumes_on_two_of_three_nodes_leave_the_third_replica_pending(seed: int) -> None:
    async def scenario(world: World) -> tuple[list[Placed], list[str]]:
        for volume in (await world.client.list(VOLUME)).items:
            if volume.name.startswith("local-node-3-"):
                await world.client.delete(VOLUME, volume.name)
        await apply(world)
        # Long enough for retries, wake-ups and backoff to have changed their mind if they could.
        await world.clock.sleep(600)
        events = (await world.client.list(EVENT, namespace="default")).items
        return await placements(world), [e.message for e in events if e.involved_object.name == "db-2"]

    placed, said = simulate(scenario, layout=Layout(), seed=seed)
    anti_affinity.assert_third_waits(placed)
    [reason] = {text for text in said if text.startswith("0/3 nodes are available")}
    assert f"1 {anti_affinity.NO_VOLUMES}" in reason
    assert f"2 {anti_affinity.ANTI_AFFINITY}" in reason
