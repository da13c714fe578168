"""Keys under a prefix, against a list that is looked through."""

from hypothesis import given
from hypothesis import strategies as st

from mooring.store.sorted_keys import SortedKeys

#: Few characters, so that prefixes meet; the last of all, and its neighbour, which end ranges.
texts = st.text(alphabet="/ab\U0010fffe\U0010ffff", max_size=8)


@given(st.sets(texts), st.lists(texts), texts, texts)
def test_what_is_under_a_prefix_comes_in_order(there: set[str], touched: list[str], prefix: str, start: str) -> None:
    keys = SortedKeys(there)
    expected = set(there)
    for key in touched:
        if key in expected:
            keys.remove(key)
        else:
            keys.add(key)
        expected ^= {key}
    among, first, end = keys.range(prefix, start)
    assert among[first:end] == sorted(key for key in expected if key.startswith(prefix) and key >= start)


class _CountedText(str):
    """A key that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __lt__(self, other: str) -> bool:
        _CountedText.compared += 1
        return str.__lt__(self, other)

    def __gt__(self, other: str) -> bool:
        _CountedText.compared += 1
        return str.__gt__(self, other)


def test_a_small_collection_costs_the_same_beside_a_large_one() -> None:
    small = [_CountedText(f"/scheduling.k8s.io/priorityclasses/{name}") for name in ("a", "b")]
    costs = []
    for size in (0, 10_000):
        keys = SortedKeys([*small, *(_CountedText(f"/core/pods/default/{number:05}") for number in range(size))])
        _CountedText.compared = 0
        among, first, end = keys.range("/scheduling.k8s.io/priorityclasses/")
        assert among[first:end] == small
        costs.append(_CountedText.compared)
    assert costs[0] == costs[1] > 0
