"""Fault scenarios with volumes of the hostpath driver, and faults of provisioner, driver and nodes."""

import random
from functools import partial
from typing import Final, NamedTuple

import msgspec

from mooring.cluster.bootstrap import Layout
from mooring.provisioner.component import Provisioner
from support.builders import Body, claim_body, pod_body
from support.simulation.cluster import SimulatedCluster
from support.simulation.fault_scenario import FaultScenario
from support.simulation.faults import BadRpc, DriverFault, FaultLimits, FaultPlan
from support.simulation.scenarios import BINDER, NODES, SCHEDULER, all_pods_run, create_objects, no_expectation
from support.simulation.storage import HostpathStorage, storage_differences

PROVISIONER: Final = Provisioner.name
GI: Final = 2**30
#: Faults of the provisioner, the driver and the nodes.
FAULT_LIMITS: Final = FaultLimits(
    (PROVISIONER,) * 4 + (SCHEDULER, SCHEDULER, BINDER, BINDER, NODES),
    bad_calls=10,
    bad_watches=5,
    bad_writes=3,
    rpc_instances=(PROVISIONER, PROVISIONER, PROVISIONER, NODES),
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
WITH_DUPLICATES: Final = msgspec.structs.replace(
    FAULT_LIMITS,
    duplicates=(PROVISIONER, BINDER),
    instances=(*FAULT_LIMITS.instances, f"{PROVISIONER}-2", f"{PROVISIONER}-2"),
    rpc_instances=(*FAULT_LIMITS.rpc_instances, f"{PROVISIONER}-2"),
)


def without_invalid_responses(plan: FaultPlan) -> FaultPlan:
    """Without invalid driver responses: a volume that one provisioner discards, another may have just received, and
    only leader election prevents that."""
    faults = [f for f in plan.faults if not (isinstance(f, BadRpc) and f.effect is DriverFault.WRONG)]
    return FaultPlan(tuple(faults), plan.latency)


class Tenants(NamedTuple):
    """Pods, each with claims of classes and sizes (GiB), on nodes with two pools each."""

    layout: Layout
    fast: int
    slow: int
    pods: tuple[tuple[tuple[str, int], ...], ...]
    pace: float
    #: Seconds between the driver and the pods: a scheduler that has not observed the CSIDriver counts no capacity.
    lead: float = 0.0

    @property
    def storage(self) -> HostpathStorage:
        return HostpathStorage(self.layout, fast=self.fast * GI, slow=self.slow * GI)

    def scenario(self, *, all_run: bool = False) -> FaultScenario:
        expect = partial(all_pods_run, count=len(self.pods)) if all_run else no_expectation
        storage = self.storage
        return FaultScenario(
            self.layout,
            self._create,
            expect=expect,
            inspect=storage_differences,
            extra_components=storage.extra_components,
            can_provision=storage.can_provision,
        )

    async def _create(self, cluster: SimulatedCluster) -> None:
        driver = self.storage.objects()
        pods = [body for number in range(len(self.pods)) for body in self._pod(number)]
        if self.lead:
            await create_objects(driver, 0.0, cluster)
            await cluster.clock.sleep(self.lead)
            await create_objects(pods, self.pace, cluster)
        else:
            await create_objects([*driver, *pods], self.pace, cluster)

    def leaving(self, limits: FaultLimits) -> FaultLimits:
        """The limits, and users who delete pods and claims at any time."""
        pods = tuple(("pods", f"default/pod-{number}") for number in range(len(self.pods)))
        claims = tuple(
            ("persistentvolumeclaims", f"default/{name}")
            for number in range(len(self.pods))
            for name in self._claims(number)
        )
        return msgspec.structs.replace(limits, deletable=pods + claims, deletions=len(pods + claims))

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
    """Up to seven pods; often more than the capacity."""
    rng = random.Random(f"tenants {seed}")
    layout = Layout(nodes=rng.randint(2, 3), local_volumes=0)
    pods = [_claims(rng) for _ in range(rng.randint(2, 7))]
    return Tenants(layout, 20, 30, tuple(pods), rng.choice((0.0, 0.05, 1.0)))


def fitting_tenants(seed: int) -> Tenants:
    """Up to five pods, and capacity for all of them on every node."""
    rng = random.Random(f"roomy {seed}")
    pods = [_claims(rng) for _ in range(rng.randint(2, 5))]
    return Tenants(Layout(nodes=3, local_volumes=0), 150, 150, tuple(pods), rng.choice((0.0, 0.05, 1.0)))


def _claims(rng: random.Random) -> tuple[tuple[str, int], ...]:
    """Of one class: a pod's claims of several classes are counted together against each pool (C16), so that a pod
    that fits may stay pending."""
    pool = rng.choice(("fast", "slow"))
    return tuple((pool, rng.randint(1, 9)) for _ in range(rng.randint(1, 3)))
