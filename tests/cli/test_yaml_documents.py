"""YAML from events: the same values as the loader's, quickly, and safely for any input."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.yaml_depth import MAX_DEPTH, TooDeep, check_depth
from mooring.cli import dumps
from mooring.cli.yaml_documents import Unusual, documents

KEYS = st.text(min_size=1) | st.integers() | st.booleans()
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(SCALARS, lambda below: st.lists(below) | st.dictionaries(KEYS, below), max_leaves=20)


def loaded(raw: bytes) -> list[object]:
    return list(yaml.load_all(raw, Loader=dumps._Loader))


@given(st.lists(VALUES, min_size=1, max_size=3))
def test_it_reads_back_what_was_written(values: list[object]) -> None:
    raw = yaml.safe_dump_all(values).encode()
    assert list(documents(raw)) == values == loaded(raw)


@given(st.lists(VALUES, min_size=1, max_size=3))
def test_it_reads_unescaped_letters_as_the_loader_does(values: list[object]) -> None:
    # Not always what was written: PyYAML leaves line breaks such as U+0085 bare inside quotes, where they fold.
    raw = yaml.safe_dump_all(values, allow_unicode=True).encode()
    assert list(documents(raw)) == loaded(raw)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: 1\n---\nb: [x, 'y', \"z\"]\n", id="documents"),
        pytest.param("", id="nothing"),
        pytest.param("---\n---\na: 1\n", id="an empty one"),
        pytest.param("plain\n", id="a scalar alone"),
        pytest.param("[yes, no, on, off, True, ~, null, '', 'yes']", id="words of YAML 1.1"),
        pytest.param("[0x10, 010, 1_000, 1e3, 1.5, .inf, 190:20:30, '1']", id="numbers"),
        pytest.param("at: 2026-01-02T03:04:05Z\nday: 2026-01-02\nquoted: '2026-01-02'\n", id="dates stay texts"),
        pytest.param("a: |\n  one\n  two\nb: >\n  one\n  two\n", id="blocks"),
        pytest.param("a: &x {b: 1}\nc: *x\nd: [*x]\n", id="anchors"),
        pytest.param("a: 1\na: 2\n", id="a key twice"),
        pytest.param("1: a\ntrue: b\n~: c\n", id="keys that are no texts"),
        pytest.param("a:\n", id="no value"),
    ],
)
def test_it_means_what_the_loader_means(text: str) -> None:
    assert list(documents(text.encode())) == loaded(text.encode())


def test_a_list_that_contains_itself_is_built() -> None:
    [found] = documents(b"&x [*x]")
    assert isinstance(found, list)
    assert found[0] is found


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: !!str 1", id="a tag"),
        pytest.param("a: !!set {x}", id="a tagged collection"),
        pytest.param("a: &x {b: 1}\nc:\n  <<: *x\n", id="a merge key"),
        pytest.param("? [a, b]\n: c\n", id="a key that is no scalar"),
        pytest.param("a: *nowhere", id="an anchor that is not there"),
        pytest.param("a: &x 1\nb: &x 2\n", id="an anchor twice"),
        pytest.param("a: =", id="a value key"),
    ],
)
def test_the_rest_is_left_to_the_loader(text: str) -> None:
    with pytest.raises(Unusual):
        list(documents(text.encode()))


@pytest.mark.parametrize("text", ["a: &x {b: 1}\nc:\n  <<: *x\n", "a: !!str 1"], ids=["a merge key", "a tag"])
def test_what_is_unusual_is_read_all_the_same(text: str) -> None:
    assert [document for _, document in dumps.parsed("x.yaml", text.encode())] == loaded(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 100_000, id="lists"),
        pytest.param("{a: " * 100_000, id="mappings"),
        pytest.param("- " * 100_000, id="blocks"),
        pytest.param("!!seq " + "[" * 100_000, id="left to the loader"),
    ],
)
def test_what_is_nested_too_deep_is_refused_before_any_loader_recurses(text: str) -> None:
    with pytest.raises(dumps.UnreadableDump, match=f"more than {MAX_DEPTH} deep"):
        list(dumps.parsed("deep.yaml", text.encode()))


def test_depth_is_counted_as_it_is() -> None:
    just = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert len(list(documents(just))) == 1
    check_depth(just)
    with pytest.raises(TooDeep):
        list(documents(b"[" + just + b"]"))
    with pytest.raises(TooDeep):
        check_depth(b"[" + just + b"]")
