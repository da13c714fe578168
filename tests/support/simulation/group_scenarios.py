"""Fault scenarios of groups: gangs that compete for volumes and capacity, with the rules of the group's record.

`Gangs` either have enough of everything, and every gang must run, or lack one volume, and nothing of that gang may be
left. `ContendedGangs` have too little of anything: at the end an independent search says whether one waits without
need.
"""

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import structs

from mooring.api import well_known
from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.cluster.storage import NAMESPACE
from mooring.coordinator.component import Coordinator
from mooring.provisioner.component import Provisioner
from mooring.volumes.binding import HoldState, hold_state
from support.builders import Body, volume_body
from support.simulation import control_plane_scenarios, rollback_scenarios
from support.simulation.cluster import SimulatedCluster
from support.simulation.fault_scenario import FaultScenario
from support.simulation.gangs.rules import GroupRules
from support.simulation.groups import CLASS, GATES, LAYOUT, NODES, GroupStorage, create, gang, members
from support.simulation.invariants import ALWAYS, Facts, Subject, Violation
from support.simulation.rollback_scenarios import committed_stays
from support.simulation.scenarios import BINDER, SCHEDULER
from support.simulation.scenarios import NODES as NODE_AGENT
from support.simulation.storage import storage_differences

COORDINATOR: Final = Coordinator.name
PROVISIONER: Final = Provisioner.name
#: All faults of the components that take part in scheduling a group.
FAULT_LIMITS: Final = structs.replace(
    rollback_scenarios.FAULT_LIMITS,
    instances=(SCHEDULER,) * 4 + (COORDINATOR,) * 4 + (PROVISIONER,) * 2 + (BINDER, NODE_AGENT),
    bad_rpcs=3,
)
#: Many refusals of their calls at once.
REFUSALS: Final = structs.replace(
    control_plane_scenarios.REFUSALS,
    instances=FAULT_LIMITS.instances,
    rpc_instances=(PROVISIONER, NODE_AGENT),
    refusals=60,
)


class Gangs(NamedTuple):
    """Gangs with provisioned volumes and existing ones; `short` lacks one existing volume."""

    #: By gang: members, minCount, and whether its volumes exist.
    sizes: tuple[tuple[int, int, bool], ...]
    short: bool = False

    @classmethod
    def drawn(cls, seed: int) -> "Gangs":
        rng = random.Random(f"gangs {seed}")
        sizes = []
        for _ in range(rng.randint(1, 3)):
            count = rng.randint(2, 4)
            sizes.append((count, rng.randint(1, count), rng.random() < 0.5))
        return cls(tuple(sizes), short=rng.random() < 0.3)

    def objects(self) -> list[Body]:
        bodies: list[Body] = []
        volumes = 0
        for number, (count, min_count, existing) in enumerate(self.sizes):
            name = f"gang{number}"
            bodies.append(gang(min_count, name=name))
            storage_class = "local" if existing else "node"
            bodies += members(count, group=name, cpu="500m", size="5Gi", storage_class=storage_class)
            volumes += count if existing else 0
        if self.short:
            bodies += [gang(2, name="short"), *members(2, group="short", cpu="500m", size="9Gi", storage_class="local")]
        # One of the volumes is large enough for the gang that lacks another one.
        sizes = ["10Gi" if self.short and number == 0 else "8Gi" for number in range(volumes + self.short)]
        existing_volumes = [
            volume_body(name=f"v-{number}", node=NODES[number % len(NODES)], size=size)
            for number, size in enumerate(sizes)
        ]
        return [*existing_volumes, *bodies]

    def scenario(self) -> FaultScenario:
        # The pool of a node has room for three volumes, its limit is two.
        storage = GroupStorage(dict.fromkeys(NODES, 15), limit=2)
        return group_scenario(self.objects(), storage, limit=2, expect=self._all_run)

    def _all_run(self, facts: Facts) -> Iterable[Violation]:
        """Every gang that fits runs with all its members, and of the other one no pod is bound."""
        for pod in facts.pods.values():
            if bool(pod.spec.node_name) is not (pod.group_key != "default/short"):
                yield Violation("gangs run whole or not at all", pod.key, (Subject(POD, pod.key),))


class ContendedGang(NamedTuple):
    members: int
    min_count: int
    storage_class: str
    size: str
    cpu: str
    topology: str


