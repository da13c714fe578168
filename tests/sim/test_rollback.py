"""All of a pod's volumes or none, while everybody fails: the stuck pod, every crash point, pairs, random faults.

After each run the API's objects and the driver's own list are compared: nothing leaked, nothing lost, nothing held any
more; after each write, that nothing is given alone and nothing that was given is taken back.

Rows of the protocol's tables, and where each is tried:

    crash after a choice of nodes for some claims only    here, the scheduler's crash points
    crash after the intent, CreateVolume, the object,
      the record, the refusal, DeleteVolume, the
      rollback's record, the object's deletion            here, the provisioner's crash points (driver calls are writes)
    crash after commit or giving up                       here, the coordinator's crash points
    crash of a coordinator at any point                   the same, and random faults
    one made while the other fails; made already          test_the_pod_runs, provisioner/test_holding
    pod deleted midway, claim deleted midway              here, test_what_is_deleted…; coordinator/test_component
    room that is taken by what is held                    here, test_the_room_that_held_volumes_take…
    two pods share a claim                                coordinator/test_component
    a pod with a node of its own                          here, test_a_pod_that_nobody_scheduled…
    selected node, volumeName, annotations edited         coordinator/test_component, coordinator/test_tampering
    scheduler and rollback cross                          coordinator/test_component (asked again and again)
    an old leader's late object, DeleteVolume, creation   coordinator/test_component, provisioner/test_holding_sweep
    CAS conflicts of commit and rollback, both ways       coordinator/test_tampering; here, any single request; twins
    DeleteVolume failing for ever                         provisioner/test_holding, coordinator/test_draining
    CreateVolume timing out, with and without effect      provisioner/test_holding, here by random faults
    hold with the stock PV controller                     conformance/test_rollback
    a driver that takes no part                           coordinator/test_component, conformance/test_mixed_pod
"""

import os
import random
from functools import partial
from itertools import combinations, count

import pytest

from builders import claim_body, pod_body
from mooring.api.kinds import POD, VOLUME
from mooring.cluster.bootstrap import Layout
from mooring.cluster.storage import NAMESPACE
from mooring.sim.faults import (
    CALM,
    BadCall,
    BadRpc,
    Crash,
    Deletion,
    DriverTrouble,
    Fault,
    FaultPlan,
    ServerRestart,
    Trouble,
)
from mooring.sim.hazards import draw
from mooring.sim.storage import Hostpaths
from mooring.sim.trial import check
from mooring.sim.world import World, simulate
from mooring.volumes.plan import HoldState, hold_state
from scenarios import in_world
from sim.rollback_trials import (
    COORDINATOR,
    GI,
    PROVISIONER,
    ROUGH,
    SMALL,
    TWO_COORDINATORS,
    TWO_PROVISIONERS,
    Squeeze,
    leaving,
)
from sim.test_crash_points import struck
from sim.trials import BINDER, SCHEDULER, seeds

#: `make soak` tries every request and all pairs of crash points; otherwise every so many-th.
SOAK = "MOORING_SIM_SEEDS" in os.environ
PAIR = Squeeze()
DOWN = 2.0
#: How many writes each makes until the pod runs, at least: an enumeration that ends before has missed the work.
WRITES = {PROVISIONER: 35, COORDINATOR: 8, SCHEDULER: 11, BINDER: 14}
#: Seconds until the pod runs and everything is at rest, so that a fault may strike at the very last write.
ROUGH_SECONDS = 25.0

#: One of two provisioners may have a volume made long after the other has closed the attempt, which is in the way until
#: it is found by listing: ten minutes, and the pauses between lists.
SWEPT_SECONDS = 1300.0


def strikes(*faults: Fault, squeeze: Squeeze = PAIR, latency: float = 0.01) -> bool:
    return struck(check(squeeze.trial(rough=ROUGH_SECONDS), seed=1, plan=FaultPlan(faults, latency)))


