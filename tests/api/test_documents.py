"""YAML as JSON values, its errors, and bounds on cost."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.documents import (
    MAX_ALIASED,
    MAX_DEPTH,
    MAX_TAG_DIRECTIVES,
    MalformedYaml,
    TooManyValues,
    single_yaml_document,
    yaml_documents,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda below: st.lists(below) | st.dictionaries(st.text(min_size=1), below), max_leaves=20
)


@given(st.lists(VALUES, min_size=1, max_size=3))
def test_it_reads_back_what_was_written(values: list[object]) -> None:
    assert list(yaml_documents(yaml.safe_dump_all(values).encode())) == values


@given(st.lists(VALUES, min_size=1, max_size=3))
def test_it_reads_unescaped_letters_as_the_loader_does(values: list[object]) -> None:
    # Not always what was written: PyYAML leaves line breaks such as U+0085 bare inside quotes, where they fold.
    raw = yaml.safe_dump_all(values, allow_unicode=True).encode()
    assert list(yaml_documents(raw)) == list(yaml.load_all(raw, Loader=yaml.CSafeLoader))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("a: 1\nb: [x, 2.5, true, null]", [{"a": 1, "b": ["x", 2.5, True, None]}], id="plain values"),
        pytest.param("a: 1\n---\nb: ['y', \"z\"]\n", [{"a": 1}, {"b": ["y", "z"]}], id="documents"),
        pytest.param("", [], id="none"),
        pytest.param("---\n---\na: 1\n", [None, {"a": 1}], id="an empty one"),
        pytest.param("plain\n", ["plain"], id="a scalar alone"),
        pytest.param(
            "[yes, no, on, off, True, ~, '', 'yes']", [[True, False, True, False, True, None, "", "yes"]], id="words"
        ),
        pytest.param("[0x10, 010, 1_000, 1.5, '1']", [[16, 8, 1000, 1.5, "1"]], id="numbers"),
        pytest.param("[2026-01-01, 2026-01-01T00:00:00Z]", [["2026-01-01", "2026-01-01T00:00:00Z"]], id="dates"),
        pytest.param("[22:22, 1:30.5]", [["22:22", "1:30.5"]], id="base 60 stays text"),
        pytest.param("a: |\n  one\n  two\nb: >\n  one\n  two\n", [{"a": "one\ntwo\n", "b": "one two\n"}], id="blocks"),
        pytest.param("a: &x {b: 1}\nc: *x\nd: [*x]", [{"a": {"b": 1}, "c": {"b": 1}, "d": [{"b": 1}]}], id="aliases"),
        pytest.param("&k a: 1\nb: *k", [{"a": 1, "b": "a"}], id="an alias of a key"),
        pytest.param("a: &x {b: 1}\nc: {<<: *x, d: 2}", [{"a": {"b": 1}, "c": {"b": 1, "d": 2}}], id="a merge key"),
        pytest.param("c: {b: 0, <<: [{b: 1, d: 2}, {d: 3, e: 4}]}", [{"c": {"b": 0, "d": 2, "e": 4}}], id="its order"),
        pytest.param("a: &x [{b: 1}]\nc: {<<: *x}", [{"a": [{"b": 1}], "c": {"b": 1}}], id="a merged alias of a list"),
        pytest.param("'<<': 1", [{"<<": 1}], id="a quoted merge key is a key"),
        pytest.param("1: a\ntrue: b\n1.5: c", [{"1": "a", "true": "b", "1.5": "c"}], id="keys as kubectl has them"),
        pytest.param("a: !!str 1\nb: !!int '2'\nc: ! 3", [{"a": "1", "b": 2, "c": "3"}], id="tags"),
        pytest.param("a: =", [{"a": "="}], id="a value key"),
        pytest.param("\ufeffa: 1", [{"a": 1}], id="a byte order mark"),
    ],
)
def test_documents(text: str, want: list[object]) -> None:
    assert list(yaml_documents(text.encode())) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("a: 1\na: 2", 'key "a" is given twice, in line 2', id="a key twice"),
        pytest.param("a:\n  1: 1\n  '1': 2", 'key "1" is given twice', id="in another spelling"),
        pytest.param("null: a", "a key is neither text nor a number", id="nothing as key"),
        pytest.param("? [a, b]\n: c\n", "a key is neither text nor a number", id="a list as key"),
        pytest.param("a: !!binary aGk=", "binary has no form in JSON", id="binary"),
        pytest.param("a: !!set {x}", "set has no form in JSON", id="set"),
        pytest.param("a: !!python/object:os.system {}", "has no form in JSON", id="an object of Python"),
        pytest.param("a: !!int x", "is not what its tag", id="a tag that is wrong"),
        pytest.param("a: .inf", "has no form in JSON", id="infinity"),
        pytest.param("a: 0x" + "f" * 500, None, id="a number of any length is text"),
        pytest.param("a: [", "expected", id="cut off"),
        pytest.param("a: *nowhere", "undefined alias nowhere", id="an anchor that is not there"),
        pytest.param("a: &x 1\nb: &x 2", "anchor x is given twice", id="an anchor twice"),
        pytest.param("a: &x [*x]", "the value called x contains itself", id="a value that contains itself"),
        pytest.param("a: {<<: 1}", "takes mappings only", id="a merge key with a number"),
        pytest.param("[" * 50_000, "nested more than 200 deep", id="nested lists"),
        pytest.param("- " * 50_000, "nested more than 200 deep", id="nested blocks"),
        pytest.param("{a: " * 50_000, "nested more than 200 deep", id="nested mappings"),
        pytest.param("!!seq " + "[" * 50_000, "nested more than 200 deep", id="nested behind a tag"),
    ],
)
def test_refused_documents(text: str, want: str | None) -> None:
    if want is None:
        assert isinstance(single_yaml_document(text.encode()), dict)
        return
    with pytest.raises(MalformedYaml, match=want):
        single_yaml_document(text.encode())


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        pytest.param(b"a: 1\n---\nb: 2", "expected a single document", id="two documents"),
        pytest.param("a: 1".encode("utf-16"), "not UTF-8", id="another encoding"),
        pytest.param(b"a: \xff", "not UTF-8", id="no encoding"),
    ],
)
def test_refused_bytes(raw: bytes, want: str) -> None:
    with pytest.raises(MalformedYaml, match=want):
        single_yaml_document(raw)


def multiplied(first: str, form: str, levels: int) -> bytes:
    lines = [f"a0: &a0 {first}"]
    lines += [f"a{n}: &a{n} {form.format(', '.join([f'*a{n - 1}'] * 10))}" for n in range(1, levels + 1)]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(multiplied("[x, x, x, x, x, x, x, x, x, x]", "[{}]", 8), id="aliases of lists"),
        pytest.param(multiplied("{k: x}", "{{<<: [{}]}}", 8), id="merge keys"),
        pytest.param(b"a: &a " + b"x" * 100_000 + b"\nb: [" + b"*a, " * 20 + b"]", id="aliases of a long text"),
    ],
)
def test_aliases_and_merge_keys_cannot_multiply_without_bound(raw: bytes) -> None:
    with pytest.raises(MalformedYaml, match="aliases make the document too large"):
        single_yaml_document(raw)


def test_aliases_within_the_bound_are_followed() -> None:
    text = "x" * (MAX_ALIASED // 10)
    assert single_yaml_document(f"a: &a {text}\nb: [{'*a, ' * 9}]".encode()) == {"a": text, "b": [text] * 9}


def test_depth_is_counted_as_it_is() -> None:
    just = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert len(list(yaml_documents(just))) == 1
    with pytest.raises(MalformedYaml, match="deep"):
        single_yaml_document(b"[" + just + b"]")


def test_values_are_counted() -> None:
    assert single_yaml_document(b"[a, b, c]", max_values=4) == ["a", "b", "c"]
    with pytest.raises(TooManyValues, match="more than 3 values"):
        single_yaml_document(b"[a, b, c]", max_values=3)


def test_tag_directives_are_counted() -> None:
    """libyaml compares each with all before it: two megabytes of them would take half a minute."""
    text = "".join(f"%TAG !t{number}! tag:example.com,\n" for number in range(MAX_TAG_DIRECTIVES + 1)) + "--- a\n"
    with pytest.raises(MalformedYaml, match="TAG directives"):
        single_yaml_document(text.encode())
