"""Preemption of pods with controllers, under faults: no pod is evicted twice, without need, against a budget or for a
volume on another node, and replacements do not take the resources of a nominated pod.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import msgspec
import pytest

from mooring.api.kinds import DISRUPTION_BUDGET, POD, PRIORITY_CLASS, REPLICA_SET
from mooring.api.views.pods import Pod
from mooring.cluster.bootstrap import Layout
from support.builders import Body, claim_body, pod_body, volume_body
from support.scenarios import simulated
from support.simulation.cluster import SimulatedCluster
from support.simulation.fault_scenario import FaultScenario, check
from support.simulation.faults import draw
from support.simulation.history import History
from support.simulation.invariants import Facts, Subject, Violation
from support.simulation.scenarios import FAULT_LIMITS, SCHEDULER, seeds

pytestmark = [pytest.mark.req("T22.protocol")]

NODES: Final = 4
URGENT: Final = 2
#: Of the eight processors of a node.
WHOLE, HALF = 8, 4


def a_replica_set(name: str, count: int, cpu: int, *, priority: str = "") -> Body:
    container = {"name": "main", "image": "main", "resources": {"requests": {"cpu": str(cpu)}}}
    spec: Body = {"containers": [container]} | ({"priorityClassName": priority} if priority else {})
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    selector = {"matchLabels": {"app": name}}
    return {"metadata": {"name": name}, "spec": {"replicas": count, "selector": selector, "template": template}}


async def put(cluster: SimulatedCluster, *sets: Body) -> None:
    for body in sets:
        await cluster.client.create(REPLICA_SET, body, namespace="default")


async def crowd_out(cluster: SimulatedCluster, *sets: Body) -> None:
    """Other pods use all nodes, then urgent pods are created that need a whole node each."""
    await cluster.client.create(PRIORITY_CLASS, {"metadata": {"name": "urgent"}, "value": 9})
    await put(cluster, *sets)
    there = sum(body["spec"]["replicas"] for body in sets)
    await cluster.until(lambda: simulated.all_run(cluster, there), within=25.0)
    await put(cluster, a_replica_set("urgent", URGENT, WHOLE, priority="urgent"))


async def halves(cluster: SimulatedCluster) -> None:
    """Two on each node: both are evicted for one, and their replacements fit as soon as the first is deleted."""
    await crowd_out(cluster, a_replica_set("usual", 2 * NODES, HALF))


async def some_protected(cluster: SimulatedCluster) -> None:
    """As many without protection as are needed, and the others under a budget that allows no disruption."""
    selector = {"matchLabels": {"app": "guarded"}}
    budget = {"metadata": {"name": "guarded"}, "spec": {"minAvailable": "100%", "selector": selector}}
    await cluster.client.create(DISRUPTION_BUDGET, budget, namespace="default")
    kept = NODES - URGENT
    await crowd_out(cluster, a_replica_set("guarded", kept, WHOLE), a_replica_set("usual", URGENT, WHOLE))


async def with_volumes(cluster: SimulatedCluster) -> None:
    """One on each node, and volumes for the urgent on two of the four."""
    for number in range(URGENT):
        await simulated.create(
            cluster, volume_body(name=f"disk-{number}", node=f"node-{number + 1}"), claim_body(name=f"data-{number}")
        )
    await cluster.client.create(PRIORITY_CLASS, {"metadata": {"name": "urgent"}, "value": 9})
    await put(cluster, a_replica_set("usual", NODES, WHOLE))
    await cluster.until(lambda: simulated.all_run(cluster, NODES), within=25.0)
    for number in range(URGENT):
        body = pod_body(
            name=f"urgent-{number}", labels={"app": "urgent"}, claims=[f"data-{number}"], requests={"cpu": str(WHOLE)}
        )
        body["spec"]["priorityClassName"] = "urgent"
        await simulated.create(cluster, body)


def running(facts: Facts, app: str) -> list[Pod]:
    pods = facts.pods.values()
    return [pod for pod in pods if pod.metadata.labels.get("app") == app and pod.status.phase == "Running"]


def expecting(apply: Callable[[SimulatedCluster], Awaitable[None]], **counts: int) -> FaultScenario:
    """This many pods of each set run at the end."""

    def counts_run(facts: Facts) -> Iterable[Violation]:
        for app, expected in counts.items():
            if (found := len(running(facts, app))) != expected:
                subjects = tuple(Subject(POD, pod.key) for pod in facts.pods.values())
                yield Violation("expected pods run", f"{found} of {app} run instead of {expected}", subjects)

    return FaultScenario(Layout(nodes=NODES, local_volumes=0), apply, expect=counts_run, fault_seconds=60.0)


def evictions(history: History) -> Counter[str]:
    """Number of evictions by the scheduler per pod key; replica names are not reused."""
    return Counter(
        written.key
        for written in history.writes()
        if written.kind is POD and written.author.startswith(SCHEDULER) and written.verb == "delete"
    )


def nodes_of(history: History, keys: Iterable[str]) -> list[str]:
    """The nodes of the pods with these keys."""
    nodes = {
        written.key: POD.decode(written.change.after.value).spec.node_name
        for written in history.writes()
        if written.kind is POD and written.change.after is not None
    }
    return [nodes[key] for key in keys]


@pytest.mark.req("T22.nominated")
@pytest.mark.parametrize("seed", seeds(6))
def test_nominated_node_is_not_used_by_other_pods(seed: int) -> None:
    scenario = expecting(halves, urgent=URGENT, usual=2 * (NODES - URGENT))
    evicted = evictions(check(scenario, seed=seed, plan=draw(seed, FAULT_LIMITS)).history)
    assert set(evicted.values()) <= {1}, "once is enough"
    assert len(evicted) == 2 * URGENT, "no pod is evicted without need"
    assert all(key.startswith("default/usual-") for key in evicted)


@pytest.mark.req("T22.budgets")
@pytest.mark.parametrize("seed", seeds(6))
def test_pods_protected_by_budget_are_not_evicted(seed: int) -> None:
    scenario = expecting(some_protected, urgent=URGENT, guarded=NODES - URGENT, usual=0)
    evicted = evictions(check(scenario, seed=seed, plan=draw(seed, FAULT_LIMITS)).history)
    assert set(evicted.values()) <= {1}, "once is enough"
    assert sorted(key.rpartition("-")[0] for key in evicted) == ["default/usual"] * URGENT


@pytest.mark.req("T22.volumes")
@pytest.mark.parametrize("seed", seeds(6))
def test_pods_are_evicted_only_on_nodes_with_the_volume(seed: int) -> None:
    scenario = expecting(with_volumes, urgent=URGENT, usual=NODES - URGENT)
    history = check(scenario, seed=seed, plan=draw(seed, FAULT_LIMITS)).history
    evicted = evictions(history)
    assert set(evicted.values()) <= {1}, "once is enough"
    assert sorted(nodes_of(history, evicted)) == ["node-1", "node-2"]


@pytest.mark.parametrize("seed", seeds(3))
def test_two_schedulers_evict_no_more_pods_than_needed(seed: int) -> None:
    """Without leader election: each observes the other's nominations only."""
    duplicates = msgspec.structs.replace(FAULT_LIMITS, duplicates=(SCHEDULER,), crashes=0)
    scenario = expecting(halves, urgent=URGENT, usual=2 * (NODES - URGENT))
    check(scenario, seed=seed, plan=draw(seed, duplicates))
