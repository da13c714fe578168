from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import selectors
from mooring.api.views.core import Node
from mooring.api.views.pods import Pod
from mooring.scheduler.snapshot.pod_terms import PodSelector
from mooring.scheduler.snapshot.snapshot import Snapshot
from support.builders import Body, a_claim, a_class, a_csi_node, a_node, a_pod
from support.builders.drivers import DRIVER

RESOURCES = ("pods", "cpu", "memory", "example.com/gpu")
WEB = PodSelector(selectors.parse_label_selector("app=web"), frozenset({"default"}))
AWAY_FROM_WEB: Body = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}
#: A pod that AWAY_FROM_WEB speaks of.
PROBE = a_pod(name="probe", labels={"app": "web"})


DISK: Body = {"name": "disk", "gcePersistentDisk": {"pdName": "shared"}}
#: A pod that every other with that disk is in the way of.
DISK_PROBE = a_pod(name="disk-probe", volumes=[DISK])
CLAIMS = ("c0", "c1")


def volumes_of(number: int) -> Body:
    """What a pod mounts cannot change, so it depends on which pod it is."""
    return {"claims": CLAIMS[:1], "volumes": [DISK]} if number else {"claims": CLAIMS}


def fresh() -> Snapshot:
    """Without nodes and pods, but with claims they can mount and limits on how many."""
    snapshot = Snapshot()
    snapshot.volumes.observe_class(None, a_class(name="made", provisioner=DRIVER))
    for name in CLAIMS:
        snapshot.volumes.observe_claim(None, a_claim(name=name, storage_class="made"))
    for name in ("n0", "n1", "n2"):
        snapshot.volumes.observe_csi_node(None, a_csi_node(name=name, limits={DRIVER: 5}))
    return snapshot


def portrait(snapshot: Snapshot) -> dict[str, Any]:
    """Everything a plugin can read, by node name: slots differ between two snapshots that say the same."""
    topology, columns = snapshot.topology, snapshot.resources
    forbidding = {
        (key, topology.name(slot), count)
        for key, tally in snapshot.pods.forbidding(PROBE)
        for slot, count in tally.counts.items()
    }
    web = snapshot.pods.matching(WEB)
    per_node = {}
    for name in topology.names(snapshot.nodes):
        slot = topology.slot(name)
        bit = 1 << slot
        per_node[name] = {
            "labels": dict(topology.labels(name)),
            "allocatable": [columns.allocatable(one)[slot] for one in RESOURCES],
            "requested": [columns.requested(one)[slot] for one in RESOURCES],
            "scored": (columns.scored_cpu[slot], columns.scored_memory[slot]),
            "unschedulable": bool(snapshot.unschedulable & bit),
            "taints": {taint for taint, nodes in snapshot.taints.items() if nodes & bit},
            "web": web.column(columns.width)[slot],
            "has web": bool(web.nodes & bit),
            "zone mates": set(topology.names(snapshot.domains.sharing("zone", bit))),
            "named": snapshot.names[slot],
            "volumes left": snapshot.volumes.limits.left(DRIVER)[slot],
            "has the disk": bool(snapshot.volumes.disk_conflicts(DISK_PROBE) & bit),
        }
    return {
        "nodes": per_node,
        "forbidding": forbidding,
        "bits of absent nodes": _bits_of_absent_nodes(snapshot),
        "claims in use": {name for name in CLAIMS if snapshot.volumes.in_use(f"default/{name}")},
    }


def _bits_of_absent_nodes(snapshot: Snapshot) -> int:
    """Marks left behind on slots that no node has; there must be none."""
    marked = snapshot.unschedulable | snapshot.pods.matching(WEB).nodes | snapshot.topology.having("zone")
    for nodes in dict(snapshot.taints.items()).values():
        marked |= nodes
    return marked & ~snapshot.nodes


def built_from(nodes: Mapping[str, Node], pods: Mapping[str, Pod], assumed: Mapping[str, str]) -> Snapshot:
    snapshot = fresh()
    for node in nodes.values():
        snapshot.observe_node(None, node)
    for pod in pods.values():
        snapshot.observe_pod(None, pod)
    for name, node in assumed.items():
        snapshot.assume(pods[name], node)
    return snapshot


NODE_NAMES = st.sampled_from(["n0", "n1", "n2"])
NODES = st.builds(
    lambda name, zone, cpu, gpu, tainted, cordoned: a_node(
        name=name,
        labels={"zone": zone} if zone else {},
        allocatable={"cpu": cpu} | ({"example.com/gpu": "2"} if gpu else {}),
        taints=[{"key": "t", "value": v, "effect": "NoSchedule"} for v in tainted],
        unschedulable=cordoned,
    ),
    NODE_NAMES,
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["1", "4"]),
    st.booleans(),
    st.lists(st.sampled_from(["x", "y"]), max_size=2),
    st.booleans(),
)
PODS = st.builds(
    lambda name, node, labels, cpu, affinity, phase, uid: a_pod(
        name=name,
        node=node,
        labels=labels,
        requests={"cpu": cpu, "example.com/gpu": "1"} if cpu else None,
        affinity=affinity,
        phase=phase,
        uid=f"{name}-{uid}",
        **volumes_of(uid),
    ),
    st.sampled_from(["p0", "p1", "p2"]),
    st.sampled_from(["", "n0", "n1", "n9"]),
    st.sampled_from([{}, {"app": "web"}]),
    st.sampled_from(["", "250m", "1"]),
    st.sampled_from([None, AWAY_FROM_WEB]),
    st.sampled_from(["Pending", "Running", "Succeeded"]),
    st.integers(0, 1),
)
STEPS = st.lists(
    st.one_of(
        NODES,
        PODS,
        st.tuples(st.just("delete node"), NODE_NAMES),
        st.tuples(st.just("delete pod"), st.sampled_from(["p0", "p1", "p2"])),
        st.tuples(st.just("assume"), st.sampled_from(["p0", "p1", "p2"]), NODE_NAMES),
        st.tuples(st.just("forget"), st.sampled_from(["p0", "p1", "p2"])),
    ),
    max_size=20,
)


