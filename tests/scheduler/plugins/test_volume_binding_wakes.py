"""What drivers say that could help a pod waiting for its volumes."""

import msgspec
import pytest

from builders import a_capacity, a_claim, a_class, a_csi_node, a_driver, a_pod, a_volume
from builders.drivers import DRIVER
from mooring.api.views.meta import Condition
from mooring.api.views.pod import Pod
from mooring.scheduler import changes
from mooring.scheduler.contract import Change
from mooring.scheduler.plugins.volume_binding import VolumeBinding
from mooring.volumes.clean_claims import CLEAN
from scheduler.snapshots import wakes

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
ROOM = changes.of_capacity


def free(capacity: int | str | None = None, largest: int | str | None = None) -> object:
    return a_capacity(capacity=capacity, largest=largest)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(changes.of_csi_node(None, a_csi_node()), False, id="a node reports its drivers"),
        pytest.param(changes.of_csi_node(None, a_csi_node(migrated=EBS)), True, id="one that looks after its disk"),
        pytest.param(
            changes.of_csi_node(a_csi_node(migrated="test1"), a_csi_node(migrated=f"test1,{EBS}")),
            True,
            id="a driver takes over its plugin",
        ),
        pytest.param(
            changes.of_csi_node(a_csi_node(migrated=EBS), a_csi_node(migrated="test2")),
            True,
            id="another plugin instead",
        ),
        pytest.param(
            changes.of_csi_node(a_csi_node(migrated="test1"), a_csi_node(migrated="test2")), False, id="other plugins"
        ),
        pytest.param(
            changes.of_csi_node(a_csi_node(migrated=EBS), a_csi_node(migrated=EBS)), False, id="the same plugins"
        ),
        pytest.param(changes.of_csi_node(a_csi_node(migrated=EBS), None), True, id="no driver looks after it any more"),
        pytest.param(ROOM(None, free()), True, id="room is reported"),
        pytest.param(ROOM(free(), free(100)), True, id="capacity set"),
        pytest.param(ROOM(free(), free(largest=100)), True, id="largest volume set"),
        pytest.param(ROOM(free(50), free(100)), True, id="more capacity"),
        pytest.param(ROOM(free(100, 50), free(100)), True, id="largest volume unset"),
        pytest.param(ROOM(free(100, 50), free(100, 60)), True, id="larger volumes"),
        pytest.param(ROOM(free(), free()), False, id="still nothing said"),
        pytest.param(ROOM(free(100), free(100)), False, id="the same capacity"),
        pytest.param(ROOM(free(100, 50), free(50)), False, id="the same limit said otherwise"),
        pytest.param(ROOM(free(100), free(90)), False, id="less capacity"),
        pytest.param(ROOM(free(largest=100), free(largest=90)), False, id="smaller volumes"),
        pytest.param(ROOM(free("much"), free(1)), True, id="a figure that can be understood now"),
        pytest.param(ROOM(free(1), free("much")), False, id="a figure that cannot be understood any more"),
        pytest.param(ROOM(free(1), None), False, id="room is not reported any more"),
    ],
)
def test_nodes_and_room(change: Change | None, want: bool) -> None:
    assert wakes(VolumeBinding(), POD, change, *THERE) is want


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
    change = changes.of_driver(a_driver(tracks_capacity=before), a_driver(tracks_capacity=after))

    assert wakes(VolumeBinding(), pod, change, *THERE) is want


def test_a_driver_that_leaves_is_not_asked_for_room() -> None:
    assert wakes(VolumeBinding(), POD, changes.of_driver(a_driver(tracks_capacity=True), None), *THERE)
    assert not wakes(VolumeBinding(), POD, changes.of_driver(None, a_driver()), *THERE)


@pytest.mark.parametrize("said", [pytest.param("True", id="never used"), pytest.param("False", id="used")])
def test_a_volume_that_could_take_the_place_of_one_nobody_has_used(said: str) -> None:
    """Claims are unbound for the sake of a pod only when it is looked at again."""
    bound = a_claim(volume="there", bound=True)
    status = msgspec.structs.replace(bound.status, conditions=(Condition(type=CLEAN, status=said),))
    there = (a_class(), msgspec.structs.replace(bound, status=status), a_volume(name="there", node="n1"))
    pod = a_pod(claims=["claim-1"])

    assert wakes(VolumeBinding(), pod, changes.of_volume(None, a_volume(node="n2")), *there) is (said == "True")
    assert not wakes(VolumeBinding(), pod, changes.of_volume(None, a_volume(size="1Gi")), *there)
    assert not wakes(VolumeBinding(), pod, changes.of_volume(None, a_volume(storage_class="other")), *there)
