"""Two schedulers race for the same nodes: the kubelet has the last word, everybody runs in the end, and it shows."""

import dataclasses
import random
from collections.abc import Iterable
from typing import Final

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from builders import Body
from mooring.api.kinds import EVENT, POD, REPLICA_SET
from mooring.api.views.pod import Pod
from mooring.cluster.bootstrap import Layout
from mooring.control.component import Context
from mooring.scheduler.component import Scheduler
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.rejection_watch import REJECTED
from mooring.sim.facts import Facts, Subject
from mooring.sim.faults import FaultPlan
from mooring.sim.hazards import draw
from mooring.sim.instance import Reach
from mooring.sim.invariants import Violation
from mooring.sim.trial import Trial, check
from mooring.sim.world import Annex, World
from sim.trials import ROUGH, seeds

NAMES: Final = ("default-scheduler", "second")
NODES: Final = 4
#: Each pod asks for all eight processors of a node: there are as many places as nodes.
EACH: Final = NODES // len(NAMES)
#: Seconds that news take: long enough that each decides before it hears of the other.
LATENCY: Final = 0.05


def two_schedulers(_: random.Random) -> Annex:
    """The second beside the one every world has; each has a registry of its own, as processes do."""

    def build(context: Context, _: Reach) -> Scheduler:
        return Scheduler(context, profiles={"second": DEFAULT}, registry=CollectorRegistry())

    return Annex(components={"second": build})


def a_replica_set(scheduler: str) -> Body:
    labels = {"app": scheduler}
    container = {"name": "main", "image": "main", "resources": {"requests": {"cpu": "8"}}}
    template = {"metadata": {"labels": labels}, "spec": {"schedulerName": scheduler, "containers": [container]}}
    spec = {"replicas": EACH, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": scheduler}, "spec": spec}


async def race(world: World) -> None:
    for name in NAMES:
        await world.client.create(REPLICA_SET, a_replica_set(name), namespace="default")


def is_rejected(pod: Pod) -> bool:
    return pod.status.phase == "Failed" and pod.status.reason == "OutOfcpu"


def everybody_runs(facts: Facts) -> Iterable[Violation]:
    for name in NAMES:
        running = [p for p in facts.pods.values() if p.spec.scheduler_name == name and p.status.phase == "Running"]
        if len(running) != EACH:
            subjects = tuple(Subject(POD, pod.key) for pod in facts.pods.values())
            yield Violation("everybody runs", f"{len(running)} of {EACH} pods of {name} do", subjects)


async def rejections_are_told(world: World) -> Iterable[Violation]:
    """Of every pod that a node turned down, by the scheduler that had given it the node."""
    events = (await world.client.list(EVENT, namespace="default")).items
    told = {(one.involved_object.name, one.source.component) for one in events if one.reason == REJECTED}
    pods = (await world.client.list(POD)).items
    return [
        Violation("rejections are told", f"{pod.key} was turned down and nobody said so", (Subject(POD, pod.key),))
        for pod in pods
        if is_rejected(pod) and (pod.name, pod.spec.scheduler_name) not in told
    ]


def a_trial(*, told: bool) -> Trial:
    trial = Trial(Layout(nodes=NODES, local_volumes=0), race, expect=everybody_runs, annex=two_schedulers)
    return dataclasses.replace(trial, inspect=rejections_are_told) if told else trial


def test_a_race_that_one_has_to_lose() -> None:
    """Some seed makes both choose one node, or this would prove nothing."""
    rejected = 0
    for seed in range(6):
        outcome = check(a_trial(told=True), seed=seed, plan=FaultPlan((), LATENCY))
        rejected += sum(is_rejected(pod) for pod in outcome.facts.pods.values())
    assert rejected > 0


@pytest.mark.parametrize("seed", seeds(6))
def test_races_under_faults(seed: int) -> None:
    """Who crashes may forget to tell of a rejection, but nobody is left out."""
    hazards = msgspec.structs.replace(ROUGH, who=(*ROUGH.who, "second", "second", "second", "second"))
    check(a_trial(told=False), seed=seed, plan=draw(seed, hazards))