@pytest.mark.req("T13.pods")
@given(STEPS, st.booleans())
def test_whatever_happened_it_equals_one_built_from_the_objects(steps: list[Any], asked_before: bool) -> None:
    snapshot = fresh()
    if asked_before:
        portrait(snapshot)
    nodes: dict[str, Node] = {}
    pods: dict[str, Pod] = {}
    assumed: dict[str, str] = {}
    for step in steps:
        match step:
            case Node() as node:
                snapshot.observe_node(nodes.get(node.name), node)
                nodes[node.name] = node
            case Pod() as pod:
                before = pods.get(pod.name)
                if before is not None and before.uid != pod.uid:
                    # As informers tell it: the old one goes, then the new one comes.
                    snapshot.observe_pod(before, None)
                    assumed.pop(pod.name, None)
                    before = None
                snapshot.observe_pod(before, pod)
                pods[pod.name] = pod
                if pod.spec.node_name or pod.finished:
                    assumed.pop(pod.name, None)
            case ("delete node", name):
                snapshot.observe_node(nodes.pop(name, None), None)
            case ("delete pod", name):
                if name in pods:
                    snapshot.observe_pod(pods.pop(name), None)
                assumed.pop(name, None)
            case ("assume", name, node):
                if name in pods and not pods[name].spec.node_name and not pods[name].finished:
                    snapshot.assume(pods[name], node)
                    assumed[name] = node
            case ("forget", name):
                if name in pods:
                    snapshot.forget(pods[name])
                assumed.pop(name, None)

    assert portrait(snapshot) == portrait(built_from(nodes, pods, assumed))


def test_pods_count_when_their_node_comes_later_and_again_when_it_comes_back() -> None:
    snapshot = Snapshot()
    snapshot.observe_pod(None, a_pod(node="n0", requests={"cpu": "1"}))
    for _ in range(2):
        snapshot.observe_node(None, a_node(name="n0"))
        assert snapshot.resources.requested("cpu")[snapshot.topology.slot("n0")] == 1000
        snapshot.observe_node(a_node(name="n0"), None)


@pytest.mark.req("T13.pods")
def test_an_assumed_pod_survives_news_about_its_status_and_is_confirmed_by_its_node() -> None:
    snapshot = Snapshot()
    snapshot.observe_node(None, a_node(name="n0"))
    pod = a_pod(requests={"cpu": "1"})
    snapshot.observe_pod(None, pod)
    snapshot.assume(pod, "n0")
    told = a_pod(requests={"cpu": "1"}, conditions=[{"type": "PodScheduled", "status": "False"}])
    snapshot.observe_pod(pod, told)
    assert snapshot.node_of(pod) == "n0"

    snapshot.observe_pod(told, a_pod(requests={"cpu": "1"}, node="n0"))
    snapshot.forget(pod)
    assert snapshot.node_of(pod) == "n0", "what is confirmed cannot be forgotten"


def test_a_pod_that_went_elsewhere_than_assumed_counts_there_only() -> None:
    snapshot = Snapshot()
    for name in ("n0", "n1"):
        snapshot.observe_node(None, a_node(name=name))
    pod = a_pod()
    snapshot.observe_pod(None, pod)
    snapshot.assume(pod, "n0")
    snapshot.observe_pod(pod, a_pod(node="n1"))

    counted = snapshot.resources.requested("pods")
    assert [counted[snapshot.topology.slot(name)] for name in ("n0", "n1")] == [0, 1]


def test_an_assumption_does_not_pass_to_another_pod_of_that_name() -> None:
    snapshot = Snapshot()
    snapshot.observe_node(None, a_node(name="n0"))
    snapshot.assume(a_pod(uid="old"), "n0")
    snapshot.observe_pod(None, a_pod(uid="new"))

    assert snapshot.node_of(a_pod(uid="new")) == ""
    assert snapshot.resources.requested("pods")[0] == 0


def test_what_cannot_be_understood_is_reported_and_takes_one_place() -> None:
    snapshot = Snapshot()
    assert "allocatable" in snapshot.observe_node(None, a_node(name="n0", allocatable={"cpu": "many"}))
    assert snapshot.observe_node(None, a_node(name="n0")) == ""
    problem = snapshot.observe_pod(None, a_pod(node="n0", requests={"cpu": "one core"}))

    assert "one core" in problem
    assert snapshot.resources.requested("pods")[0] == 1
    assert snapshot.resources.requested("cpu")[0] == 0


def test_names_are_a_value_that_later_changes_do_not_touch() -> None:
    snapshot = Snapshot()
    snapshot.observe_node(None, a_node(name="n0"))
    names = snapshot.names
    snapshot.observe_node(a_node(name="n0"), None)
    snapshot.observe_node(None, a_node(name="n1"))

    assert (names, snapshot.names) == (("n0",), ("n1",))
