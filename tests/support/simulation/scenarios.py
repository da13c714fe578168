"""Fault scenarios without a CSI driver, drawn from a seed, and their fault limits."""

import os
import random
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from mooring.api.kinds import POD
from mooring.cluster.bootstrap import Layout
from support.builders import Body, claim_body, class_body, pod_body, volume_body
from support.scenarios import anti_affinity, simulated
from support.simulation.cluster import SimulatedCluster
from support.simulation.fault_scenario import FaultScenario
from support.simulation.faults import FaultLimits
from support.simulation.invariants import ALWAYS, Facts, Subject, Violation, apart

SCHEDULER: Final = "default-scheduler"
BINDER: Final = "persistentvolume-controller"
PROTECTION: Final = "volume-protection"
NODES: Final = "node-agent"
SETS: Final = "statefulset-controller"
#: Instances with faults: most often those that take part in every binding.
FAULTY_INSTANCES: Final = (SCHEDULER,) * 4 + (BINDER,) * 4 + (NODES, NODES, PROTECTION, SETS)
#: All faults but deletions by users and duplicate instances.
FAULT_LIMITS: Final = FaultLimits(
    FAULTY_INSTANCES, bad_calls=14, bad_watches=6, bad_writes=4, crashes=3, pauses=2, restarts=1, calls=25, writes=12
)
#: Not the StatefulSet controller: two with different watch progress overwrite each other's status until both are
#: current, which is harmless but without latency never ends in virtual time.
DUPLICATED: Final = (SCHEDULER, BINDER, PROTECTION, NODES)
WITH_DUPLICATES: Final = msgspec.structs.replace(
    FAULT_LIMITS,
    duplicates=DUPLICATED,
    instances=(*FAULTY_INSTANCES, f"{SCHEDULER}-2", f"{SCHEDULER}-2", f"{BINDER}-2", f"{BINDER}-2"),
)


#: `make soak` tries everything that otherwise a sample stands for.
SOAK: Final = "MOORING_SIM_SEEDS" in os.environ


def seeds(count: int) -> range:
    """The first `count` seeds, or those of MOORING_SIM_SEEDS: their number, or the first and the last (`40-159`)."""
    first, _, end = os.environ.get("MOORING_SIM_SEEDS", str(count)).rpartition("-")
    return range(int(first), int(end) + 1) if first else range(int(end))


class Crowd(NamedTuple):
    """Independent pods with their own claims, created at some pace."""

    layout: Layout
    #: Each pod's claims, as sizes in GiB.
    pods: tuple[tuple[int, ...], ...]
    pace: float

    @property
    def objects(self) -> list[Body]:
        return [body for number in range(len(self.pods)) for body in self._pod(number)]

    @property
    def deletable(self) -> tuple[tuple[str, str], ...]:
        claims = [f"default/{claim}" for number in range(len(self.pods)) for claim in self._claims(number)]
        volumes = [
            f"local-node-{node + 1}-{number + 1}"
            for node in range(self.layout.nodes)
            for number in range(self.layout.local_volumes)
        ]
        return (
            *(("pods", f"default/pod-{number}") for number in range(len(self.pods))),
            *(("persistentvolumeclaims", claim) for claim in claims),
            *(("persistentvolumes", volume) for volume in volumes),
            *(("nodes", row.name) for row in self.layout.rows()),
        )

    def scenario(self, *, all_run: bool = False) -> FaultScenario:
        expect = partial(all_pods_run, count=len(self.pods)) if all_run else no_expectation
        return FaultScenario(self.layout, partial(create_objects, self.objects, self.pace), expect=expect)

    def _claims(self, number: int) -> list[str]:
        return [f"claim-{number}-{position}" for position in range(len(self.pods[number]))]

    def _pod(self, number: int) -> list[Body]:
        claims = self._claims(number)
        sizes = self.pods[number]
        return [
            *(claim_body(name=name, size=f"{size}Gi") for name, size in zip(claims, sizes, strict=True)),
            pod_body(name=f"pod-{number}", claims=claims),
        ]


def small_crowd(seed: int) -> Crowd:
    """Up to eight pods with up to three claims; often more than there are volumes for."""
    rng = random.Random(f"small crowd {seed}")
    layout = Layout(nodes=rng.randint(3, 5), local_volumes=rng.randint(1, 3))
    pods = [tuple(rng.choices((1, 5, 10, 15, 20), k=rng.choice((0, 1, 1, 2, 3)))) for _ in range(rng.randint(2, 8))]
    return Crowd(layout, tuple(pods), _pace(rng))


