"""What is estimated for all nodes at once is what the plan for each of them says.

Which node is best: kube-scheduler's tables for its ramp, and Mooring's own order.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.volumes.matching import exact_size, requirements_of
from mooring.volumes.scoring import (
    EMPTIEST_FIRST,
    NO_VOLUME,
    Fit,
    UtilizationShape,
    UtilizationShapePoint,
    preference,
    utilization,
)
from support.builders import Body, a_capacity, a_claim, a_class, a_driver, a_volume, claim_ref, reachable_from
from support.builders.volume_library import VolumeLibrary

NODES = {f"n{number}": {"name": f"n{number}", "zone": "ab"[number % 2]} for number in range(12)}
SSD: Body = {"matchLabels": {"medium": "ssd"}}

places = st.one_of(
    st.sampled_from(sorted(NODES)).map(lambda name: reachable_from("name", name)),
    st.sampled_from("ab").map(lambda zone: reachable_from("zone", zone)),
    st.none(),
)
volumes = st.lists(st.tuples(st.integers(1, 9), places, st.sampled_from(("ssd", "hdd"))), max_size=12)


def world_of(claims: list[int], offered: list[tuple[int, Body | None, str]], *, selector: Body | None) -> VolumeLibrary:
    return VolumeLibrary(
        *(a_claim(name=f"c{i}", size=size, selector=selector) for i, size in enumerate(claims)),
        *(
            a_volume(name=f"v{i:02}", size=size, affinity=place, labels={"medium": medium})
            for i, (size, place, medium) in enumerate(offered)
        ),
        nodes=NODES,
    )


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), volumes, st.sampled_from((None, SSD)))
def test_claims_that_differ_only_in_size(
    requests: list[int], offered: list[tuple[int, Body | None, str]], selector: Body | None
) -> None:
    library = world_of(requests, offered, selector=selector)
    claims = library.claims(*(f"c{i}" for i in range(len(requests))))

    fits = library.state.fits(claims)

    for node in NODES:
        slot = library.topology.slot(node)
        matched = [volume for _, volume in library.state.matches(claims, node)]
        # On a node that is rejected anyway, who goes without does not matter.
        if all(volume is not None for volume in matched):
            planned = sorted(exact_size(volume.size) // 10**9 for volume in matched if volume is not None)
            assert sorted(int(fit.sizes[slot]) for fit in fits) == planned


def test_what_is_reserved_for_a_claim_is_what_it_gets() -> None:
    mine = a_volume(name="mine", size=9, affinity=reachable_from("name", "n3"), claim_ref=claim_ref(name="c"))
    library = VolumeLibrary(a_claim(name="c", size=2), mine, a_volume(name="free", size=2), nodes=NODES)

    [fit] = library.state.fits(library.claims("c"))

    assert fit.sizes[library.topology.slot("n3")] == 9
    assert (fit.sizes == NO_VOLUME).sum() == len(NODES) - 1


def test_free_capacity_is_set_where_tracked() -> None:
    segment = a_capacity(capacity=7, topology={"matchLabels": {"zone": "a"}})
    made = a_class(name="made", provisioner="csi.example.com")
    library = VolumeLibrary(made, a_claim(name="c", storage_class="made", size=2), segment, nodes=NODES)
    assert library.state.fits(library.claims("c"))[0].free is None

    library.add(a_driver(tracks_capacity=True))

    [fit] = library.state.fits(library.claims("c"))
    assert fit.free is not None
    assert fit.free.tolist() == [7, 0] * 6


pytestmark = [pytest.mark.req("T12.kube-scheduler"), pytest.mark.level("u")]


def a_fit(storage_class: str, requested: int, *sizes: int, free: list[int] | None = None) -> Fit:
    """What a claim gets on the first node, the second, and so on; -1 where a volume would have to be made."""
    claim = requirements_of(a_claim(storage_class=storage_class, size=requested))
    return Fit(claim, requested, np.array(sizes), None if free is None else np.array(free))


def ramp(*points: tuple[int, int]) -> UtilizationShape:
    return UtilizationShape([UtilizationShapePoint(*point) for point in points])


FULLEST_FIRST = ramp((0, 0), (100, 10))
LATE = ramp((50, 0), (80, 3), (100, 5))


@pytest.mark.parametrize(("requested", "want"), [(0, 0), (30, 30), (50, 50), (100, 100)])
def test_one_class(requested: int, want: int) -> None:
    assert utilization([a_fit("hdd", requested, 100)], FULLEST_FIRST, 1).tolist() == [want]


@pytest.mark.parametrize(
    ("shape", "hdd", "ssd", "want"),
    [
        (FULLEST_FIRST, 0, 0, 0),
        (FULLEST_FIRST, 0, 30, 15),
        (FULLEST_FIRST, 30, 30, 30),
        (FULLEST_FIRST, 30, 60, 45),
        (FULLEST_FIRST, 50, 50, 50),
        (FULLEST_FIRST, 50, 100, 75),
        (FULLEST_FIRST, 100, 100, 100),
        (LATE, 0, 0, 0),
        (LATE, 0, 30, 0),
        (LATE, 30, 30, 0),
        (LATE, 30, 60, 5),
        (LATE, 50, 100, 25),
        (LATE, 90, 90, 40),
        (LATE, 100, 100, 50),
    ],
)
def test_two_classes(shape: UtilizationShape, hdd: int, ssd: int, want: int) -> None:
    assert utilization([a_fit("hdd", hdd, 100), a_fit("ssd", ssd, 100)], shape, 1).tolist() == [want]


@pytest.mark.parametrize(
    ("fits", "want"),
    [
        pytest.param([a_fit("a", 5, NO_VOLUME)], 0, id="nothing is known"),
        pytest.param([a_fit("a", 5, NO_VOLUME, free=[0])], 100, id="nothing is free"),
        pytest.param([a_fit("a", 10, 100), a_fit("a", 20, 100)], 15, id="one class is summed up"),
        pytest.param([a_fit("a", 1, 3), a_fit("b", 0, 3)], 17, id="halves are rounded up"),
        pytest.param(
            [a_fit("a", 50, NO_VOLUME, free=[100]), a_fit("b", 10, 100)], 10, id="existing volumes alone count"
        ),
    ],
)
def test_corners(fits: list[Fit], want: int) -> None:
    assert utilization(fits, FULLEST_FIRST, 1).tolist() == [want]


def test_ramps_divide_towards_zero() -> None:
    """From 10 points down to 9 over three percent: Go's division keeps 100, 97, 94 where flooring would not."""
    falling = ramp((0, 10), (3, 9))

    assert falling(np.array([0, 1, 2, 3, 4])).tolist() == [100, 97, 94, 90, 90]
    assert EMPTIEST_FIRST(np.array([0, 25, 100])).tolist() == [100, 75, 0]


