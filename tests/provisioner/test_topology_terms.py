"""Terms: order, products, rotation and the hash, against values worked out from external-provisioner's rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_class
from mooring.provisioner.topology_terms import Term, flattened, fnv1_32, offset, ordered, rotated, term, within

A = (("zone", "a"),)
B = (("zone", "b"),)
RACK = (("rack", "r1"), ("zone", "a"))


@pytest.mark.parametrize(
    ("allowed", "want"),
    [
        pytest.param([], (), id="nothing allowed explicitly"),
        pytest.param([{}], (), id="a term without expressions adds nothing"),
        pytest.param([{"zone": ["a", "b"]}], (A, B), id="values of one key are alternatives"),
        pytest.param([{"zone": ["a"]}, {"zone": ["b"]}], (A, B), id="terms are alternatives"),
        pytest.param(
            [{"zone": ["a", "b"], "rack": ["r1", "r2"]}],
            tuple((("rack", rack), ("zone", zone)) for zone in "ab" for rack in ("r1", "r2")),
            id="keys of one term multiply",
        ),
    ],
)
@pytest.mark.req("T18.allowed-topologies")
def test_allowed_topologies_are_flattened(allowed: list[dict[str, list[str]]], want: tuple[Term, ...]) -> None:
    assert flattened(a_class(allowed_topologies=allowed).allowed_topologies) == want


@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param([B, A, B], (A, B), id="sorted, each once"),
        pytest.param([RACK, B], (B, RACK), id="shorter terms first"),
        pytest.param([(("b", "1"),), (("a", "2"),)], ((("a", "2"),), (("b", "1"),)), id="keys before values"),
    ],
)
def test_order(terms: list[Term], want: tuple[Term, ...]) -> None:
    assert ordered(terms) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", 2166136261, id="nothing is the offset"),
        pytest.param("a", 0x050C5D7E, id="one letter"),
        pytest.param("foobar", 0x31F0B262, id="the published value for foobar"),
    ],
)
def test_hash_is_fnv_1_and_not_1a(text: str, want: int) -> None:
    assert fnv1_32(text) == want


@pytest.mark.parametrize(
    ("name", "hashed", "index"),
    [
        pytest.param("data-web-2", "web", 2, id="a StatefulSet's claim hashes the set's name"),
        pytest.param("log-web-2", "web", 2, id="another claim of the same pod lands alike"),
        pytest.param("web-7", "web", 7, id="one dash"),
        pytest.param("web", "web", 0, id="no dash"),
        pytest.param("web-x", "web-x", 0, id="no number at the end"),
        pytest.param("web-4294967296", "web-4294967296", 0, id="a number beyond 32 bits is no number"),
        pytest.param("web-4294967295", "web", 4294967295, id="the largest number wraps around"),
        pytest.param("web-", "web-", 0, id="nothing after the dash"),
        pytest.param("web-²", "web-²", 0, id="digits are ASCII digits"),
        pytest.param("a-b-c-3", "c", 3, id="only what follows the last dash of the stem"),
    ],
)
def test_where_a_claim_begins(name: str, hashed: str, index: int) -> None:
    assert offset(name) == (fnv1_32(hashed) + index) % 2**32


def test_claims_of_one_set_take_turns() -> None:
    places = ordered((("zone", zone),) for zone in "abc")
    firsts = [rotated(places, offset(f"data-web-{i}"))[0] for i in range(6)]
    assert len(set(firsts[:3])) == 3
    assert firsts[:3] == firsts[3:]


_terms = st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), min_size=1).map(term), min_size=1)


@given(_terms, st.integers(0, 2**32 - 1))
def test_rotation_loses_nothing(terms: list[Term], by: int) -> None:
    places = ordered(terms)
    turned = rotated(places, by)
    assert sorted(turned) == sorted(places)
    assert turned[0] == places[by % len(places)]


@given(_terms)
def test_every_term_is_within_itself_and_the_empty_one_within_all(terms: list[Term]) -> None:
    assert all(within(each, each) and within((), each) for each in terms)
