"""Accessibility requirements: every row of the table in the module, every refusal, and what holds for all answers."""

import random
from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_class, a_node
from mooring.api.kinds import CSI_NODE
from mooring.api.views.node import Node
from mooring.api.views.storage import CsiNode
from mooring.csi.contract import AccessibilityRequirements
from mooring.provisioner.accessibility import Wish, requirements
from mooring.provisioner.attempt import Refusal, State
from mooring.provisioner.topology_terms import offset, ordered, term, within
from provisioner.paper_driver import DRIVER

ZONE = "zone"


def a_csi_node(name: str, keys: Sequence[str] | None) -> CsiNode:
    drivers = [] if keys is None else [{"name": DRIVER, "nodeID": name, "topologyKeys": list(keys)}]
    return CSI_NODE.decode(msgspec.json.encode({"metadata": {"name": name}, "spec": {"drivers": drivers}}))


class Paper:
    """Nodes by name with their labels; all have the driver with these keys unless said otherwise."""

    def __init__(self, nodes: Mapping[str, Mapping[str, str]], keys: Mapping[str, Sequence[str] | None]) -> None:
        self._nodes = {name: a_node(name=name, labels=labels) for name, labels in nodes.items()}
        self._csi_nodes = {name: a_csi_node(name, listed) for name, listed in keys.items()}

    def node(self, name: str) -> Node | None:
        return self._nodes.get(name)

    def nodes(self) -> list[Node]:
        return list(self._nodes.values())

    def csi_node(self, name: str) -> CsiNode | None:
        return self._csi_nodes.get(name)

    def csi_nodes(self) -> list[CsiNode]:
        return list(self._csi_nodes.values())


THREE = Paper(
    {"n1": {ZONE: "b"}, "n2": {ZONE: "a"}, "n3": {ZONE: "c"}, "n4": {ZONE: "b"}},
    {"n1": [ZONE], "n2": [ZONE], "n3": [ZONE], "n4": [ZONE]},
)


def ask(
    *,
    node: str = "",
    allowed: Sequence[Mapping[str, Sequence[str]]] = (),
    strict: bool = False,
    immediate: bool = True,
    claim: str = "claim",
    places: Paper = THREE,
    seed: int = 0,
) -> AccessibilityRequirements | Refusal | None:
    topologies = a_class(allowed_topologies=allowed).allowed_topologies
    wish = Wish(DRIVER, claim, topologies, node, strict, immediate)
    return requirements(wish, places, random.Random(seed))


def zones(found: AccessibilityRequirements | Refusal | None) -> tuple[str, str]:
    """requisite and preferred as letters."""
    assert isinstance(found, AccessibilityRequirements), found
    lists = (found.requisite, found.preferred)
    both = ["".join(each.segments[ZONE] for each in places) for places in lists]
    return both[0], both[1]


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        pytest.param({"node": "n1", "strict": True}, ("b", "b"), id="waits, strict: the node's own place"),
        pytest.param(
            {"node": "n1", "strict": True, "allowed": [{ZONE: ["a", "b"]}]},
            ("b", "b"),
            id="waits, strict, allowed there",
        ),
        pytest.param({"node": "n1"}, ("abc", "bca"), id="waits: all places, the node's first"),
        pytest.param({"node": "n2"}, ("abc", "abc"), id="waits: the node's is the first anyway"),
        pytest.param(
            {"node": "n1", "allowed": [{ZONE: ["c", "b"]}]}, ("bc", "bc"), id="waits, allowed: those, the node's first"
        ),
        pytest.param(
            {"node": "n3", "allowed": [{ZONE: ["c", "b"]}]}, ("bc", "cb"), id="waits, allowed: turned to the node"
        ),
        pytest.param(
            {"node": "n1", "immediate": False}, ("abc", "bca"), id="--immediate-topology is for immediate claims"
        ),
    ],
)
@pytest.mark.req("T18", "T18.selected-node")
def test_with_a_selected_node(asked: dict[str, object], want: tuple[str, str]) -> None:
    assert zones(ask(**asked)) == want  # type: ignore[arg-type]  # a row of keyword arguments


@pytest.mark.parametrize(
    "claim", [pytest.param("claim", id="a plain name"), pytest.param("data-web-1", id="a StatefulSet's claim")]
)
@pytest.mark.parametrize(
    ("allowed", "among"),
    [pytest.param([], "abc", id="all places"), pytest.param([{ZONE: ["c", "a"]}], "ac", id="the allowed places")],
)
@pytest.mark.req("T18.immediate")
def test_without_a_node_the_name_decides_where_to_begin(
    claim: str, allowed: list[dict[str, list[str]]], among: str
) -> None:
    start = offset(claim) % len(among)
    assert zones(ask(claim=claim, allowed=allowed)) == (among, among[start:] + among[:start])


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"immediate": False}, id="immediate claims without --immediate-topology"),
        pytest.param({"allowed": [{}]}, id="allowed topologies that allow nothing in particular"),
        pytest.param({"allowed": [{}], "node": "n1"}, id="the same with a node"),
    ],
)
def test_nothing_is_asked_for(asked: dict[str, object]) -> None:
    assert ask(**asked) is None  # type: ignore[arg-type]  # a row of keyword arguments


