"""All volumes of a pod or none, under faults: the stuck pod, every crash point, pairs of crashes, random faults.

After each run API objects and the driver's volumes are compared: none leaked, lost or held; after each write: volumes
are committed together, and committed ones are not rolled back.

Rows of the protocol's tables, and where each is tested:

    crash after selected nodes of some claims only        here, the scheduler's crash points
    crash after the intent, CreateVolume, the object,
      the record, the refusal, DeleteVolume, the
      rollback's record, the object's deletion            here, the provisioner's crash points (driver calls are writes)
    crash after commit or rollback                        here, the coordinator's crash points
    crash of a coordinator at any point                   the same, and random faults
    one provisioned, the other fails or exists            test_pod_runs, provisioner: test_held_provisioning
    pod deleted midway, claim deleted midway              here, test_deletion_…; coordinator/test_component
    capacity used by held volumes                         here, test_held_volumes_are_not_charged_again
    two pods share a claim                                coordinator/test_component
    a pod with a node of its own                          here, test_pod_with_own_node…
    selected node, volumeName, annotations edited         coordinator/test_component, coordinator/test_tampering
    scheduler and rollback cross                          coordinator/test_component (selected repeatedly)
    an old leader's late object, DeleteVolume, creation   coordinator/test_component, provisioner: test_holding_sweep
    CAS conflicts of commit and rollback, both ways       coordinator/test_tampering; here, failed requests; duplicates
    DeleteVolume failing permanently                      provisioner: test_held_provisioning, coordinator/test_drain
    CreateVolume timing out, with and without effect      provisioner: test_held_provisioning, here by random faults
    hold with the stock PV controller                     conformance/storage/test_rollback
    a driver that takes no part                           coordinator/test_component, conformance: test_mixed_volumes
"""

import random
from functools import partial
from itertools import combinations, count

import pytest

from mooring.api.kinds import POD, VOLUME
from mooring.cluster.bootstrap import Layout
from mooring.cluster.storage import NAMESPACE
from mooring.control.feature_gates import parse_feature_gates
from mooring.volumes.binding import HoldState, hold_state
from simulation.guards.test_crash_points import fault_occurred
from support.builders import claim_body, pod_body
from support.scenarios import simulated
from support.simulation.cluster import SimulatedCluster, simulate
from support.simulation.fault_scenario import check
from support.simulation.faults import (
    NO_FAULTS,
    BadCall,
    BadRpc,
    Crash,
    Deletion,
    DriverFault,
    Fault,
    FaultPlan,
    RequestFault,
    ServerRestart,
    draw,
)
from support.simulation.rollback_scenarios import (
    COORDINATOR,
    FAULT_LIMITS,
    GI,
    PROVISIONER,
    SMALL,
    TWO_COORDINATORS,
    TWO_PROVISIONERS,
    OpenNodes,
    Squeeze,
    leaving,
)
from support.simulation.scenarios import BINDER, SCHEDULER, SOAK, seeds
from support.simulation.storage import HostpathStorage

PAIR = Squeeze()
DOWN = 2.0
#: Minimum number of writes of each component until the pod runs: a shorter enumeration is incomplete.
WRITES = {PROVISIONER: 35, COORDINATOR: 8, SCHEDULER: 11, BINDER: 14}
#: Seconds until the pod runs and all components are idle, so that a fault may hit the very last write.
FAULT_SECONDS = 25.0

#: One of two provisioners may create a volume long after the other has closed the attempt; it uses capacity until the
#: orphan sweep: ten minutes, and the interval between lists.
SWEPT_SECONDS = 1300.0


def fails_with(*faults: Fault, squeeze: Squeeze = PAIR, latency: float = 0.01) -> bool:
    return fault_occurred(check(squeeze.scenario(fault_seconds=FAULT_SECONDS), seed=1, plan=FaultPlan(faults, latency)))


@pytest.mark.req("T38.faults")
@pytest.mark.parametrize(
    "squeeze",
    [
        pytest.param(PAIR, id="two volumes"),
        pytest.param(Squeeze(sizes=(3, 3, 3)), id="three volumes, two of which fit"),
        pytest.param(Squeeze(sizes=(1, 2, 4), taken=6), id="three sizes"),
        pytest.param(Squeeze(existing=1), id="two volumes and an existing one"),
    ],
)
def test_pod_runs_after_rollback_on_first_node(squeeze: Squeeze) -> None:
    check(squeeze.scenario(), seed=1, plan=NO_FAULTS)