def equal_crowd(seed: int) -> Crowd:
    """Four equal pods at once for three or six equal volumes: two decisions for a pod differ."""
    rng = random.Random(f"equal crowd {seed}")
    return Crowd(Layout(nodes=3, local_volumes=rng.randint(1, 2)), ((5,),) * 4, 0.0)


def fitting_crowd(seed: int) -> Crowd:
    """Three pods with one to three small claims, and volumes for all of them on every node."""
    rng = random.Random(f"lucky crowd {seed}")
    pods = [tuple(rng.choices((1, 5, 10), k=rng.randint(1, 3))) for _ in range(3)]
    return Crowd(Layout(nodes=3, local_volumes=9), tuple(pods), _pace(rng))


#: Objects of `replicas` that a user may delete.
OF_REPLICAS: Final = (
    *(("pods", f"default/db-{ordinal}") for ordinal in range(3)),
    *(("persistentvolumeclaims", f"default/data-db-{ordinal}") for ordinal in range(3)),
    *(("persistentvolumes", f"node-{node}-{number}") for node in (1, 2, 3) for number in range(2)),
    *(("nodes", f"node-{node}") for node in (1, 2, 3)),
)


def replicas(*, everywhere: bool, undisturbed: bool = True) -> FaultScenario:
    """The StatefulSet of three on local volumes; without those of the third node unless they are `everywhere`.

    The number of running pods is only known if users delete nothing (`undisturbed`).
    """
    nodes = ("node-1", "node-2", "node-3") if everywhere else ("node-1", "node-2")
    volumes = [volume_body(name=f"{node}-{number}", node=node) for node in nodes for number in range(2)]
    bodies = [*volumes, *anti_affinity.manifests()]
    expect = partial(all_pods_run, count=3) if everywhere else two_of_three_run
    return FaultScenario(
        Layout(local_volumes=0),
        partial(create_objects, bodies, 0.0),
        rules=(*ALWAYS, apart),
        expect=expect if undisturbed else no_expectation,
    )


def immediate(seed: int) -> FaultScenario:
    """Immediate claims that compete for volumes of many sizes; no pods."""
    rng = random.Random(f"immediate {seed}")
    claims = [
        claim_body(name=f"claim-{number}", storage_class="now", size=f"{rng.randint(1, 6)}Gi")
        for number in range(rng.randint(2, 7))
    ]
    volumes = [
        volume_body(name=f"volume-{number}", storage_class="now", size=f"{rng.randint(1, 6)}Gi", node="node-1")
        for number in range(rng.randint(2, 7))
    ]
    both = claims + volumes
    rng.shuffle(both)
    bodies = [class_body(name="now", binding_mode="Immediate"), *both]
    return FaultScenario(Layout(local_volumes=0), partial(create_objects, bodies, _pace(rng)))


async def create_objects(bodies: Sequence[Body], pace: float, cluster: SimulatedCluster) -> None:
    rng = random.Random(len(bodies))
    for body in bodies:
        await simulated.create(cluster, body)
        if pace:
            await cluster.clock.sleep(rng.uniform(0.0, pace))


def no_expectation(_: Facts) -> Iterable[Violation]:
    return ()


def all_pods_run(facts: Facts, *, count: int) -> Iterable[Violation]:
    """For scenarios with enough resources and volumes for all pods."""
    running = [pod for pod in facts.pods.values() if pod.status.phase == "Running"]
    if len(running) != count or len(facts.pods) != count:
        objects = tuple(Subject(POD, key) for key in facts.pods)
        yield Violation("all pods run", f"{len(running)} of {count} run", objects)


def two_of_three_run(facts: Facts) -> Iterable[Violation]:
    phases = sorted((pod.name, pod.status.phase) for pod in facts.pods.values())
    bound = sum(claim.fully_bound for claim in facts.claims.values())
    if phases != [("db-0", "Running"), ("db-1", "Running"), ("db-2", "Pending")] or bound != 2:
        objects = tuple(Subject(POD, key) for key in facts.pods)
        yield Violation("two of three run", f"{phases}, {bound} claims are bound", objects)


def _pace(rng: random.Random) -> float:
    """Seconds between pods: from all at once to longer than a scheduling decision takes."""
    return rng.choice((0.0, 0.005, 0.3, 1.0))
