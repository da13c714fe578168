"""What a decision costs, in calls of functions, which unlike time are the same on every machine.

The clusters are those of `bench/scheduling_cycle.py`, which measures the time; docs/performance.md has the figures.
"""

import random

import pytest
from bench.scheduling_cycle import WITHOUT_VOLUMES, a_cluster, a_pod

from mooring.api.views.pods import Pod
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.snapshot import Snapshot
from support.builders.counting import calls_of

NODES = 200
PLAIN = a_pod()
STATEFUL = a_pod(volumes=[{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("small", "large")])


def decision(snapshot: Snapshot, pod: Pod, profile: Profile = DEFAULT) -> int:
    """The second of two alike: the first fills what is kept between them."""

    def decide() -> None:
        attempt = CycleState(pod, snapshot)
        chosen = cycle.run_cycle(attempt, profile, random.Random(0))
        snapshot.volumes.restore(cycle.reserve(attempt, profile, chosen.node))

    decide()
    return calls_of(decide)


@pytest.mark.req("T29.cost")
@pytest.mark.level("b")
def test_twenty_times_the_volumes_cost_hardly_more() -> None:
    few, many = (decision(a_cluster(NODES, volumes), STATEFUL) for volumes in (400, 8_000))
    assert many < 1.2 * few


@pytest.mark.req("T28.cost")
@pytest.mark.level("b")
def test_a_pod_without_volumes_pays_for_none() -> None:
    without, among = (decision(a_cluster(NODES, volumes), PLAIN) for volumes in (0, 8_000))
    assert among == without
    # Asking the four plugins whether they have anything to say is all there is.
    assert without - decision(a_cluster(NODES, 0), PLAIN, WITHOUT_VOLUMES) < 60