class ContendedGangs(NamedTuple):
    """Gangs for which there is not enough: the scheduler says which of them run, but none waits without need."""

    gangs: tuple[ContendedGang, ...]
    #: Node and size of existing volumes.
    volumes: tuple[tuple[str, str], ...]
    #: In GiB by node.
    pools: Mapping[str, int]

    @classmethod
    def drawn(cls, seed: int) -> "ContendedGangs":
        rng = random.Random(f"contended gangs {seed}")
        gangs = []
        for _ in range(rng.randint(2, 3)):
            count = rng.randint(2, 4)
            storage_class, size = rng.choice(("local", "node")), rng.choice(("5Gi", "8Gi"))
            topology = well_known.ZONE if rng.random() < 0.3 else ""
            gangs.append(
                ContendedGang(count, rng.randint(1, count), storage_class, size, rng.choice(("1", "3", "5")), topology)
            )
        volumes = tuple((rng.choice(NODES), rng.choice(("5Gi", "8Gi"))) for _ in range(rng.randint(1, 6)))
        pools = {node: rng.choice((0, 5, 8, 10, 16)) for node in NODES}
        return cls(tuple(gangs), volumes, pools)

    def objects(self) -> list[Body]:
        bodies = [
            volume_body(name=f"v-{number}", node=node, size=size) for number, (node, size) in enumerate(self.volumes)
        ]
        for number, each in enumerate(self.gangs):
            name = f"gang{number}"
            bodies.append(gang(each.min_count, name=name, topology=each.topology))
            bodies += members(each.members, group=name, cpu=each.cpu, size=each.size, storage_class=each.storage_class)
        return bodies

    def scenario(self) -> FaultScenario:
        # Groups that were given up in vain pause for up to five minutes.
        storage = GroupStorage(self.pools, limit=2)
        return group_scenario(self.objects(), storage, limit=2, settle=400.0, searched=True)


async def _nothing_more(_: SimulatedCluster) -> None:
    return


def group_scenario(
    bodies: Sequence[Body],
    storage: GroupStorage,
    *,
    limit: int = 0,
    expect: Callable[[Facts], Iterable[Violation]] = lambda _: (),
    fault_seconds: float = 2.0,
    settle: float = 150.0,
    searched: bool = False,
    always_held: bool = False,
    then: Callable[[SimulatedCluster], Awaitable[None]] = _nothing_more,
) -> FaultScenario:
    """With the rules of groups; `searched`: no gang waits that could be placed; `always_held`: the coordinator's Lease
    never expires, so no pod is bound without a commit. `then` is what the user does after creating the objects."""
    found: list[GroupRules] = []

    async def apply(cluster: SimulatedCluster) -> None:
        found[:] = [
            GroupRules(cluster, pools=storage.promised, storage_class=CLASS, limit=limit, always_held=always_held)
        ]
        await create(cluster, *storage.objects())
        await cluster.clock.sleep(3)
        await create(cluster, *bodies)
        await then(cluster)

    async def audit(cluster: SimulatedCluster) -> Violation | None:
        return await found[0].audit(cluster) if found else None

    async def inspect(cluster: SimulatedCluster) -> Iterable[Violation]:
        without_need = found[0].waiting_without_need() if searched else ()
        return [*found[0].at_end(), *await _leftovers(cluster, published=not storage.figures), *without_need]

    return FaultScenario(
        LAYOUT,
        apply,
        rules=(*ALWAYS, committed_stays),
        fault_seconds=fault_seconds,
        settle=settle,
        expect=expect,
        inspect=inspect,
        audit=audit,
        extra_components=storage.extra_components,
        gates=GATES,
        can_provision=lambda *_: False,
    )


async def _leftovers(cluster: SimulatedCluster, *, published: bool) -> Iterable[Violation]:
    """I10, I13"""
    found = [*await storage_differences(cluster, published=published)]
    for volume in (await cluster.client.list(VOLUME)).items:
        state = hold_state(volume, hold_namespace=NAMESPACE)
        if state in (HoldState.HELD, HoldState.ROLLING_BACK):
            found.append(
                Violation("holds end", f"volume {volume.name} is {state.value}", (Subject(VOLUME, volume.name),))
            )
    selected = [
        claim.key
        for claim in (await cluster.client.list(CLAIM)).items
        if claim.selected_node and not claim.spec.volume_name
    ]
    return [*found, *(Violation("selected nodes end", key, (Subject(CLAIM, key),)) for key in selected)]
