"""What an event costs the queue: pods that wait for something else are not even looked at."""

import pytest

from mooring.scheduler import cluster_events
from mooring.scheduler.cluster_events import ClusterEvent
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.queue import SchedulingQueue
from mooring.scheduler.registry import DEFAULT
from support.builders import a_capacity, a_claim, a_class, a_csi_node, a_driver, a_pod, a_volume, claim_ref
from support.builders.counting import calls_of
from support.builders.drivers import DRIVER
from support.scheduler.snapshots import a_snapshot

pytestmark = [pytest.mark.req("T26.volumes"), pytest.mark.level("u")]


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(cluster_events.volume_event(None, a_volume(name="v", storage_class="local")), id="a free volume"),
        pytest.param(
            cluster_events.volume_event(None, a_volume(name="v", claim_ref=claim_ref(name="c"))), id="a kept volume"
        ),
        pytest.param(
            cluster_events.claim_event(a_claim(name="c"), a_claim(name="c", selected_node="n1")), id="a claim"
        ),
        pytest.param(cluster_events.class_event(None, a_class(name="local")), id="a class"),
        pytest.param(cluster_events.capacity_event(None, a_capacity(storage_class="local")), id="free storage"),
        pytest.param(cluster_events.capacity_freed_event({"local"}), id="free capacity no pod waits for"),
        pytest.param(cluster_events.driver_event(a_driver(), None), id="a driver"),
        pytest.param(cluster_events.csi_node_event(None, a_csi_node(limits={DRIVER: 1})), id="a node's drivers"),
    ],
)
def test_event_cost_is_independent_of_unaffected_pods(event: ClusterEvent) -> None:
    few, many = _with_unschedulable_pods(10), _with_unschedulable_pods(1000)

    assert calls_of(lambda: few.requeue_for_event(event, 0.0)) == calls_of(lambda: many.requeue_for_event(event, 0.0))


def _with_unschedulable_pods(count: int) -> SchedulingQueue:
    """So many pods wait for volumes of classes and drivers of their own, whatever plugin rejected them."""
    queue = SchedulingQueue(DEFAULT.plugins)
    rejectors = frozenset({"VolumeBinding", "VolumeZone", "NodeVolumeLimits", "VolumeRestrictions"})
    snapshot = a_snapshot(
        *(a_class(name=f"class-{i}", provisioner=f"driver-{i}") for i in range(count)),
        *(a_claim(name=f"claim-{i}", storage_class=f"class-{i}") for i in range(count)),
    )
    for i in range(count):
        pod = a_pod(name=f"pod-{i}", claims=[f"claim-{i}"])
        queue.add_or_update(pod, 0.0)
        entry = queue.pop(0.0)
        assert entry is not None
        queue.add_unschedulable(entry, rejectors, CycleState(pod, snapshot).interests, 0.0)
    return queue