@pytest.mark.req("R1.other-node")
@pytest.mark.parametrize("full", [("node-1",), ("node-1", "node-2"), ("node-2", "node-3")], ids=" and ".join)
def test_scheduler_alone_finds_the_node_with_capacity(full: tuple[str, ...]) -> None:
    check(OpenNodes(full).scenario(), seed=1, plan=NO_FAULTS)


@pytest.mark.req("R1.other-node", "R1.taking-turns")
@pytest.mark.parametrize("seed", seeds(3))
def test_scheduler_alone_finds_the_node_with_capacity_under_faults(seed: int) -> None:
    check(OpenNodes().scenario(fault_seconds=FAULT_SECONDS), seed=seed, plan=draw(seed, FAULT_LIMITS))


def test_pod_is_stuck_without_rollback() -> None:
    """The other tests can fail."""
    check(PAIR.scenario(rollback=False, settle=150.0), seed=1, plan=NO_FAULTS)


@pytest.mark.slow
@pytest.mark.req("R1.crashes", "R2.crashes", "R4.accounted", "R4.crashes", "T38.crashes")
@pytest.mark.parametrize("instance", WRITES)
def test_crash_after_any_write_is_recovered(instance: str) -> None:
    points = next(n for n in count(1) if not fails_with(Crash(instance, n, DOWN))) - 1
    assert points >= WRITES[instance], "fewer writes than the work takes: the crashes missed it"


@pytest.mark.req("R4.mixed")
def test_crash_is_recovered_with_held_static_volume() -> None:
    mixed = Squeeze(existing=1)
    for instance in (COORDINATOR, SCHEDULER):
        points = (
            next(n for n in count(1, 1 if SOAK else 3) if not fails_with(Crash(instance, n, DOWN), squeeze=mixed)) - 1
        )
        assert points >= WRITES[instance]


@pytest.mark.req("R1.crashes", "R2.crashes", "R4.crashes", "T38.crashes")
@pytest.mark.parametrize(("one", "other"), list(combinations(WRITES, 2)))
def test_two_crashes_at_any_points_are_recovered(one: str, other: str) -> None:
    pairs = [(a, b) for a in range(1, WRITES[one] + 1) for b in range(1, WRITES[other] + 1)]
    for first, second in pairs if SOAK else random.Random(f"{one} {other}").sample(pairs, 3):
        fails_with(Crash(one, first, DOWN), Crash(other, second, 3 * DOWN))


@pytest.mark.req("R2.overtaken")
@pytest.mark.parametrize("instance", [COORDINATOR, PROVISIONER])
@pytest.mark.parametrize("effect", [RequestFault.OVERTAKEN, RequestFault.LOST_ANSWER])
def test_any_failed_request_is_recovered(instance: str, effect: RequestFault) -> None:
    step = 1 if SOAK else 17
    points = next(n for n in count(step, step) if not fails_with(BadCall(instance, n, effect))) - 1
    assert points >= 16, "fewer requests than the work takes"


@pytest.mark.req("R4.late-calls")
@pytest.mark.parametrize("rpc", ["create_volume", "delete_volume"])
@pytest.mark.parametrize("effect", [DriverFault.LOST_ANSWER, DriverFault.DONE_LATE, DriverFault.HUNG])
def test_csi_call_without_response_is_recovered(rpc: str, effect: DriverFault) -> None:
    for call in range(1, 4 if rpc == "create_volume" else 2):
        fails_with(BadRpc(PROVISIONER, rpc, call, effect, seconds=5.0))


@pytest.mark.req("R4.deleted-midway")
@pytest.mark.parametrize("victim", [("pods", "default/squeezed"), ("persistentvolumeclaims", "default/claim-0")])
@pytest.mark.parametrize("effect", [DriverFault.DONE_LATE, DriverFault.HUNG])
def test_deletion_during_provisioning_leaks_no_volume(victim: tuple[str, str], effect: DriverFault) -> None:
    """The attempt is completed, and its volume rolled back."""
    for call in (2, 3):
        slow = BadRpc(PROVISIONER, "create_volume", call, effect, seconds=8.0)
        for write in range(28, 60, 2 if SOAK else 16):
            plan = FaultPlan((slow, Deletion(*victim, write=write)), 0.01)
            check(PAIR.scenario(leaving=True, fault_seconds=30.0, settle=280.0), seed=1, plan=plan)


