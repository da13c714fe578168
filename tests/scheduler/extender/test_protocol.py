"""The protocol's JSON, as Go writes and reads it."""

import json

import msgspec
import pytest

from mooring.scheduler.extender import protocol
from mooring.scheduler.extender.protocol import MalformedCall
from support.builders import node_body, pod_body

POD = pod_body(name="db", uid="u1", claims=["data"])


def body(**fields: object) -> bytes:
    return json.dumps({"Pod": POD} | fields).encode()


def args(**fields: object) -> protocol.ExtenderArgs:
    return protocol.decode_call(body(**fields), protocol.ExtenderArgs)


def as_json(message: protocol.ExtenderMessage | list[protocol.HostPriority]) -> object:
    return json.loads(protocol.encode_reply(message))


def test_nodes_by_name() -> None:
    nodes = protocol.Nodes(args(Nodes=None, NodeNames=["n1", "n2"]))
    assert nodes.names == ("n1", "n2")
    assert as_json(nodes.result(["n1"], {"n2": "full"}, {})) == {
        "Nodes": None,
        "NodeNames": ["n1"],
        "FailedNodes": {"n2": "full"},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def test_whole_nodes_go_back_as_they_came() -> None:
    strange = node_body(name="n1") | {"unheardOf": {"a": [1, 2.50]}}
    nodes = protocol.Nodes(args(Nodes={"metadata": {}, "items": [strange, node_body(name="n2")]}, NodeNames=None))
    assert nodes.names == ("n1", "n2")
    assert as_json(nodes.result(["n1"], {}, {"n2": "elsewhere"})) == {
        "Nodes": {"items": [strange]},
        "NodeNames": None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"n2": "elsewhere"},
        "Error": "",
    }


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"NodeNames": []}, id="no names"),
        pytest.param({"Nodes": {"items": None}}, id="Go's nil for a list"),
    ],
)
def test_no_nodes_are_nodes_too(fields: dict[str, object]) -> None:
    assert list(protocol.Nodes(args(**fields)).names) == []


def test_the_pod_is_read_as_it_is() -> None:
    pod = args(NodeNames=[]).pod
    assert (pod.key, pod.uid, pod.claim_keys) == ("default/db", "u1", ("default/data",))


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        pytest.param(b"", "Input data was truncated", id="nothing"),
        pytest.param(b"[]", "Expected `object`, got `array`", id="a list"),
        pytest.param(b"{}", "missing required field `Pod`", id="no pod"),
        pytest.param(b'{"Pod": null, "NodeNames": []}', "Expected `object`, got `null`", id="Go's nil for the pod"),
        pytest.param(b'{"Pod": {"spec": 1}, "NodeNames": []}', r"`\$\.Pod\.spec`", id="not a pod"),
        pytest.param(b"\xff\xfe", "malformed", id="not text"),
        pytest.param(b"[" * 100_000, "", id="nested beyond reason"),
    ],
)
def test_what_is_no_call_is_refused_in_words(raw: bytes, why: str) -> None:
    with pytest.raises(MalformedCall, match="^not a ExtenderArgs of the scheduler extender protocol v1: .*" + why):
        protocol.decode_call(raw, protocol.ExtenderArgs)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        pytest.param({}, "NodeNames or Nodes is required", id="no nodes at all"),
        pytest.param({"Nodes": {"items": [{"metadata": {}}]}}, "Nodes: a node without a name", id="nameless"),
        pytest.param({"Nodes": {"items": [7]}}, "Nodes: Expected `object`, got `int`", id="not a node"),
    ],
)
def test_nodes_that_are_none(fields: dict[str, object], why: str) -> None:
    with pytest.raises(MalformedCall, match=why):
        protocol.Nodes(args(**fields))


def test_scores() -> None:
    assert as_json([protocol.HostPriority("n1", 10)]) == [{"Host": "n1", "Score": 10}]


def test_bindings() -> None:
    raw = b'{"PodName": "db", "PodNamespace": "default", "PodUID": "u1", "Node": "n1"}'
    assert protocol.decode_call(raw, protocol.ExtenderBindingArgs) == protocol.ExtenderBindingArgs(
        "db", "default", "n1", "u1"
    )
    assert as_json(protocol.ExtenderBindingResult("no")) == {"Error": "no"}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(
            {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "v1"}], "NumPDBViolations": 2}, "n2": {"Pods": None}}},
            id="by uid",
        ),
        pytest.param(
            {
                "NodeNameToMetaVictims": None,
                "NodeNameToVictims": {
                    "n1": {"Pods": [pod_body(uid="v1")], "NumPDBViolations": 2},
                    "n2": {"Pods": [], "NumPDBViolations": 0},
                },
            },
            id="as whole pods",
        ),
    ],
)
def test_victims_in_either_form(fields: dict[str, object]) -> None:
    by_node = protocol.decode_call(body(**fields), protocol.ExtenderPreemptionArgs).by_node()
    answer = as_json(protocol.ExtenderPreemptionResult({"n1": by_node["n1"]}))
    assert answer == {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "v1"}], "NumPDBViolations": 2}}}
    assert not by_node["n2"].pods


def test_every_message_is_spelled_as_in_go() -> None:
    spelled = {
        protocol.ExtenderArgs: {"Pod", "Nodes", "NodeNames"},
        protocol.ExtenderFilterResult: {
            "Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error",
        },
        protocol.HostPriority: {"Host", "Score"},
        protocol.ExtenderBindingArgs: {"PodName", "PodNamespace", "PodUID", "Node"},
        protocol.ExtenderBindingResult: {"Error"},
        protocol.ExtenderPreemptionArgs: {"Pod", "NodeNameToVictims", "NodeNameToMetaVictims"},
        protocol.ExtenderPreemptionResult: {"NodeNameToMetaVictims"},
        protocol.Victims: {"Pods", "NumPDBViolations"},
        protocol.MetaVictims: {"Pods", "NumPDBViolations"},
        protocol.MetaPod: {"UID"},
    }  # fmt: skip
    for message, names in spelled.items():
        assert {field.encode_name for field in msgspec.structs.fields(message)} == names
