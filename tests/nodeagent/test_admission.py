"""What a node refuses for good: pods that do not belong there, and pods there is no room for."""

from typing import Any

import pytest

from mooring.api.views.pods import Pod
from mooring.nodeagent.admission import NodeAllocations, admit
from support.builders import Body, a_node, a_pod

NODE = a_node(name="node-1", zone="a", allocatable={"cpu": "2", "memory": "1Gi", "pods": "2", "example.com/disk": "1"})
NEIGHBOUR = a_pod(name="neighbour", node="node-1", requests={"cpu": "1500m", "memory": "100Mi"})


@pytest.mark.parametrize(
    ("given", "others", "want"),
    [
        pytest.param({}, [], None, id="a pod that asks for nothing"),
        pytest.param({"requests": {"cpu": "2", "memory": "1Gi"}}, [], None, id="exactly what there is"),
        pytest.param({"requests": {"cpu": "500m"}}, [NEIGHBOUR], None, id="exactly what is left"),
        pytest.param(
            {"requests": {"cpu": "501m"}},
            [NEIGHBOUR],
            ("OutOfcpu", "Node didn't have enough resource: cpu, requested: 501, used: 1500, capacity: 2000"),
            id="a little more CPU than is left",
        ),
        pytest.param(
            {"requests": {"memory": "2Gi"}},
            [],
            (
                "OutOfmemory",
                "Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824",
            ),
            id="more memory than there is",
        ),
        pytest.param(
            {"requests": {"example.com/gpu": "1"}},
            [],
            None,
            id="cluster-level resource is not checked",
        ),
        pytest.param(
            {"requests": {"example.com/disk": "2"}},
            [],
            (
                "OutOfexample.com/disk",
                "Node didn't have enough resource: example.com/disk, requested: 2, used: 0, capacity: 1",
            ),
            id="more of what the node has",
        ),
        pytest.param({"requests": {"example.com/gpu": "0"}}, [], None, id="none of what the node does not have"),
        pytest.param(
            {},
            [a_pod(name="a", node="node-1"), a_pod(name="b", node="node-1")],
            ("OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2"),
            id="one pod too many",
        ),
    ],
)
def test_node_resources(given: dict[str, Any], others: list[Pod], want: tuple[str, str] | None) -> None:
    assert admit(a_pod(**given), NODE, beside(*others)) == want


def test_a_pod_in_resize_is_counted_as_the_scheduler_counts_it() -> None:
    """Two containers resized in opposite directions: 4 CPUs, not the 6 of both maxima."""

    def container(name: str, cpu: str) -> Body:
        return {"name": name, "resources": {"requests": {"cpu": cpu}}}

    allocated = [{"name": name, "allocatedResources": {"cpu": cpu}} for name, cpu in (("a", "1"), ("b", "3"))]
    resized = a_pod(
        name="resized",
        node="node-1",
        containers=[container("a", "3"), container("b", "1")],
        more_status={"containerStatuses": allocated},
    )

    assert beside(resized).used("node-1")["cpu"] == 4000


def beside(*others: Pod) -> NodeAllocations:
    places = NodeAllocations()
    for other in others:
        places.allocate(other)
    return places


def in_zone(zone: str) -> Body:
    terms = [{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]
    return _required(terms)


def on(name: str) -> Body:
    return _required([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}])


def _required(terms: list[Body]) -> Body:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        pytest.param({"node_selector": {"topology.kubernetes.io/zone": "a"}}, True, id="selected by label"),
        pytest.param({"node_selector": {"topology.kubernetes.io/zone": "b"}}, False, id="selects another label"),
        pytest.param({"affinity": in_zone("a")}, True, id="its zone"),
        pytest.param({"affinity": in_zone("b")}, False, id="another zone"),
        pytest.param({"affinity": on("node-1")}, True, id="its name"),
        pytest.param({"affinity": on("node-2")}, False, id="another name"),
        pytest.param(
            {"affinity": in_zone("a"), "node_selector": {"disk": "ssd"}},
            False,
            id="selector and affinity must both fit",
        ),
    ],
)
def test_pods_that_do_not_belong_on_the_node(given: dict[str, Any], fits: bool) -> None:
    refused = admit(a_pod(**given), NODE, NodeAllocations())
    assert (refused is None) is fits
    if refused is not None:
        assert refused.reason == "NodeAffinity"


def listening(*ports: tuple[str, str, int], name: str = "pod-1") -> Pod:
    want = [{"containerPort": 80, "hostIP": ip, "protocol": kind, "hostPort": number} for ip, kind, number in ports]
    return a_pod(name=name, node="node-1", containers=[{"name": "main", "image": "x", "ports": want}])


@pytest.mark.parametrize(
    ("theirs", "mine", "fits"),
    [
        pytest.param(("", "TCP", 80), ("", "TCP", 80), False, id="the same port"),
        pytest.param(("", "TCP", 80), ("", "TCP", 81), True, id="another port"),
        pytest.param(("", "TCP", 80), ("", "UDP", 80), True, id="another protocol"),
        pytest.param(("127.0.0.1", "TCP", 80), ("127.0.0.2", "TCP", 80), True, id="another address"),
        pytest.param(("127.0.0.1", "TCP", 80), ("", "TCP", 80), False, id="every address"),
        pytest.param(("", "TCP", 80), ("", "TCP", 0), True, id="no port of the node"),
    ],
)
def test_ports_of_the_node_are_given_once(theirs: tuple[str, str, int], mine: tuple[str, str, int], fits: bool) -> None:
    refused = admit(listening(mine), NODE, beside(listening(theirs, name="neighbour")))
    want = (
        "NodePorts",
        "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
    )
    assert refused == (None if fits else want)


@pytest.mark.parametrize(
    ("restart_policy", "fits"),
    [
        pytest.param({}, True, id="of an init container that ends, as the scheduler counts"),
        pytest.param({"restartPolicy": "Always"}, False, id="of an init container that stays"),
    ],
)
def test_ports_of_init_containers(restart_policy: dict[str, str], fits: bool) -> None:
    init = {"name": "init", "image": "x", "ports": [{"containerPort": 80, "hostPort": 80}], **restart_policy}
    refused = admit(a_pod(init_containers=[init]), NODE, beside(listening(("", "TCP", 80), name="neighbour")))
    assert (refused is None) is fits


@pytest.mark.parametrize(
    ("effect", "tolerations", "fits"),
    [
        pytest.param("NoExecute", [], False, id="not tolerated"),
        pytest.param("NoExecute", [{"key": "broken", "operator": "Exists"}], True, id="tolerated"),
        pytest.param("NoSchedule", [], True, id="only for those who choose nodes"),
    ],
)
def test_taints_that_end_pods_keep_them_out(effect: str, tolerations: list[Body], fits: bool) -> None:
    node = a_node(name="node-1", taints=[{"key": "broken", "effect": effect}])
    refused = admit(a_pod(tolerations=tolerations), node, NodeAllocations())
    assert (refused is None) is fits
    if refused is not None:
        assert refused == (
            "TaintToleration",
            "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
        )


def test_a_place_is_given_back_once() -> None:
    places = beside(NEIGHBOUR)
    places.allocate(NEIGHBOUR)
    assert places.used("node-1")["cpu"] == 1500
    places.release(NEIGHBOUR.uid)
    places.release(NEIGHBOUR.uid)
    assert places.used("node-1") == {}
