"""Volumes of a CSI driver under faults of all components: none is leaked or lost, published capacity is correct."""

from itertools import count

import pytest

from mooring.cluster.bootstrap import Layout
from mooring.csi.contract import Code
from support.simulation.cluster import FAULTS_STOPPED
from support.simulation.csi_scenarios import (
    FAULT_LIMITS,
    PROVISIONER,
    WITH_DUPLICATES,
    Tenants,
    fitting_tenants,
    tenants,
    without_invalid_responses,
)
from support.simulation.fault_scenario import check
from support.simulation.faults import BadCall, BadRpc, Crash, DriverFault, Fault, FaultPlan, RequestFault, draw
from support.simulation.history import Noted
from support.simulation.scenarios import seeds

#: Two pods, of which the second needs the capacity of the first.
TWO = Tenants(Layout(nodes=2, local_volumes=0), 10, 10, ((("fast", 6), ("fast", 2)), (("slow", 5),)), 0.0)
#: A claim is deleted, which its provisioner observes after it has deleted the volume.
CLAIM_OBSERVED_LATE = 105


def fails_with(*faults: Fault) -> int:
    """Run the two pods with these faults; returns the number of injected ones."""
    result = check(TWO.scenario(all_run=True), seed=1, plan=FaultPlan(faults, 0.01))
    told = [entry.what for entry in result.history.entries if isinstance(entry, Noted)]
    return sum(what != FAULTS_STOPPED for what in told)


@pytest.mark.req("R4.crashes")
def test_provisioner_crash_after_any_write_is_recovered() -> None:
    """Driver calls with side effects count as writes."""
    points = next(n for n in count(1) if not fails_with(Crash(PROVISIONER, n, 2.0))) - 1
    assert points >= 10, "three volumes, their objects, and figures for two nodes and two classes"


@pytest.mark.req("R4.answers")
@pytest.mark.parametrize("effect", [effect for effect in DriverFault if effect is not DriverFault.REFUSED])
def test_any_failed_csi_call_is_recovered(effect: DriverFault) -> None:
    for rpc in ("create_volume", "get_capacity"):
        assert fails_with(BadRpc(PROVISIONER, rpc, 1, effect, seconds=12.0)), rpc


@pytest.mark.req("R4.answers")
@pytest.mark.parametrize("code", Code)
def test_any_csi_error_code_is_recovered(code: Code) -> None:
    refusals = [BadRpc(PROVISIONER, "create_volume", n, DriverFault.REFUSED, code) for n in (1, 2)]
    assert fails_with(*refusals)


def test_recorded_volume_is_not_deleted_after_later_error() -> None:
    """1. The PersistentVolume is created, and the response is lost.
    2. CreateVolume is repeated, and returns another size.
    """
    nonsense = [BadRpc(PROVISIONER, "create_volume", n, DriverFault.WRONG) for n in (4, 5)]
    calls = (
        next(n for n in count(1) if not fails_with(BadCall(PROVISIONER, n, RequestFault.LOST_ANSWER), *nonsense)) - 1
    )
    assert calls >= 10, "fewer requests than the work takes"


@pytest.mark.parametrize("seed", seeds(8))
def test_all_pods_run_with_enough_capacity(seed: int) -> None:
    check(fitting_tenants(seed).scenario(all_run=True), seed=seed, plan=draw(seed, FAULT_LIMITS))


@pytest.mark.req("C9.volume-created", "C9.volume-deleted", "C19.api-away", "C19.driver-away", "C19.restart")
@pytest.mark.parametrize("seed", seeds(8))
def test_schedulable_pods_are_scheduled_with_little_capacity(seed: int) -> None:
    check(tenants(seed).scenario(), seed=seed, plan=draw(seed, FAULT_LIMITS))


@pytest.mark.req("C8.obsolete", "C19.restart")
@pytest.mark.parametrize("seed", seeds(8))
def test_deletion_at_any_time_leaks_no_volume(seed: int) -> None:
    chosen = tenants(seed)
    check(chosen.scenario(), seed=seed, plan=draw(seed, chosen.leaving(FAULT_LIMITS)))


@pytest.mark.req("R4.two-provisioners", "T35.two-provisioners")
@pytest.mark.parametrize("seed", sorted({*seeds(8), CLAIM_OBSERVED_LATE}))
def test_two_provisioners_create_each_volume_once(seed: int) -> None:
    chosen = tenants(seed)
    check(chosen.scenario(), seed=seed, plan=without_invalid_responses(draw(seed, chosen.leaving(WITH_DUPLICATES))))
