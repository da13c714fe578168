"""Accessibility requirements: every row of the table in the module, every refusal, and what holds for all answers.

Terms: order, products, rotation and the hash, against values worked out from external-provisioner's rules.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.kinds import CSI_NODE
from mooring.api.views.core import Node
from mooring.api.views.storage import CsiNode
from mooring.csi.contract import AccessibilityRequirements
from mooring.provisioner.provision.topology import (
    CachedTopologySource,
    Term,
    TopologyRequest,
    TopologySource,
    abridged,
    flattened,
    fnv1_32,
    offset,
    ordered,
    requirements,
    rotated,
    term,
    unabridged,
    within,
)
from mooring.provisioner.settings import ProvisioningFailure, ProvisioningState
from support.builders import a_class, a_node
from support.csi_drivers.recording import DRIVER

ZONE = "zone"
V = TypeVar("V")


def a_csi_node(name: str, keys: Sequence[str] | None) -> CsiNode:
    drivers = [] if keys is None else [{"name": DRIVER, "nodeID": name, "topologyKeys": list(keys)}]
    return CSI_NODE.decode(msgspec.json.encode({"metadata": {"name": name}, "spec": {"drivers": drivers}}))


class FakeLookup(dict[str, V]):
    def items(self) -> list[V]:  # type: ignore[override]
        return list(self.values())


def fake_topology(nodes: Mapping[str, Mapping[str, str]], keys: Mapping[str, Sequence[str] | None]) -> TopologySource:
    """Nodes by name with their labels, and the topology keys of the driver in their CSINodes."""
    return TopologySource(
        FakeLookup({name: a_node(name=name, labels=labels) for name, labels in nodes.items()}),
        FakeLookup({name: a_csi_node(name, listed) for name, listed in keys.items()}),
    )


THREE = fake_topology(
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
    places: TopologySource = THREE,
    seed: int = 0,
) -> AccessibilityRequirements | ProvisioningFailure | None:
    topologies = a_class(allowed_topologies=allowed).allowed_topologies
    wish = TopologyRequest(DRIVER, claim, topologies, node, strict, immediate)
    try:
        return requirements(wish, places, random.Random(seed))
    except ProvisioningFailure as failure:
        return failure


def zones(found: AccessibilityRequirements | ProvisioningFailure | None) -> tuple[str, str]:
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
@pytest.mark.req("T18.selected-node")
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


def test_allowed_topologies_apply_without_immediate_topology() -> None:
    assert zones(ask(immediate=False, allowed=[{ZONE: ["b"]}])) == ("b", "b")


GAPS = fake_topology(
    {"bare": {}, "whole": {ZONE: "a"}, "no-driver": {ZONE: "b"}, "no-keys": {ZONE: "b"}},
    {"bare": [ZONE], "whole": [ZONE], "no-driver": None, "no-keys": [], "no-node": [ZONE]},
)


@pytest.mark.parametrize(
    ("asked", "state", "text"),
    [
        pytest.param(
            {"node": "gone"},
            ProvisioningState.RESCHEDULE,
            'CSINode for selected node "gone"',
            id="the node has no CSINode",
        ),
        pytest.param(
            {"node": "no-driver"},
            ProvisioningState.NO_CHANGE,
            "no topology key found for node no-driver",
            id="no driver there",
        ),
        pytest.param(
            {"node": "no-keys"},
            ProvisioningState.NO_CHANGE,
            "no topology key found for node no-keys",
            id="a driver without keys",
        ),
        pytest.param(
            {"node": "no-node"}, ProvisioningState.NO_CHANGE, '"no-node" not found', id="a CSINode without its Node"
        ),
        pytest.param(
            {"node": "bare"}, ProvisioningState.NO_CHANGE, "lacks the topology labels zone", id="a label is missing"
        ),
        pytest.param(
            {"node": "whole", "strict": True, "allowed": [{ZONE: ["z"]}]},
            ProvisioningState.NO_CHANGE,
            "is not in allowed topologies: [{zone: z}]",
            id="strict, and the class does not allow the node",
        ),
        pytest.param(
            {"node": "whole", "allowed": [{ZONE: ["z"]}]},
            ProvisioningState.NO_CHANGE,
            "is not in requisite: [{zone: z}]",
            id="not strict, and the class does not allow the node",
        ),
    ],
)
@pytest.mark.req("T17.vanished-node")
def test_refusals(asked: dict[str, object], state: ProvisioningState, text: str) -> None:
    found = ask(places=GAPS, **asked)  # type: ignore[arg-type]  # a row of keyword arguments
    assert isinstance(found, ProvisioningFailure)
    assert found.state is state
    assert found.text.startswith("error generating accessibility requirements: ")
    assert text in found.text


@pytest.mark.parametrize(
    ("places", "text"),
    [
        pytest.param(fake_topology({"n": {ZONE: "a"}}, {}), "no available topology found", id="no node has the driver"),
        pytest.param(
            fake_topology({"n": {}}, {"n": [ZONE]}), "no node has all topology labels zone", id="no node has the label"
        ),
    ],
)
def test_immediate_claims_need_some_place(places: TopologySource, text: str) -> None:
    found = ask(places=places)
    assert isinstance(found, ProvisioningFailure)
    assert text in found.text


_places = st.dictionaries(
    st.sampled_from([f"n{i}" for i in range(6)]),
    st.fixed_dictionaries({"zone": st.sampled_from("abc"), "rack": st.sampled_from("xy")}),
    min_size=1,
)


@given(_places, st.data())
def test_preferred_is_requisite_rotated_to_the_node(nodes: dict[str, dict[str, str]], data: st.DataObject) -> None:
    places = fake_topology(nodes, {name: ["zone", "rack"] for name in nodes})
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
def test_draw_is_independent_of_node_order(nodes: dict[str, dict[str, str]], seed: int) -> None:
    keys = {name: (["zone"] if i % 2 else ["zone", "rack"]) for i, name in enumerate(sorted(nodes))}
    turned = dict(reversed(nodes.items()))
    assert ask(places=fake_topology(nodes, keys), seed=seed) == ask(
        places=fake_topology(turned, {name: keys[name] for name in turned}), seed=seed
    )


A = (("zone", "a"),)
B = (("zone", "b"),)
RACK = (("rack", "r1"), ("zone", "a"))


@pytest.mark.parametrize(
    ("allowed", "want"),
    [
        pytest.param([], (), id="nothing allowed explicitly"),
        pytest.param([{}], (), id="a term without expressions adds nothing"),
        pytest.param([{"zone": ["a", "b"]}], (A, B), id="values of one key are alternatives"),
        pytest.param([{"zone": ["a"]}, {"zone": ["b"]}], (A, B), id="terms are alternatives"),
        pytest.param(
            [{"zone": ["a", "b"], "rack": ["r1", "r2"]}],
            tuple((("rack", rack), ("zone", zone)) for zone in "ab" for rack in ("r1", "r2")),
            id="keys of one term multiply",
        ),
    ],
)
@pytest.mark.req("T18.allowed-topologies")
def test_allowed_topologies_are_flattened(allowed: list[dict[str, list[str]]], want: tuple[Term, ...]) -> None:
    assert flattened(a_class(allowed_topologies=allowed).allowed_topologies) == want


@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param([B, A, B], (A, B), id="sorted, each once"),
        pytest.param([RACK, B], (B, RACK), id="shorter terms first"),
        pytest.param([(("b", "1"),), (("a", "2"),)], ((("a", "2"),), (("b", "1"),)), id="keys before values"),
    ],
)
def test_order(terms: list[Term], want: tuple[Term, ...]) -> None:
    assert ordered(terms) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", 2166136261, id="nothing is the offset"),
        pytest.param("a", 0x050C5D7E, id="one letter"),
        pytest.param("foobar", 0x31F0B262, id="the published value for foobar"),
    ],
)
def test_hash_is_fnv_1_and_not_1a(text: str, want: int) -> None:
    assert fnv1_32(text) == want


@pytest.mark.parametrize(
    ("name", "hashed", "index"),
    [
        pytest.param("data-web-2", "web", 2, id="a StatefulSet's claim hashes the set's name"),
        pytest.param("log-web-2", "web", 2, id="another claim of the same pod lands alike"),
        pytest.param("web-7", "web", 7, id="one dash"),
        pytest.param("web", "web", 0, id="no dash"),
        pytest.param("web-x", "web-x", 0, id="no number at the end"),
        pytest.param("web-4294967296", "web-4294967296", 0, id="a number beyond 32 bits is no number"),
        pytest.param("web-4294967295", "web", 4294967295, id="the largest number wraps around"),
        pytest.param("web-", "web-", 0, id="nothing after the dash"),
        pytest.param("web-²", "web-²", 0, id="digits are ASCII digits"),
        pytest.param("a-b-c-3", "c", 3, id="only what follows the last dash of the stem"),
    ],
)
def test_where_a_claim_begins(name: str, hashed: str, index: int) -> None:
    assert offset(name) == (fnv1_32(hashed) + index) % 2**32


def test_claims_of_one_set_take_turns() -> None:
    places = ordered((("zone", zone),) for zone in "abc")
    firsts = [rotated(places, offset(f"data-web-{i}"))[0] for i in range(6)]
    assert len(set(firsts[:3])) == 3
    assert firsts[:3] == firsts[3:]


_terms = st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), min_size=1).map(term), min_size=1)


@given(_terms, st.integers(0, 2**32 - 1))
def test_rotation_loses_nothing(terms: list[Term], by: int) -> None:
    places = ordered(terms)
    turned = rotated(places, by)
    assert sorted(turned) == sorted(places)
    assert turned[0] == places[by % len(places)]


@given(_terms)
def test_term_is_within_itself_and_empty_term_within_all(terms: list[Term]) -> None:
    assert all(within(each, each) and within((), each) for each in terms)


@given(_places, st.data())
def test_abridged_requirement_is_completed_again(nodes: dict[str, dict[str, str]], data: st.DataObject) -> None:
    places = fake_topology(nodes, {name: ["zone", "rack"] for name in nodes})
    found = ask(node=data.draw(st.sampled_from(["", *sorted(nodes)])), places=places)
    assert isinstance(found, AccessibilityRequirements)
    short = abridged(found)
    assert (len(short.requisite), len(short.preferred)) == (1, 1)
    assert unabridged(short, places) == found


def test_completed_requirement_keeps_the_first_segment_when_its_node_is_gone() -> None:
    found = ask(node="n3")
    assert isinstance(found, AccessibilityRequirements)
    left = fake_topology({"n1": {ZONE: "b"}, "n2": {ZONE: "a"}}, {"n1": [ZONE], "n2": [ZONE]})
    completed = unabridged(abridged(found), left)
    assert [each.segments[ZONE] for each in completed.preferred] == ["c", "a", "b"]
    assert [each.segments[ZONE] for each in completed.requisite] == ["a", "b", "c"]


class NodesWithHandlers(FakeLookup[Node]):
    """Counts the scans of all nodes."""

    scans = 0

    def items(self) -> list[Node]:  # type: ignore[override]
        self.scans += 1
        return super().items()

    def on_change(self, handler: Callable[[Node | None, Node | None], None]) -> None:
        self._handler = handler

    def put(self, after: Node) -> None:
        before = self.get(after.name)
        self[after.name] = after
        self._handler(before, after)


def test_nodes_are_scanned_again_only_after_their_labels_change() -> None:
    nodes = NodesWithHandlers()
    places = CachedTopologySource(nodes, THREE.csi_nodes)
    nodes.put(a_node(name="n1", labels={ZONE: "a"}))

    def zones() -> list[str]:
        return [each.segments[ZONE] for each in places.segments((ZONE,)).topologies]

    assert zones() == zones() == ["a"]
    nodes.put(a_node(name="n1", labels={ZONE: "a"}, ready=False))
    assert zones() == ["a"]
    assert nodes.scans == 1
    nodes.put(a_node(name="n2", labels={ZONE: "b"}))
    assert zones() == ["a", "b"]
    nodes.put(a_node(name="n2", labels={ZONE: "c"}))
    assert zones() == ["a", "c"]
    assert nodes.scans == 3
