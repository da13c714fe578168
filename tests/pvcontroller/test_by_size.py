"""The index by size, compared with a walk over everything."""

import random

from hypothesis import given
from hypothesis import strategies as st

from mooring.pvcontroller.by_size import BySize

things = st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.integers(1, 4), st.integers(0, 9)), max_size=60)


@given(changes=things, size=st.integers(0, 5))
def test_answers_are_those_of_a_walk(changes: list[tuple[bool, str, int, int]], size: int) -> None:
    index: BySize[str, int] = BySize()
    there: dict[str, tuple[str, int, int]] = {}
    for arrival, (comes, group, its_size, number) in enumerate(changes):
        key = f"thing-{number}"
        if key in there:
            known_group, known_size, _ = there.pop(key)
            index.discard(known_group, known_size, key)
        if comes:
            there[key] = group, its_size, arrival
            index.add(group, its_size, key, arrival)
    for group in "abc":
        walk = sorted((s, rank, key) for key, (g, s, rank) in there.items() if g == group)
        from_here = [key for s, _, key in walk if s >= size]
        up_to = sorted((-s, rank, key) for s, rank, key in walk if s <= size)
        assert index.smallest_from(group, size) == (from_here[0] if from_here else None)
        assert index.largest_up_to(group, size) == (up_to[0][2] if up_to else None)
        assert [*index.walk_from(group, size)] == from_here


def test_what_comes_and_goes_leaves_nothing_behind() -> None:
    index: BySize[str, str] = BySize()
    index.add("g", 1, "a", "a")
    rng = random.Random(1)
    for _ in range(1000):
        name = f"b{rng.randrange(5)}"
        index.add("g", 1, name, name)
        index.discard("g", 1, name)
    [bucket] = index._groups["g"].buckets.values()
    assert len(bucket.heap) < 20
    assert index.smallest_from("g", 1) == "a"


def test_discarding_what_is_not_there_is_nothing() -> None:
    index: BySize[str, str] = BySize()
    index.discard("g", 1, "a")
    index.add("g", 1, "a", "a")
    index.discard("g", 2, "a")
    index.discard("g", 1, "b")
    assert index.smallest_from("g", 0) == "a"