@pytest.mark.req("R1", "T38")
@pytest.mark.parametrize(
    "squeeze",
    [
        pytest.param(PAIR, id="two volumes"),
        pytest.param(Squeeze(sizes=(3, 3, 3)), id="three volumes, two of which fit"),
        pytest.param(Squeeze(sizes=(1, 2, 4), taken=6), id="three sizes"),
        pytest.param(Squeeze(existing=1), id="two volumes and an existing one"),
    ],
)
def test_the_pod_runs_although_half_of_its_volumes_fit_elsewhere(squeeze: Squeeze) -> None:
    check(squeeze.trial(), seed=1, plan=CALM)


def test_without_the_rollback_the_pod_is_stuck() -> None:
    """So that the others are known to be able to fail."""
    check(PAIR.trial(rollback=False, settle=150.0), seed=1, plan=CALM)


@pytest.mark.req("R1", "R2", "R4", "T38")
@pytest.mark.parametrize("who", WRITES)
def test_a_crash_after_any_write_is_made_good(who: str) -> None:
    points = next(n for n in count(1) if not strikes(Crash(who, n, DOWN))) - 1
    assert points >= WRITES[who], "fewer writes than the work takes: the crashes missed it"


@pytest.mark.req("R4.mixed")
def test_a_crash_after_any_write_is_made_good_where_an_existing_volume_is_held_too() -> None:
    mixed = Squeeze(existing=1)
    for who in (COORDINATOR, SCHEDULER):
        points = next(n for n in count(1, 1 if SOAK else 3) if not strikes(Crash(who, n, DOWN), squeeze=mixed)) - 1
        assert points >= WRITES[who]


@pytest.mark.req("R1", "R2", "R4", "T38")
@pytest.mark.parametrize(("one", "other"), list(combinations(WRITES, 2)))
def test_two_may_crash_at_any_two_points(one: str, other: str) -> None:
    pairs = [(a, b) for a in range(1, WRITES[one] + 1) for b in range(1, WRITES[other] + 1)]
    for first, second in pairs if SOAK else random.Random(f"{one} {other}").sample(pairs, 3):
        strikes(Crash(one, first, DOWN), Crash(other, second, 3 * DOWN))


@pytest.mark.req("R2.overtaken")
@pytest.mark.parametrize("who", [COORDINATOR, PROVISIONER])
@pytest.mark.parametrize("trouble", [Trouble.OVERTAKEN, Trouble.LOST_ANSWER])
def test_any_single_request_may_go_wrong(who: str, trouble: Trouble) -> None:
    step = 1 if SOAK else 17
    points = next(n for n in count(step, step) if not strikes(BadCall(who, n, trouble))) - 1
    assert points >= 16, "fewer requests than the work takes"


@pytest.mark.req("R4.late-calls")
@pytest.mark.parametrize("rpc", ["create_volume", "delete_volume"])
@pytest.mark.parametrize("trouble", [DriverTrouble.LOST_ANSWER, DriverTrouble.DONE_LATE, DriverTrouble.HUNG])
def test_a_call_of_the_driver_may_end_unheard_at_any_time(rpc: str, trouble: DriverTrouble) -> None:
    for call in range(1, 4 if rpc == "create_volume" else 2):
        strikes(BadRpc(PROVISIONER, rpc, call, trouble, seconds=5.0))


@pytest.mark.req("R4.deleted-midway")
@pytest.mark.parametrize("victim", [("pods", "default/squeezed"), ("persistentvolumeclaims", "default/claim-0")])
@pytest.mark.parametrize("trouble", [DriverTrouble.DONE_LATE, DriverTrouble.HUNG])
def test_what_is_deleted_while_a_volume_is_made_leaves_nothing_behind(
    victim: tuple[str, str], trouble: DriverTrouble
) -> None:
    """The attempt is driven to its end, and what came of it is given up."""
    for call in (2, 3):
        slow = BadRpc(PROVISIONER, "create_volume", call, trouble, seconds=8.0)
        for write in range(28, 60, 2 if SOAK else 16):
            plan = FaultPlan((slow, Deletion(*victim, write=write)), 0.01)
            check(PAIR.trial(leaving=True, rough=30.0, settle=280.0), seed=1, plan=plan)


