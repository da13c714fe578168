"""What could make room for a pod that a node had too many volumes for."""

import pytest

from builders import Body, a_claim, a_class, a_csi_node, a_driver, a_node, a_pod, a_volume, an_attachment
from mooring.api.views.pod import Pod
from mooring.scheduler import changes
from mooring.scheduler.contract import Change
from mooring.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from scheduler.snapshots import wakes

pytestmark = [pytest.mark.req("T26.volumes"), pytest.mark.level("u")]

EBS, GCE = "ebs.csi.aws.com", "pd.csi.storage.gke.io"
EBS_DISK: Body = {"name": "ebs", "awsElasticBlockStore": {"volumeID": "v"}}
GCE_DISK: Body = {"name": "gce", "gcePersistentDisk": {"pdName": "v"}}
POD = a_pod(name="new", claims=["claim-1"])
#: Its claim waits for a volume, and what there is of the class has a driver.
THERE = (
    a_class(name="made", provisioner="d"),
    a_claim(storage_class="made"),
    a_volume(storage_class="made", source={"csi": {"driver": "e", "volumeHandle": "1"}}),
)
DETACHED = changes.of_attachment(an_attachment(driver=EBS), None)


def limits(**drivers: int | None) -> object:
    return a_csi_node(limits=drivers)


@pytest.mark.parametrize(
    ("pod", "change", "want"),
    [
        pytest.param(POD, changes.of_pod(a_pod(node="n", claims=["x"]), None), True, id="a pod with a claim goes"),
        pytest.param(POD, changes.of_pod(a_pod(node="n", volumes=[EBS_DISK]), None), True, id="one with a disk goes"),
        pytest.param(POD, changes.of_pod(a_pod(node="n", ephemeral=["x"]), None), True, id="one with ephemeral goes"),
        pytest.param(POD, changes.of_pod(a_pod(node="n"), None), False, id="one without volumes goes"),
        pytest.param(POD, changes.of_pod(a_pod(claims=["x"]), None), False, id="one that never had a node goes"),
        pytest.param(POD, changes.of_claim(None, a_claim(namespace="x")), False, id="a claim in another namespace"),
        pytest.param(POD, changes.of_claim(None, a_claim()), True, id="its claim appears"),
        pytest.param(
            a_pod(name="new", ephemeral=["x"]),
            changes.of_claim(None, a_claim(name="new-x")),
            True,
            id="the claim of its ephemeral volume appears",
        ),
        pytest.param(POD, changes.of_claim(None, a_claim(name="x")), False, id="another claim appears"),
        pytest.param(a_pod(), changes.of_claim(None, a_claim()), False, id="a claim appears, the pod has none"),
        pytest.param(POD, DETACHED, True, id="detached, and it has a claim"),
        pytest.param(a_pod(volumes=[EBS_DISK]), DETACHED, True, id="detached, and it has a disk of that driver"),
        pytest.param(a_pod(volumes=[GCE_DISK]), DETACHED, False, id="detached, its disk is of another driver"),
        pytest.param(a_pod(volumes=[EBS_DISK], claims=["x"]), DETACHED, True, id="detached, disk and claim"),
        pytest.param(
            a_pod(volumes=[EBS_DISK], claims=["x"]),
            changes.of_attachment(an_attachment(driver="x"), None),
            True,
            id="detached from another driver, disk and claim",
        ),
        pytest.param(a_pod(ephemeral=["x"]), DETACHED, True, id="detached, and it has an ephemeral volume"),
        pytest.param(a_pod(), DETACHED, False, id="detached, and it has no volumes"),
        pytest.param(POD, changes.of_attachment(None, an_attachment()), False, id="something is attached"),
        pytest.param(
            POD, changes.of_attachment(an_attachment(), an_attachment()), False, id="an attachment reports itself"
        ),
        pytest.param(POD, changes.of_csi_node(None, limits(d=1)), True, id="a node reports its drivers"),
        pytest.param(POD, changes.of_csi_node(limits(d=1), limits(d=2)), True, id="a limit is raised"),
        pytest.param(POD, changes.of_csi_node(limits(d=2), limits(d=1)), False, id="a limit is lowered"),
        pytest.param(POD, changes.of_csi_node(limits(d=1), limits(d=1)), False, id="a limit stays"),
        pytest.param(POD, changes.of_csi_node(limits(d=1), limits(d=None)), True, id="a limit is lifted"),
        pytest.param(POD, changes.of_csi_node(limits(d=1), limits()), True, id="a driver with a limit leaves"),
        pytest.param(POD, changes.of_csi_node(limits(d=None), limits(d=1)), False, id="a driver gets a limit"),
        pytest.param(POD, changes.of_csi_node(limits(), limits(d=1)), True, id="a driver is installed"),
        pytest.param(POD, changes.of_csi_node(limits(), limits(x=1)), False, id="another driver is installed"),
        pytest.param(POD, changes.of_csi_node(limits(e=1), limits(e=2)), True, id="a limit of a driver it might get"),
        pytest.param(POD, changes.of_csi_node(limits(x=1), limits(x=2)), False, id="a limit of another driver"),
        pytest.param(POD, changes.of_csi_node(limits(d=1), None), True, id="a node has no limits any more"),
        pytest.param(
            POD, changes.of_volume(None, a_volume(storage_class="made")), True, id="a volume it might get instead"
        ),
        pytest.param(POD, changes.of_volume(None, a_volume()), False, id="a volume of another class"),
        pytest.param(
            POD,
            changes.of_driver(a_driver(name="d", required=True), a_driver(name="d", required=False)),
            True,
            id="a driver does not mind being missing any more",
        ),
        pytest.param(
            POD, changes.of_driver(a_driver(), a_driver(required=True)), False, id="a driver minds from now on"
        ),
        pytest.param(POD, changes.of_driver(a_driver(name="d", required=True), None), True, id="a driver leaves"),
        pytest.param(POD, changes.of_node(None, a_node()), True, id="a node appears"),
    ],
)
def test_wakes(pod: Pod, change: Change | None, want: bool) -> None:
    assert wakes(NodeVolumeLimits(), pod, change, *THERE) is want
