"""The fewest nodes that let all pods run."""

from collections.abc import Sequence

import pytest

from mooring.whatif.additions import Addition
from mooring.whatif.node_search import AddedNodes, CopiedNode, fewest_nodes
from mooring.whatif.question import WhatIfQuestion
from mooring.whatif.results import PendingPod, SimulationResult
from mooring.whatif.run import answer
from support.builders import Body, pod_body
from support.whatif.questions import inventory, nodes, pool, provisioned_class, stateful_set


def new_pod(name: str, **more: object) -> Body:
    body = pod_body(name=name, **more)  # type: ignore[arg-type]  # fields of the builder
    del body["status"]
    return body


def planned(
    *documents: Body, templates: Sequence[str] = ("n1",), most: int = 16
) -> tuple[tuple[AddedNodes, ...], bool]:
    there = inventory(documents)

    def simulate(additions: Sequence[Addition]) -> SimulationResult:
        return answer(WhatIfQuestion(there.copied(), additions=additions))

    plan = fewest_nodes([CopiedNode(name, there) for name in templates], simulate, most=most)
    return plan.nodes, plan.ok


def test_no_nodes_are_added_when_all_pods_run() -> None:
    assert planned(*nodes(1), new_pod("web")) == ((), True)


def test_cpu_decides_the_number_of_nodes() -> None:
    pods = [new_pod(f"web-{number}", requests={"cpu": "3"}) for number in range(6)]
    assert planned(*nodes(1), *pods) == ((AddedNodes("n1", 5),), True)


def test_storage_of_the_template_decides_the_number_of_nodes() -> None:
    """CPUs would suffice for four pods on each node; the storage is enough for two."""
    there = [*nodes(1), *provisioned_class(), pool("n1", "2Gi"), stateful_set(replicas=5)]
    assert planned(*there) == ((AddedNodes("n1", 2),), True)


def test_the_template_with_fewer_nodes_is_chosen_and_others_are_alternatives() -> None:
    small, large = nodes(1, allocatable={"cpu": "2"}), nodes(2, allocatable={"cpu": "8"})[1:]
    pods = [new_pod(f"web-{number}", requests={"cpu": "2"}) for number in range(9)]
    there = inventory([*small, *large, *pods])
    plan = fewest_nodes(
        [CopiedNode("n1", there), CopiedNode("n2", there)],
        lambda additions: answer(WhatIfQuestion(there.copied(), additions=additions)),
    )
    assert plan.nodes == (AddedNodes("n2", 1),)
    assert plan.alternatives == (AddedNodes("n1", 4),)
    assert plan.verdict == "All pods run with 1 x n2 added."


def test_templates_are_combined_when_none_suffices_alone() -> None:
    both = nodes(2)
    pods = [
        new_pod("a-1", requests={"cpu": "3"}, node_selector={"topology.kubernetes.io/zone": "a"}),
        new_pod("a-2", requests={"cpu": "3"}, node_selector={"topology.kubernetes.io/zone": "a"}),
        new_pod("b-1", requests={"cpu": "3"}, node_selector={"topology.kubernetes.io/zone": "b"}),
        new_pod("b-2", requests={"cpu": "3"}, node_selector={"topology.kubernetes.io/zone": "b"}),
    ]
    found, ok = planned(*both, *pods, templates=("n1", "n2"))
    assert ok
    assert set(found) == {AddedNodes("n1", 1), AddedNodes("n2", 1)}


def test_hopeless_pods_end_the_search_early() -> None:
    there = inventory([*nodes(1), new_pod("huge", requests={"cpu": "100"})])
    runs: list[int] = []

    def simulate(additions: Sequence[Addition]) -> SimulationResult:
        runs.append(sum(each.number for each in additions))
        return answer(WhatIfQuestion(there.copied(), additions=additions))

    plan = fewest_nodes([CopiedNode("n1", there)], simulate)
    assert (plan.ok, plan.nodes) == (False, ())
    assert plan.verdict == "No number of these nodes helps: 1 pod would still not run."
    assert max(runs) <= 2


@pytest.mark.parametrize("needed", [1, 2, 3, 7, 8, 9, 100])
def test_search_finds_the_least_number_with_few_runs(needed: int) -> None:
    there = inventory([])
    runs = 0

    def simulate(additions: Sequence[Addition]) -> SimulationResult:
        nonlocal runs
        runs += 1
        added = sum(each.number for each in additions)
        waiting = tuple(PendingPod(f"default/{number}", "x") for number in range(max(needed - added, 0)))
        return SimulationResult("", not waiting, 0.0, pending=waiting)

    plan = fewest_nodes([CopiedNode("n1", there)], simulate)
    assert plan.nodes == (AddedNodes("n1", needed),)
    assert runs <= 2 * needed.bit_length() + 2
