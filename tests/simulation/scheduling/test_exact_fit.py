"""Capacity for exactly the requested volumes, all requested at once: no node without capacity is selected."""

import msgspec
import pytest

from mooring.api.kinds import EVENT
from mooring.cluster.bootstrap import Layout
from support.simulation.csi_scenarios import Tenants
from support.simulation.fault_scenario import ScenarioResult, check
from support.simulation.faults import NO_FAULTS, FaultLimits, draw
from support.simulation.scenarios import SCHEDULER, seeds

#: Four nodes with capacity for five volumes each, and for two.
SINGLES = Tenants(Layout(nodes=4, local_volumes=0), 10, 1, ((("fast", 2),),) * 20, 0.0, lead=5.0)
PAIRS = Tenants(Layout(nodes=4, local_volumes=0), 4, 1, ((("fast", 2), ("fast", 2)),) * 4, 0.0, lead=5.0)
#: A restarted scheduler has to find the volumes in flight.
RESTARTS = FaultLimits((SCHEDULER,), crashes=4, writes=12)


def failures(result: ScenarioResult) -> list[str]:
    """CSI errors in events."""
    events = (written for written in result.history.writes() if written.kind is EVENT and written.change.after)
    bodies = [msgspec.json.decode(written.change.after.value) for written in events if written.change.after is not None]
    return [body["message"] for body in bodies if "rpc error" in body["message"]]


@pytest.mark.req("C16.exact-fit")
@pytest.mark.parametrize("crowd", [pytest.param(SINGLES, id="one volume each"), pytest.param(PAIRS, id="two each")])
def test_no_provisioning_fails_when_capacity_fits_exactly(crowd: Tenants) -> None:
    assert sum(size for pod in crowd.pods for _, size in pod) == crowd.layout.nodes * crowd.fast
    result = check(crowd.scenario(all_run=True), seed=1, plan=NO_FAULTS)
    assert failures(result) == []


@pytest.mark.req("C16.in-flight")
@pytest.mark.parametrize("seed", seeds(6))
def test_restarted_scheduler_counts_volumes_in_flight(seed: int) -> None:
    result = check(SINGLES.scenario(all_run=True), seed=seed, plan=draw(seed, RESTARTS))
    assert failures(result) == []
