"""The whole control plane under faults drawn from seeds: whatever happens on the way, it comes right.

A failure prints the seed, the smallest plan found, and the story. `MOORING_SIM_SEEDS=2000` makes a soak of it.
"""

import msgspec
import pytest

from mooring.sim.faults import FaultPlan, Twin
from mooring.sim.hazards import Hazards, draw
from mooring.sim.trial import check
from sim import trials
from sim.trials import BINDER, ROUGH, SCHEDULER, TWINS, seeds

#: Two of a kind from the start, who hear of things at different times and often not at all.
RIVALS = Hazards(
    (SCHEDULER, f"{SCHEDULER}-2", BINDER, f"{BINDER}-2"), bad_calls=12, bad_watches=10, pauses=4, calls=10, seconds=3.0
)


def rivalry(seed: int) -> FaultPlan:
    drawn = draw(seed, RIVALS)
    return FaultPlan((Twin(SCHEDULER, 0.0), Twin(BINDER, 0.0), *drawn.faults), drawn.latency)


@pytest.mark.req("T43.anti-affinity")
@pytest.mark.parametrize("seed", seeds(9))
def test_local_volumes_on_every_node_place_every_replica(seed: int) -> None:
    check(trials.replicas(everywhere=True), seed=seed, plan=draw(seed, ROUGH))


@pytest.mark.req("T43.anti-affinity")
@pytest.mark.parametrize("seed", seeds(8))
def test_local_volumes_on_two_of_three_nodes_leave_the_third_replica_pending(seed: int) -> None:
    check(trials.replicas(everywhere=False), seed=seed, plan=draw(seed, ROUGH))


@pytest.mark.req("T35.no-lease")
@pytest.mark.parametrize("seed", seeds(6))
def test_replicas_are_placed_with_two_of_everybody_who_handles_volumes(seed: int) -> None:
    check(trials.replicas(everywhere=True), seed=seed, plan=draw(seed, TWINS))


@pytest.mark.req("T15.many", "T43.several-claims")
@pytest.mark.parametrize("seed", seeds(8))
def test_pods_with_enough_volumes_on_every_node_all_run(seed: int) -> None:
    check(trials.lucky_crowd(seed).trial(all_run=True), seed=seed, plan=draw(seed, ROUGH))


@pytest.mark.req("T13.later-decisions", "T15.many", "T43.several-claims")
@pytest.mark.parametrize("seed", seeds(9))
def test_pods_competing_for_few_volumes_are_placed_as_far_as_they_can_be(seed: int) -> None:
    check(trials.small_crowd(seed).trial(), seed=seed, plan=draw(seed, ROUGH))


@pytest.mark.req("T35.no-lease", "T47.affinity")
@pytest.mark.parametrize("seed", seeds(9))
def test_two_schedulers_and_two_pv_controllers_share_the_volumes(seed: int) -> None:
    check(trials.small_crowd(seed).trial(), seed=seed, plan=draw(seed, TWINS))


@pytest.mark.req("T35.no-lease")
@pytest.mark.parametrize("seed", seeds(9))
def test_two_schedulers_after_the_same_volumes_never_take_one_from_the_other(seed: int) -> None:
    check(trials.equal_crowd(seed).trial(), seed=seed, plan=rivalry(seed))


@pytest.mark.req("T16.pv-deleted", "T16.pvc-deleted")
@pytest.mark.parametrize("seed", seeds(9))
def test_users_may_delete_anything_at_any_moment(seed: int) -> None:
    crowd = trials.small_crowd(seed)
    hazards = msgspec.structs.replace(TWINS, deletable=crowd.deletable, deletions=4)
    check(crowd.trial(), seed=seed, plan=draw(seed, hazards))


@pytest.mark.req("T16.pv-deleted", "T16.pvc-deleted")
@pytest.mark.parametrize("seed", seeds(8))
def test_a_statefulset_recovers_from_whatever_is_deleted_under_it(seed: int) -> None:
    hazards = msgspec.structs.replace(ROUGH, deletable=trials.OF_REPLICAS, deletions=4)
    check(trials.replicas(everywhere=True, undisturbed=False), seed=seed, plan=draw(seed, hazards))


@pytest.mark.req("T13.restored")
@pytest.mark.parametrize("seed", seeds(9))
def test_pods_deleted_while_they_are_bound_leave_their_volumes_to_others(seed: int) -> None:
    crowd = trials.small_crowd(seed)
    pods = tuple(victim for victim in crowd.deletable if victim[0] == "pods")
    hazards = msgspec.structs.replace(ROUGH, deletable=pods, deletions=3, all_writes=40)
    check(crowd.trial(), seed=seed, plan=draw(seed, hazards))


@pytest.mark.req("T35.no-lease", "T42.immediate")
@pytest.mark.parametrize("seed", seeds(8))
def test_two_pv_controllers_bind_immediate_claims_to_one_volume_each(seed: int) -> None:
    check(trials.immediate(seed), seed=seed, plan=rivalry(seed))