@pytest.mark.parametrize(
    ("points", "problem"),
    [
        pytest.param([], "at least one point", id="none"),
        pytest.param([(50, 1), (50, 2)], "increasing order", id="the same twice"),
        pytest.param([(60, 1), (50, 2)], "increasing order", id="backwards"),
        pytest.param([(-1, 1)], "utilization -1 is not between 0 and 100", id="below nothing"),
        pytest.param([(101, 1)], "utilization 101 is not between 0 and 100", id="above everything"),
        pytest.param([(0, 11)], "score 11 is not between 0 and 10", id="a score too high"),
        pytest.param([(0, -1)], "score -1 is not between 0 and 10", id="a score too low"),
    ],
)
def test_ramps_that_make_no_sense(points: list[tuple[int, int]], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ramp(*points)


def best_first(*fits: Fit) -> list[int]:
    scores = preference(fits, len(fits[0].sizes))
    assert (scores >= 0).all()
    assert (scores <= 100).all()
    return np.argsort(-scores, kind="stable").tolist()


@pytest.mark.parametrize(
    ("fits", "want"),
    [
        pytest.param([a_fit("a", 10, 100, 10, 50)], [1, 2, 0], id="the closest volume first"),
        pytest.param([a_fit("a", 10, NO_VOLUME, 10_000, 10)], [2, 1, 0], id="any volume before none"),
        pytest.param(
            [a_fit("a", 10, NO_VOLUME, 10_000, free=[10_000_000, 0])], [1, 0], id="any volume before much free storage"
        ),
        pytest.param(
            [a_fit("a", 10, NO_VOLUME, NO_VOLUME, free=[20, 100])], [1, 0], id="where more stays free, if one is made"
        ),
        pytest.param(
            [a_fit("a", 10, 10, 1000), a_fit("b", 10, NO_VOLUME, 1000)],
            [1, 0],
            id="two loose ones before one that fits",
        ),
        pytest.param([a_fit("a", 10, 20, 20, 20)], [0, 1, 2], id="all alike: the order stays"),
    ],
)
def test_preference(fits: list[Fit], want: list[int]) -> None:
    assert best_first(*fits) == want


@pytest.mark.req("T12.existing-first")
def test_a_perfect_fit_is_worth_everything_and_an_existing_volume_a_third_more_than_a_new_one() -> None:
    existing, made = preference([a_fit("a", 10, 10, NO_VOLUME)], 2).tolist()

    assert (existing, made) == (100.0, 0.0)
    loosest, emptiest = preference([a_fit("a", 0, 10**12, NO_VOLUME, free=[0, 10**12])], 2).tolist()
    assert loosest - emptiest == pytest.approx(100 / 3)
