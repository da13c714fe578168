"""Against every possible answer, one by one."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.volumes.assignment import MANY, Sized, all_served, assign

pytestmark = [pytest.mark.req("T10"), pytest.mark.level("u")]


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[int], list[list[Sized]]]:
    sizes = draw(st.lists(st.integers(0, 5), max_size=5))
    volumes = [Sized(size, f"v{number}") for number, size in enumerate(sizes)]
    requests = sorted(draw(st.lists(st.integers(0, 5), min_size=1, max_size=4)))
    candidates = []
    for request in requests:
        fitting = [volume for volume in volumes if volume.size >= request]
        candidates.append(sorted(volume for volume in fitting if draw(st.booleans())))
    return requests, candidates


def every_answer(candidates: list[list[Sized]]) -> list[list[Sized | None]]:
    answers = (list(answer) for answer in product(*([*volumes, None] for volumes in candidates)))
    return [a for a in answers if len({v for v in a if v is not None}) == sum(v is not None for v in a)]


def worth(requests: list[int], answer: list[Sized | None]) -> tuple[int, int, list[tuple[bool, Sized]]]:
    """Smaller is better: claims left out, then waste, then the earlier claims' volumes."""
    waste = sum(volume.size - request for volume, request in zip(answer, requests, strict=True) if volume is not None)
    return answer.count(None), waste, [(volume is None, volume or Sized(0, "")) for volume in answer]


@given(problems())
def test_the_best_of_all_answers_is_found(problem: tuple[list[int], list[list[Sized]]]) -> None:
    requests, candidates = problem

    best = min(every_answer(candidates), key=lambda answer: worth(requests, answer))

    assert assign(requests, candidates) == best
    assert all_served(candidates) is (None not in best)


@given(problems())
def test_greedy_is_the_answer_where_nothing_beats_it(problem: tuple[list[int], list[list[Sized]]]) -> None:
    requests, candidates = problem
    greedy: list[Sized | None] = []
    for volumes in candidates:
        greedy.append(next((volume for volume in volumes if volume not in greedy), None))

    best = assign(requests, candidates)

    assert worth(requests, best)[:2] <= worth(requests, greedy)[:2]
    if worth(requests, best)[:2] == worth(requests, greedy)[:2]:
        assert best == greedy


@given(problems())
def test_of_very_many_claims_as_many_as_possible_are_served(problem: tuple[list[int], list[list[Sized]]]) -> None:
    """The same problem so often that it counts as many."""
    requests, candidates = problem
    times = MANY // len(requests) + 1
    many = [
        [Sized(size, f"{turn}-{name}") for size, name in volumes] for turn in range(times) for volumes in candidates
    ]

    answer = assign(requests * times, many)

    served = [volume for volume in answer if volume is not None]
    assert len(set(served)) == len(served)
    assert all(volume is None or volume in volumes for volume, volumes in zip(answer, many, strict=True))
    assert answer.count(None) == times * assign(requests, candidates).count(None)
    assert all_served(many) is (None not in answer)


A, B, C = Sized(5, "a"), Sized(5, "b"), Sized(9, "c")


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
def test_assign(requests: list[int], candidates: list[list[Sized]], want: list[Sized | None]) -> None:
    assert assign(requests, candidates) == want


def test_sixteen_claims_that_all_want_the_same_volumes() -> None:
    volumes = [Sized(10**30 + number, f"v{number:02}") for number in range(16)]

    assert assign([1] * 16, [volumes] * 16) == volumes
    assert all_served([volumes] * 16)
    assert not all_served([volumes] * 17)
