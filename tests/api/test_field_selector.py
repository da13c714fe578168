"""Field selectors: comparison, escapes, errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import selectors
from mooring.api.selectors import FieldSelector, FieldSelectorError, FieldTerm

TERMS = st.builds(
    FieldTerm,
    path=st.sampled_from(["metadata.name", "spec.nodeName", "status.phase"]),
    operator=st.sampled_from(["=", "!="]),
    value=st.text(max_size=8),
)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        pytest.param("", [], id="nothing asked"),
        pytest.param("a=b", [("a", "=", "b")], id="equal"),
        pytest.param("a==b", [("a", "=", "b")], id="double equals"),
        pytest.param("a!=b", [("a", "!=", "b")], id="not equal"),
        pytest.param("a=", [("a", "=", "")], id="empty value"),
        pytest.param(
            "status.phase!=Succeeded,status.phase!=Failed",
            [("status.phase", "!=", "Succeeded"), ("status.phase", "!=", "Failed")],
            id="the scheduler's own",
        ),
        pytest.param(r"a=b\,c", [("a", "=", "b,c")], id="escaped comma"),
        pytest.param(r"a=b\=c", [("a", "=", "b=c")], id="escaped equals sign"),
        pytest.param(r"a=b\\,c=d", [("a", "=", "b\\"), ("c", "=", "d")], id="escaped backslash"),
        pytest.param("a=b,", [("a", "=", "b")], id="trailing comma"),
        pytest.param(",,a=b", [("a", "=", "b")], id="leading commas"),
        pytest.param("a= b", [("a", "=", " b")], id="spaces count"),
    ],
)
def test_parse(text: str, terms: list[tuple[str, str, str]]) -> None:
    assert list(selectors.parse_field_selector(text).terms) == terms


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("a", "invalid selector: 'a'; can't understand 'a'", id="no operator"),
        pytest.param("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'", id="second has no operator"),
        pytest.param("a=b=c", "invalid field selector: unescaped character in value: =", id="two operators"),
        pytest.param("a===b", "invalid field selector: unescaped character in value: =", id="three equals signs"),
        pytest.param(r"a=\b", r"invalid field selector: invalid escape sequence: \b", id="unknown escape"),
        pytest.param("a=b\\", "invalid field selector: invalid escape sequence: \\", id="backslash at the end"),
    ],
)
def test_refused(text: str, why: str) -> None:
    with pytest.raises(FieldSelectorError) as refusal:
        selectors.parse_field_selector(text)
    assert str(refusal.value) == why


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", True, id="nothing asked"),
        pytest.param("spec.nodeName=n1", True, id="equal"),
        pytest.param("spec.nodeName=n2", False, id="other value"),
        pytest.param("spec.nodeName!=n2", True, id="not equal"),
        pytest.param("spec.nodeName!=n1", False, id="not equal, but it is"),
        pytest.param("status.phase=", True, id="absent reads as empty"),
        pytest.param("spec.nodeName=n1,metadata.name=p", True, id="comma is and"),
        pytest.param("spec.nodeName=n1,metadata.name=q", False, id="comma is and, one fails"),
    ],
)
def test_matches(text: str, want: bool) -> None:
    fields = {"spec.nodeName": "n1", "metadata.name": "p"}
    assert selectors.parse_field_selector(text).matches(lambda path: fields.get(path, "")) is want


def test_everything() -> None:
    assert selectors.parse_field_selector("") == FieldSelector()


@given(st.lists(TERMS, max_size=4))
def test_printing_and_parsing_round_trip(terms: list[FieldTerm]) -> None:
    selector = FieldSelector(tuple(terms))
    assert selectors.parse_field_selector(str(selector)) == selector
