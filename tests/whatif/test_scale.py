"""Cost of simulations in function calls: proportional to the cluster."""

import pytest

from mooring.whatif import results
from mooring.whatif.question import WhatIfQuestion, prepared
from mooring.whatif.results import Cluster, Comparison, SimulationMessages
from mooring.whatif.run import answer
from support.builders import Body, node_body, pod_body
from support.builders.counting import calls_of
from support.whatif.questions import inventory, replica_set, running

#: Pods on a node, and pods to come.
PODS, NEW = 4, 5


def cluster(size: int, *, lost: bool = False, short: bool = False) -> list[Body]:
    """Nodes with running pods of as many ReplicaSets, and a few new pods."""
    found: list[Body] = []
    for number in range(size):
        node = node_body(name=f"n{number}", uid=f"n{number}-uid", allocatable={"cpu": "100", "pods": "110"})
        if lost and number % 2:
            node["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
        owner = replica_set(f"web-{number}", replicas=PODS + short, uid=f"web-{number}-uid")
        pods = [running(f"web-{number}-{each}", node=f"n{number}", owner=owner) for each in range(PODS)]
        found += [node, owner, *pods]
    new = [pod_body(name=f"new-{number}", requests={"cpu": "1"}) for number in range(NEW)]
    return [*found, *({field: body[field] for field in body if field != "status"} for body in new)]


def test_simulation_is_proportional_to_the_cluster() -> None:
    few, many = (calls_of(lambda size=size: answer(WhatIfQuestion(inventory(cluster(size))))) for size in (20, 40))
    assert many < 2.4 * few


def test_preparation_is_proportional_where_half_of_the_nodes_are_lost() -> None:
    def calls(size: int) -> int:
        there = inventory(cluster(size, lost=True))
        return calls_of(lambda: prepared(WhatIfQuestion(there)))

    assert calls(80) < 2.4 * calls(40)


@pytest.mark.parametrize("kept", [True, False])
def test_missing_pods_are_counted_once_for_all_sets(kept: bool) -> None:
    """Every set lacks a pod: what each had before is not looked for among all pods."""

    def shortfalls(size: int) -> int:
        there = inventory(cluster(size, short=True))
        at_end: Cluster = results.cluster_of(there.of)
        messages = SimulationMessages({}, {}, lambda _: "", lambda _, __: "")
        compared = Comparison(at_end if kept else results.cluster_of(inventory([]).of), at_end, messages)
        calls = calls_of(lambda: compared.shortfalls())
        assert len(compared.shortfalls()) == size
        assert all(each.already is kept for each in compared.shortfalls())
        return calls

    assert shortfalls(80) < 2.4 * shortfalls(40)
