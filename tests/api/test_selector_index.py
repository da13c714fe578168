import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import selectors
from mooring.api.selectors import LabelIndex, SelectorIndex

SELECTORS = [
    "app=a",
    "app=b",
    "app in (a,b)",
    "app=a,tier=x",
    "tier=x",
    "app",
    "!app",
    "app!=a",
    "",
    "tier in (x,y),app",
]


def filed(*texts: str) -> SelectorIndex[str]:
    index: SelectorIndex[str] = SelectorIndex()
    for text in texts:
        index.put(text, selectors.parse_label_selector(text))
    return index


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param({"app": "a"}, ["app in (a,b)", "app=a", "tier"], id="one value, or one of several"),
        pytest.param({"app": "c"}, ["tier"], id="unselected value"),
        pytest.param({}, ["tier"], id="no labels"),
    ],
)
def test_only_selectors_that_could_match_are_candidates(labels: dict[str, str], want: list[str]) -> None:
    index = filed("app=a", "app=b", "app in (a,b)", "tier")
    assert sorted(index.candidates(labels)) == want


def test_a_selector_is_filed_under_the_label_that_says_most() -> None:
    index = filed("tier=x", "team=t,tier=x")
    assert list(index.candidates({"tier": "x"})) == ["tier=x"]


def test_a_selector_for_nothing_is_never_a_candidate() -> None:
    index: SelectorIndex[str] = SelectorIndex()
    index.put("nothing", selectors.NOTHING)
    assert list(index.candidates({"app": "a"})) == []
    index.remove("nothing")


def test_what_was_removed_is_a_candidate_no_more() -> None:
    index = filed("app=a", "app")
    index.remove("app=a")
    index.remove("app")
    assert list(index.candidates({"app": "a"})) == []


@given(
    st.lists(st.sampled_from(SELECTORS), unique=True),
    st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from("abxy")),
)
def test_every_selector_that_matches_is_a_candidate_and_once(texts: list[str], labels: dict[str, str]) -> None:
    found = list(filed(*texts).candidates(labels))
    assert len(found) == len(set(found))
    assert set(found) >= {text for text in texts if selectors.parse_label_selector(text).matches(labels)}


@pytest.mark.parametrize(
    ("selector", "candidates"),
    [
        pytest.param("app=db", {"a"}, id="one value"),
        pytest.param("tier=backend,app=db", {"a"}, id="the rarer of two values"),
        pytest.param("app in (db, web)", {"a", "b"}, id="either value"),
        pytest.param("app=cache", set(), id="a value that no object has"),
    ],
)
def test_labels_find_the_objects_that_a_selector_could_match(selector: str, candidates: set[str]) -> None:
    index: LabelIndex[str] = LabelIndex()
    for key, app in (("a", "db"), ("b", "web"), ("gone", "db")):
        index.put(key, (("app", app), ("tier", "backend")))
    index.remove("gone", (("app", "db"), ("tier", "backend")))

    assert set(index.having(index.rarest(selectors.parse_label_selector(selector).requirements))) == candidates


def test_a_selector_that_names_no_value_has_no_rarest_label() -> None:
    assert LabelIndex[str]().rarest(selectors.parse_label_selector("app,tier!=backend").requirements) == ()
