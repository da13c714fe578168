"""No single rejected request, watch or CSI call ends a component.

Any request of the whole control plane is rejected, cut or garbled. No component may end; after the faults, every
schedulable pod runs, and the driver's volumes match the API. A component that survives an unexpected error logs it as a
bug, and a run counts that as a failure too (`support.simulation.fault_scenario.BUGS`).
"""

import os
from itertools import count

import pytest

from mooring.cluster.bootstrap import Layout
from simulation.guards.test_crash_points import fault_occurred
from support.simulation.control_plane_scenarios import COMPONENTS, EVERYTHING, REFUSALS, plane
from support.simulation.fault_scenario import check
from support.simulation.faults import (
    CODES,
    NO_FAULTS,
    RPCS,
    BadCall,
    BadRpc,
    BadWatch,
    FaultPlan,
    RequestFault,
    WatchFault,
    draw,
)
from support.simulation.scenarios import BINDER, SCHEDULER, Crowd, seeds

#: `make soak` tries every call, otherwise every so many-th.
SOAK = "MOORING_SIM_SEEDS" in os.environ
TWO_CLAIMS = Crowd(Layout(nodes=1, local_volumes=2), pods=((5, 5),), pace=0.0).scenario(all_run=True)


def test_all_pods_run_without_faults() -> None:
    """The failures below are caused by faults; and every component sends requests that can fail."""
    result = check(plane(), seed=1, plan=NO_FAULTS)
    writers = {written.author for written in result.history.writes()}
    idle = {"zonal-volume-upgrade", "selected-node-janitor", "pod-garbage-collector", "node-lifecycle-controller"}
    idle |= {"preset-node-controller", "podgroup-protection-controller", "lost-storage-controller"}
    idle |= {"unused-claim-controller"}
    assert set(COMPONENTS) - writers <= idle


@pytest.mark.parametrize("seed", seeds(6))
def test_all_pods_run_after_refusals(seed: int) -> None:
    check(plane(), seed=seed, plan=draw(seed, REFUSALS))


@pytest.mark.parametrize("seed", seeds(3))
def test_all_pods_run_whatever_faults_are_injected(seed: int) -> None:
    check(plane(), seed=seed, plan=draw(seed, EVERYTHING))


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("instance", [SCHEDULER, BINDER])
def test_any_single_refused_request_is_recovered(instance: str, code: int) -> None:
    """The first request of a scheduler that binds two volumes reads the coordinator's lease; a 500 or 401 response to
    it once ended the control plane.
    """
    points = 0
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
