"""The whole control plane under faults drawn from seeds converges.

A failure prints the seed, the smallest plan found, and the trace. `MOORING_SIM_SEEDS=2000` runs more seeds.
"""

import msgspec
import pytest

from support.simulation import scenarios
from support.simulation.fault_scenario import check
from support.simulation.faults import DuplicateInstance, FaultLimits, FaultPlan, draw
from support.simulation.scenarios import BINDER, FAULT_LIMITS, SCHEDULER, WITH_DUPLICATES, seeds

#: Two instances of each from the start, with different watch progress.
DUPLICATE_LIMITS = FaultLimits(
    (SCHEDULER, f"{SCHEDULER}-2", BINDER, f"{BINDER}-2"), bad_calls=12, bad_watches=10, pauses=4, calls=10, seconds=3.0
)


def duplicate_instances_plan(seed: int) -> FaultPlan:
    drawn = draw(seed, DUPLICATE_LIMITS)
    return FaultPlan((DuplicateInstance(SCHEDULER, 0.0), DuplicateInstance(BINDER, 0.0), *drawn.faults), drawn.latency)


@pytest.mark.req("T43.anti-affinity")
@pytest.mark.parametrize("seed", seeds(9))
def test_all_replicas_run_with_local_volumes_on_every_node(seed: int) -> None:
    check(scenarios.replicas(everywhere=True), seed=seed, plan=draw(seed, FAULT_LIMITS))


@pytest.mark.req("T43.anti-affinity")
@pytest.mark.parametrize("seed", seeds(8))
def test_third_replica_is_pending_with_volumes_on_two_nodes(seed: int) -> None:
    check(scenarios.replicas(everywhere=False), seed=seed, plan=draw(seed, FAULT_LIMITS))


@pytest.mark.req("T35.no-lease")
@pytest.mark.parametrize("seed", seeds(6))
def test_all_replicas_run_with_duplicate_instances(seed: int) -> None:
    check(scenarios.replicas(everywhere=True), seed=seed, plan=draw(seed, WITH_DUPLICATES))


@pytest.mark.req("T15.many", "T43.several-claims")
@pytest.mark.parametrize("seed", seeds(8))
def test_all_pods_run_with_enough_volumes_on_every_node(seed: int) -> None:
    check(scenarios.fitting_crowd(seed).scenario(all_run=True), seed=seed, plan=draw(seed, FAULT_LIMITS))


@pytest.mark.req("T13.later-decisions", "T15.many", "T43.several-claims")
@pytest.mark.parametrize("seed", seeds(9))
def test_schedulable_pods_are_scheduled_with_few_volumes(seed: int) -> None:
    check(scenarios.small_crowd(seed).scenario(), seed=seed, plan=draw(seed, FAULT_LIMITS))


@pytest.mark.req("T35.no-lease", "T47.affinity")
@pytest.mark.parametrize("seed", seeds(9))
def test_duplicate_instances_share_the_volumes(seed: int) -> None:
    check(scenarios.small_crowd(seed).scenario(), seed=seed, plan=draw(seed, WITH_DUPLICATES))


@pytest.mark.req("T35.no-lease")
@pytest.mark.parametrize("seed", seeds(9))
def test_two_schedulers_never_rebind_a_volume(seed: int) -> None:
    check(scenarios.equal_crowd(seed).scenario(), seed=seed, plan=duplicate_instances_plan(seed))


@pytest.mark.req("T16.pv-deleted", "T16.pvc-deleted")
@pytest.mark.parametrize("seed", seeds(9))
def test_cluster_converges_after_any_deletion(seed: int) -> None:
    crowd = scenarios.small_crowd(seed)
    limits = msgspec.structs.replace(WITH_DUPLICATES, deletable=crowd.deletable, deletions=4)
    check(crowd.scenario(), seed=seed, plan=draw(seed, limits))


@pytest.mark.req("T16.pv-deleted", "T16.pvc-deleted")
@pytest.mark.parametrize("seed", seeds(8))
def test_statefulset_recovers_after_any_deletion(seed: int) -> None:
    limits = msgspec.structs.replace(FAULT_LIMITS, deletable=scenarios.OF_REPLICAS, deletions=4)
    check(scenarios.replicas(everywhere=True, undisturbed=False), seed=seed, plan=draw(seed, limits))


@pytest.mark.req("T13.restored")
@pytest.mark.parametrize("seed", seeds(9))
def test_pods_deleted_while_binding_release_their_volumes(seed: int) -> None:
    crowd = scenarios.small_crowd(seed)
    pods = tuple(victim for victim in crowd.deletable if victim[0] == "pods")
    limits = msgspec.structs.replace(FAULT_LIMITS, deletable=pods, deletions=3, all_writes=40)
    check(crowd.scenario(), seed=seed, plan=draw(seed, limits))


@pytest.mark.req("T35.no-lease", "T42.immediate")
@pytest.mark.parametrize("seed", seeds(8))
def test_two_pv_controllers_bind_one_volume_per_immediate_claim(seed: int) -> None:
    check(scenarios.immediate(seed), seed=seed, plan=duplicate_instances_plan(seed))
