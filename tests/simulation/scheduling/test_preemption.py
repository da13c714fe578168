"""Preemption under faults: pods with priority are scheduled, and no pod is evicted without need."""

from collections.abc import Iterable
from functools import partial
from typing import Final

import pytest

from mooring.api import well_known
from mooring.api.kinds import POD, PRIORITY_CLASS
from mooring.cluster.bootstrap import Layout
from support.builders import Body, pod_body
from support.scenarios import simulated
from support.simulation.cluster import SimulatedCluster
from support.simulation.fault_scenario import FaultScenario, check
from support.simulation.faults import draw
from support.simulation.invariants import Facts, Subject, Violation
from support.simulation.scenarios import FAULT_LIMITS, seeds

pytestmark = pytest.mark.req("T22.protocol")

NODES: Final = 3
URGENT: Final = 2
#: Anti-affinity among pods with the label: at most one per node.
APART: Final[Body] = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": well_known.HOSTNAME, "labelSelector": {"matchLabels": {"place": "one"}}}
        ]
    }
}


def a_pod(name: str, priority: str = "") -> Body:
    body = pod_body(name=name, labels={"place": "one"}, affinity=APART)
    if priority:
        body["spec"]["priorityClassName"] = priority
    return body


async def crowd_out(cluster: SimulatedCluster) -> None:
    """Fill all nodes, then create pods with high priority."""
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 9}
    await cluster.client.create(PRIORITY_CLASS, urgent)
    await simulated.create(cluster, *(a_pod(f"usual-{number}") for number in range(NODES)))
    await cluster.until(lambda: simulated.all_run(cluster, NODES), within=25.0)
    for number in range(URGENT):
        await simulated.create(cluster, a_pod(f"urgent-{number}", "urgent"))
        await cluster.clock.sleep(1.0)


def nodes_are_reassigned(facts: Facts) -> Iterable[Violation]:
    pods = {pod.name: pod for pod in facts.pods.values()}
    for number in range(URGENT):
        pod = pods.get(f"urgent-{number}")
        if pod is None or pod.status.phase != "Running":
            yield Violation(
                "the important run", f"urgent-{number} does not", (Subject(POD, f"default/urgent-{number}"),)
            )
    left = [name for name in pods if name.startswith("usual")]
    if len(left) != NODES - URGENT:
        subjects = tuple(Subject(POD, f"default/usual-{number}") for number in range(NODES))
        yield Violation(
            "no pod is evicted without need", f"of the others remain: {', '.join(left) or 'none'}", subjects
        )


@pytest.mark.parametrize("seed", seeds(8))
def test_pods_are_preempted_once(seed: int) -> None:
    layout = Layout(nodes=NODES, local_volumes=0)
    scenario = FaultScenario(layout, partial(crowd_out), expect=nodes_are_reassigned, fault_seconds=60.0)
    check(scenario, seed=seed, plan=draw(seed, FAULT_LIMITS))
