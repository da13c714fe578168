"""YAML without its surprises."""

import pytest

from mooring.server.http.yaml_bodies import MalformedYaml, decode_yaml


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("a: 1\nb: [x, 2.5, true, null]", {"a": 1, "b": ["x", 2.5, True, None]}, id="plain values"),
        pytest.param("a: 2026-01-01", {"a": "2026-01-01"}, id="a date stays text"),
        pytest.param("a: 2026-01-01T00:00:00Z", {"a": "2026-01-01T00:00:00Z"}, id="a timestamp stays text"),
        pytest.param("a: 22:22", {"a": "22:22"}, id="a base-60 number stays text"),
        pytest.param("a: 1:30.5", {"a": "1:30.5"}, id="a base-60 fraction stays text"),
        pytest.param("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}, id="aliases are followed"),
        pytest.param("a: &x {b: 1}\nc: {<<: *x, d: 2}", {"a": {"b": 1}, "c": {"b": 1, "d": 2}}, id="merge keys"),
        pytest.param("", None, id="empty"),
    ],
)
def test_documents(text: str, want: object) -> None:
    assert decode_yaml(text.encode()) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("a: 1\na: 2", '"a" is given twice', id="a key twice"),
        pytest.param("a:\n  b: 1\n  b: 2", '"b" is given twice', id="a key twice further in"),
        pytest.param("1: a", "key 1 is not text", id="a number as key"),
        pytest.param("null: a", "key None is not text", id="nothing as key"),
        pytest.param("false: a", "key False is not text", id="a flag as key"),
        pytest.param("a: !!binary aGk=", "bytes has no form in JSON", id="binary"),
        pytest.param("a: !!set {x}", "set has no form in JSON", id="set"),
        pytest.param("a: !!python/object:os.system {}", "could not determine a constructor", id="an object of Python"),
        pytest.param("a: [", "expected", id="cut off"),
        pytest.param("a: 1\n---\nb: 2", "expected a single document", id="two documents"),
        pytest.param("a: &x [*x]", "too large", id="a value that contains itself"),
        pytest.param("[" * 20_000, "nested more than 200 deep", id="nested lists"),
        pytest.param("- " * 20_000, "nested more than 200 deep", id="nested blocks"),
        pytest.param("{a: " * 20_000, "nested more than 200 deep", id="nested mappings"),
    ],
)
def test_refused_documents(text: str, want: str) -> None:
    with pytest.raises(MalformedYaml, match=want):
        decode_yaml(text.encode())


def test_aliases_cannot_multiply_without_bound() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(MalformedYaml, match="aliases make the document too large"):
        decode_yaml("\n".join(lines).encode())
