"""Node selectors and allowed topologies, by tables and against a naive evaluation."""

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import node_selectors
from mooring.api.views.meta import NodeSelectorTermView, SelectorRequirement
from mooring.api.views.storage import TopologyRequirement, TopologyTerm

NODE = {"zone": "z1", "rack": "r7", "cores": "16", "foo": "", "disk": "ssd"}
NAMED = {"metadata.name": "n1"}


def one(key: str, operator: str, *values: str) -> SelectorRequirement:
    return SelectorRequirement(key=key, operator=operator, values=values)


def term(*expressions: SelectorRequirement, fields: Iterable[SelectorRequirement] = ()) -> NodeSelectorTermView:
    return NodeSelectorTermView(match_expressions=expressions, match_fields=tuple(fields))


def allowed(*expressions: tuple[str, *tuple[str, ...]]) -> TopologyTerm:
    return TopologyTerm(
        match_label_expressions=tuple(
            TopologyRequirement(key=key, values=tuple(values)) for key, *values in expressions
        )
    )


@pytest.mark.req("T1.operators")
@pytest.mark.level("u")
@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param([term(one("zone", "In", "z1", "z2"))], True, id="In"),
        pytest.param([term(one("zone", "In", "z2"))], False, id="In, other value"),
        pytest.param([term(one("none", "In", "z1"))], False, id="In, absent"),
        pytest.param([term(one("zone", "NotIn", "z2"))], True, id="NotIn"),
        pytest.param([term(one("zone", "NotIn", "z1"))], False, id="NotIn, but it is"),
        pytest.param([term(one("none", "NotIn", "z1"))], True, id="NotIn, absent"),
        pytest.param([term(one("foo", "Exists"))], True, id="Exists, empty value"),
        pytest.param([term(one("none", "Exists"))], False, id="Exists, absent"),
        pytest.param([term(one("none", "DoesNotExist"))], True, id="DoesNotExist"),
        pytest.param([term(one("foo", "DoesNotExist"))], False, id="DoesNotExist, but it does"),
        pytest.param([term(one("cores", "Gt", "9"))], True, id="Gt compares numbers"),
        pytest.param([term(one("cores", "Gt", "16"))], False, id="Gt, equal"),
        pytest.param([term(one("zone", "Gt", "1"))], False, id="Gt, label is no number"),
        pytest.param([term(one("none", "Gt", "1"))], False, id="Gt, absent"),
        pytest.param([term(one("cores", "Lt", "17"))], True, id="Lt"),
        pytest.param([term(one("cores", "Lt", "16"))], False, id="Lt, equal"),
        pytest.param([term(one("foo", "Lt", "1"))], False, id="Lt, label is empty"),
        pytest.param([term(one("zone", "In", "z1"), one("rack", "In", "r7"))], True, id="expressions are ANDed"),
        pytest.param([term(one("zone", "In", "z1"), one("rack", "In", "r8"))], False, id="one expression fails"),
        pytest.param([term(one("zone", "In", "z2")), term(one("rack", "In", "r7"))], True, id="terms are ORed"),
        pytest.param([term(one("zone", "In", "z2")), term(one("rack", "In", "r8"))], False, id="all terms fail"),
        pytest.param([], False, id="no terms"),
        pytest.param([term()], False, id="an empty term matches nothing"),
        pytest.param([term(), term(one("zone", "In", "z1"))], True, id="an empty term beside another"),
    ],
)
def test_operators(terms: list[NodeSelectorTermView], want: bool) -> None:
    selector = node_selectors.node_selector_from_view(terms)
    assert selector.problems == ()
    assert selector.matches(NODE, fields=NAMED) is want
    assert selector.matches(NODE, fields=None) is want


