"""Preemption under faults: the important pods get places, nobody is evicted in vain, and the others keep theirs."""

from collections.abc import Iterable
from functools import partial
from typing import Final

import pytest

from builders import Body, pod_body
from mooring.api import keys
from mooring.api.kinds import POD, PRIORITY_CLASS
from mooring.cluster.bootstrap import Layout
from mooring.sim.facts import Facts, Subject
from mooring.sim.hazards import draw
from mooring.sim.invariants import Violation
from mooring.sim.trial import Trial, check
from mooring.sim.world import World
from scenarios import in_world
from sim.trials import ROUGH, seeds

pytestmark = pytest.mark.req("T22")

NODES: Final = 3
URGENT: Final = 2
#: Whoever carries the label keeps its like off its node: there are as many places as nodes.
APART: Final[Body] = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": keys.HOSTNAME, "labelSelector": {"matchLabels": {"place": "one"}}}
        ]
    }
}


def a_pod(name: str, priority: str = "") -> Body:
    body = pod_body(name=name, labels={"place": "one"}, affinity=APART)
    if priority:
        body["spec"]["priorityClassName"] = priority
    return body


async def crowd_out(world: World) -> None:
    """All places are taken, then important pods come."""
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 9}
    await world.client.create(PRIORITY_CLASS, urgent)
    await in_world.create(world, *(a_pod(f"usual-{number}") for number in range(NODES)))
    await world.until(lambda: in_world.all_run(world, NODES), within=25.0)
    for number in range(URGENT):
        await in_world.create(world, a_pod(f"urgent-{number}", "urgent"))
        await world.clock.sleep(1.0)


def places_changed_hands(facts: Facts) -> Iterable[Violation]:
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
        yield Violation("nobody is evicted in vain", f"of the others are left: {', '.join(left) or 'none'}", subjects)


@pytest.mark.parametrize("seed", seeds(8))
def test_places_change_hands_once(seed: int) -> None:
    layout = Layout(nodes=NODES, local_volumes=0)
    trial = Trial(layout, partial(crowd_out), expect=places_changed_hands, rough=60.0)
    check(trial, seed=seed, plan=draw(seed, ROUGH))
