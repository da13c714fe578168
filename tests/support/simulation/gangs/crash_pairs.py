"""Crash points of a gang's life, and pairs of them: the cases that are crashed, and where the second crash can be.

A pair is a first crash after any write of a run without faults, and a second one after any write that follows in the
run with the first. Writes of the second kind are known only once the first run has ended: `second_crashes` makes it.
A crash is after a write of a component that takes part in the gang's life, or after its CSI call with a side effect;
renewals of Leases are left out, since they change nothing that the gang depends on.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from mooring.api.kinds import CONFIG_MAP, LEASE, POD, POD_GROUP, STORAGE_CAPACITY
from mooring.api.patches.contract import MergePatch
from mooring.cluster.storage import NAMESPACE
from mooring.volumes.holds.group_record import record_name
from support.builders import Body, claim_body, volume_body
from support.simulation.cluster import SimulatedCluster
from support.simulation.fault_scenario import FaultScenario, ScenarioResult, check
from support.simulation.faults import Crash, FaultPlan
from support.simulation.group_scenarios import COORDINATOR, PROVISIONER, group_scenario
from support.simulation.groups import CLASS, GroupStorage, gang, members, preferring
from support.simulation.history import USER, Effect, History
from support.simulation.invariants import Facts, Subject, Violation
from support.simulation.scenarios import BINDER, SCHEDULER
from support.simulation.storage import CONTROLLER

COMPONENTS: Final = (SCHEDULER, COORDINATOR, PROVISIONER, BINDER)
#: Shorter than the coordinator's Lease: the group stays held.
DOWN_SECONDS: Final = 3.0
LATENCY: Final = 0.01
#: After the gang is created: two crashes, the pause of a group that was given up, and all that follows.
FAULT_SECONDS: Final = 30.0
SETTLE_SECONDS: Final = 60.0
#: An outage of the coordinator: longer than its Lease lasts; and how long a scheduler is down meanwhile, so that the
#: Lease has expired when the next one starts.
OUTAGE_SECONDS: Final = 40.0
RESTART_SECONDS: Final = 20.0
SIZE: Final = "100Gi"
#: The write with which the scheduler begins to hold a group.
BEGINNING: Final = f"create {CONFIG_MAP.plural} {NAMESPACE}/{record_name('')}"


class CrashCase(NamedTuple):
    """One gang, and whether it runs at the end."""

    bodies: tuple[Body, ...]
    pools: dict[str, int]
    #: What is published instead of the pools, if it differs.
    figures: dict[str, int] | None = None
    runs: bool = True

    def scenario(self, *, outage: bool = False) -> FaultScenario:
        return group_scenario(
            self.bodies,
            GroupStorage(self.pools, figures=self.figures),
            expect=self._expect,
            fault_seconds=FAULT_SECONDS + OUTAGE_SECONDS * outage,
            settle=SETTLE_SECONDS + OUTAGE_SECONDS * outage,
            # In an outage provisioners bind what was requested before it, and a gang that lacks one volume is not held.
            always_held=not outage,
            then=self._publish,
        )

    async def _publish(self, cluster: SimulatedCluster) -> None:
        """Publish the pools as they are, once the driver has created a volume, where the gang is to be given up."""
        if self.runs:
            return

        async def tried() -> bool:
            return bool(await cluster.driver(CONTROLLER).list_volumes())

        await cluster.until(tried, within=20)
        for node, size in self.pools.items():
            patch = MergePatch({"capacity": f"{size}Gi"})
            await cluster.client.patch(STORAGE_CAPACITY, f"{CLASS}-{node}", patch, namespace="default")

    def _expect(self, facts: Facts) -> Iterable[Violation]:
        for pod in facts.pods.values():
            if bool(pod.spec.node_name) is not self.runs:
                yield Violation("gangs run whole or not at all", pod.key, (Subject(POD, pod.key),))


def _local(*nodes: str) -> tuple[Body, ...]:
    return tuple(volume_body(name=f"v-{number}", node=node, size="10Gi") for number, node in enumerate(nodes))


def _with_both_kinds(count: int) -> tuple[Body, ...]:
    """A gang whose members have a claim on an existing volume and one on a volume that is provisioned."""
    bodies: list[Body] = [gang(count)]
    for number in range(count):
        bodies.append(claim_body(name=f"local-{number}", size="5Gi", storage_class="local"))
        bodies += members(1, first=number, size=SIZE, claims=(f"local-{number}",))
    return tuple(bodies)


#: By the case of the specification.
CASES: Final = {
    "G13 existing volumes": CrashCase(
        (*_local("node-1", "node-2", "node-3"), gang(3), *members(3, size="5Gi", storage_class="local")), {}
    ),
    "G22 provisioned volumes": CrashCase(
        (gang(3), *members(3, size=SIZE)), {"node-1": 150, "node-2": 110, "node-3": 110}
    ),
    "G31 repaired member": CrashCase(
        (gang(3), *members(3, size=SIZE, affinity=preferring("node-1"))),
        {"node-1": 200, "node-2": 110},
        {"node-1": 300, "node-2": 110},
    ),
    "G33 both kinds": CrashCase(
        (*_local("node-1", "node-2"), *_with_both_kinds(2)), {"node-1": 110, "node-2": 110, "node-3": 110}
    ),
    "G32 given up": CrashCase(
        (*_local("node-1", "node-1", "node-2"), *_with_both_kinds(3)),
        {"node-1": 200, "node-2": 50},
        {"node-1": 200, "node-2": 110},
        runs=False,
    ),
}


def crash_points(history: History, *, after: int = 0) -> list[Effect]:
    """Where a component of the gang's life can crash, from the creation of the gang on; `after` so many effects."""
    created = next(each.at for each in history.writes() if each.kind is POD_GROUP and each.author == USER)
    return [
        effect
        for effect in history.effects[after:]
        if effect.at >= created and effect.instance in COMPONENTS and LEASE.plural not in effect.what.split()
    ]