def test_allowed_topologies_count_even_without_immediate_topology() -> None:
    assert zones(ask(immediate=False, allowed=[{ZONE: ["b"]}])) == ("b", "b")


GAPS = Paper(
    {"bare": {}, "whole": {ZONE: "a"}, "no-driver": {ZONE: "b"}, "no-keys": {ZONE: "b"}},
    {"bare": [ZONE], "whole": [ZONE], "no-driver": None, "no-keys": [], "no-node": [ZONE]},
)


@pytest.mark.parametrize(
    ("asked", "state", "said"),
    [
        pytest.param(
            {"node": "gone"}, State.RESCHEDULE, 'CSINode for selected node "gone"', id="the node has no CSINode"
        ),
        pytest.param(
            {"node": "no-driver"}, State.NO_CHANGE, "no topology key found for node no-driver", id="no driver there"
        ),
        pytest.param(
            {"node": "no-keys"}, State.NO_CHANGE, "no topology key found for node no-keys", id="a driver without keys"
        ),
        pytest.param({"node": "no-node"}, State.NO_CHANGE, '"no-node" not found', id="a CSINode without its Node"),
        pytest.param({"node": "bare"}, State.NO_CHANGE, "lacks the topology labels zone", id="a label is missing"),
        pytest.param(
            {"node": "whole", "strict": True, "allowed": [{ZONE: ["z"]}]},
            State.NO_CHANGE,
            "is not in allowed topologies: [{zone: z}]",
            id="strict, and the class does not allow the node",
        ),
        pytest.param(
            {"node": "whole", "allowed": [{ZONE: ["z"]}]},
            State.NO_CHANGE,
            "is not in requisite: [{zone: z}]",
            id="not strict, and the class does not allow the node",
        ),
    ],
)
@pytest.mark.req("T17.vanished-node")
def test_refusals(asked: dict[str, object], state: State, said: str) -> None:
    found = ask(places=GAPS, **asked)  # type: ignore[arg-type]  # a row of keyword arguments
    assert isinstance(found, Refusal)
    assert found.state is state
    assert found.text.startswith("error generating accessibility requirements: ")
    assert said in found.text


@pytest.mark.parametrize(
    ("places", "said"),
    [
        pytest.param(Paper({"n": {ZONE: "a"}}, {}), "no available topology found", id="no node has the driver"),
        pytest.param(
            Paper({"n": {}}, {"n": [ZONE]}), "no node has all topology labels zone", id="no node has the label"
        ),
    ],
)
def test_immediate_claims_need_some_place(places: Paper, said: str) -> None:
    found = ask(places=places)
    assert isinstance(found, Refusal)
    assert said in found.text


_places = st.dictionaries(
    st.sampled_from([f"n{i}" for i in range(6)]),
    st.fixed_dictionaries({"zone": st.sampled_from("abc"), "rack": st.sampled_from("xy")}),
    min_size=1,
)


@given(_places, st.data())
def test_preferred_is_requisite_in_another_order_and_begins_at_the_node(
    nodes: dict[str, dict[str, str]], data: st.DataObject
) -> None:
    places = Paper(nodes, {name: ["zone", "rack"] for name in nodes})
    node = data.draw(st.sampled_from(["", *sorted(nodes)]))
    found = ask(node=node, places=places, claim=data.draw(st.sampled_from(["a", "b-1", "c-d-2"])))
    assert isinstance(found, AccessibilityRequirements)
    required = [term(each.segments) for each in found.requisite]
    preferred = [term(each.segments) for each in found.preferred]
    assert tuple(required) == ordered(required)
    assert sorted(preferred) == sorted(required)
    if node:
        assert within(preferred[0], term(nodes[node]))


@given(_places, st.integers(0, 5))
def test_what_is_drawn_does_not_depend_on_the_order_nodes_became_known(
    nodes: dict[str, dict[str, str]], seed: int
) -> None:
    keys = {name: (["zone"] if i % 2 else ["zone", "rack"]) for i, name in enumerate(sorted(nodes))}
    turned = dict(reversed(nodes.items()))
    assert ask(places=Paper(nodes, keys), seed=seed) == ask(
        places=Paper(turned, {name: keys[name] for name in turned}), seed=seed
    )
