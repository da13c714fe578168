"""Pods with volumes of the hostpath driver, created and deleted while the provisioner, the driver and nodes fail."""

import random
from functools import partial
from typing import Final, NamedTuple

import msgspec

from builders import Body, claim_body, pod_body
from mooring.cluster.bootstrap import Layout
from mooring.provisioner.component import Provisioner
from mooring.sim.faults import BadRpc, DriverTrouble, FaultPlan
from mooring.sim.hazards import Hazards
from mooring.sim.storage import Hostpaths, accounts
from mooring.sim.trial import Trial
from sim.trials import BINDER, NODES, SCHEDULER, arrive, everybody_runs, nothing_more

PROVISIONER: Final = Provisioner.name
GI: Final = 2**30
#: What a provisioner and its nodes go through.
ROUGH: Final = Hazards(
    (PROVISIONER,) * 4 + (SCHEDULER, SCHEDULER, BINDER, BINDER, NODES),
    bad_calls=10,
    bad_watches=5,
    bad_writes=3,
    callers=(PROVISIONER, PROVISIONER, PROVISIONER, NODES),
    rpcs=("create_volume", "create_volume", "create_volume", "delete_volume", "get_capacity", "publish", "unpublish"),
    bad_rpcs=8,
    crashes=4,
    pauses=1,
    restarts=1,
    calls=20,
    writes=12,
    all_writes=80,
)

#: Two provisioners and two PV controllers, without a lease between them.
TWICE: Final = msgspec.structs.replace(
    ROUGH,
    twins=(PROVISIONER, BINDER),
    who=(*ROUGH.who, f"{PROVISIONER}-2", f"{PROVISIONER}-2"),
    callers=(*ROUGH.callers, f"{PROVISIONER}-2"),
)


def honest(plan: FaultPlan) -> FaultPlan:
    """Without drivers that answer nonsense: what one provisioner then discards, another may just have got an answer
    for, and only a lease keeps them apart."""
    faults = [f for f in plan.faults if not (isinstance(f, BadRpc) and f.trouble is DriverTrouble.WRONG)]
    return FaultPlan(tuple(faults), plan.latency)


class Tenants(NamedTuple):
    """Pods, each with claims of classes and sizes (GiB), on nodes with two pools each."""

    layout: Layout
    fast: int
    slow: int
    pods: tuple[tuple[tuple[str, int], ...], ...]
    pace: float

    @property
    def storage(self) -> Hostpaths:
        return Hostpaths(self.layout, fast=self.fast * GI, slow=self.slow * GI)

    def trial(self, *, all_run: bool = False) -> Trial:
        expect = partial(everybody_runs, count=len(self.pods)) if all_run else nothing_more
        storage = self.storage
        bodies = [*storage.objects(), *(body for number in range(len(self.pods)) for body in self._pod(number))]
        return Trial(
            self.layout,
            partial(arrive, bodies, self.pace),
            expect=expect,
            inspect=accounts,
            annex=storage.annex,
            make=storage.make,
        )

    def leaving(self, hazards: Hazards) -> Hazards:
        """The hazards, and users who delete pods and claims at any moment."""
        pods = tuple(("pods", f"default/pod-{number}") for number in range(len(self.pods)))
        claims = tuple(
            ("persistentvolumeclaims", f"default/{name}")
            for number in range(len(self.pods))
            for name in self._claims(number)
        )
        return msgspec.structs.replace(hazards, deletable=pods + claims, deletions=len(pods + claims))

    def _claims(self, number: int) -> list[str]:
        return [f"claim-{number}-{position}" for position in range(len(self.pods[number]))]

    def _pod(self, number: int) -> list[Body]:
        claims = self._claims(number)
        asked = zip(claims, self.pods[number], strict=True)
        return [
            *(claim_body(name=name, storage_class=pool, size=f"{size}Gi") for name, (pool, size) in asked),
            pod_body(name=f"pod-{number}", claims=claims),
        ]


def tenants(seed: int) -> Tenants:
    """Up to seven pods; often more than there is room for."""
    rng = random.Random(f"tenants {seed}")
    layout = Layout(nodes=rng.randint(2, 3), local_volumes=0)
    pods = [_claims(rng) for _ in range(rng.randint(2, 7))]
    return Tenants(layout, 20, 30, tuple(pods), rng.choice((0.0, 0.05, 1.0)))


def roomy(seed: int) -> Tenants:
    """Up to five pods, and room for all of them on every node."""
    rng = random.Random(f"roomy {seed}")
    pods = [_claims(rng) for _ in range(rng.randint(2, 5))]
    return Tenants(Layout(nodes=3, local_volumes=0), 150, 150, tuple(pods), rng.choice((0.0, 0.05, 1.0)))


def _claims(rng: random.Random) -> tuple[tuple[str, int], ...]:
    """Of one class: a pod's claims of several classes are counted against each pool together, as C16 has it, so that
    a pod which would fit may wait."""
    pool = rng.choice(("fast", "slow"))
    return tuple((pool, rng.randint(1, 9)) for _ in range(rng.randint(1, 3)))
