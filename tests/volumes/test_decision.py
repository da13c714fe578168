"""Existing volumes and free storage, decided together: what is said of all nodes is what trying everything says."""

from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_capacity, a_claim, a_class, a_driver, a_volume
from builders.drivers import DRIVER
from builders.volume_worlds import VolumeWorld
from mooring.api import keys
from mooring.api.views.meta import ApiObject
from mooring.volumes.state import NOT_ENOUGH_SPACE

pytestmark = [pytest.mark.req("T20"), pytest.mark.level("u")]

TRACKED = (a_class(name="made", provisioner=DRIVER), a_driver(tracks_capacity=True))
NODES = {name: {keys.HOSTNAME: name} for name in ("n1", "n2", "n3")}


def room(node: str, free: int, *, largest: int) -> ApiObject:
    """Figures that add up."""
    name, topology = f"room-{node}", {"matchLabels": {keys.HOSTNAME: node}}
    return a_capacity(name=name, topology=topology, capacity=f"{free}Gi", largest=f"{largest}Gi")


def can_be_served(claims: Sequence[int], volumes: Sequence[int], free: int, largest: int) -> bool:
    """Whether each claim can have a volume of its own or one that is made beside the others."""
    padded = [*volumes, *[0] * len(claims)]
    for given_to in permutations(range(len(padded)), len(claims)):
        made = [size for size, position in zip(claims, given_to, strict=True) if position >= len(volumes)]
        large_enough = all(
            padded[position] >= size for size, position in zip(claims, given_to, strict=True) if position < len(volumes)
        )
        if large_enough and sum(made) <= free and all(size <= largest for size in made):
            return True
    return False


sizes = st.integers(1, 4)


@given(
    claims=st.lists(sizes, min_size=1, max_size=3),
    volumes=st.lists(st.tuples(st.sampled_from(sorted(NODES)), sizes), max_size=4),
    rooms=st.dictionaries(st.sampled_from(sorted(NODES)), st.tuples(sizes, sizes).map(sorted)),
)
def test_all_claims_are_served_wherever_they_can_be(
    claims: list[int], volumes: list[tuple[str, int]], rooms: dict[str, list[int]]
) -> None:
    world = VolumeWorld(*TRACKED, nodes=NODES)
    for number, (node, size) in enumerate(volumes):
        world.add(a_volume(name=f"v{number}", size=f"{size}Gi", storage_class="made", node=node))
    for node, (largest, free) in rooms.items():
        world.add(room(node, free, largest=largest))
    names = [f"c{number}" for number in range(len(claims))]
    for name, size in zip(names, claims, strict=True):
        world.add(a_claim(name=name, size=f"{size}Gi", storage_class="made"))

    rejected = world.rejected(*names).get(NOT_ENOUGH_SPACE, set())

    for node in NODES:
        largest, free = rooms.get(node, (0, 0))
        there = [size for where, size in volumes if where == node]
        assert (node not in rejected) is can_be_served(claims, there, free, largest), node
        if node not in rejected:
            plan = world.plan(*names, node=node)
            made = [claims[names.index(one.claim.name)] for one in plan.provision]
            assert sum(made) <= free
            assert len(plan.static) + len(made) == len(claims)
