"""What a node refuses for good: pods that do not belong there, and pods there is no room for."""

from typing import Any

import pytest

from builders import Body, a_node, a_pod
from mooring.api.views.pod import Pod
from mooring.nodeagent.admission import refusal

NODE = a_node(name="node-1", zone="a", allocatable={"cpu": "2", "memory": "1Gi", "pods": "2"})
NEIGHBOUR = a_pod(name="neighbour", requests={"cpu": "1500m", "memory": "100Mi"})


@pytest.mark.parametrize(
    ("given", "others", "wanted"),
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
            (
                "OutOfexample.com/gpu",
                "Node didn't have enough resource: example.com/gpu, requested: 1, used: 0, capacity: 0",
            ),
            id="what the node does not have",
        ),
        pytest.param({"requests": {"example.com/gpu": "0"}}, [], None, id="none of what the node does not have"),
        pytest.param(
            {},
            [a_pod(name="a"), a_pod(name="b")],
            ("OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2"),
            id="one pod too many",
        ),
    ],
)
def test_room_on_a_node(given: dict[str, Any], others: list[Pod], wanted: tuple[str, str] | None) -> None:
    assert refusal(a_pod(**given), NODE, others=others) == wanted


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
    refused = refusal(a_pod(**given), NODE, others=[])
    assert (refused is None) is fits
    if refused is not None:
        assert refused.reason == "NodeAffinity"
