"""A pod's volumes on a node that is in several segments of free storage: each may go to another one."""

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import Body, a_capacity, a_claim, a_class, a_driver
from builders.drivers import DRIVER
from builders.volume_worlds import VolumeWorld
from mooring.api import keys
from mooring.api.label_selector import Operator, Requirement
from mooring.api.node_selector import NodeSelector, NodeSelectorTerm
from mooring.api.views.storage import StorageCapacity
from mooring.volumes import packing, provisioning
from mooring.volumes.capacity import Room
from mooring.volumes.packing import Wish, fit_together
from mooring.volumes.state import NOT_ENOUGH_SPACE

pytestmark = [pytest.mark.req("C16.together"), pytest.mark.level("u")]

CLASSES = ("made", "sister")
SEGMENTS = tuple(NodeSelector((NodeSelectorTerm((Requirement(key, Operator.EXISTS, ()),)),)) for key in "xyz")


def a_room(
    number: int, storage_class: str, segment: int, limit: int, free: int, *, additive: bool, charged: int
) -> Room:
    return Room(
        str(number),
        storage_class,
        SEGMENTS[segment],
        limit,
        free,
        told_apart=additive,
        polled=None,
        charged=charged,
        additive=additive,
    )


def by_trying_everything(wishes: Sequence[Wish], rooms: Sequence[Room]) -> bool:
    """The same by its definition."""

    def bears(room: Room, chosen: Sequence[Room]) -> bool:
        known = {each.segment for each in rooms if each.storage_class == room.storage_class}
        load = [
            wish.size
            for wish, where in zip(wishes, chosen, strict=True)
            if where.segment == room.segment or where.segment not in known
        ]
        return sum(load) <= (room.left if len(load) > 1 else room.left_for_one)

    return any(
        all(
            room.storage_class == wish.storage_class and room.limit >= wish.size and bears(room, chosen)
            for wish, room in zip(wishes, chosen, strict=True)
        )
        for chosen in product(rooms, repeat=len(wishes))
    )


@given(
    st.lists(st.builds(Wish, st.sampled_from(CLASSES), st.integers(0, 8)), min_size=1, max_size=4),
    st.lists(
        st.tuples(
            st.sampled_from(CLASSES),
            st.integers(0, 2),
            st.integers(0, 10),
            st.integers(0, 16),
            st.booleans(),
            st.sampled_from((0, 0, 3)),
        ),
        max_size=4,
    ),
)
def test_it_is_what_trying_everything_finds(
    wishes: list[Wish], figures: list[tuple[str, int, int, int, bool, int]]
) -> None:
    rooms = [
        a_room(number, storage_class, segment, limit, free, additive=additive, charged=charged)
        for number, (storage_class, segment, limit, free, additive, charged) in enumerate(figures)
    ]
    assert fit_together(wishes, rooms) is by_trying_everything(wishes, rooms)


def test_where_looking_would_take_too_long_there_is_said_to_be_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    wishes = [Wish("made", size) for size in (6, 5, 5, 4)]
    rooms = [a_room(n, "made", n, 10, 10, additive=True, charged=0) for n in range(2)]
    assert fit_together(wishes, rooms)
    monkeypatch.setattr(packing, "LOOKS", 5)
    assert not fit_together(wishes, rooms)


def pool(name: str, capacity: str, *, largest: str = "", of: str = "made", **labels: str) -> StorageCapacity:
    topology: Body = {"matchLabels": labels or {keys.HOSTNAME: "n1"}}
    return a_capacity(name=name, storage_class=of, capacity=capacity, largest=largest or capacity, topology=topology)


ZONE = {keys.ZONE: "zone-n1"}


@pytest.mark.parametrize(
    ("sizes", "pools", "fits"),
    [
        pytest.param(["8Gi", "8Gi"], [pool("a", "10Gi"), pool("b", "10Gi", **ZONE)], True, id="one in each"),
        pytest.param(["8Gi", "8Gi"], [pool("a", "10Gi")], False, id="there is only one"),
        pytest.param(["8Gi", "8Gi"], [pool("a", "10Gi"), pool("b", "10Gi")], False, id="the same segment told twice"),
        pytest.param(
            ["8Gi", "8Gi", "8Gi"], [pool("a", "10Gi"), pool("b", "20Gi", **ZONE)], True, id="two in the larger one"
        ),
        pytest.param(
            ["6Gi", "5Gi", "5Gi", "4Gi"], [pool("a", "10Gi"), pool("b", "10Gi", **ZONE)], True, id="just so in pairs"
        ),
        pytest.param(
            ["6Gi", "5Gi", "5Gi", "5Gi"], [pool("a", "10Gi"), pool("b", "10Gi", **ZONE)], False, id="not in pairs"
        ),
        pytest.param(
            ["4Gi", "4Gi"],
            [pool("a", "100Gi", largest="3Gi"), pool("b", "5Gi", **ZONE)],
            False,
            id="much is left where volumes of this size are not made",
        ),
        pytest.param(["4Gi"], [pool("a", "100Gi", largest="3Gi"), pool("b", "4Gi", **ZONE)], True, id="a single one"),
    ],
)
def test_a_claim_may_go_to_any_segment_of_its_node(sizes: list[str], pools: list[StorageCapacity], fits: bool) -> None:
    claims = [a_claim(name=f"c{n}", storage_class="made", size=size) for n, size in enumerate(sizes)]
    world = VolumeWorld(a_class(name="made", provisioner=DRIVER), a_driver(tracks_capacity=True), *claims, *pools)
    rejected = world.rejected(*(claim.name for claim in claims))
    assert rejected == {NOT_ENOUGH_SPACE: {"n2"} if fits else {"n1", "n2"}}


def test_of_very_many_nodes_in_several_segments_each_attempt_looks_at_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The figures of n1 are enough in all, but not for two volumes of this size beside each other."""
    monkeypatch.setattr(provisioning, "LOOKED_AT", 1)
    claims = [a_claim(name=name, storage_class="made", size="8Gi") for name in "ab"]
    rooms = [
        pool("n1-a", "10Gi"),
        pool("n1-b", "7Gi", rack="1"),
        pool("n2-a", "10Gi", **{keys.HOSTNAME: "n2"}),
        pool("n2-b", "10Gi", rack="2"),
    ]
    nodes = {f"n{number}": {keys.HOSTNAME: f"n{number}", "rack": str(number)} for number in (1, 2)}
    made = a_class(name="made", provisioner=DRIVER)
    world = VolumeWorld(made, a_driver(tracks_capacity=True), *claims, *rooms, nodes=nodes)

    found = [world.rejected("a", "b")[NOT_ENOUGH_SPACE] for _ in range(2)]

    assert {"n1"} in found, "once n2 is looked at, it does"