@pytest.mark.req("C16.held")
def test_the_room_that_held_volumes_take_is_not_asked_for_again() -> None:
    """While they are held, the driver reports no room on their node: giving them needs no scheduler's word."""
    layout = Layout(nodes=1, local_volumes=0)
    storage = Hostpaths(layout, rollback=True, fast=10 * GI)

    async def scenario(world: World) -> None:
        for body in storage.objects():
            await in_world.create(world, body)
        for name in ("a", "b"):
            await in_world.create(world, claim_body(name=name, storage_class="fast", size="5Gi"))
        await in_world.create(world, pod_body(name="pair", claims=("a", "b")))
        assert await world.until(partial(in_world.all_run, world, 1), within=30.0)

    simulate(scenario, layout=layout, annex=storage.annex)


@pytest.mark.req("R1.taking-turns")
def test_volumes_of_a_pod_do_not_take_turns() -> None:
    """Found by seed 317: a scheduler in its longest backoff, and a coordinator whose patience ended at that moment."""
    faults = (
        BadCall(SCHEDULER, 21, Trouble.UNAVAILABLE),
        BadCall(PROVISIONER, 9, Trouble.UNAVAILABLE),
        ServerRestart(write=56, down=2.0),
    )
    trial = Squeeze(existing=1).trial(rough=30.0, settle=280.0)
    check(trial, seed=317, plan=FaultPlan(faults, 0.0))
    check(trial, seed=317, plan=draw(317, TWO_PROVISIONERS))


@pytest.mark.req("R1", "R2", "R4", "T38")
@pytest.mark.parametrize("seed", seeds(6))
def test_whatever_goes_wrong_the_pod_runs_in_the_end(seed: int) -> None:
    squeeze = (PAIR, Squeeze(sizes=(3, 3, 3)), Squeeze(existing=1))[seed % 3]
    hazards, settle = (TWO_PROVISIONERS, SWEPT_SECONDS) if seed % 2 else (ROUGH, 280.0)
    check(squeeze.trial(rough=30.0, settle=settle), seed=seed, plan=draw(seed, hazards))


@pytest.mark.req("R2.leaving", "R4.leaving")
@pytest.mark.parametrize("seed", seeds(6))
def test_what_is_deleted_at_any_moment_leaves_nothing_behind(seed: int) -> None:
    plan = draw(seed, leaving(PAIR, ROUGH))
    check(PAIR.trial(leaving=True, rough=30.0, settle=280.0), seed=seed, plan=plan)


@pytest.mark.req("R2.two-coordinators", "R4.two-coordinators")
@pytest.mark.parametrize("seed", seeds(5))
def test_two_coordinators_do_no_harm(seed: int) -> None:
    trial = PAIR.trial(leaving=True, together=False, rough=30.0, settle=280.0)
    check(trial, seed=seed, plan=draw(seed, TWO_COORDINATORS))


@pytest.mark.req("R2.own-node")
def test_a_pod_that_nobody_scheduled_cannot_use_a_held_volume() -> None:
    """It waits on its node until the claim is bound, and is no reason to commit: it wants no node any more."""
    layout = Layout(nodes=2, local_volumes=0)
    storage = Hostpaths(layout, rollback=True, fast=10 * GI)

    async def scenario(world: World) -> None:
        for body in storage.objects():
            await in_world.create(world, body)
        for name in ("a", "b"):
            await in_world.create(world, claim_body(name=name, storage_class="fast", size="8Gi"))
        await in_world.create(world, pod_body(name="placed", node=SMALL, claims=("a",)))
        await in_world.create(world, pod_body(name="pair", claims=("a", "b")))
        for _ in range(300):
            await world.clock.sleep(0.1)
            volumes = (await world.client.list(VOLUME)).items
            placed = await world.client.get(POD, "placed", namespace="default")
            if any(hold_state(each, hold_namespace=NAMESPACE) is HoldState.HELD for each in volumes):
                assert placed.status.phase == "Pending"
        assert placed.status.phase == "Pending"

    simulate(scenario, layout=layout, annex=storage.annex)
