"""Existing volumes and free storage, decided together: what is said of all nodes is what trying everything says."""

from collections.abc import Sequence
from itertools import permutations
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import well_known
from mooring.api.views.meta import ApiObject
from mooring.volumes import decider, free_volumes
from mooring.volumes.state import ConflictReason
from support.builders import a_capacity, a_claim, a_class, a_driver, a_volume
from support.builders.drivers import DRIVER
from support.builders.volume_library import VolumeLibrary

pytestmark = [pytest.mark.req("T20.both"), pytest.mark.level("u")]

TRACKED = (a_class(name="made", provisioner=DRIVER), a_driver(tracks_capacity=True))
NODES = {name: {well_known.HOSTNAME: name} for name in ("n1", "n2", "n3")}


def segment(node: str, free: int, *, largest: int) -> ApiObject:
    """Figures that add up."""
    name, topology = f"room-{node}", {"matchLabels": {well_known.HOSTNAME: node}}
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


@pytest.mark.parametrize(
    "most", [pytest.param(decider.MAX_SOURCE_COMBINATIONS, id="all ways"), pytest.param(1, id="of too many ways, some")]
)
@given(
    claims=st.lists(sizes, min_size=1, max_size=3),
    volumes=st.lists(st.tuples(st.sampled_from(sorted(NODES)), sizes), max_size=4),
    segments=st.dictionaries(st.sampled_from(sorted(NODES)), st.tuples(sizes, sizes).map(sorted)),
)
def test_all_claims_are_served_wherever_they_can_be(
    most: int, claims: list[int], volumes: list[tuple[str, int]], segments: dict[str, list[int]]
) -> None:
    """Where there are too many ways to try all of them, a node may be refused, and is never taken in error."""
    library = VolumeLibrary(*TRACKED, nodes=NODES)
    for number, (node, size) in enumerate(volumes):
        library.add(a_volume(name=f"v{number}", size=f"{size}Gi", storage_class="made", node=node))
    for node, (largest, free) in segments.items():
        library.add(segment(node, free, largest=largest))
    names = [f"c{number}" for number in range(len(claims))]
    for name, size in zip(names, claims, strict=True):
        library.add(a_claim(name=name, size=f"{size}Gi", storage_class="made"))

    with patch.object(decider, "MAX_SOURCE_COMBINATIONS", most):
        rejected = library.rejected(*names).get(ConflictReason.STORAGE_CAPACITY, set())

    for node in NODES:
        largest, free = segments.get(node, (0, 0))
        there = [size for where, size in volumes if where == node]
        served = can_be_served(claims, there, free, largest)
        assert served or node in rejected, node
        assert most == 1 or (node in rejected) is not served, node
        if node not in rejected:
            plan = library.plan(*names, node=node)
            made = [claims[names.index(one.claim.name)] for one in plan.provision]
            assert sum(made) <= free
            assert len(plan.static) + len(made) == len(claims)


@pytest.mark.parametrize("most", [free_volumes.MAX_CLAIM_SETS, 1])
def test_claims_that_differ_in_too_many_ways_are_looked_at_node_by_node(most: int) -> None:
    once, many = "ReadWriteOnce", "ReadWriteMany"
    volumes = [
        a_volume(name=f"{node}-{number}", node=node, access_modes=modes)
        for node, offered in (("n1", ((once, many), (once,))), ("n2", ((once, many),)), ("n3", ((once,), (once,))))
        for number, modes in enumerate(offered)
    ]
    claims = [a_claim(name="once", access_modes=[once]), a_claim(name="many", access_modes=[many])]
    library = VolumeLibrary(*volumes, *claims, nodes=NODES)

    with patch.object(free_volumes, "MAX_CLAIM_SETS", most):
        assert library.rejected("once", "many") == {ConflictReason.NO_VOLUME: {"n2", "n3"}}
