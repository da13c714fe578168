"""Two replicas, a restless kube-scheduler and lost answers: no volume is assigned twice, and every pod gets one.

What plays kube-scheduler asks either replica about a pod, chooses any node that passes, has either replica bind it, and
hangs up when it likes, pods crossing each other. What plays the PV controller completes what volumes say.
"""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from mooring.api.kinds import CLAIM, NODE, POD, POD_GROUP, STORAGE_CLASS, VOLUME, Kind
from mooring.control.object_counts import remembered
from support.builders import Body, claim_body, class_body, node_body, pod_body, volume_body
from support.builders.groups import member_body, pod_group_body
from support.scheduler.cluster import SmallWorld, in_world
from support.scheduler.extender_caller import Caller, a_second

NODES = ("n1", "n2", "n3")
PODS = 9


def furnish(world: SmallWorld, *, claims_each: int, volumes_each: int) -> dict[str, list[str]]:
    """The claims of each pod."""
    for name in NODES:
        world.put(NODE, node_body(name=name))
    world.put(STORAGE_CLASS, class_body())
    for node in NODES:
        for number in range(volumes_each):
            world.put(VOLUME, volume_body(name=f"{node}-{number}", node=node))
    claims = {f"p{number}": [f"p{number}-{part}" for part in range(claims_each)] for number in range(PODS)}
    for pod, names in claims.items():
        for name in names:
            world.put(CLAIM, claim_body(name=name))
        world.put(POD, pod_body(name=pod, claims=names))
    return claims


class RestlessScheduler:
    def __init__(self, world: SmallWorld, replicas: list[Caller], rng: random.Random) -> None:
        self._world = world
        self._replicas = replicas
        self._rng = rng
        self.outcomes: Counter[str] = Counter()

    async def place(self, pod: str) -> None:
        """Try until the pod has a node."""
        while not self._world.node_of(pod):
            await self._world.clock.sleep(self._rng.uniform(0.0, 0.3))
            passing = await self._rng.choice(self._replicas).passing(pod, *NODES)
            if passing:
                await self._bind(pod, self._rng.choice(passing))

    async def _bind(self, pod: str, node: str) -> None:
        backoff = self._rng.choice((0.0, 0.05, 0.3, 5.0))
        try:
            async with asyncio.timeout(backoff):
                why = await self._rng.choice(self._replicas).bind(pod, node)
        except TimeoutError:
            why = "hung up"
        self.outcomes[why] += 1


async def play_controller(world: SmallWorld, rng: random.Random) -> None:
    while True:
        await world.clock.sleep(rng.uniform(0.0, 0.2))
        world.finish_bindings()


@pytest.mark.req("T33.replicas", "T13.extender")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("claims_each", "volumes_each"),
    [
        pytest.param(1, PODS // len(NODES), id="as many volumes as claims"),
        # Room for all on each node: a pod that was half given must find the rest where it began.
        pytest.param(2, 2 * PODS, id="two claims each"),
    ],
)
def test_nothing_is_given_twice_and_all_are_placed(seed: int, claims_each: int, volumes_each: int) -> None:
    async def scenario(world: SmallWorld) -> None:
        rng = random.Random(seed)
        claims = furnish(world, claims_each=claims_each, volumes_each=volumes_each)
        for line in ("patch persistentvolumes", "bind", "get persistentvolumes", "get pods"):
            world.client.faults[line] = [rng.choice(("", "", "before", "after")) for _ in range(60)]
        async with Caller(world).running() as one, a_second(world) as other, asyncio.timeout(3600):
            controller = asyncio.create_task(play_controller(world, rng))
            kube = RestlessScheduler(world, [one, other], rng)
            await asyncio.gather(*(kube.place(pod) for pod in claims))
            controller.cancel()
        assert kube.outcomes["hung up"] > 0
        owners = Counter(v["spec"]["claimRef"]["name"] for v in world.api.list(VOLUME) if "claimRef" in v["spec"])
        assert owners == Counter(name for names in claims.values() for name in names)
        for pod, names in claims.items():
            homes = {world.body(CLAIM, name)["spec"]["volumeName"].partition("-")[0] for name in names}
            assert homes == {world.node_of(pod)}, pod

    in_world(scenario)


def test_deleted_objects_are_released() -> None:
    """As `tests/simulation/guards/test_growth.py` for the other components: pods that are bound, rejected, given up by
    kube-scheduler, and members of a group, are deleted with all that they use, in rounds."""

    async def round_of(world: SmallWorld, caller: Caller, number: int) -> dict[str, int]:
        nodes = [f"n{number}-{position}" for position in range(2)]
        storage_class, group = f"local-{number}", f"group-{number}"
        names = [f"{what}-{number}" for what in ("bound", "rejected", "given-up", "member-0", "member-1")]
        bodies: list[tuple[Kind[Any], Body]] = [
            *((NODE, node_body(name=node)) for node in nodes),
            (STORAGE_CLASS, class_body(name=storage_class)),
            (POD_GROUP, pod_group_body(name=group, min_count=2)),
            *(
                (VOLUME, volume_body(name=f"{node}-{volume}", node=node, storage_class=storage_class))
                for node in nodes
                for volume in range(2)
            ),
            *((CLAIM, claim_body(name=name, storage_class=storage_class)) for name in names),
            *((POD, pod_body(name=name, claims=[name])) for name in names[:3]),
            *((POD, member_body(name=name, claims=[name], group=group)) for name in names[3:]),
        ]
        for kind, body in bodies:
            world.put(kind, body)
        await world.settle()
        bound, rejected, given_up, *members = names
        assert await caller.passing(bound, *nodes) == nodes
        binding = caller.begin(bound, nodes[0])
        await world.settle()
        world.finish_bindings()
        assert await binding == ""
        await caller.passing(rejected, nodes[0])
        hung_up = caller.begin(given_up, nodes[1])
        await world.settle()
        hung_up.cancel()
        for member in members:
            await caller.passing(member, *nodes)
        await world.settle()
        most = remembered(caller.extender, deep=True)
        for kind, body in reversed(bodies):
            world.delete(kind, body["metadata"]["name"])
        await world.settle(4000.0)
        left = dict(remembered(caller.extender, deep=True))
        assert sum(left.values()) < sum(most.values()), "nothing was remembered of the objects"
        return left

    async def scenario(world: SmallWorld) -> None:
        async with Caller(world).running() as caller:
            first, second = [await round_of(world, caller, number) for number in range(3)][1:]
        grown = {what: (first.get(what, 0), count) for what, count in second.items() if count > first.get(what, 0)}
        assert grown == {}

    in_world(scenario)
