"""Set algebra over inverted labels must say what looking at every node would say."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import node_selectors
from mooring.api.node_selectors import NodeSelector
from mooring.api.views.meta import NodeSelectorTermView, SelectorRequirement
from mooring.api.views.storage import TopologyRequirement, TopologyTerm
from mooring.volumes import topology
from mooring.volumes.topology import NodeChange, TopologyIndex


@pytest.mark.parametrize(
    "slots",
    [
        pytest.param([], id="no node"),
        pytest.param([0], id="the first slot"),
        pytest.param([7, 8, 63, 64, 200], id="across bytes and words"),
    ],
)
def test_a_set_gives_back_its_slots_and_equals_its_mask(slots: list[int]) -> None:
    nodes = topology.node_set_of(slots)
    mask = np.zeros(201, dtype=np.bool_)
    mask[slots] = True

    assert list(topology.slots_of(nodes)) == slots
    assert topology.node_set_from_mask(mask) == nodes


KEYS = ("zone", "rack", "size", "foo.example/bar")
VALUES = ("a", "b", "1", "2", "-5", "")
NAMES = tuple(f"node-{number}" for number in range(6))

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)

Term = tuple[str, str, list[str]]


def selector(*terms: list[Term], fields: list[Term] | None = None) -> NodeSelector:
    """A selector from terms of (key, operator, values); `fields` go into the first term."""
    views = [NodeSelectorTermView(match_expressions=_requirements(term)) for term in terms]
    if fields is not None:
        first = views[0] if views else NodeSelectorTermView()
        views[:1] = [NodeSelectorTermView(first.match_expressions, _requirements(fields))]
    return node_selectors.node_selector_from_view(views)


def _requirements(rows: list[Term]) -> tuple[SelectorRequirement, ...]:
    return tuple(SelectorRequirement(key, operator, tuple(values)) for key, operator, values in rows)


@st.composite
def expressions(draw: st.DrawFn) -> Term:
    operator = draw(st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near")))
    count = {"Exists": 0, "DoesNotExist": 0, "Gt": 1, "Lt": 1}.get(operator, draw(st.integers(0, 3)))
    values = draw(st.lists(st.sampled_from(VALUES), min_size=count, max_size=count))
    return draw(st.sampled_from(KEYS)), operator, values


@st.composite
def field_expressions(draw: st.DrawFn) -> Term:
    operator = draw(st.sampled_from(("In", "NotIn", "Exists")))
    return "metadata.name", operator, [draw(st.sampled_from(NAMES))]


@st.composite
def selectors(draw: st.DrawFn) -> NodeSelector:
    terms = draw(st.lists(st.lists(expressions(), max_size=3), max_size=3))
    fields = draw(st.none() | st.lists(field_expressions(), max_size=2))
    return selector(*terms, fields=fields)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, dict[str, str] | None]]:
    """Nodes that come, are relabelled, and (with None) go."""
    return draw(st.lists(st.tuples(st.sampled_from(NAMES), st.none() | labels), max_size=12))


def built(history: list[tuple[str, dict[str, str] | None]]) -> tuple[TopologyIndex, dict[str, dict[str, str]]]:
    topology, nodes = TopologyIndex(), dict[str, dict[str, str]]()
    for name, given_labels in history:
        if given_labels is None:
            topology.remove(name)
            nodes.pop(name, None)
        else:
            topology.put(name, given_labels)
            nodes[name] = given_labels
    return topology, nodes


@pytest.mark.req("T1.index")
@pytest.mark.level("u")
@given(histories(), st.lists(selectors(), min_size=1, max_size=3), st.tuples(st.sampled_from(NAMES), labels))
def test_selectors_match_as_on_each_node(
    history: list[tuple[str, dict[str, str] | None]],
    asked: list[NodeSelector],
    later: tuple[str, dict[str, str]],
) -> None:
    topology, nodes = built(history)
    assert_matching_is_exact(topology, nodes, asked)

    topology.put(*later)  # what was remembered must not outlive a change

    assert_matching_is_exact(topology, nodes | {later[0]: later[1]}, asked)


@pytest.mark.req("T1.index")
@pytest.mark.level("u")
def test_a_relabelled_node_leaves_its_old_labels() -> None:
    topology, _ = built([("node-1", {"zone": "a", "rack": "1"}), ("node-1", {"zone": "b"})])
    old, new = selector([("zone", "In", ["a"])]), selector([("zone", "In", ["b"])])
    assert topology.matching(old) == topology.matching(selector([("rack", "Exists", [])])) == 0
    assert topology.matching(new) == topology.all


def assert_matching_is_exact(
    topology: TopologyIndex, nodes: dict[str, dict[str, str]], asked: list[NodeSelector]
) -> None:
    for one in asked:
        matched = {name for name, have in nodes.items() if one.matches(have, fields={"metadata.name": name})}
        assert set(topology.names(topology.matching(one))) == matched


@pytest.mark.req("T1.operators", "T1.terms")
@pytest.mark.level("u")
@pytest.mark.parametrize(
    ("asked", "want"),
    [
        pytest.param(
            None, {"a1", "a2", "b1"}, id="no selector is every node", marks=pytest.mark.req("T1.no-restriction")
        ),
        pytest.param(selector(), set(), id="no terms match nothing"),
        pytest.param(selector([]), set(), id="an empty term matches nothing"),
        pytest.param(selector([], [("zone", "In", ["b"])]), {"b1"}, id="an empty term does not hide the others"),
        pytest.param(selector([("zone", "In", ["b"])], [("rack", "In", ["1"])]), {"a1", "b1"}, id="terms are ORed"),
        pytest.param(selector([("zone", "In", ["a"]), ("rack", "In", ["2"])]), {"a2"}, id="expressions are ANDed"),
        pytest.param(selector([("zone", "In", ["a", "b", "c"])]), {"a1", "a2", "b1"}, id="In is any of the values"),
        pytest.param(selector([("rack", "NotIn", ["1"])]), {"a2", "b1"}, id="NotIn also takes nodes without the key"),
        pytest.param(selector([("rack", "Exists", [])]), {"a1", "a2"}, id="Exists"),
        pytest.param(selector([("rack", "DoesNotExist", [])]), {"b1"}, id="DoesNotExist"),
        pytest.param(selector([("rack", "Gt", ["1"])]), {"a2"}, id="Gt compares numbers"),
        pytest.param(selector([("rack", "Lt", ["10"])]), {"a1", "a2"}, id="Lt compares numbers, not texts"),
        pytest.param(selector([("zone", "Gt", ["1"])]), set(), id="Gt needs a number on the node"),
        pytest.param(selector([("zone", "Near", ["a"])]), set(), id="an unknown operator matches nothing"),
        pytest.param(
            selector([("zone", "In", ["a"])], fields=[("metadata.name", "In", ["a2"])]), {"a2"}, id="fields narrow"
        ),
        pytest.param(selector(fields=[("metadata.name", "NotIn", ["a2"])]), {"a1", "b1"}, id="fields alone"),
    ],
)
def test_matching(asked: NodeSelector | None, want: set[str]) -> None:
    topology = TopologyIndex()
    topology.put("a1", {"zone": "a", "rack": "1"})
    topology.put("a2", {"zone": "a", "rack": "2"})
    topology.put("b1", {"zone": "b"})

    assert set(topology.names(topology.matching(asked))) == want


def test_a_term_of_fields_alone_matches_the_nodes_it_names() -> None:
    topology = TopologyIndex()
    topology.put("a", {})
    topology.put("b", {})

    asked = selector(fields=[("metadata.name", "In", ["a"])])

    assert topology.matching(asked) == topology.named("a")


@pytest.mark.req("T4.semantics")
@pytest.mark.level("u")
@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param([], {"a1", "a2", "b1"}, id="no terms restrict nothing"),
        pytest.param([{"zone": ["a"]}], {"a1", "a2"}, id="one zone"),
        pytest.param([{"zone": ["a", "b"]}], {"a1", "a2", "b1"}, id="values are ORed"),
        pytest.param([{"zone": ["a"], "rack": ["2"]}], {"a2"}, id="expressions are ANDed"),
        pytest.param([{"zone": ["b"]}, {"rack": ["1"]}], {"a1", "b1"}, id="terms are ORed"),
        pytest.param([{}], set(), id="an empty term allows nothing"),
        pytest.param([{"zone": []}], set(), id="a term without values allows nothing"),
        pytest.param([{"zone": []}, {"zone": ["b"]}], {"b1"}, id="a broken term does not hide the others"),
    ],
)
def test_allowed_topologies(terms: list[dict[str, list[str]]], want: set[str]) -> None:
    topology = TopologyIndex()
    topology.put("a1", {"zone": "a", "rack": "1"})
    topology.put("a2", {"zone": "a", "rack": "2"})
    topology.put("b1", {"zone": "b"})
    views = [TopologyTerm(tuple(TopologyRequirement(k, tuple(v)) for k, v in term.items())) for term in terms]

    assert set(topology.names(topology.allowed(node_selectors.topologies_from_view(views)))) == want


@given(histories())
def test_slots_are_stable_and_dense(history: list[tuple[str, dict[str, str] | None]]) -> None:
    topology = TopologyIndex()
    slots: dict[str, int] = {}
    most = 0
    for name, given_labels in history:
        if given_labels is None:
            topology.remove(name)
            slots.pop(name, None)
        else:
            topology.put(name, given_labels)
            slots.setdefault(name, topology.slot(name))
        most = max(most, len(slots))
        assert {name: topology.slot(name) for name in slots} == slots
        assert len(set(slots.values())) == len(slots) == len(topology) == topology.all.bit_count()
        assert set(topology.names(topology.all)) == set(slots)
        assert topology.width <= most


@pytest.mark.parametrize(
    ("act", "moves"),
    [
        pytest.param(lambda t: t.put("a", {"zone": "a"}), False, id="the same labels again"),
        pytest.param(lambda t: t.remove("unknown"), False, id="an unknown node goes"),
        pytest.param(lambda t: t.put("a", {"zone": "b"}), True, id="a label changes"),
        pytest.param(lambda t: t.put("a", {}), True, id="a label goes"),
        pytest.param(lambda t: t.put("b", {}), True, id="a node comes"),
        pytest.param(lambda t: t.remove("a"), True, id="a node goes"),
    ],
)
def test_the_version_moves_with_labels_and_membership_only(act: Callable[[TopologyIndex], None], moves: bool) -> None:
    topology = TopologyIndex()
    topology.put("a", {"zone": "a"})
    before = topology.version

    act(topology)

    assert (topology.version != before) is moves


def test_followers_are_called_after_the_change() -> None:
    topology = TopologyIndex()
    heard: list[tuple[NodeChange, bool]] = []
    topology.follow(lambda change: heard.append((change, change.name in topology)))

    topology.put("a", {"zone": "a"})
    topology.put("a", {"zone": "b"})
    topology.remove("a")

    assert heard == [
        (NodeChange("a", 0, None, {"zone": "a"}), True),
        (NodeChange("a", 0, {"zone": "a"}, {"zone": "b"}), True),
        (NodeChange("a", 0, {"zone": "b"}, None), False),
    ]


def test_labels_are_copied() -> None:
    topology, mine = TopologyIndex(), {"zone": "a"}
    topology.put("a", mine)

    mine["zone"] = "b"

    assert topology.labels("a") == {"zone": "a"}
