"""Which parked pods an event wakes: those it can help, of those that the plugin concerned has rejected, and no others.

The single hints are tested with their plugins; here the queue has all of them.
"""

import pytest

from mooring.scheduler import cluster_events
from mooring.scheduler.cluster_events import ClusterEvent
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.queue import SchedulingQueue
from mooring.scheduler.registry import DEFAULT
from support.builders import (
    a_capacity,
    a_claim,
    a_class,
    a_csi_node,
    a_driver,
    a_node,
    a_pod,
    a_volume,
    an_attachment,
    claim_ref,
)
from support.builders.drivers import DRIVER
from support.scheduler.snapshots import a_snapshot

pytestmark = pytest.mark.req("T26.exactly")

#: By name, what each of the waiting pods was rejected by, and the pod.
WAITING = {
    "for-volume": ("VolumeBinding", a_pod(name="for-volume", claims=["c"])),
    "for-other-volume": ("VolumeBinding", a_pod(name="for-other-volume", claims=["d"])),
    "for-attachment": ("NodeVolumeLimits", a_pod(name="for-attachment", claims=["e"])),
    "for-zone": ("VolumeZone", a_pod(name="for-zone", claims=["f"])),
    "for-room": ("NodeResourcesFit", a_pod(name="for-room", requests={"cpu": "6"})),
    "for-label": ("NodeAffinity", a_pod(name="for-label", node_selector={"pool": "blue"})),
    "for-taint": ("TaintToleration", a_pod(name="for-taint")),
    "for-spread": (
        "PodTopologySpread",
        a_pod(
            name="for-spread",
            labels={"app": "web"},
            topology_spread=[
                {
                    "maxSkew": 1,
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": "web"}},
                }
            ],
        ),
    ),
}
VOLUMES = {"for-volume", "for-other-volume"}
#: Those whose volume may be provisioned: a node may take a volume of another driver for the limit that is exceeded.
PROVISIONED = {"for-other-volume", "for-attachment"}
#: What was there when they were rejected.
THERE = (
    a_class(name="local"),
    a_class(name="made", provisioner=DRIVER),
    a_claim(name="c"),
    a_claim(name="d", storage_class="made"),
    a_claim(name="e", storage_class="made"),
    a_claim(name="f", volume="volume-f", bound=True),
)
TAINT = [{"key": "kept", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("change", "woken"),
    [
        pytest.param(cluster_events.claim_event(None, a_claim(name="c")), {"for-volume"}, id="a claim is added"),
        pytest.param(
            cluster_events.claim_event(a_claim(name="d"), a_claim(name="d", selected_node="n")),
            {"for-other-volume"},
            id="a claim is updated",
        ),
        pytest.param(cluster_events.claim_event(a_claim(name="c"), None), set(), id="a claim is deleted"),
        pytest.param(cluster_events.volume_event(None, a_volume()), {"for-volume"}, id="a volume is added"),
        pytest.param(
            cluster_events.volume_event(None, a_volume(storage_class="made")),
            PROVISIONED,
            id="a volume of a class with a provisioner is added",
        ),
        pytest.param(
            cluster_events.volume_event(None, a_volume(storage_class="x")),
            set(),
            id="a volume of another class is added",
        ),
        pytest.param(
            cluster_events.volume_event(None, a_volume(size="1Gi")), set(), id="a volume that is too small is added"
        ),
        pytest.param(
            cluster_events.volume_event(None, a_volume(name="volume-f")),
            {"for-volume", "for-zone"},
            id="the missing one",
        ),
        pytest.param(
            cluster_events.volume_event(None, a_volume(storage_class="x", claim_ref=claim_ref(name="c"))),
            {"for-volume"},
            id="a volume that is kept for a claim is added",
        ),
        pytest.param(
            cluster_events.volume_event(None, a_volume(claim_ref=claim_ref(name="x"))),
            set(),
            id="one for another claim is added",
        ),
        pytest.param(
            cluster_events.volume_event(a_volume(phase="Pending"), a_volume()),
            {"for-volume"},
            id="a volume becomes free",
        ),
        pytest.param(
            cluster_events.volume_event(a_volume(), a_volume(claim_ref=claim_ref(name="x"), phase="Bound")),
            set(),
            id="another claim is bound",
        ),
        pytest.param(cluster_events.volume_event(a_volume(), None), set(), id="a volume is deleted"),
        pytest.param(
            cluster_events.volume_event(a_volume(claim_ref=claim_ref(name="d")), None),
            {"for-other-volume"},
            id="a volume that was kept for a claim is deleted",
        ),
        pytest.param(cluster_events.class_event(None, a_class(name="x")), set(), id="a class is added"),
        pytest.param(cluster_events.class_event(None, a_class()), {"for-volume"}, id="the class is added"),
        pytest.param(cluster_events.class_event(a_class(), None), set(), id="a class is deleted"),
        pytest.param(
            cluster_events.node_event(None, a_node(taints=TAINT)),
            VOLUMES | {"for-attachment", "for-zone", "for-spread"},
            id="a small node without the label, with a taint, is added",
        ),
        pytest.param(
            cluster_events.node_event(None, a_node(labels={"pool": "blue"}, allocatable={"cpu": "8"})),
            set(WAITING),
            id="a large node with the label and without taints is added",
        ),
        pytest.param(
            cluster_events.node_event(a_node(), a_node(allocatable={"cpu": "8"})),
            {"for-room"},
            id="a node offers more",
        ),
        pytest.param(
            cluster_events.node_event(a_node(taints=TAINT), a_node()), {"for-taint", "for-spread"}, id="a taint goes"
        ),
        pytest.param(cluster_events.node_event(a_node(), a_node(ready=False)), set(), id="a heartbeat"),
        pytest.param(
            cluster_events.csi_node_event(a_csi_node(limits={DRIVER: 1}), a_csi_node(limits={DRIVER: 2})),
            {"for-attachment"},
            id="a node takes more volumes",
        ),
        pytest.param(
            cluster_events.csi_node_event(a_csi_node(limits={"x": 1}), a_csi_node(limits={"x": 2})),
            set(),
            id="a node takes more volumes of another driver",
        ),
        pytest.param(
            cluster_events.driver_event(a_driver(tracks_capacity=True), a_driver(tracks_capacity=False)),
            PROVISIONED,
            id="a driver stops reporting its capacity",
        ),
        pytest.param(
            cluster_events.capacity_event(None, a_capacity(capacity="1Gi")),
            PROVISIONED,
            id="capacity is reported",
        ),
        pytest.param(
            cluster_events.capacity_event(None, a_capacity(storage_class="x", capacity="1Gi")),
            set(),
            id="capacity of another class is reported",
        ),
        pytest.param(
            cluster_events.capacity_event(a_capacity(capacity="1Gi"), a_capacity(capacity="2Gi")),
            PROVISIONED,
            id="more capacity",
        ),
        pytest.param(cluster_events.capacity_freed_event({"made"}), PROVISIONED, id="a volume in flight is not made"),
        pytest.param(
            cluster_events.capacity_event(a_capacity(capacity="2Gi"), a_capacity(capacity="1Gi")),
            set(),
            id="less capacity",
        ),
        pytest.param(
            cluster_events.attachment_event(an_attachment(), None), {"for-attachment"}, id="a volume is detached"
        ),
        pytest.param(
            cluster_events.pod_event(a_pod(name="gone", node="n"), None),
            {"for-room"},
            id="a pod without volumes leaves",
        ),
        pytest.param(
            cluster_events.pod_event(a_pod(name="gone", node="n", claims=["x"], labels={"app": "web"}), None),
            {"for-room", "for-attachment", "for-spread"},
            id="a pod that counted, with a volume, leaves",
        ),
    ],
)
def test_an_event_wakes_exactly_the_pods_it_can_help(change: ClusterEvent | None, woken: set[str]) -> None:
    queue = SchedulingQueue(DEFAULT.plugins)
    snapshot = a_snapshot(*THERE)
    for rejector, pod in WAITING.values():
        queue.add_or_update(pod, 0.0)
        entry = queue.pop(0.0)
        assert entry is not None
        queue.add_unschedulable(entry, frozenset({rejector}), CycleState(pod, snapshot).interests, 0.0)
    later = 60.0
    if change is not None:
        queue.requeue_for_event(change, later)
    popped = set()
    while (entry := queue.pop(later)) is not None:
        popped.add(entry.pod.name)
    assert popped == woken
