"""Label selectors: both forms, matching, and errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import selectors
from mooring.api.selectors import ALL_LABELS, NOTHING, LabelSelector, Operator, Requirement, SelectorError
from mooring.api.views.meta import LabelSelectorView, SelectorRequirement

KEYS = st.sampled_from(["a", "b", "in", "notin", "example.com/zone"])
VALUES = st.sampled_from(["", "x", "y", "in", "7", "12", "a.b-c_d"])


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    operator = draw(st.sampled_from(Operator))
    match operator:
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            values: list[str] = []
        case Operator.GT | Operator.LT:
            values = [str(draw(st.integers(0, 20)))]
        case Operator.IN | Operator.NOT_IN:
            values = draw(st.lists(VALUES, min_size=1, max_size=3))
    return Requirement.checked(draw(KEYS), operator, values)


SELECTORS = st.lists(requirements(), max_size=4).map(
    lambda chosen: LabelSelector(tuple(sorted(set(chosen)))),
)
LABELS = st.dictionaries(KEYS, VALUES)


@pytest.mark.parametrize(
    ("text", "labels", "want"),
    [
        pytest.param("", {}, True, id="nothing asked"),
        pytest.param("  ", {"a": "x"}, True, id="only spaces"),
        pytest.param("a=x", {"a": "x"}, True, id="equal"),
        pytest.param("a==x", {"a": "x"}, True, id="double equals"),
        pytest.param("a=x", {"a": "y"}, False, id="other value"),
        pytest.param("a=x", {}, False, id="equal, absent"),
        pytest.param("a=", {"a": ""}, True, id="empty value"),
        pytest.param("a=,b", {"a": "", "b": "x"}, True, id="empty value before a comma"),
        pytest.param("a!=x", {"a": "y"}, True, id="not equal"),
        pytest.param("a!=x", {}, True, id="not equal, absent"),
        pytest.param("a!=x", {"a": "x"}, False, id="not equal, but it is"),
        pytest.param("a in (x,y)", {"a": "y"}, True, id="in"),
        pytest.param("a in (x,y)", {}, False, id="in, absent"),
        pytest.param("a in (x,,y)", {"a": ""}, True, id="in with an empty value"),
        pytest.param("a in ()", {"a": ""}, True, id="in the empty list means the empty value"),
        pytest.param("a in ()", {"a": "x"}, False, id="in the empty list, other value"),
        pytest.param("a notin (x,y)", {"a": "z"}, True, id="not in"),
        pytest.param("a notin (x,y)", {}, True, id="not in, absent"),
        pytest.param("a notin (x,y)", {"a": "x"}, False, id="not in, but it is"),
        pytest.param("a", {"a": ""}, True, id="exists"),
        pytest.param("a", {}, False, id="exists, absent"),
        pytest.param("!a", {}, True, id="does not exist"),
        pytest.param("! a", {"a": "x"}, False, id="does not exist, but it does"),
        pytest.param("a>5", {"a": "6"}, True, id="greater"),
        pytest.param("a>5", {"a": "5"}, False, id="greater, equal"),
        pytest.param("a>5", {"a": "10"}, True, id="greater compares numbers, not text"),
        pytest.param("a<5", {"a": "-6"}, True, id="less"),
        pytest.param("a<5", {"a": "x"}, False, id="less, not a number"),
        pytest.param("a<5", {"a": "1_0"}, False, id="less, Python number only"),
        pytest.param("a<5", {}, False, id="less, absent"),
        pytest.param("a=x,b=y", {"a": "x", "b": "y"}, True, id="comma is and"),
        pytest.param("a=x,b=y", {"a": "x"}, False, id="comma is and, one fails"),
        pytest.param("a=x,a!=x", {"a": "x"}, False, id="contradiction"),
        pytest.param(" a  in\t( x , y ) , b ", {"a": "x", "b": ""}, True, id="spaces anywhere"),
        pytest.param("in in (in),notin=notin", {"in": "in", "notin": "notin"}, True, id="operators as words"),
        pytest.param("example.com/zone=z1", {"example.com/zone": "z1"}, True, id="prefixed key"),
    ],
)
def test_query_form(text: str, labels: dict[str, str], want: bool) -> None:
    assert selectors.parse_label_selector(text).matches(labels) is want


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("a in (b", "unable to parse requirement: found '', expected: ',' or ')'", id="open list"),
        pytest.param("a in b", "unable to parse requirement: found 'b' expected: '('", id="in without list"),
        pytest.param("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'", id="no comma"),
        pytest.param("a in (=)", "unable to parse requirement: found '=', expected: ',' or ')'", id="symbol"),
        pytest.param(
            "a b",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            id="two words",
        ),
        pytest.param("!", "unable to parse requirement: found '', expected: identifier", id="lone exclamation"),
        pytest.param("a=!b", "unable to parse requirement: found '!', expected: identifier", id="value negated"),
        pytest.param("a>=5", "unable to parse requirement: found '=', expected: identifier", id="at least"),
        pytest.param("a=b c", "found 'c', expected: ',' or 'end of string'", id="word after a value"),
        pytest.param("!a=b", "found '=', expected: ',' or 'end of string'", id="absent and equal"),
        pytest.param("a,", "found '', expected: identifier after ','", id="trailing comma"),
        pytest.param("a,,b", "found ',', expected: identifier after ','", id="two commas"),
        pytest.param(",a", "found ',', expected: !, identifier, or 'end of string'", id="leading comma"),
        pytest.param("<nothing>", "found '<', expected: !, identifier, or 'end of string'", id="our nothing"),
        pytest.param("-a", 'unable to parse requirement: key: Invalid value: "-a": name part must', id="bad key"),
        pytest.param(
            "a=-b", 'unable to parse requirement: values[0][a]: Invalid value: "-b": a valid label', id="bad value"
        ),
        pytest.param(
            "a>x",
            "unable to parse requirement: values: Invalid value: [\"x\"]: for 'Gt', 'Lt' operators, the value must "
            "be an integer",
            id="greater than a word",
        ),
        pytest.param(
            "a>9223372036854775808",
            "unable to parse requirement: values: Invalid value: [\"9223372036854775808\"]: for 'Gt', 'Lt' "
            "operators, the value must be an integer",
            id="greater than any 64-bit integer",
        ),
    ],
)
def test_query_form_refused(text: str, why: str) -> None:
    with pytest.raises(SelectorError) as refusal:
        selectors.parse_label_selector(text)
    assert str(refusal.value).startswith(why)


def expression(operator: str, *values: str, key: str = "a") -> SelectorRequirement:
    return SelectorRequirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    ("match_labels", "match_expressions", "text"),
    [
        pytest.param({}, [], "", id="empty selects everything"),
        pytest.param({"b": "y", "a": "x"}, [], "a=x,b=y", id="labels in order"),
        pytest.param({}, [expression("In", "y", "x", "y")], "a in (x,y)", id="In"),
        pytest.param({}, [expression("In", "x")], "a=x", id="In with one value"),
        pytest.param({}, [expression("NotIn", "x", "y")], "a notin (x,y)", id="NotIn"),
        pytest.param({}, [expression("NotIn", "x")], "a!=x", id="NotIn with one value"),
        pytest.param({}, [expression("Exists")], "a", id="Exists"),
        pytest.param({}, [expression("DoesNotExist")], "!a", id="DoesNotExist"),
        pytest.param({"a": "x"}, [expression("In", "x")], "a=x", id="said twice"),
        pytest.param({"a": "x"}, [expression("Exists", key="b")], "a=x,b", id="labels and expressions"),
    ],
)
def test_object_form(match_labels: dict[str, str], match_expressions: list[SelectorRequirement], text: str) -> None:
    selector = selectors.label_selector_from_view(LabelSelectorView(match_labels, tuple(match_expressions)))
    assert str(selector) == text
    assert selector == selectors.parse_label_selector(text)


@pytest.mark.parametrize(
    ("given_expression", "why"),
    [
        pytest.param(expression("Gt", "1"), '"Gt" is not a valid label selector operator', id="Gt"),
        pytest.param(expression("in", "x"), '"in" is not a valid label selector operator', id="wrong case"),
        pytest.param(
            expression("In"),
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
            id="In nothing",
        ),
        pytest.param(
            expression("Exists", "x"),
            'values: Invalid value: ["x"]: values set must be empty for exists and does not exist',
            id="Exists with a value",
        ),
    ],
)
def test_object_form_refused(given_expression: SelectorRequirement, why: str) -> None:
    with pytest.raises(SelectorError) as refusal:
        selectors.label_selector_from_view(LabelSelectorView({}, (given_expression,)))
    assert str(refusal.value) == why


def test_all_problems_of_a_requirement_are_named() -> None:
    with pytest.raises(SelectorError) as refusal:
        Requirement.checked("-", Operator.GT, ["x y"])
    assert [part.partition(":")[0] for part in str(refusal.value).split("; ")] == ["key", "values", "values[0][-]"]


def test_everything_and_nothing() -> None:
    assert ALL_LABELS.matches({})
    assert ALL_LABELS.matches({"a": "x"})
    assert not NOTHING.matches({})
    assert not NOTHING.matches({"a": "x"})
    assert selectors.parse_label_selector("") == ALL_LABELS != NOTHING


@given(SELECTORS)
def test_printing_and_parsing_round_trip(selector: LabelSelector) -> None:
    again = selectors.parse_label_selector(str(selector))
    assert again == selector
    assert hash(again) == hash(selector)


@given(requirements(), LABELS)
def test_opposites(requirement: Requirement, labels: dict[str, str]) -> None:
    opposites = {
        Operator.IN: Operator.NOT_IN,
        Operator.NOT_IN: Operator.IN,
        Operator.EXISTS: Operator.DOES_NOT_EXIST,
        Operator.DOES_NOT_EXIST: Operator.EXISTS,
    }
    if (opposite := opposites.get(requirement.operator)) is not None:
        other = Requirement(requirement.key, opposite, requirement.values)
        assert requirement.matches(labels) is not other.matches(labels)


@given(st.lists(requirements(), max_size=4), LABELS)
def test_order_does_not_matter(chosen: list[Requirement], labels: dict[str, str]) -> None:
    text = ",".join(map(str, chosen))
    backwards = ",".join(map(str, reversed(chosen)))
    assert selectors.parse_label_selector(text) == selectors.parse_label_selector(backwards)
    assert selectors.parse_label_selector(text).matches(labels) is all(one.matches(labels) for one in chosen)


@given(st.text(alphabet="ab,=!()<> in\\\n", max_size=20))
def test_any_text_is_a_selector_or_a_selector_error(text: str) -> None:
    try:
        selector = selectors.parse_label_selector(text)
    except SelectorError:
        return
    assert selectors.parse_label_selector(str(selector)) == selector
