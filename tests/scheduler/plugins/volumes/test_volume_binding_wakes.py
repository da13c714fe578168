"""What drivers say that could help a pod waiting for its volumes."""

import msgspec
import pytest

from mooring.api.views.meta import Condition
from mooring.api.views.pods import Pod
from mooring.scheduler import cluster_events
from mooring.scheduler.cluster_events import ClusterEvent
from mooring.scheduler.plugins.volume_binding import VolumeBinding
from mooring.scheduler.registry import DEFAULT
from mooring.volumes.claim_rollback import CLEAN
from support.builders import Body, a_capacity, a_claim, a_class, a_csi_node, a_driver, a_node, a_pod, a_volume
from support.builders.drivers import DRIVER
from support.scheduler.snapshots import requeues

pytestmark = [pytest.mark.req("T26.volumes"), pytest.mark.level("u")]

POD = a_pod(claims=["claim-1", "claim-2"])
#: One claim waits for a volume to be made, the other has a disk of the days before drivers.
THERE = (
    a_class(name="made", provisioner=DRIVER),
    a_claim(name="claim-1", storage_class="made"),
    a_claim(name="claim-2", volume="disk", bound=True),
    a_volume(name="disk", source={"awsElasticBlockStore": {"volumeID": "v"}}),
)
EBS = "kubernetes.io/aws-ebs"
INLINE = a_pod(volumes=[{"name": "inline", "csi": {"driver": "csi.example.com"}}])
CAPACITY = cluster_events.capacity_event


def free(capacity: int | str | None = None, largest: int | str | None = None) -> object:
    return a_capacity(capacity=capacity, largest=largest)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(cluster_events.csi_node_event(None, a_csi_node()), False, id="a node reports its drivers"),
        pytest.param(
            cluster_events.csi_node_event(None, a_csi_node(migrated=EBS)), True, id="one that looks after its disk"
        ),
        pytest.param(
            cluster_events.csi_node_event(a_csi_node(migrated="test1"), a_csi_node(migrated=f"test1,{EBS}")),
            True,
            id="a driver takes over its plugin",
        ),
        pytest.param(
            cluster_events.csi_node_event(a_csi_node(migrated=EBS), a_csi_node(migrated="test2")),
            True,
            id="another plugin instead",
        ),
        pytest.param(
            cluster_events.csi_node_event(a_csi_node(migrated="test1"), a_csi_node(migrated="test2")),
            False,
            id="other plugins",
        ),
        pytest.param(
            cluster_events.csi_node_event(a_csi_node(migrated=EBS), a_csi_node(migrated=EBS)),
            False,
            id="the same plugins",
        ),
        pytest.param(
            cluster_events.csi_node_event(a_csi_node(migrated=EBS), None), True, id="no driver looks after it any more"
        ),
        pytest.param(CAPACITY(None, free()), True, id="capacity is reported"),
        pytest.param(CAPACITY(free(), free(100)), True, id="capacity set"),
        pytest.param(CAPACITY(free(), free(largest=100)), True, id="largest volume set"),
        pytest.param(CAPACITY(free(50), free(100)), True, id="more capacity"),
        pytest.param(CAPACITY(free(100, 50), free(100)), True, id="largest volume unset"),
        pytest.param(CAPACITY(free(100, 50), free(100, 60)), True, id="larger volumes"),
        pytest.param(CAPACITY(free(), free()), False, id="still no capacity reported"),
        pytest.param(CAPACITY(free(100), free(100)), False, id="the same capacity"),
        pytest.param(CAPACITY(free(100, 50), free(50)), False, id="the same limit in another field"),
        pytest.param(CAPACITY(free(100), free(90)), False, id="less capacity"),
        pytest.param(CAPACITY(free(largest=100), free(largest=90)), False, id="smaller volumes"),
        pytest.param(CAPACITY(free("much"), free(1)), True, id="a figure that can be understood now"),
        pytest.param(CAPACITY(free(1), free("much")), False, id="a figure that cannot be understood any more"),
        pytest.param(CAPACITY(free(1), None), False, id="capacity is not reported any more"),
    ],
)
def test_node_and_capacity_events(change: ClusterEvent | None, want: bool) -> None:
    assert requeues(VolumeBinding(), POD, change, *THERE) is want


@pytest.mark.parametrize(
    ("pod", "before", "after", "want"),
    [
        pytest.param(a_pod(), True, False, False, id="a pod without claims"),
        pytest.param(POD, None, True, False, id="room is looked at from now on"),
        pytest.param(POD, None, None, False, id="still not looked at"),
        pytest.param(POD, False, False, False, id="not looked at, spelled out"),
        pytest.param(POD, True, None, True, id="not looked at any more"),
        pytest.param(POD, True, True, False, id="still looked at"),
        pytest.param(POD, True, False, True, id="not looked at any more, spelled out"),
        pytest.param(INLINE, True, False, False, id="volumes inside the pod were never checked"),
    ],
)
def test_drivers(pod: Pod, before: bool | None, after: bool | None, want: bool) -> None:
    change = cluster_events.driver_event(a_driver(tracks_capacity=before), a_driver(tracks_capacity=after))

    assert requeues(VolumeBinding(), pod, change, *THERE) is want


TAINT = {"key": "dedicated", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("changed", "plugins"),
    [
        pytest.param(
            {"labels": {"disk": "new"}},
            {
                "VolumeBinding",
                "VolumeZone",
                "NodeVolumeLimits",
                "NodeAffinity",
                "InterPodAffinity",
                "PodTopologySpread",
            },
            id="a label",
        ),
        # kube-scheduler's NodeUnschedulable hears it too: there a cordon is known by its taint.
        pytest.param({"taints": []}, {"TaintToleration", "PodTopologySpread"}, id="a taint"),
    ],
)
def test_plugins_registered_for_node_updates(changed: Body, plugins: set[str]) -> None:
    """A pod that only VolumeBinding rejected is requeued for a label, and not for a taint."""
    change = cluster_events.node_event(a_node(taints=[TAINT]), a_node(**{"taints": [TAINT]} | changed))

    assert {plugin.name for plugin in DEFAULT.plugins if requeues(plugin, POD, change, *THERE)} == plugins


def test_deleted_driver_does_not_limit_capacity() -> None:
    assert requeues(VolumeBinding(), POD, cluster_events.driver_event(a_driver(tracks_capacity=True), None), *THERE)
    assert not requeues(VolumeBinding(), POD, cluster_events.driver_event(None, a_driver()), *THERE)


@pytest.mark.parametrize("clean", [pytest.param("True", id="never used"), pytest.param("False", id="used")])
def test_volume_that_could_replace_an_unused_one(clean: str) -> None:
    """Claims are unbound for the sake of a pod only when it is looked at again."""
    bound = a_claim(volume="there", bound=True)
    status = msgspec.structs.replace(bound.status, conditions=(Condition(type=CLEAN, status=clean),))
    there = (a_class(), msgspec.structs.replace(bound, status=status), a_volume(name="there", node="n1"))
    pod = a_pod(claims=["claim-1"])

    assert requeues(VolumeBinding(), pod, cluster_events.volume_event(None, a_volume(node="n2")), *there) is (
        clean == "True"
    )
    assert not requeues(VolumeBinding(), pod, cluster_events.volume_event(None, a_volume(size="1Gi")), *there)
    assert not requeues(
        VolumeBinding(), pod, cluster_events.volume_event(None, a_volume(storage_class="other")), *there
    )
