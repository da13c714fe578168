"""Layouts: which sites a place reaches, quickly for thousands and rightly for any."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.hostpath.records import DriverLayout, Pool, Site, central

PLACES = st.dictionaries(st.sampled_from(["zone", "rack", "node"]), st.sampled_from("abc"))


@given(st.lists(PLACES, max_size=8), PLACES)
def test_a_place_reaches_what_each_site_says_it_does(segments: list[dict[str, str]], place: dict[str, str]) -> None:
    layout = DriverLayout(tuple(Site(each) for each in segments), {})
    assert list(layout.reachable_from(place)) == [site for site in layout.sites if site.reachable_from(place)]


@given(st.dictionaries(st.text(max_size=2), PLACES, max_size=8))
def test_nodes_of_one_place_share_its_site(nodes: Mapping[str, Mapping[str, str]]) -> None:
    layout = central(nodes)
    assert [site.segments for site in layout.sites] == [
        each for place, each in enumerate(nodes.values()) if each not in [*nodes.values()][:place]
    ]


def test_one_of_many_sites_is_found_without_asking_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = central({f"n{number}": {"node": f"n{number}"} for number in range(1000)})

    def asked(*_: object) -> bool:
        raise AssertionError("one by one")

    monkeypatch.setattr(Site, "reachable_from", asked)
    assert [site.segments for site in layout.reachable_from({"node": "n7"})] == [{"node": "n7"}]
    assert not layout.reachable_from({"node": "elsewhere"})


@pytest.mark.parametrize(
    ("sizes", "want"),
    [
        pytest.param([], True, id="no pools"),
        pytest.param([1, 2], True, id="all have a size"),
        pytest.param([1, None], False, id="one has what is left"),
    ],
)
def test_whether_the_file_system_has_to_be_asked(sizes: list[int | None], want: bool) -> None:
    pools = tuple(Pool(str(place), size) for place, size in enumerate(sizes))
    assert DriverLayout((Site({}, pools),), {}).sized is want
