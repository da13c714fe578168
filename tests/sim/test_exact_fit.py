"""Room for exactly as many volumes as are wanted, and all wanted at once: nobody is sent where there is no room."""

import msgspec
import pytest

from mooring.api.kinds import EVENT
from mooring.cluster.bootstrap import Layout
from mooring.sim.faults import CALM
from mooring.sim.hazards import Hazards, draw
from mooring.sim.trial import Outcome, check
from sim.csi_trials import Tenants
from sim.trials import SCHEDULER, seeds

#: Four nodes, with room for five volumes each, and for two.
SINGLES = Tenants(Layout(nodes=4, local_volumes=0), 10, 1, ((("fast", 2),),) * 20, 0.0)
PAIRS = Tenants(Layout(nodes=4, local_volumes=0), 4, 1, ((("fast", 2), ("fast", 2)),) * 4, 0.0)
#: A scheduler that comes and goes has to find out what is in flight.
RESTARTS = Hazards((SCHEDULER,), crashes=4, writes=12)


def failures(outcome: Outcome) -> list[str]:
    """What the driver said went wrong."""
    told = (written for written in outcome.history.writes() if written.kind is EVENT and written.change.after)
    bodies = [msgspec.json.decode(written.change.after.value) for written in told if written.change.after is not None]
    return [body["message"] for body in bodies if "rpc error" in body["message"]]


@pytest.mark.req("C16")
@pytest.mark.parametrize("crowd", [pytest.param(SINGLES, id="one volume each"), pytest.param(PAIRS, id="two each")])
def test_all_run_and_no_volume_is_asked_for_in_vain(crowd: Tenants) -> None:
    assert sum(size for pod in crowd.pods for _, size in pod) == crowd.layout.nodes * crowd.fast
    outcome = check(crowd.trial(all_run=True), seed=1, plan=CALM)
    assert failures(outcome) == []


@pytest.mark.req("C16.in-flight")
@pytest.mark.parametrize("seed", seeds(6))
def test_a_scheduler_that_restarts_counts_what_its_predecessor_promised(seed: int) -> None:
    outcome = check(SINGLES.trial(all_run=True), seed=seed, plan=draw(seed, RESTARTS))
    assert failures(outcome) == []
