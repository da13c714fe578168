"""A pod's volumes on a node that is in several segments of free storage: each may go to another one."""

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import well_known
from mooring.api.node_selectors import NodeSelector, NodeSelectorTerm
from mooring.api.selectors import Operator, Requirement
from mooring.api.views.storage import StorageCapacity
from mooring.volumes import decider
from mooring.volumes.capacity import CapacitySegment
from mooring.volumes.decider import ProvisionRequest, fit_together
from mooring.volumes.state import ConflictReason
from support.builders import Body, a_capacity, a_claim, a_class, a_driver
from support.builders.drivers import DRIVER
from support.builders.volume_library import VolumeLibrary

pytestmark = [pytest.mark.req("C16.together"), pytest.mark.level("u")]

CLASSES = ("made", "sister")
SEGMENTS = tuple(NodeSelector((NodeSelectorTerm((Requirement(key, Operator.EXISTS, ()),)),)) for key in "xyz")


def a_segment(
    number: int, storage_class: str, segment: int, limit: int, free: int, *, additive: bool, charged: int
) -> CapacitySegment:
    return CapacitySegment(
        str(number),
        storage_class,
        SEGMENTS[segment],
        limit,
        free,
        reports_total_and_maximum=additive,
        polled=None,
        charged=charged,
        additive=additive,
    )


def by_trying_everything(requests: Sequence[ProvisionRequest], segments: Sequence[CapacitySegment]) -> bool:
    """The same by its definition."""

    def bears(segment: CapacitySegment, chosen: Sequence[CapacitySegment]) -> bool:
        known = {each.segment for each in segments if each.storage_class == segment.storage_class}
        load = [
            request.size
            for request, where in zip(requests, chosen, strict=True)
            if where.segment == segment.segment or where.segment not in known
        ]
        return sum(load) <= (segment.left if len(load) > 1 else segment.available_to_one_volume)

    return any(
        all(
            segment.storage_class == request.storage_class and segment.limit >= request.size and bears(segment, chosen)
            for request, segment in zip(requests, chosen, strict=True)
        )
        for chosen in product(segments, repeat=len(requests))
    )


@given(
    st.lists(st.builds(ProvisionRequest, st.sampled_from(CLASSES), st.integers(0, 8)), min_size=1, max_size=4),
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
    requests: list[ProvisionRequest], figures: list[tuple[str, int, int, int, bool, int]]
) -> None:
    segments = [
        a_segment(number, storage_class, segment, limit, free, additive=additive, charged=charged)
        for number, (storage_class, segment, limit, free, additive, charged) in enumerate(figures)
    ]
    assert fit_together(requests, segments) is by_trying_everything(requests, segments)


def test_search_beyond_its_budget_reports_no_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [ProvisionRequest("made", size) for size in (6, 5, 5, 4)]
    segments = [a_segment(n, "made", n, 10, 10, additive=True, charged=0) for n in range(2)]
    assert fit_together(requests, segments)
    monkeypatch.setattr(decider, "MAX_SEARCH_STEPS", 5)
    assert not fit_together(requests, segments)


def pool(name: str, capacity: str, *, largest: str = "", of: str = "made", **labels: str) -> StorageCapacity:
    topology: Body = {"matchLabels": labels or {well_known.HOSTNAME: "n1"}}
    return a_capacity(name=name, storage_class=of, capacity=capacity, largest=largest or capacity, topology=topology)


ZONE = {well_known.ZONE: "zone-n1"}


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
    library = VolumeLibrary(a_class(name="made", provisioner=DRIVER), a_driver(tracks_capacity=True), *claims, *pools)
    rejected = library.rejected(*(claim.name for claim in claims))
    assert rejected == {ConflictReason.STORAGE_CAPACITY: {"n2"} if fits else {"n1", "n2"}}


def test_of_very_many_nodes_in_several_segments_each_attempt_looks_at_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The figures of n1 are enough in all, but not for two volumes of this size beside each other."""
    monkeypatch.setattr(decider, "MAX_CHECKED_NODES", 1)
    claims = [a_claim(name=name, storage_class="made", size="8Gi") for name in "ab"]
    segments = [
        pool("n1-a", "10Gi"),
        pool("n1-b", "7Gi", rack="1"),
        pool("n2-a", "10Gi", **{well_known.HOSTNAME: "n2"}),
        pool("n2-b", "10Gi", rack="2"),
    ]
    nodes = {f"n{number}": {well_known.HOSTNAME: f"n{number}", "rack": str(number)} for number in (1, 2)}
    made = a_class(name="made", provisioner=DRIVER)
    library = VolumeLibrary(made, a_driver(tracks_capacity=True), *claims, *segments, nodes=nodes)

    found = [library.rejected("a", "b")[ConflictReason.STORAGE_CAPACITY] for _ in range(2)]

    assert {"n1"} in found, "once n2 is looked at, it does"