@pytest.mark.parametrize(
    ("terms", "for_pods", "for_volumes"),
    [
        pytest.param([term(fields=[one("metadata.name", "In", "n1")])], True, True, id="this node"),
        pytest.param([term(fields=[one("metadata.name", "In", "n2")])], False, True, id="another node"),
        pytest.param([term(fields=[one("metadata.name", "NotIn", "n1")])], False, True, id="not this node"),
        pytest.param([term(fields=[one("metadata.name", "NotIn", "n2")])], True, True, id="not another node"),
        pytest.param(
            [term(one("zone", "In", "z1"), fields=[one("metadata.name", "In", "n2")])],
            False,
            True,
            id="labels fit, name does not",
        ),
        pytest.param(
            [term(one("zone", "In", "z2"), fields=[one("metadata.name", "In", "n1")])],
            False,
            False,
            id="name fits, labels do not",
        ),
    ],
)
def test_match_fields(terms: list[NodeSelectorTermView], for_pods: bool, for_volumes: bool) -> None:
    selector = node_selectors.node_selector_from_view(terms)
    assert selector.matches(NODE, fields=NAMED) is for_pods
    assert selector.matches(NODE, fields=None) is for_volumes


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        pytest.param(
            term(one("zone", "Foo", "z1")),
            'nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Foo": supported values: '
            '"DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"',
            id="unknown operator",
        ),
        pytest.param(
            term(one("zone", "Exists"), one("zone", "In")),
            "nodeSelectorTerms[0].matchExpressions[1].values: Invalid value: []: for 'in', 'notin' operators, "
            "values set can't be empty",
            id="In nothing",
        ),
        pytest.param(
            term(one("cores", "Gt", "1", "2")),
            "nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: [\"1\", \"2\"]: for 'Gt', 'Lt' "
            "operators, exactly one value is required",
            id="Gt two values",
        ),
        pytest.param(
            term(one("cores", "Gt", "many")),
            "nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: [\"many\"]: for 'Gt', 'Lt' "
            "operators, the value must be an integer",
            id="Gt a word",
        ),
        pytest.param(
            term(one("zone", "Exists", "z1")),
            'nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: ["z1"]: values set must be empty '
            "for exists and does not exist",
            id="Exists with a value",
        ),
        pytest.param(
            term(fields=[one("spec.unschedulable", "NotIn", "true")]),
            'nodeSelectorTerms[0].matchFields[0].key: Invalid value: "spec.unschedulable": not a valid field '
            "selector key",
            id="unknown field",
        ),
        pytest.param(
            term(fields=[one("metadata.name", "Exists")]),
            'nodeSelectorTerms[0].matchFields[0].operator: Unsupported value: "Exists": supported values: '
            '"In", "NotIn"',
            id="field operator",
        ),
        pytest.param(
            term(fields=[one("metadata.name", "NotIn", "n2", "n3")]),
            "nodeSelectorTerms[0].matchFields[0].values: Required value: must be only one value for node field "
            "selectors",
            id="two field values",
        ),
    ],
)
def test_a_term_with_a_problem_matches_nothing_and_hides_nothing(bad: NodeSelectorTermView, problem: str) -> None:
    alone = node_selectors.node_selector_from_view([bad])
    assert alone.problems == (problem,)
    assert not alone.matches(NODE, fields=NAMED)
    assert not alone.matches(NODE, fields=None)
    beside = node_selectors.node_selector_from_view([bad, term(one("zone", "In", "z1"))])
    assert beside.matches(NODE, fields=NAMED)


def test_a_single_term_can_be_compiled_for_a_preference() -> None:
    preference = node_selectors.term_from_view(term(one("disk", "In", "ssd"), one("zone", "Nope")))
    assert preference.problems[0].startswith("matchExpressions[1].operator: Unsupported value")
    assert node_selectors.term_from_view(term(one("disk", "In", "ssd"))).matches(NODE, fields=None)


def test_equal_selectors_are_one_dictionary_key() -> None:
    here = node_selectors.node_selector_from_view([term(one("zone", "In", "z2", "z1"), one("rack", "Exists"))])
    there = node_selectors.node_selector_from_view([term(one("rack", "Exists"), one("zone", "In", "z1", "z2", "z1"))])
    other = node_selectors.node_selector_from_view([term(one("rack", "Exists"))])
    assert {here: "kept"}[there] == "kept"
    assert other not in {here: "kept"}


@given(st.permutations([one(f"key-{n}", "Exists") for n in range(12)]))
def test_the_order_of_expressions_does_not_matter(expressions: list[SelectorRequirement]) -> None:
    compiled = node_selectors.term_from_view(term(*expressions)).expressions
    assert [requirement.key for requirement in compiled] == sorted(view.key for view in expressions)


