"""What could make room for a pod that a node had too many volumes for."""

import pytest

from mooring.api.views.pods import Pod
from mooring.scheduler import cluster_events
from mooring.scheduler.cluster_events import ClusterEvent
from mooring.scheduler.plugins.volume_binding import NodeVolumeLimits
from support.builders import (
    Body,
    a_capacity,
    a_claim,
    a_class,
    a_csi_node,
    a_driver,
    a_node,
    a_pod,
    a_volume,
    an_attachment,
)
from support.scheduler.snapshots import requeues

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
DETACHED = cluster_events.attachment_event(an_attachment(driver=EBS), None)


def limits(**drivers: int | None) -> object:
    return a_csi_node(limits=drivers)


def capacity(before: str | None, after: str) -> ClusterEvent | None:
    reported = None if before is None else a_capacity(storage_class="made", capacity=before)
    return cluster_events.capacity_event(reported, a_capacity(storage_class="made", capacity=after))


@pytest.mark.parametrize(
    ("pod", "change", "want"),
    [
        pytest.param(
            POD, cluster_events.pod_event(a_pod(node="n", claims=["x"]), None), True, id="a pod with a claim goes"
        ),
        pytest.param(
            POD, cluster_events.pod_event(a_pod(node="n", volumes=[EBS_DISK]), None), True, id="one with a disk goes"
        ),
        pytest.param(
            POD, cluster_events.pod_event(a_pod(node="n", ephemeral=["x"]), None), True, id="one with ephemeral goes"
        ),
        pytest.param(POD, cluster_events.pod_event(a_pod(node="n"), None), False, id="one without volumes goes"),
        pytest.param(
            POD, cluster_events.pod_event(a_pod(claims=["x"]), None), False, id="one that never had a node goes"
        ),
        pytest.param(
            POD, cluster_events.claim_event(None, a_claim(namespace="x")), False, id="a claim in another namespace"
        ),
        pytest.param(POD, cluster_events.claim_event(None, a_claim()), True, id="its claim appears"),
        pytest.param(
            a_pod(name="new", ephemeral=["x"]),
            cluster_events.claim_event(None, a_claim(name="new-x")),
            True,
            id="the claim of its ephemeral volume appears",
        ),
        pytest.param(POD, cluster_events.claim_event(None, a_claim(name="x")), False, id="another claim appears"),
        pytest.param(
            a_pod(), cluster_events.claim_event(None, a_claim()), False, id="a claim appears, the pod has none"
        ),
        pytest.param(POD, DETACHED, True, id="detached, and it has a claim"),
        pytest.param(a_pod(volumes=[EBS_DISK]), DETACHED, True, id="detached, and it has a disk of that driver"),
        pytest.param(a_pod(volumes=[GCE_DISK]), DETACHED, False, id="detached, its disk is of another driver"),
        pytest.param(a_pod(volumes=[EBS_DISK], claims=["x"]), DETACHED, True, id="detached, disk and claim"),
        pytest.param(
            a_pod(volumes=[EBS_DISK], claims=["x"]),
            cluster_events.attachment_event(an_attachment(driver="x"), None),
            True,
            id="detached from another driver, disk and claim",
        ),
        pytest.param(a_pod(ephemeral=["x"]), DETACHED, True, id="detached, and it has an ephemeral volume"),
        pytest.param(a_pod(), DETACHED, False, id="detached, and it has no volumes"),
        pytest.param(POD, cluster_events.attachment_event(None, an_attachment()), False, id="something is attached"),
        pytest.param(
            POD,
            cluster_events.attachment_event(an_attachment(), an_attachment()),
            False,
            id="an attachment reports itself",
        ),
        pytest.param(POD, cluster_events.csi_node_event(None, limits(d=1)), True, id="a node reports its drivers"),
        pytest.param(POD, cluster_events.csi_node_event(limits(d=1), limits(d=2)), True, id="a limit is raised"),
        pytest.param(POD, cluster_events.csi_node_event(limits(d=2), limits(d=1)), False, id="a limit is lowered"),
        pytest.param(POD, cluster_events.csi_node_event(limits(d=1), limits(d=1)), False, id="a limit stays"),
        pytest.param(POD, cluster_events.csi_node_event(limits(d=1), limits(d=None)), True, id="a limit is lifted"),
        pytest.param(
            POD, cluster_events.csi_node_event(limits(d=1), limits()), True, id="a driver with a limit leaves"
        ),
        pytest.param(
            POD, cluster_events.csi_node_event(limits(d=None), limits(d=1)), False, id="a driver gets a limit"
        ),
        pytest.param(POD, cluster_events.csi_node_event(limits(), limits(d=1)), True, id="a driver is installed"),
        pytest.param(
            POD, cluster_events.csi_node_event(limits(), limits(x=1)), False, id="another driver is installed"
        ),
        pytest.param(
            POD, cluster_events.csi_node_event(limits(e=1), limits(e=2)), True, id="a limit of a driver it might get"
        ),
        pytest.param(
            POD, cluster_events.csi_node_event(limits(x=1), limits(x=2)), False, id="a limit of another driver"
        ),
        pytest.param(POD, cluster_events.csi_node_event(limits(d=1), None), True, id="a node has no limits any more"),
        pytest.param(
            POD,
            cluster_events.volume_event(None, a_volume(storage_class="made")),
            True,
            id="a volume it might get instead",
        ),
        pytest.param(POD, cluster_events.volume_event(None, a_volume()), False, id="a volume of another class"),
        pytest.param(
            POD,
            cluster_events.driver_event(a_driver(name="d", required=True), a_driver(name="d", required=False)),
            True,
            id="a driver does not mind being missing any more",
        ),
        pytest.param(
            POD,
            cluster_events.driver_event(a_driver(), a_driver(required=True)),
            False,
            id="a driver minds from now on",
        ),
        pytest.param(
            POD, cluster_events.driver_event(a_driver(name="d", required=True), None), True, id="a driver leaves"
        ),
        pytest.param(POD, cluster_events.node_event(None, a_node()), True, id="a node appears"),
        pytest.param(
            POD,
            cluster_events.class_event(
                a_class(name="made", allowed_topologies=[{"zone": ["a"]}]), a_class(name="made")
            ),
            True,
            id="its volume may be provisioned on more nodes",
        ),
        pytest.param(
            POD,
            cluster_events.class_event(a_class(name="x", allowed_topologies=[{"zone": ["a"]}]), a_class(name="x")),
            False,
            id="volumes of another class may be provisioned on more nodes",
        ),
        pytest.param(POD, capacity(None, "1Gi"), True, id="capacity for its volume is reported"),
        pytest.param(POD, capacity("1Gi", "2Gi"), True, id="more capacity for its volume"),
        pytest.param(POD, capacity("2Gi", "1Gi"), False, id="less capacity for its volume"),
        pytest.param(
            POD,
            cluster_events.driver_event(
                a_driver(name="d", tracks_capacity=True), a_driver(name="d", tracks_capacity=False)
            ),
            True,
            id="capacity is not tracked any more",
        ),
    ],
)
def test_wakes(pod: Pod, change: ClusterEvent | None, want: bool) -> None:
    assert requeues(NodeVolumeLimits(), pod, change, *THERE) is want