@pytest.mark.req("C16.held")
def test_held_volumes_are_not_charged_again() -> None:
    """While volumes are held, the driver reports no capacity on their node: the commit needs no scheduling decision."""
    layout = Layout(nodes=1, local_volumes=0)
    storage = HostpathStorage(layout, rollback=True, fast=10 * GI)

    async def scenario(cluster: SimulatedCluster) -> None:
        for body in storage.objects():
            await simulated.create(cluster, body)
        for name in ("a", "b"):
            await simulated.create(cluster, claim_body(name=name, storage_class="fast", size="5Gi"))
        await simulated.create(cluster, pod_body(name="pair", claims=("a", "b")))
        assert await cluster.until(partial(simulated.all_run, cluster, 1), within=30.0)

    simulate(scenario, layout=layout, extra_components=storage.extra_components)


@pytest.mark.req("R1.taking-turns")
def test_volumes_of_a_pod_are_not_rolled_back_alternately() -> None:
    """Found by seed 317: a scheduler in its maximum backoff, and a coordinator whose hold timeout expired then."""
    faults = (
        BadCall(SCHEDULER, 21, RequestFault.UNAVAILABLE),
        BadCall(PROVISIONER, 9, RequestFault.UNAVAILABLE),
        ServerRestart(write=56, down=2.0),
    )
    scenario = Squeeze(existing=1).scenario(fault_seconds=30.0, settle=280.0)
    check(scenario, seed=317, plan=FaultPlan(faults, 0.0))
    check(scenario, seed=317, plan=draw(317, TWO_PROVISIONERS))


@pytest.mark.req("R1.crashes", "R2.crashes", "R4.accounted", "T38.faults")
@pytest.mark.parametrize("seed", seeds(6))
def test_pod_runs_after_random_faults(seed: int) -> None:
    squeeze = (PAIR, Squeeze(sizes=(3, 3, 3)), Squeeze(existing=1))[seed % 3]
    limits, settle = (TWO_PROVISIONERS, SWEPT_SECONDS) if seed % 2 else (FAULT_LIMITS, 280.0)
    check(squeeze.scenario(fault_seconds=30.0, settle=settle), seed=seed, plan=draw(seed, limits))


@pytest.mark.req("R2.leaving", "R4.leaving")
@pytest.mark.parametrize("seed", seeds(6))
def test_deletion_at_any_time_leaks_no_volume(seed: int) -> None:
    plan = draw(seed, leaving(PAIR, FAULT_LIMITS))
    check(PAIR.scenario(leaving=True, fault_seconds=30.0, settle=280.0), seed=seed, plan=plan)


@pytest.mark.req("R2.two-coordinators", "R4.two-coordinators")
@pytest.mark.parametrize("seed", seeds(5))
def test_two_coordinators_lose_no_committed_volume(seed: int) -> None:
    scenario = PAIR.scenario(leaving=True, together=False, fault_seconds=30.0, settle=280.0)
    check(scenario, seed=seed, plan=draw(seed, TWO_COORDINATORS))


@pytest.mark.req("R2.own-node")
def test_pod_with_own_node_cannot_use_held_volume() -> None:
    """It waits on its node until the claim is bound, and causes no commit. The gate would have the claim bound."""
    layout = Layout(nodes=2, local_volumes=0)
    storage = HostpathStorage(layout, rollback=True, fast=10 * GI)

    async def scenario(cluster: SimulatedCluster) -> None:
        for body in storage.objects():
            await simulated.create(cluster, body)
        for name in ("a", "b"):
            await simulated.create(cluster, claim_body(name=name, storage_class="fast", size="8Gi"))
        await simulated.create(cluster, pod_body(name="placed", node=SMALL, claims=("a",)))
        await simulated.create(cluster, pod_body(name="pair", claims=("a", "b")))
        for _ in range(300):
            await cluster.clock.sleep(0.1)
            volumes = (await cluster.client.list(VOLUME)).items
            placed = await cluster.client.get(POD, "placed", namespace="default")
            if any(hold_state(each, hold_namespace=NAMESPACE) is HoldState.HELD for each in volumes):
                assert placed.status.phase == "Pending"
        assert placed.status.phase == "Pending"

    simulate(
        scenario,
        layout=layout,
        extra_components=storage.extra_components,
        gates=parse_feature_gates("PresetNodeBinding=false"),
    )
