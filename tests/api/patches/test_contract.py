"""JSON merge patch: examples of RFC 7386, sharing, and bounds."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.documents import MAX_DEPTH
from mooring.api.patches.contract import Json, PatchError, apply_merge_patch

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x"])
DOCUMENTS: st.SearchStrategy[Json] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("doc", "patch", "want"),
    [
        pytest.param({"a": "b"}, {"a": "c"}, {"a": "c"}, id="replace"),
        pytest.param({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}, id="add"),
        pytest.param({"a": "b"}, {"a": None}, {}, id="null removes"),
        pytest.param({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}, id="null leaves the rest"),
        pytest.param({"a": "b"}, {"z": None}, {"a": "b"}, id="null of an absent member"),
        pytest.param({"a": ["b"]}, {"a": "c"}, {"a": "c"}, id="list becomes scalar"),
        pytest.param({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}, id="scalar becomes list"),
        pytest.param({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}, id="nested"),
        pytest.param({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}, id="lists are replaced whole"),
        pytest.param(["a", "b"], ["c", "d"], ["c", "d"], id="list documents"),
        pytest.param({"a": "b"}, ["c"], ["c"], id="object becomes list"),
        pytest.param({"a": "foo"}, None, None, id="the whole becomes null"),
        pytest.param({"a": "foo"}, "bar", "bar", id="the whole becomes a scalar"),
        pytest.param({"e": None}, {"a": 1}, {"e": None, "a": 1}, id="nulls in the document stay"),
        pytest.param([1, 2], {"a": "b", "c": None}, {"a": "b"}, id="an object patch replaces a list"),
        pytest.param({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}, id="nulls inside a new member"),
        pytest.param({}, {"a": [None]}, {"a": [None]}, id="nulls inside a list stay"),
    ],
)
def test_merge(doc: Json, patch: Json, want: Json) -> None:
    assert apply_merge_patch(doc, patch) == want


def test_members_keep_their_places() -> None:
    merged = apply_merge_patch({"a": 1, "b": 2, "c": 3}, {"d": 4, "b": 5})
    assert isinstance(merged, dict)
    assert list(merged) == ["a", "b", "c", "d"]


def test_unchanged_parts_are_shared_with_the_document() -> None:
    doc: Any = {"kept": {"list": [1]}, "merged": {"x": [1]}}
    patch: Any = {"new": {"list": [1]}, "merged": {"y": [1]}}
    before = copy.deepcopy((doc, patch))
    merged: Any = apply_merge_patch(doc, patch)
    assert merged["kept"] is doc["kept"]
    merged["merged"]["y"].append("changed")
    merged["new"]["list"].append("changed")
    merged["merged"]["changed"] = True
    assert (doc, patch) == before


def nested(levels: int) -> Json:
    value: Json = 0
    for _ in range(levels):
        value = {"a": value}
    return value


def test_nesting_is_bounded() -> None:
    assert apply_merge_patch({}, nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    assert apply_merge_patch(nested(MAX_DEPTH), {}) == nested(MAX_DEPTH)
    with pytest.raises(PatchError, match="nested more than 200 levels"):
        apply_merge_patch({}, nested(MAX_DEPTH + 1))


@given(DOCUMENTS, DOCUMENTS)
def test_agrees_with_the_rfc(doc: Json, patch: Json) -> None:
    def by_the_rfc(target: Json, change: Json) -> Json:
        if not isinstance(change, dict):
            return change
        result = dict(target) if isinstance(target, dict) else {}
        for name, value in change.items():
            if value is None:
                result.pop(name, None)
            else:
                result[name] = by_the_rfc(result.get(name), value)
        return result

    assert apply_merge_patch(doc, patch) == by_the_rfc(doc, patch)


@given(DOCUMENTS, DOCUMENTS)
def test_merging_twice_changes_nothing_more(doc: Json, patch: Json) -> None:
    once = apply_merge_patch(doc, patch)
    assert apply_merge_patch(once, patch) == once
