"""What an event costs the queue: pods that wait for something else are not even looked at."""

import pytest

from builders import a_capacity, a_claim, a_class, a_csi_node, a_driver, a_pod, a_volume, claim_ref
from builders.counting import calls_of
from builders.drivers import DRIVER
from mooring.scheduler import changes
from mooring.scheduler.contract import Change, Cycle
from mooring.scheduler.queue import SchedulingQueue
from mooring.scheduler.registry import DEFAULT
from scheduler.snapshots import a_snapshot

pytestmark = [pytest.mark.req("T26.volumes"), pytest.mark.level("u")]


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(changes.of_volume(None, a_volume(name="v", storage_class="local")), id="a free volume"),
        pytest.param(changes.of_volume(None, a_volume(name="v", claim_ref=claim_ref(name="c"))), id="a kept volume"),
        pytest.param(changes.of_claim(a_claim(name="c"), a_claim(name="c", selected_node="n1")), id="a claim"),
        pytest.param(changes.of_class(None, a_class(name="local")), id="a class"),
        pytest.param(changes.of_capacity(None, a_capacity(storage_class="local")), id="free storage"),
        pytest.param(changes.of_grown_room({"local"}), id="free storage that nobody will take"),
        pytest.param(changes.of_driver(a_driver(), None), id="a driver"),
        pytest.param(changes.of_csi_node(None, a_csi_node(limits={DRIVER: 1})), id="a node's drivers"),
    ],
)
def test_what_an_event_costs_does_not_depend_on_who_waits_for_something_else(event: Change) -> None:
    few, many = _with_sleepers(10), _with_sleepers(1000)

    assert calls_of(lambda: few.wake(event, 0.0)) == calls_of(lambda: many.wake(event, 0.0))


def _with_sleepers(count: int) -> SchedulingQueue:
    """So many pods wait for volumes of classes and drivers of their own, whatever plugin rejected them."""
    queue = SchedulingQueue(DEFAULT.plugins)
    rejectors = frozenset({"VolumeBinding", "VolumeZone", "NodeVolumeLimits", "VolumeRestrictions"})
    snapshot = a_snapshot(
        *(a_class(name=f"class-{i}", provisioner=f"driver-{i}") for i in range(count)),
        *(a_claim(name=f"claim-{i}", storage_class=f"class-{i}") for i in range(count)),
    )
    for i in range(count):
        pod = a_pod(name=f"pod-{i}", claims=[f"claim-{i}"])
        queue.put(pod, 0.0)
        entry = queue.pop(0.0)
        assert entry is not None
        queue.park(entry, rejectors, Cycle(pod, snapshot).interests, 0.0)
    return queue
