"""What is tried under faults in this folder: situations drawn from a seed, and what may go wrong in them."""

import os
import random
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from builders import Body, claim_body, class_body, pod_body, volume_body
from mooring.api.kinds import POD
from mooring.cluster.bootstrap import Layout
from mooring.sim.facts import Facts, Subject
from mooring.sim.hazards import Hazards
from mooring.sim.invariants import ALWAYS, Violation, apart
from mooring.sim.trial import Trial
from mooring.sim.world import World
from scenarios import anti_affinity, in_world

SCHEDULER: Final = "default-scheduler"
BINDER: Final = "persistentvolume-controller"
PROTECTION: Final = "volume-protection"
NODES: Final = "node-agent"
SETS: Final = "statefulset-controller"
#: Whom faults strike: those most often through whose hands every binding goes.
STRUCK: Final = (SCHEDULER,) * 4 + (BINDER,) * 4 + (NODES, NODES, PROTECTION, SETS)
#: Everything at once, short of users who delete things and components that are there twice.
ROUGH: Final = Hazards(
    STRUCK, bad_calls=14, bad_watches=6, bad_writes=4, crashes=3, pauses=2, restarts=1, calls=25, writes=12
)
#: Two StatefulSet controllers with different news of pods would correct each other's status until the news agree:
#: harmless, but without latency an endless moment. They need the lease they have.
TWICE: Final = (SCHEDULER, BINDER, PROTECTION, NODES)
TWINS: Final = msgspec.structs.replace(
    ROUGH, twins=TWICE, who=(*STRUCK, f"{SCHEDULER}-2", f"{SCHEDULER}-2", f"{BINDER}-2", f"{BINDER}-2")
)


def seeds(count: int) -> range:
    """So many, or as many as MOORING_SIM_SEEDS says."""
    return range(int(os.environ.get("MOORING_SIM_SEEDS", count)))


class Crowd(NamedTuple):
    """Independent pods with claims of their own, arriving at some pace."""

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

    def trial(self, *, all_run: bool = False) -> Trial:
        expect = partial(everybody_runs, count=len(self.pods)) if all_run else nothing_more
        return Trial(self.layout, partial(arrive, self.objects, self.pace), expect=expect)

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
    """Four pods alike, all at once, for three or six volumes alike: whoever chooses twice chooses differently."""
    rng = random.Random(f"equal crowd {seed}")
    return Crowd(Layout(nodes=3, local_volumes=rng.randint(1, 2)), ((5,),) * 4, 0.0)


def lucky_crowd(seed: int) -> Crowd:
    """Three pods with one to three small claims, and on every single node volumes for all of them."""
    rng = random.Random(f"lucky crowd {seed}")
    pods = [tuple(rng.choices((1, 5, 10), k=rng.randint(1, 3))) for _ in range(3)]
    return Crowd(Layout(nodes=3, local_volumes=9), tuple(pods), _pace(rng))


#: What a user may delete of the StatefulSet's world.
OF_REPLICAS: Final = (
    *(("pods", f"default/db-{ordinal}") for ordinal in range(3)),
    *(("persistentvolumeclaims", f"default/data-db-{ordinal}") for ordinal in range(3)),
    *(("persistentvolumes", f"node-{node}-{number}") for node in (1, 2, 3) for number in range(2)),
    *(("nodes", f"node-{node}") for node in (1, 2, 3)),
)


def replicas(*, everywhere: bool, undisturbed: bool = True) -> Trial:
    """The StatefulSet of three on local volumes; without those of the third node unless they are `everywhere`.

    Only if it stays `undisturbed` is it clear beforehand how many will run.
    """
    nodes = ("node-1", "node-2", "node-3") if everywhere else ("node-1", "node-2")
    volumes = [volume_body(name=f"{node}-{number}", node=node) for node in nodes for number in range(2)]
    bodies = [*volumes, *anti_affinity.manifests()]
    expect = partial(everybody_runs, count=3) if everywhere else two_of_three_run
    return Trial(
        Layout(local_volumes=0),
        partial(arrive, bodies, 0.0),
        rules=(*ALWAYS, apart),
        expect=expect if undisturbed else nothing_more,
    )


def immediate(seed: int) -> Trial:
    """Claims that are bound at once, competing for volumes of many sizes; no pods."""
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
    return Trial(Layout(local_volumes=0), partial(arrive, bodies, _pace(rng)))


async def arrive(bodies: Sequence[Body], pace: float, world: World) -> None:
    rng = random.Random(len(bodies))
    for body in bodies:
        await in_world.create(world, body)
        if pace:
            await world.clock.sleep(rng.uniform(0.0, pace))


def nothing_more(_: Facts) -> Iterable[Violation]:
    return ()


def everybody_runs(facts: Facts, *, count: int) -> Iterable[Violation]:
    """For situations in which there is room for all, whatever was bound half-way."""
    running = [pod for pod in facts.pods.values() if pod.status.phase == "Running"]
    if len(running) != count or len(facts.pods) != count:
        objects = tuple(Subject(POD, key) for key in facts.pods)
        yield Violation("everybody runs", f"{len(running)} of {count} run", objects)


def two_of_three_run(facts: Facts) -> Iterable[Violation]:
    phases = sorted((pod.name, pod.status.phase) for pod in facts.pods.values())
    bound = sum(claim.fully_bound for claim in facts.claims.values())
    if phases != [("db-0", "Running"), ("db-1", "Running"), ("db-2", "Pending")] or bound != 2:
        objects = tuple(Subject(POD, key) for key in facts.pods)
        yield Violation("two of three run", f"{phases}, {bound} claims are bound", objects)


def _pace(rng: random.Random) -> float:
    """From all at once to slower than a decision takes."""
    return rng.choice((0.0, 0.005, 0.3, 1.0))
