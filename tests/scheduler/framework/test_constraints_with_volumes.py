"""A pod's other constraints together with its volumes: only a node that both allow is chosen, and where there is none,
each node is counted with what speaks against it.
"""

import random

import pytest

from mooring.api import well_known
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.interface import CycleState, Decision
from mooring.scheduler.registry import DEFAULT
from support.builders import Body, a_claim, a_class, a_node, a_pod, a_volume
from support.scheduler.snapshots import a_snapshot


def required(kind: str, rule: object) -> Body:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": rule}}}


def near(app: str) -> list[Body]:
    return [{"topologyKey": well_known.HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}]


NOT_FIRST = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["red"]}]}]}
EVENLY: Body = {
    "maxSkew": 1,
    "topologyKey": well_known.HOSTNAME,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "even"}},
}
#: Every node offers room for one, and the first has something against each of the pods below.
NODES = (
    a_node(name="first", labels={"pool": "red"}, taints=[{"key": "kept", "effect": "NoSchedule"}]),
    a_node(name="second", labels={"pool": "blue"}),
    a_node(name="third", labels={"pool": "blue"}),
)
PLAIN = (a_node(name="first", labels={"pool": "red"}), *NODES[1:])
BUSY = a_pod(name="busy", node="first", requests={"cpu": "4"}, labels={"app": "foe"})
FRIENDS = tuple(a_pod(name=f"friend-{n}", node=n, labels={"app": "friend"}) for n in ("second", "third"))
RUNNING_REPLICA = a_pod(name="twin", node="first", labels={"app": "even"})
LISTENER = a_pod(name="listener", node="first", containers=[{"name": "m", "ports": [{"hostPort": 80}]}])

CONSTRAINTS = [
    pytest.param(
        {"requests": {"cpu": "1"}},
        PLAIN,
        (BUSY,),
        "Insufficient cpu",
        id="resource requests",
        marks=pytest.mark.req("T21.resources"),
    ),
    pytest.param(
        {"node_selector": {"pool": "blue"}},
        PLAIN,
        (),
        "node(s) didn't match Pod's node affinity/selector",
        id="selector",
        marks=pytest.mark.req("T21.node-selector"),
    ),
    pytest.param(
        required("nodeAffinity", NOT_FIRST),
        PLAIN,
        (),
        "node(s) didn't match Pod's node affinity/selector",
        id="node affinity",
        marks=pytest.mark.req("T21.node-affinity"),
    ),
    pytest.param({}, NODES, (), "node(s) had untolerated taint(s)", id="taints", marks=pytest.mark.req("T21.taints")),
    pytest.param(
        required("podAffinity", near("friend")),
        PLAIN,
        FRIENDS,
        "node(s) didn't match pod affinity rules",
        id="affinity",
        marks=pytest.mark.req("T21.pod-affinity"),
    ),
    pytest.param(
        required("podAntiAffinity", near("foe")),
        PLAIN,
        (BUSY,),
        "node(s) didn't match pod anti-affinity rules",
        id="anti-affinity",
        marks=pytest.mark.req("T21.pod-anti-affinity"),
    ),
    pytest.param(
        {"labels": {"app": "even"}, "topology_spread": [EVENLY]},
        PLAIN,
        (RUNNING_REPLICA,),
        "node(s) didn't match pod topology spread constraints",
        id="topology spread",
        marks=pytest.mark.req("T21.topology-spread"),
    ),
    pytest.param(
        {"containers": [{"name": "m", "ports": [{"hostPort": 80}]}]},
        PLAIN,
        (LISTENER,),
        "node(s) didn't have free ports for the requested pod ports",
        id="host ports",
        marks=pytest.mark.req("T21.host-ports"),
    ),
]


def decided(pod: Body, nodes: tuple[object, ...], others: tuple[object, ...], *with_volume: str) -> Decision:
    """A pod with two claims, bound late; these nodes have a volume for each."""
    claims = [a_claim(name=name) for name in ("a", "b")]
    volumes = [a_volume(name=f"{node}-{number}", node=node) for node in with_volume for number in (1, 2)]
    snapshot = a_snapshot(*nodes, *others, a_class(name="local"), *claims, *volumes)  # type: ignore[arg-type]
    return cycle.run_cycle(CycleState(a_pod(claims=["a", "b"], **pod), snapshot), DEFAULT, random.Random(0))


@pytest.mark.parametrize(("pod", "nodes", "others", "reason"), CONSTRAINTS)
def test_the_node_that_both_allow_is_chosen(
    pod: Body, nodes: tuple[object, ...], others: tuple[object, ...], reason: str
) -> None:
    assert decided(pod, nodes, others, "first", "second").node == "second"


@pytest.mark.req("T21.texts")
@pytest.mark.parametrize(("pod", "nodes", "others", "reason"), CONSTRAINTS)
def test_where_they_never_agree_each_node_is_counted_with_its_reason(
    pod: Body, nodes: tuple[object, ...], others: tuple[object, ...], reason: str
) -> None:
    decision = decided(pod, nodes, others, "first")
    told = sorted([f"1 {reason}", "2 node(s) didn't find available persistent volumes to bind"])
    assert cycle.fit_error(decision) == f"0/3 nodes are available: {', '.join(told)}."
