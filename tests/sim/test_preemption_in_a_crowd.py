"""Preemption among workloads that come back, under faults: nobody is evicted twice or in vain, those that a budget
protects stay, nobody goes for a volume that is elsewhere, and the important are not kept waiting by the small who slip
into what was cleared for them."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import msgspec
import pytest

from builders import Body, claim_body, pod_body, volume_body
from mooring.api.kinds import DISRUPTION_BUDGET, POD, PRIORITY_CLASS, REPLICA_SET
from mooring.api.views.pod import Pod
from mooring.cluster.bootstrap import Layout
from mooring.sim.facts import Facts, Subject
from mooring.sim.hazards import draw
from mooring.sim.history import History
from mooring.sim.invariants import Violation
from mooring.sim.trial import Trial, check
from mooring.sim.world import World
from scenarios import in_world
from sim.trials import ROUGH, SCHEDULER, seeds

pytestmark = [pytest.mark.req("T22")]

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


async def put(world: World, *sets: Body) -> None:
    for body in sets:
        await world.client.create(REPLICA_SET, body, namespace="default")


async def crowd_out(world: World, *sets: Body) -> None:
    """Others have all nodes, then the urgent come, each of whom needs a whole one."""
    await world.client.create(PRIORITY_CLASS, {"metadata": {"name": "urgent"}, "value": 9})
    await put(world, *sets)
    there = sum(body["spec"]["replicas"] for body in sets)
    await world.until(lambda: in_world.all_run(world, there), within=25.0)
    await put(world, a_replica_set("urgent", URGENT, WHOLE, priority="urgent"))


async def halves(world: World) -> None:
    """Two on each node: both have to go for one, and their successors would fit as soon as the first is gone."""
    await crowd_out(world, a_replica_set("usual", 2 * NODES, HALF))


async def some_protected(world: World) -> None:
    """As many without protection as are needed, and the others under a budget that spares nobody."""
    selector = {"matchLabels": {"app": "guarded"}}
    budget = {"metadata": {"name": "guarded"}, "spec": {"minAvailable": "100%", "selector": selector}}
    await world.client.create(DISRUPTION_BUDGET, budget, namespace="default")
    kept = NODES - URGENT
    await crowd_out(world, a_replica_set("guarded", kept, WHOLE), a_replica_set("usual", URGENT, WHOLE))


async def with_volumes(world: World) -> None:
    """One on each node, and volumes for the urgent on two of the four."""
    for number in range(URGENT):
        await in_world.create(
            world, volume_body(name=f"disk-{number}", node=f"node-{number + 1}"), claim_body(name=f"data-{number}")
        )
    await world.client.create(PRIORITY_CLASS, {"metadata": {"name": "urgent"}, "value": 9})
    await put(world, a_replica_set("usual", NODES, WHOLE))
    await world.until(lambda: in_world.all_run(world, NODES), within=25.0)
    for number in range(URGENT):
        body = pod_body(
            name=f"urgent-{number}", labels={"app": "urgent"}, claims=[f"data-{number}"], requests={"cpu": str(WHOLE)}
        )
        body["spec"]["priorityClassName"] = "urgent"
        await in_world.create(world, body)


def running(facts: Facts, app: str) -> list[Pod]:
    pods = facts.pods.values()
    return [pod for pod in pods if pod.metadata.labels.get("app") == app and pod.status.phase == "Running"]


def expecting(apply: Callable[[World], Awaitable[None]], **counts: int) -> Trial:
    """So many of each run at the end."""

    def everybody_in_place(facts: Facts) -> Iterable[Violation]:
        for app, wanted in counts.items():
            if (found := len(running(facts, app))) != wanted:
                subjects = tuple(Subject(POD, pod.key) for pod in facts.pods.values())
                yield Violation("everybody is in place", f"{found} of {app} run instead of {wanted}", subjects)

    return Trial(Layout(nodes=NODES, local_volumes=0), apply, expect=everybody_in_place, rough=60.0)


def evictions(history: History) -> Counter[str]:
    """How often the scheduler had each pod deleted, by the pod's key; names of replicas are never used again."""
    return Counter(
        written.key
        for written in history.writes()
        if written.kind is POD and written.who.startswith(SCHEDULER) and written.verb == "delete"
    )


def nodes_of(history: History, keys: Iterable[str]) -> list[str]:
    """Where the pods with these keys were."""
    nodes = {
        written.key: POD.decode(written.change.after.value).spec.node_name
        for written in history.writes()
        if written.kind is POD and written.change.after is not None
    }
    return [nodes[key] for key in keys]


@pytest.mark.parametrize("seed", seeds(6))
def test_two_go_for_one_and_nobody_slips_in(seed: int) -> None:
    trial = expecting(halves, urgent=URGENT, usual=2 * (NODES - URGENT))
    gone = evictions(check(trial, seed=seed, plan=draw(seed, ROUGH)).history)
    assert set(gone.values()) <= {1}, "once is enough"
    assert len(gone) == 2 * URGENT, "nobody goes in vain"
    assert all(key.startswith("default/usual-") for key in gone)


@pytest.mark.req("T22.budgets")
@pytest.mark.parametrize("seed", seeds(6))
def test_whoever_a_budget_protects_stays(seed: int) -> None:
    trial = expecting(some_protected, urgent=URGENT, guarded=NODES - URGENT, usual=0)
    gone = evictions(check(trial, seed=seed, plan=draw(seed, ROUGH)).history)
    assert set(gone.values()) <= {1}, "once is enough"
    assert sorted(key.rpartition("-")[0] for key in gone) == ["default/usual"] * URGENT


@pytest.mark.req("T22.volumes")
@pytest.mark.parametrize("seed", seeds(6))
def test_nobody_goes_where_there_is_no_volume(seed: int) -> None:
    trial = expecting(with_volumes, urgent=URGENT, usual=NODES - URGENT)
    history = check(trial, seed=seed, plan=draw(seed, ROUGH)).history
    gone = evictions(history)
    assert set(gone.values()) <= {1}, "once is enough"
    assert sorted(nodes_of(history, gone)) == ["node-1", "node-2"]


@pytest.mark.parametrize("seed", seeds(3))
def test_two_schedulers_at_once_evict_no_more_than_needed(seed: int) -> None:
    """Without an election, for whatever reason: each knows of the other's choice by what it writes."""
    twins = msgspec.structs.replace(ROUGH, twins=(SCHEDULER,), crashes=0)
    trial = expecting(halves, urgent=URGENT, usual=2 * (NODES - URGENT))
    check(trial, seed=seed, plan=draw(seed, twins))
