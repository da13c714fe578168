"""No single rejected request, watch or CSI call ends a component.

Any request of the whole control plane is rejected, cut or garbled. No component may end; after the faults, every
schedulable pod runs, and the driver's volumes match the API. That every component writes in one of the two scenarios is
a test of `test_sieve`. A component that survives an unexpected error logs it as a
bug, and a run counts that as a failure too (`support.simulation.fault_scenario.BUGS`).
"""

from itertools import count

import pytest

from mooring.cluster.bootstrap import Layout
from simulation.guards.test_crash_points import fault_occurred
from support.simulation.control_plane_scenarios import EVERYTHING, REFUSALS, plane
from support.simulation.fault_scenario import check
from support.simulation.faults import (
    CODES,
    MIN_LATENCY,
    RPCS,
    BadCall,
    BadRpc,
    BadWatch,
    FaultPlan,
    RequestFault,
    WatchFault,
    draw,
)
from support.simulation.maintenance_scenarios import FAULTY_MAINTENANCE, REFUSED_MAINTENANCE, maintenance
from support.simulation.scenarios import BINDER, SCHEDULER, SOAK, Crowd, seeds

TWO_CLAIMS = Crowd(Layout(nodes=1, local_volumes=2), pods=((5, 5),), pace=0.0).scenario(all_run=True)


@pytest.mark.parametrize("seed", seeds(6))
def test_all_pods_run_after_refusals(seed: int) -> None:
    check(plane(), seed=seed, plan=draw(seed, REFUSALS))


@pytest.mark.parametrize("seed", seeds(3))
def test_all_pods_run_whatever_faults_are_injected(seed: int) -> None:
    plan = draw(seed, EVERYTHING)
    if any(isinstance(fault, BadWatch) and fault.instance == SCHEDULER and fault.seconds for fault in plan.faults):
        # A scheduler that does not observe a taint binds pods as fast as they are evicted, as in Kubernetes.
        plan = FaultPlan(plan.faults, max(plan.latency, MIN_LATENCY))
    check(plane(), seed=seed, plan=plan)


@pytest.mark.parametrize("seed", seeds(2))
def test_maintenance_is_done_after_refusals(seed: int) -> None:
    """The components that write nothing in the runs above."""
    check(maintenance(), seed=seed, plan=draw(seed, REFUSED_MAINTENANCE))


@pytest.mark.parametrize("seed", seeds(2))
def test_maintenance_is_done_whatever_faults_are_injected(seed: int) -> None:
    check(maintenance(), seed=seed, plan=draw(seed, FAULTY_MAINTENANCE))


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("instance", [SCHEDULER, BINDER])
def test_any_single_refused_request_is_recovered(instance: str, code: int) -> None:
    """The first request of a scheduler that binds two volumes reads the coordinator's lease; a 500 or 401 response to
    it once ended the control plane.
    """
    points = 0
    # `make soak` tries every call, `make test` every other one.
    for call in count(1, 1 if SOAK else 2):
        plan = FaultPlan((BadCall(instance, call, RequestFault.REFUSED, code=code),), 0.01)
        if not fault_occurred(check(TWO_CLAIMS, seed=1, plan=plan)):
            break
        points = call
    assert points >= 3, "fewer requests than the work takes"


def test_every_refusal_is_drawn_and_prints_as_python() -> None:
    faults = [fault for seed in range(20) for fault in draw(seed, EVERYTHING).faults]
    calls = [fault for fault in faults if isinstance(fault, BadCall)]
    assert {call.code for call in calls if call.effect is RequestFault.REFUSED} == set(CODES)
    assert {call.effect for call in calls} == set(RequestFault)
    assert {call.events for call in calls} == {False, True}
    # Skipped events are in `test_sieve`.
    assert {fault.effect for fault in faults if isinstance(fault, BadWatch)} == set(WatchFault) - {WatchFault.SKIPPED}
    assert {fault.rpc for fault in faults if isinstance(fault, BadRpc)} == set(RPCS)
    plan = FaultPlan(
        (BadCall("instance", 1, RequestFault.REFUSED, code=401), BadWatch("instance", 1, 0, WatchFault.REFUSED))
    )
    assert "code=401" in str(plan)
    assert "WatchFault.REFUSED" in str(plan)
