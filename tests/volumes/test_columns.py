"""Against every possible answer, one by one.

The ladder must count what a walk over all volumes counts, whatever was added, removed and moved.
"""

from itertools import product
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import node_selectors
from mooring.api.views.meta import NodeSelectorTermView
from mooring.volumes import columns as module
from mooring.volumes import topology
from mooring.volumes.columns import MAX_EXACT_CLAIMS, Columns, SizedVolume, all_assigned, assign, cell
from mooring.volumes.matching import exact_size
from mooring.volumes.topology import Affinity, NodeSet

pytestmark = [pytest.mark.level("u")]


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[int], list[list[SizedVolume]]]:
    sizes = draw(st.lists(st.integers(0, 5), max_size=5))
    volumes = [SizedVolume(size, f"v{number}") for number, size in enumerate(sizes)]
    requests = sorted(draw(st.lists(st.integers(0, 5), min_size=1, max_size=4)))
    candidates = []
    for request in requests:
        fitting = [volume for volume in volumes if volume.size >= request]
        candidates.append(sorted(volume for volume in fitting if draw(st.booleans())))
    return requests, candidates


def every_answer(candidates: list[list[SizedVolume]]) -> list[list[SizedVolume | None]]:
    answers = (list(answer) for answer in product(*([*volumes, None] for volumes in candidates)))
    return [a for a in answers if len({v for v in a if v is not None}) == sum(v is not None for v in a)]


def worth(requests: list[int], answer: list[SizedVolume | None]) -> tuple[int, int, list[tuple[bool, SizedVolume]]]:
    """Smaller is better: claims left out, then waste, then the earlier claims' volumes."""
    waste = sum(volume.size - request for volume, request in zip(answer, requests, strict=True) if volume is not None)
    return answer.count(None), waste, [(volume is None, volume or SizedVolume(0, "")) for volume in answer]


@pytest.mark.req("T10.feasible", "T10.most-static", "T10.least-waste")
@given(problems())
def test_the_best_of_all_answers_is_found(problem: tuple[list[int], list[list[SizedVolume]]]) -> None:
    requests, candidates = problem

    best = min(every_answer(candidates), key=lambda answer: worth(requests, answer))

    assert assign(requests, candidates) == best
    assert all_assigned(candidates) is (None not in best)


@pytest.mark.req("T10.least-waste")
@given(problems())
def test_greedy_is_the_answer_where_nothing_beats_it(problem: tuple[list[int], list[list[SizedVolume]]]) -> None:
    requests, candidates = problem
    greedy: list[SizedVolume | None] = []
    for volumes in candidates:
        greedy.append(next((volume for volume in volumes if volume not in greedy), None))

    best = assign(requests, candidates)

    assert worth(requests, best)[:2] <= worth(requests, greedy)[:2]
    if worth(requests, best)[:2] == worth(requests, greedy)[:2]:
        assert best == greedy


@pytest.mark.req("T10.most-static", "T10.many")
@given(problems())
def test_of_very_many_claims_as_many_as_possible_are_served(problem: tuple[list[int], list[list[SizedVolume]]]) -> None:
    """The same problem so often that it counts as many."""
    requests, candidates = problem
    times = MAX_EXACT_CLAIMS // len(requests) + 1
    many = [
        [SizedVolume(size, f"{turn}-{name}") for size, name in volumes]
        for turn in range(times)
        for volumes in candidates
    ]

    answer = assign(requests * times, many)

    served = [volume for volume in answer if volume is not None]
    assert len(set(served)) == len(served)
    assert all(volume is None or volume in volumes for volume, volumes in zip(answer, many, strict=True))
    assert answer.count(None) == times * assign(requests, candidates).count(None)
    assert all_assigned(many) is (None not in answer)


A, B, C = SizedVolume(5, "a"), SizedVolume(5, "b"), SizedVolume(9, "c")


@pytest.mark.req("T10.feasible", "T10.most-static", "T10.least-waste")
@pytest.mark.parametrize(
    ("requests", "candidates", "want"),
    [
        pytest.param([], [], [], id="no claims"),
        pytest.param([1], [[]], [None], id="no volumes"),
        pytest.param([1], [[A, B, C]], [A], id="the smallest, the first by name"),
        pytest.param([1, 1], [[A, B], [A, B]], [A, B], id="equal claims in their order"),
        pytest.param([1, 5], [[A, B], [A]], [B, A], id="the greedy choice would leave the second without"),
        pytest.param([1, 1, 1], [[A], [A, B], [B, C]], [A, B, C], id="a chain of moves"),
        pytest.param([1, 2, 3], [[A, B], [A, B], [A, B]], [None, A, B], id="too few: least waste serves the larger"),
        pytest.param([1, 1], [[A, C], [A, C]], [A, C], id="equal waste gives the earlier claim the smaller volume"),
    ],
)
def test_assign(requests: list[int], candidates: list[list[SizedVolume]], want: list[SizedVolume | None]) -> None:
    assert assign(requests, candidates) == want


