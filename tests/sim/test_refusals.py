"""Guard "one object ends everybody": any request, watch or CSI call of any component is refused, cut or garbled.

The whole control plane runs. No component may end; once the faults are over, everything that can be placed is placed,
and driver and API agree. A component that survives what it should never meet logs that as a bug, and a trial counts
that as a failure too (`mooring.sim.trial.BUGS`).
"""

import os
from itertools import count

import pytest

from mooring.cluster.bootstrap import Layout
from mooring.sim.faults import CALM, CODES, BadCall, BadRpc, BadWatch, FaultPlan, Trouble, WatchTrouble
from mooring.sim.hazards import RPCS, draw
from mooring.sim.trial import check
from sim.plane_trials import COMPONENTS, EVERYTHING, REFUSALS, plane
from sim.test_crash_points import struck
from sim.trials import BINDER, SCHEDULER, Crowd, seeds

#: `make soak` tries every call, otherwise every so many-th.
SOAK = "MOORING_SIM_SEEDS" in os.environ
TWO_CLAIMS = Crowd(Layout(nodes=1, local_volumes=2), pods=((5, 5),), pace=0.0).trial(all_run=True)


def test_plane_runs_everything_without_faults() -> None:
    """So that what fails below fails because of faults; and every component has requests that can go wrong."""
    outcome = check(plane(), seed=1, plan=CALM)
    writers = {written.who for written in outcome.history.writes()}
    idle = {"zonal-volume-upgrade", "selected-node-janitor", "pod-garbage-collector", "node-lifecycle-controller"}
    assert set(COMPONENTS) - writers <= idle


@pytest.mark.parametrize("seed", seeds(6))
def test_no_component_ends_and_all_pods_run_after_refusals(seed: int) -> None:
    check(plane(), seed=seed, plan=draw(seed, REFUSALS))


@pytest.mark.parametrize("seed", seeds(3))
def test_no_component_ends_whatever_goes_wrong(seed: int) -> None:
    check(plane(), seed=seed, plan=draw(seed, EVERYTHING))


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("who", [SCHEDULER, BINDER])
def test_any_single_request_may_be_refused_with_any_code(who: str, code: int) -> None:
    """The first request of a scheduler that binds two volumes asks for the coordinator's lease; a 500 or 401 in answer
    to that once ended the control plane."""
    points = 0
    for call in count(1, 1 if SOAK else 2):
        plan = FaultPlan((BadCall(who, call, Trouble.REFUSED, code=code),), 0.01)
        if not struck(check(TWO_CLAIMS, seed=1, plan=plan)):
            break
        points = call
    assert points >= 3, "fewer requests than the work takes"


def test_every_kind_of_refusal_is_drawn_and_prints_as_python() -> None:
    faults = [fault for seed in range(20) for fault in draw(seed, EVERYTHING).faults]
    calls = [fault for fault in faults if isinstance(fault, BadCall)]
    assert {call.code for call in calls if call.trouble is Trouble.REFUSED} == set(CODES)
    assert {call.trouble for call in calls} == set(Trouble)
    assert {call.events for call in calls} == {False, True}
    # Skipped events are `test_sieve`'s.
    assert {fault.trouble for fault in faults if isinstance(fault, BadWatch)} == set(WatchTrouble) - {
        WatchTrouble.SKIPPED
    }
    assert {fault.rpc for fault in faults if isinstance(fault, BadRpc)} == set(RPCS)
    plan = FaultPlan((BadCall("who", 1, Trouble.REFUSED, code=401), BadWatch("who", 1, 0, WatchTrouble.REFUSED)))
    assert "code=401" in str(plan)
    assert "WatchTrouble.REFUSED" in str(plan)