def crash(point: Effect) -> Crash:
    return Crash(point.instance, point.write, DOWN_SECONDS)


def run_with(case: CrashCase, *crashes: Crash, outage: bool = False) -> ScenarioResult:
    """InvariantViolated when a rule does not hold."""
    return check(case.scenario(outage=outage), seed=1, plan=FaultPlan(crashes, LATENCY))


def first_crashes(case: CrashCase) -> list[Effect]:
    return crash_points(run_with(case).history)


def second_crashes(case: CrashCase, first: Effect) -> list[Effect]:
    """All writes that follow the first crash: those of a run with it."""
    history = run_with(case, crash(first)).history
    number = next(n for n, each in enumerate(history.effects) if (each.instance, each.write) == first[1:3])
    return crash_points(history, after=number + 1)


def outages(case: CrashCase) -> list[Crash]:
    """Crashes of the coordinator after which its Lease expires: before the gang is created, and after each write."""
    history = run_with(case).history
    renewal = next(effect for effect in history.effects if effect.instance == COORDINATOR)
    points = [renewal, *(point for point in crash_points(history) if point.instance == COORDINATOR)]
    return [Crash(COORDINATOR, point.write, OUTAGE_SECONDS) for point in points]


def crashes_during(case: CrashCase, outage: Crash) -> list[Crash]:
    """Crashes of the scheduler once it has begun the group's record: the next one finds it, and no coordinator. Without
    a record the next one would bind each pod by itself."""
    effects = run_with(case, outage, outage=True).history.effects
    writes = [effect for effect in effects if effect.instance == SCHEDULER]
    begun = next(n for n, effect in enumerate(writes) if effect.what.startswith(BEGINNING))
    return [Crash(SCHEDULER, effect.write, RESTART_SECONDS) for effect in writes[begun:]]
