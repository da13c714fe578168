"""Two schedulers race for the same nodes: the kubelet rejects pods, all run in the end, rejections are reported."""

import dataclasses
import random
from collections.abc import Iterable
from typing import Final

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from mooring.api.kinds import EVENT, POD, REPLICA_SET
from mooring.api.views.pods import Pod
from mooring.cluster.bootstrap import Layout
from mooring.control.component import Context
from mooring.scheduler.component import Scheduler
from mooring.scheduler.kubelet_rejections import REJECTED
from mooring.scheduler.registry import DEFAULT
from support.builders import Body
from support.simulation.cluster import ExtraComponents, Reach, SimulatedCluster
from support.simulation.fault_scenario import FaultScenario, check
from support.simulation.faults import FaultPlan, draw
from support.simulation.invariants import Facts, Subject, Violation
from support.simulation.scenarios import FAULT_LIMITS, seeds

NAMES: Final = ("default-scheduler", "second")
NODES: Final = 4
#: Each pod requests all eight CPUs of a node: one pod per node.
EACH: Final = NODES // len(NAMES)
#: Seconds: long enough that each scheduler decides before it observes the other's binding.
LATENCY: Final = 0.05


def two_schedulers(_: random.Random) -> ExtraComponents:
    """A second scheduler beside the default one, with its own metrics registry."""

    def build(context: Context, _: Reach) -> Scheduler:
        return Scheduler(context, profiles={"second": DEFAULT}, registry=CollectorRegistry())

    return ExtraComponents(components={"second": build})


def a_replica_set(scheduler: str) -> Body:
    labels = {"app": scheduler}
    container = {"name": "main", "image": "main", "resources": {"requests": {"cpu": "8"}}}
    template = {"metadata": {"labels": labels}, "spec": {"schedulerName": scheduler, "containers": [container]}}
    spec = {"replicas": EACH, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": scheduler}, "spec": spec}


async def race(cluster: SimulatedCluster) -> None:
    for name in NAMES:
        await cluster.client.create(REPLICA_SET, a_replica_set(name), namespace="default")


def is_rejected(pod: Pod) -> bool:
    return pod.status.phase == "Failed" and pod.status.reason == "OutOfcpu"


def all_pods_run(facts: Facts) -> Iterable[Violation]:
    for name in NAMES:
        running = [p for p in facts.pods.values() if p.spec.scheduler_name == name and p.status.phase == "Running"]
        if len(running) != EACH:
            subjects = tuple(Subject(POD, pod.key) for pod in facts.pods.values())
            yield Violation("all pods run", f"{len(running)} of {EACH} pods of {name} do", subjects)


async def rejections_are_reported(cluster: SimulatedCluster) -> Iterable[Violation]:
    """For every pod that a node rejected, an event of the scheduler that had bound it."""
    events = (await cluster.client.list(EVENT, namespace="default")).items
    reported = {(one.involved_object.name, one.source.component) for one in events if one.reason == REJECTED}
    pods = (await cluster.client.list(POD)).items
    return [
        Violation("rejections are reported", f"no event reports that {pod.key} was rejected", (Subject(POD, pod.key),))
        for pod in pods
        if is_rejected(pod) and (pod.name, pod.spec.scheduler_name) not in reported
    ]


def race_scenario(*, reported: bool) -> FaultScenario:
    scenario = FaultScenario(
        Layout(nodes=NODES, local_volumes=0), race, expect=all_pods_run, extra_components=two_schedulers
    )
    return dataclasses.replace(scenario, inspect=rejections_are_reported) if reported else scenario


def test_kubelet_rejects_one_of_two_racing_pods() -> None:
    """At least one seed makes both choose the same node."""
    rejected = 0
    for seed in range(6):
        result = check(race_scenario(reported=True), seed=seed, plan=FaultPlan((), LATENCY))
        rejected += sum(is_rejected(pod) for pod in result.facts.pods.values())
    assert rejected > 0


@pytest.mark.parametrize("seed", seeds(6))
def test_all_pods_run_after_races_under_faults(seed: int) -> None:
    """A crashed scheduler may lose a rejection event, but all pods run."""
    limits = msgspec.structs.replace(
        FAULT_LIMITS, instances=(*FAULT_LIMITS.instances, "second", "second", "second", "second")
    )
    check(race_scenario(reported=False), seed=seed, plan=draw(seed, limits))
