"""Every crash point and every single failed request, enumerated until no n-th write or request exists.

Crash points with StatefulSets are in `faults/test_design_list`.
"""

from itertools import count

import pytest

from mooring.cluster.bootstrap import LOCAL_CLASS, Layout
from support.simulation import scenarios
from support.simulation.cluster import FAULTS_STOPPED
from support.simulation.fault_scenario import FaultScenario, ScenarioResult, check
from support.simulation.faults import BadCall, BadWrite, Crash, Deletion, Fault, FaultPlan, RequestFault, StoreFault
from support.simulation.history import Noted
from support.simulation.mixtures import PROVISIONER, ClaimRequest, Mixture
from support.simulation.scenarios import BINDER, NODES, PROTECTION, SCHEDULER, Crowd

#: Pods created at once, each with several claims.
PODS = Crowd(Layout(nodes=2, local_volumes=4), pods=((5, 5), (5, 15)), pace=0.0).scenario(all_run=True)
#: The smallest number of writes.
ONE_POD = Crowd(Layout(nodes=1, local_volumes=2), pods=((5, 5),), pace=0.0).scenario(all_run=True)
#: Pods created at once, each with claims on existing and on provisioned volumes.
MIXED = Mixture(
    Layout(nodes=3, zones=2, local_volumes=2),
    pods=(
        (ClaimRequest("regional", 5), ClaimRequest(LOCAL_CLASS, 15)),
        (
            ClaimRequest("either", 5),
            ClaimRequest("either", 5),
            ClaimRequest("of-node", 1),
            ClaimRequest(LOCAL_CLASS, 5),
        ),
    ),
    pace=0.0,
    existing=("node-1", "node-2", "node-3"),
).scenario(all_run=True)
#: Long enough for others to observe, shorter than their timeouts.
DOWN = 2.0


def fails_with(scenario: FaultScenario, fault: Fault, *, latency: float = 0.01) -> bool:
    """Run a scenario with one fault; whether it was injected."""
    return fault_occurred(check(scenario, seed=1, plan=FaultPlan((fault,), latency)))


def fault_occurred(result: ScenarioResult) -> bool:
    """Whether a fault was injected."""
    return any(isinstance(entry, Noted) and entry.what != FAULTS_STOPPED for entry in result.history.entries)


@pytest.mark.req("T15.crashes")
@pytest.mark.parametrize(("instance", "least"), [(SCHEDULER, 6), (BINDER, 9), (NODES, 2)])
def test_crash_after_any_write_is_recovered(instance: str, least: int) -> None:
    points = next(n for n in count(1) if not fails_with(PODS, Crash(instance, n, DOWN))) - 1
    assert points >= least, "fewer writes than the work takes: the crashes missed it"


@pytest.mark.req("T15.crashes")
@pytest.mark.parametrize(("instance", "least"), [(SCHEDULER, 8), (BINDER, 20), (PROVISIONER, 3)])
def test_crash_is_recovered_during_provisioning(instance: str, least: int) -> None:
    points = next(n for n in count(1) if not fails_with(MIXED, Crash(instance, n, DOWN))) - 1
    assert points >= least, "fewer writes than the work takes: the crashes missed it"


@pytest.mark.parametrize("effect", [RequestFault.LOST_ANSWER, RequestFault.OVERTAKEN, RequestFault.UNAVAILABLE])
def test_any_failed_provisioner_request_is_recovered(effect: RequestFault) -> None:
    points = next(n for n in count(1) if not fails_with(MIXED, BadCall(PROVISIONER, n, effect, 5.0))) - 1
    assert points >= 3, "fewer requests than the work takes"


def test_volume_protection_crash_is_recovered() -> None:
    crowd = scenarios.small_crowd(3)
    volumes = [victim for victim in crowd.deletable if victim[0] == "persistentvolumes"]
    deletions = tuple(Deletion(*victim, write=5 + n) for n, victim in enumerate(volumes[:3]))
    points = 0
    for n in count(1):
        result = check(crowd.scenario(), seed=1, plan=FaultPlan((*deletions, Crash(PROTECTION, n, DOWN)), 0.01))
        if not any("crashed" in entry.what for entry in result.history.entries if isinstance(entry, Noted)):
            break
        points = n
    assert points >= 1


@pytest.mark.parametrize("second", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("first", [1, 2, 4, 6])
def test_crashes_of_scheduler_and_pv_controller_are_recovered(first: int, second: int) -> None:
    check(PODS, seed=1, plan=FaultPlan((Crash(SCHEDULER, first, DOWN), Crash(BINDER, second, 3 * DOWN)), 0.01))


@pytest.mark.req("T16.api-error", "T16.conflict")
@pytest.mark.parametrize(
    ("instance", "effect"),
    [
        *(pytest.param(SCHEDULER, effect, id=f"scheduler: {effect.value}") for effect in RequestFault),
        pytest.param(BINDER, RequestFault.LOST_ANSWER, id="PV controller: lost response"),
        pytest.param(BINDER, RequestFault.OVERTAKEN, id="PV controller: conflict"),
    ],
)
def test_any_failed_request_is_recovered(instance: str, effect: RequestFault) -> None:
    points = next(n for n in count(1) if not fails_with(ONE_POD, BadCall(instance, n, effect, 5.0))) - 1
    assert points >= 3, "fewer requests than the work takes"


@pytest.mark.parametrize("effect", [pytest.param(effect, id=effect.value) for effect in StoreFault])
def test_any_failed_store_write_is_recovered(effect: StoreFault) -> None:
    points = next(n for n in count(1) if not fails_with(ONE_POD, BadWrite(n, effect, 5.0))) - 1
    assert points >= 10, "fewer writes than a pod with two claims takes"
