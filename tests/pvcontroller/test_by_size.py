"""The index by size, compared with a walk over everything."""

import random

from hypothesis import given
from hypothesis import strategies as st

from mooring.pvcontroller.by_shape import ByShape, Place
from mooring.pvcontroller.by_size import BySize
from mooring.volumes.shape import Shape

changes = st.lists(st.tuples(st.booleans(), st.integers(1, 4), st.integers(0, 9)), max_size=60)


@given(changes=changes, size=st.integers(0, 5))
def test_answers_are_those_of_a_walk(changes: list[tuple[bool, int, int]], size: int) -> None:
    index: BySize[int] = BySize()
    there: dict[str, tuple[int, int]] = {}
    for arrival, (comes, its_size, number) in enumerate(changes):
        key = f"thing-{number}"
        if key in there:
            index.discard(there.pop(key)[0], key)
        if comes:
            there[key] = its_size, arrival
            index.add(its_size, key, arrival)
    walk = sorted((s, rank, key) for key, (s, rank) in there.items())
    from_here = [key for s, _, key in walk if s >= size]
    up_to = sorted((-s, rank, key) for s, rank, key in walk if s <= size)
    assert index.smallest_from(size) == (from_here[0] if from_here else None)
    assert index.largest_up_to(size) == (up_to[0][2] if up_to else None)
    assert [*index.walk_from(size)] == from_here
    assert index.empty == (not there)


def test_what_comes_and_goes_leaves_nothing_behind() -> None:
    index: BySize[str] = BySize()
    index.add(1, "a", "a")
    rng = random.Random(1)
    for _ in range(1000):
        name = f"b{rng.randrange(5)}"
        index.add(1, name, name)
        index.discard(1, name)
    [bucket] = index._buckets.values()
    assert len(bucket.heap) < 20
    assert index.smallest_from(1) == "a"


def test_discarding_what_is_not_there_is_nothing() -> None:
    index: BySize[str] = BySize()
    index.discard(1, "a")
    index.add(1, "a", "a")
    index.discard(2, "a")
    index.discard(1, "b")
    assert index.smallest_from(0) == "a"


def test_a_key_is_filed_in_one_place() -> None:
    plain, block = Shape("Filesystem", frozenset(), ""), Shape("Block", frozenset(), "")
    filed: ByShape[str] = ByShape()
    filed.put("a", Place("gold", plain, 1), "a")
    filed.put("a", Place("gold", block, 2), "a")
    filed.put("b", Place("silver", plain, 1), "b")
    assert [*filed.shapes("gold")] == [block]
    filed.discard("a")
    filed.discard("a")
    assert filed.shapes("gold") == {}
    assert [*filed.shapes("silver")] == [plain]