@pytest.mark.req("T4.semantics")
@pytest.mark.level("u")
@pytest.mark.parametrize(
    ("terms", "labels", "want"),
    [
        pytest.param([], {}, True, id="no restriction"),
        pytest.param([allowed(("zone", "z1"))], {"zone": "z1"}, True, id="zonal"),
        pytest.param([allowed(("zone", "z1"))], {"zone": "z2"}, False, id="another zone"),
        pytest.param([allowed(("zone", "z1"))], {}, False, id="a node without a zone"),
        pytest.param([allowed(("zone", "z1", "z2"))], {"zone": "z2"}, True, id="values are ORed"),
        pytest.param(
            [allowed(("zone", "z1"), ("rack", "r1"))], {"zone": "z1", "rack": "r1"}, True, id="several labels"
        ),
        pytest.param(
            [allowed(("zone", "z1"), ("rack", "r1"))], {"zone": "z1", "rack": "r2"}, False, id="labels are ANDed"
        ),
        pytest.param(
            [allowed(("zone", "z1"), ("rack", "r1")), allowed(("zone", "z2"), ("rack", "r2"))],
            {"zone": "z2", "rack": "r2"},
            True,
            id="terms are ORed",
        ),
        pytest.param(
            [allowed(("zone", "z1"), ("rack", "r1")), allowed(("zone", "z2"), ("rack", "r2"))],
            {"zone": "z1", "rack": "r2"},
            False,
            id="terms do not mix",
        ),
        pytest.param([allowed()], {"zone": "z1"}, False, id="an empty term allows nothing"),
        pytest.param([allowed(), allowed(("zone", "z1"))], {"zone": "z1"}, True, id="an empty term beside another"),
    ],
)
def test_allowed_topologies(terms: list[TopologyTerm], labels: dict[str, str], want: bool) -> None:
    selector = node_selectors.topologies_from_view(terms)
    assert selector.problems == ()
    assert selector.matches(labels) is want


@pytest.mark.req("T4.semantics")
@pytest.mark.level("u")
def test_invalid_allowed_topology_matches_nothing() -> None:
    selector = node_selectors.topologies_from_view([allowed(("zone",)), allowed(("zone", "z1"))])
    assert selector.problems == (
        "allowedTopologies[0].matchLabelExpressions[0].values: Invalid value: []: for 'in', 'notin' operators, "
        "values set can't be empty",
    )
    assert selector.matches({"zone": "z1"})
    assert not selector.matches({"zone": "z2"})
    assert not node_selectors.topologies_from_view([allowed(("zone",))]).matches({"zone": "z1"})


KEYS = st.sampled_from(["zone", "rack", "cores"])
VALUES = st.sampled_from(["", "z1", "z2", "3", "16", "007"])
EXPRESSIONS = (
    st.builds(one, KEYS, st.sampled_from(["In", "NotIn"]), VALUES, VALUES)
    | st.builds(one, KEYS, st.sampled_from(["Exists", "DoesNotExist"]))
    | st.builds(one, KEYS, st.sampled_from(["Gt", "Lt"]), st.integers(0, 20).map(str))
)
NAMES = st.builds(one, st.just("metadata.name"), st.sampled_from(["In", "NotIn"]), st.sampled_from(["n1", "n2"]))
TERMS = st.builds(
    lambda expressions, fields: term(*expressions, fields=fields),
    st.lists(EXPRESSIONS, max_size=3),
    st.lists(NAMES, max_size=2),
)


def holds(view: SelectorRequirement, facts: Mapping[str, str]) -> bool:
    """One requirement, read naively: from the words of the API, without compiling anything."""
    present, value = view.key in facts, facts.get(view.key, "")
    if view.operator in ("Gt", "Lt"):
        if not (present and value.isdigit()):
            return False
        return int(value) > int(view.values[0]) if view.operator == "Gt" else int(value) < int(view.values[0])
    return {
        "In": present and value in view.values,
        "NotIn": not present or value not in view.values,
        "Exists": present,
        "DoesNotExist": not present,
    }[view.operator]


@pytest.mark.req("T1.operators", "T1.terms")
@pytest.mark.level("u")
@given(st.lists(TERMS, max_size=3), st.dictionaries(KEYS, VALUES), st.booleans())
def test_agrees_with_a_naive_reading(terms: list[NodeSelectorTermView], labels: dict[str, str], named: bool) -> None:
    fields = NAMED if named else None
    naive = any(
        (view.match_expressions or view.match_fields)
        and all(holds(expression, labels) for expression in view.match_expressions)
        and (fields is None or all(holds(field, fields) for field in view.match_fields))
        for view in terms
    )
    assert node_selectors.node_selector_from_view(terms).matches(labels, fields=fields) is bool(naive)
