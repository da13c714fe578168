from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mooring.multimap import Multimap, Tally

STEPS = st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.sampled_from("xyz")))


@given(steps=STEPS)
def test_multimap_has_the_members_added_last_and_no_empty_key(steps: list[tuple[bool, str, str]]) -> None:
    multimap: Multimap[str, str] = Multimap()
    members: set[tuple[str, str]] = set()
    for is_added, key, member in steps:
        if is_added:
            multimap.add(key, member)
            members.add((key, member))
        else:
            multimap.discard(key, member)
            members.discard((key, member))

    assert {(key, member) for key, found in multimap.items() for member in found} == members
    assert all(multimap.values())


def test_multimap_keeps_the_order_of_members() -> None:
    multimap: Multimap[str, str] = Multimap()
    for member in "cab":
        multimap.add("key", member)

    assert "".join(multimap["key"]) == "cab"


@given(counts=st.lists(st.tuples(st.sampled_from("ab"), st.integers(-2, 2))))
def test_tally_has_the_sums_other_than_zero(counts: list[tuple[str, int]]) -> None:
    tally: Tally[str] = Tally()
    expected: Counter[str] = Counter()
    for key, count in counts:
        expected[key] += count
        assert tally.add(key, count) == expected[key]

    assert tally == {key: total for key, total in expected.items() if total}
