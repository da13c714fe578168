"""What a control plane shows of itself as a whole."""

import random

from client.tiny_api import TinyApi
from client.tiny_client import TinyClient
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.wiring import ControlPlane


def test_the_metrics_of_all_components_are_exposed_together() -> None:
    client = TinyClient(TinyApi())
    plane = ControlPlane(lambda _: client, Layout(), clock=SystemClock(), rng=random.Random(0))
    exposed = plane.metrics.expose().decode()
    assert 'scheduler_pending_pods{queue="active"} 0.0' in exposed
    assert 'workqueue_depth{name="pod_conditions"} 0.0' in exposed
