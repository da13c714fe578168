"""JSON patch: operations, pointers, errors, and bounds for hostile patches."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.documents import MAX_DEPTH
from mooring.api.patches.contract import Json, PatchError, PathMissing, TestFailed, TooManyOperations
from mooring.api.patches.json_patch import MAX_COPIED, MAX_OPERATIONS, VALUE_WEIGHT, apply_json_patch

KEYS = st.sampled_from(["a", "b", "~", "a/b", "", "0"])
DOCUMENTS: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)


def op(kind: str, path: str, **members: Json) -> Json:
    """One operation; `from_` stands for the reserved word."""
    return {"op": kind, "path": path} | {name.rstrip("_"): value for name, value in members.items()}


@pytest.mark.parametrize(
    ("doc", "operation", "want"),
    [
        pytest.param({"a": 1}, op("add", "/b", value=2), {"a": 1, "b": 2}, id="add a member"),
        pytest.param({"a": 1}, op("add", "/a", value=2), {"a": 2}, id="add over a member"),
        pytest.param({"a": 1}, op("add", "/b", value=None), {"a": 1, "b": None}, id="add null"),
        pytest.param([1, 3], op("add", "/1", value=2), [1, 2, 3], id="add into a list"),
        pytest.param([1], op("add", "/1", value=2), [1, 2], id="add at the end by index"),
        pytest.param([1], op("add", "/-", value=[2]), [1, [2]], id="add at the end by dash"),
        pytest.param({"a": 1}, op("add", "", value=[]), [], id="add the whole document"),
        pytest.param({"": 1}, op("add", "/", value=2), {"": 2}, id="the empty member name"),
        pytest.param({}, op("add", "/-", value=1), {"-": 1}, id="dash is a name in an object"),
        pytest.param({}, op("add", "/0", value=1), {"0": 1}, id="digits are a name in an object"),
        pytest.param({"a": 1, "b": 2}, op("remove", "/a"), {"b": 2}, id="remove a member"),
        pytest.param({"a": [1, 2]}, op("remove", "/a/0"), {"a": [2]}, id="remove from a list"),
        pytest.param({"a": 1}, op("replace", "/a", value=[]), {"a": []}, id="replace a member"),
        pytest.param([1, 2], op("replace", "/1", value=3), [1, 3], id="replace in a list"),
        pytest.param({"a": 1}, op("replace", "", value=1), 1, id="replace the whole document"),
        pytest.param({"a": {"b": 1}}, op("move", "/c", from_="/a/b"), {"a": {}, "c": 1}, id="move"),
        pytest.param([1, 2, 3], op("move", "/2", from_="/0"), [2, 3, 1], id="move within a list"),
        pytest.param({"a": 1}, op("move", "/a", from_="/a"), {"a": 1}, id="move to where it is"),
        pytest.param({"a": {"b": 1}}, op("move", "/a", from_="/a/b"), {"a": 1}, id="move over the parent"),
        pytest.param({"a": [1]}, op("copy", "/b", from_="/a"), {"a": [1], "b": [1]}, id="copy"),
        pytest.param({"a": 1}, op("copy", "/b", from_=""), {"a": 1, "b": {"a": 1}}, id="copy the whole document"),
        pytest.param({"a/b": 1}, op("remove", "/a~1b"), {}, id="escaped slash"),
        pytest.param({"a~b": 1}, op("remove", "/a~0b"), {}, id="escaped tilde"),
        pytest.param({"~1": 1}, op("remove", "/~01"), {}, id="escaped tilde before a digit"),
        pytest.param(
            {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}},
            op("remove", "/metadata/annotations/pv.kubernetes.io~1bind-completed"),
            {"metadata": {"annotations": {}}},
            id="an annotation",
        ),
        pytest.param({}, {"op": "add", "path": "/a", "value": 1, "note": "?"}, {"a": 1}, id="other members"),
    ],
)
def test_operations(doc: Json, operation: Json, want: Json) -> None:
    assert apply_json_patch(doc, [operation]) == want


@pytest.mark.parametrize(
    ("path", "value", "want"),
    [
        pytest.param("", {"n": 1, "t": True, "l": [1, {"x": None}], "z": None}, True, id="the whole document"),
        pytest.param("/n", 1.0, True, id="numbers compare by value"),
        pytest.param("/n", True, False, id="true is not one"),
        pytest.param("/t", 1, False, id="one is not true"),
        pytest.param("/n", "1", False, id="text is not a number"),
        pytest.param("/l", [1, {"x": None}], True, id="list"),
        pytest.param("/l", [{"x": None}, 1], False, id="order of a list"),
        pytest.param("/l", [1], False, id="shorter list"),
        pytest.param("/l/1", {"x": None}, True, id="list element"),
        pytest.param("/l/1", {}, False, id="a null member is not an absent one inside a value"),
        pytest.param("/z", None, True, id="null"),
        pytest.param("/absent", None, True, id="null of an absent member"),
        pytest.param("/absent", 1, False, id="value of an absent member"),
    ],
)
def test_test(path: str, value: Json, want: bool) -> None:
    doc: Json = {"n": 1, "t": True, "l": [1, {"x": None}], "z": None}
    patch: Json = [op("test", path, value=value), op("add", "/done", value=True)]
    if want:
        patched = apply_json_patch(doc, patch)
        assert isinstance(patched, dict)
        assert patched["done"] is True
    else:
        with pytest.raises(TestFailed, match=f'testing value "{path}" failed'):
            apply_json_patch(doc, patch)


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(op("add", "/x/y", value=1), id="add below nothing"),
        pytest.param(op("add", "/a/y", value=1), id="add below a scalar"),
        pytest.param(op("add", "/l/3", value=1), id="add beyond the end"),
        pytest.param(op("add", "/l/-1", value=1), id="negative index"),
        pytest.param(op("add", "/l/01", value=1), id="index with a leading zero"),
        pytest.param(op("add", "/l/x", value=1), id="index that is a word"),
        pytest.param(op("add", "/l/١", value=1), id="index in another script"),
        pytest.param(op("add", "/l/" + "9" * 5000, value=1), id="index of thousands of digits"),
        pytest.param(op("remove", "/x"), id="remove an absent member"),
        pytest.param(op("remove", "/l/2"), id="remove beyond the end"),
        pytest.param(op("remove", "/l/-"), id="remove the element after the last"),
        pytest.param(op("replace", "/x", value=1), id="replace an absent member"),
        pytest.param(op("replace", "/l/2", value=1), id="replace beyond the end"),
        pytest.param(op("move", "/y", from_="/x"), id="move an absent member"),
        pytest.param(op("move", "/x/y", from_="/a"), id="move below nothing"),
        pytest.param(op("move", "/x", from_="/x"), id="move nothing to where it is"),
        pytest.param(op("copy", "/y", from_="/x"), id="copy an absent member"),
        pytest.param(op("test", "/x/y", value=None), id="test below nothing"),
        pytest.param(op("test", "/l/2", value=None), id="test beyond the end"),
    ],
)
def test_missing_paths(operation: Json) -> None:
    with pytest.raises(PathMissing, match='the document has no path "'):
        apply_json_patch({"a": 1, "l": [1, 2]}, [operation])


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        pytest.param({"op": "remove", "path": "/a"}, "a JSON patch is an array of operations", id="no array"),
        pytest.param(["remove"], "an operation of a JSON patch is an object", id="no object"),
        pytest.param([{"path": "/a"}], 'unexpected operation "None"', id="no op"),
        pytest.param([op("increment", "/a")], 'unexpected operation "increment"', id="unknown op"),
        pytest.param([{"op": "remove"}], 'a "remove" operation needs path', id="no path"),
        pytest.param([{"op": "remove", "path": 1}], 'a "remove" operation needs path', id="path is a number"),
        pytest.param([op("add", "/b")], 'a "add" operation needs path and value', id="no value"),
        pytest.param([op("move", "/b")], 'a "move" operation needs from and path', id="no from"),
        pytest.param([op("remove", "a")], 'path "a" is not a JSON pointer', id="path without slash"),
        pytest.param([op("remove", "/~")], 'path "/~" is not a JSON pointer', id="lone tilde"),
        pytest.param([op("remove", "/~2")], 'path "/~2" is not a JSON pointer', id="unknown escape"),
        pytest.param([op("remove", "")], "the whole document cannot be removed", id="remove the document"),
        pytest.param([op("move", "/a/b", from_="/a")], '"/a" cannot be moved into itself', id="move into itself"),
        pytest.param([op("move", "/a", from_="")], '"" cannot be moved into itself', id="move the document"),
        pytest.param([op("remove", "/a" * 201)], "a path may have at most 200 parts", id="very long path"),
    ],
)
def test_malformed(patch: Json, why: str) -> None:
    with pytest.raises(PatchError) as refusal:
        apply_json_patch({"a": {}}, patch)
    assert type(refusal.value) is PatchError
    assert str(refusal.value).startswith(why)


def test_all_or_nothing() -> None:
    doc: Json = {"a": [1], "b": {}}
    before = copy.deepcopy(doc)
    with pytest.raises(TestFailed):
        apply_json_patch(doc, [op("add", "/a/-", value=2), op("remove", "/b"), op("test", "/a", value=[])])
    assert doc == before


def test_the_result_shares_nothing() -> None:
    doc: Json = {"a": [1]}
    patch: Json = [op("add", "/b", value=[1]), op("add", "/b/-", value=2), op("copy", "/c", from_="/b")]
    before = copy.deepcopy((doc, patch))
    patched = apply_json_patch(doc, patch)
    assert patched == {"a": [1], "b": [1, 2], "c": [1, 2]}
    assert isinstance(patched, dict)
    lists = list(patched.values())
    for member in lists:
        assert isinstance(member, list)
        member.append("changed")
    assert (doc, patch) == before
    assert patched["b"] == patched["c"] == [1, 2, "changed"]


def test_the_number_of_operations_is_bounded() -> None:
    most: list[Json] = [op("test", "/a", value=1)] * MAX_OPERATIONS
    assert apply_json_patch({"a": 1}, most) == {"a": 1}
    with pytest.raises(TooManyOperations, match="maximum operations in a JSON patch is 10000, got 10001"):
        apply_json_patch({"a": 1}, [*most, op("test", "/a", value=1)])


def test_doubling_the_document_again_and_again_is_refused() -> None:
    doubling: list[Json] = [op("copy", f"/{n}", from_="") for n in range(60)]
    with pytest.raises(PatchError, match="copies more than"):
        apply_json_patch({"a": "x" * 1000}, doubling)


def nested(levels: int) -> Json:
    value: Json = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param([op("add", "/deep", value=nested(MAX_DEPTH + 1))], id="a deep value"),
        pytest.param([op("test", "/list", value=nested(MAX_DEPTH + 1))], id="a deep comparison"),
        pytest.param(
            [op("add", "/list/0" + "/0" * (MAX_DEPTH - 2), value=nested(MAX_DEPTH))], id="a deep value at a deep place"
        ),
        pytest.param(
            [
                step
                for _ in range(1000)
                for step in (
                    op("add", "/next", value=[]),
                    op("move", "/next/-", from_="/list"),
                    op("move", "/list", from_="/next"),
                )
            ],
            id="moves that nest",
        ),
    ],
)
def test_nesting_is_bounded(patch: Json) -> None:
    with pytest.raises(PatchError, match="nested more than 200 levels"):
        apply_json_patch({"list": nested(MAX_DEPTH - 1)}, patch)


@given(DOCUMENTS)
def test_every_document_passes_a_test_for_itself(doc: Json) -> None:
    assert apply_json_patch(doc, [op("test", "", value=doc)]) == doc


@given(DOCUMENTS, DOCUMENTS)
def test_test_holds_only_for_equal_documents(doc: Json, other: Json) -> None:
    # repr tells True from 1 and does not mind the order of members once they are sorted.
    def spelled(value: Json) -> str:
        if isinstance(value, dict):
            return "{" + ",".join(sorted(f"{key!r}:{spelled(member)}" for key, member in value.items())) + "}"
        return f"[{','.join(map(spelled, value))}]" if isinstance(value, list) else repr(value)

    if spelled(doc) == spelled(other):
        assert apply_json_patch(doc, [op("test", "", value=other)]) == doc
    else:
        with pytest.raises(TestFailed):
            apply_json_patch(doc, [op("test", "", value=other)])


@given(st.dictionaries(KEYS, DOCUMENTS), KEYS, DOCUMENTS)
def test_what_was_added_can_be_tested_and_removed(doc: dict[str, Json], key: str, value: Json) -> None:
    path = "/" + key.replace("~", "~0").replace("/", "~1")
    without: Json = {name: member for name, member in doc.items() if name != key}
    patch: Json = [op("add", path, value=value), op("test", path, value=value), op("remove", path)]
    assert apply_json_patch(without, patch) == without


@given(st.lists(st.integers(), min_size=1), st.data())
def test_a_list_moved_there_and_back_is_as_before(doc: list[int], data: st.DataObject) -> None:
    positions = st.integers(0, len(doc) - 1)
    here, there = data.draw(positions), data.draw(positions)
    patch: Json = [op("move", f"/{there}", from_=f"/{here}"), op("move", f"/{here}", from_=f"/{there}")]
    assert apply_json_patch(list[Json](doc), patch) == doc


def test_copies_of_empty_containers_are_bounded() -> None:
    """They used to weigh one character each: a patch of some lines took hundreds of megabytes."""
    doc: Json = {"a": [[] for _ in range(1000)]}
    patch: list[Json] = [op("copy", f"/{n}", from_="/a") for n in range(MAX_COPIED // (1000 * VALUE_WEIGHT) + 1)]
    with pytest.raises(PatchError, match="copies more than"):
        apply_json_patch(doc, patch)
    assert apply_json_patch(doc, patch[:-2])