@pytest.mark.req("T10.many")
def test_sixteen_claims_that_all_want_the_same_volumes() -> None:
    volumes = [SizedVolume(10**30 + number, f"v{number:02}") for number in range(16)]

    assert assign([1] * 16, [volumes] * 16) == volumes
    assert all_assigned([volumes] * 16)
    assert not all_assigned([volumes] * 17)


SLOTS = 8
ALL = (1 << SLOTS) - 1
AFFINITIES: tuple[Affinity, ...] = (
    None,
    node_selectors.node_selector_from_view([]),
    node_selectors.node_selector_from_view([NodeSelectorTermView()]),
)
SIZES = [exact_size(size) for size in ("0", "1", "1500m", "2", "1Gi", "9E", "800E")]

steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(AFFINITIES), st.sampled_from(SIZES)),
        st.tuples(st.just("remove"), st.integers(0, 20), st.none()),
        st.tuples(st.just("move"), st.sampled_from(AFFINITIES), st.integers(0, ALL)),
        st.tuples(st.just("ask"), st.none(), st.none()),
    ),
    max_size=20,
)


class Walked:
    """The same, without columns."""

    def __init__(self) -> None:
        self.nodes: dict[Affinity, NodeSet] = dict.fromkeys(AFFINITIES, ALL)
        self.volumes: list[tuple[SizedVolume, Affinity]] = []

    def reached_from(self, slot: int) -> list[SizedVolume]:
        return sorted(volume for volume, affinity in self.volumes if self.nodes[affinity] >> slot & 1)

    def nodes_with_at_least(self, size: int, count: int) -> NodeSet:
        enough = (sum(v.size >= size for v in self.reached_from(slot)) >= count for slot in range(SLOTS))
        return topology.node_set_of(slot for slot, yes in enumerate(enough) if yes)


@pytest.mark.req("T29.index", "T30.once")
@pytest.mark.level("u")
@pytest.mark.parametrize(("few", "depth"), [(4, 16), (2, 2), (0, 16), (8, 1)])
@given(steps=steps)
def test_ladders_count_as_a_walk_does(few: int, depth: int, steps: list[tuple[str, object, object]]) -> None:
    columns, walked = Columns(), Walked()
    with patch.object(module, "MAX_ROW_NODES", few), patch.object(module, "MAX_ROWS", depth):
        for number, step in enumerate([*steps, ("ask", None, None)]):
            match step:
                case ("add", (None | node_selectors.NodeSelector()) as affinity, int(size)):
                    volume = SizedVolume(size, f"v{number}")
                    columns.add(volume, affinity, walked.nodes[affinity])
                    walked.volumes.append((volume, affinity))
                case ("remove", int(position), _) if position < len(walked.volumes):
                    columns.remove(*walked.volumes.pop(position))
                case ("move", (None | node_selectors.NodeSelector()) as affinity, int(nodes)):
                    columns.move(affinity, nodes)
                    walked.nodes[affinity] = nodes
                case ("ask", _, _):
                    assert_same(columns, walked)


def assert_same(columns: Columns, walked: Walked) -> None:
    for size in SIZES:
        want = [walked.nodes_with_at_least(size, count) for count in range(5)]
        assert [columns.nodes_with_at_least(size, count, SLOTS) for count in range(1, 5)] == want[1:]
    for slot in range(SLOTS):
        assert sorted(v for volumes in columns.reached_from(slot) for v in volumes) == walked.reached_from(slot)
    largest = [max((cell(v.size) for v in walked.reached_from(slot)), default=0) for slot in range(SLOTS)]
    assert columns.largest(SLOTS).tolist() == largest
    assert bool(columns) is bool(walked.volumes)


@pytest.mark.req("T30.once")
@pytest.mark.level("u")
def test_volumes_that_many_nodes_reach_are_kept_once() -> None:
    columns = Columns()
    everywhere = (1 << 5000) - 1
    for number in range(50):
        columns.add(SizedVolume(number, f"v{number}"), None, everywhere)

    assert len(list(columns.wide_groups)) == 1
    assert columns.nodes_with_at_least(0, 50, 5000) == everywhere
    assert columns.nodes_with_at_least(1, 50, 5000) == 0
