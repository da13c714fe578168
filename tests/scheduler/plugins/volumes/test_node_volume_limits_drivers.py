"""Drivers that keep pods off nodes that lack them: Kubernetes' gate VolumeLimitScaling."""

import pytest

from mooring.api.views.meta import ApiObject
from mooring.scheduler.cluster_events import csi_node_event
from mooring.scheduler.plugins.volume_binding import TOO_MANY, NodeVolumeLimits
from support.builders import a_claim, a_class, a_csi_node, a_driver, a_node, a_pod, a_volume
from support.builders.drivers import DRIVER
from support.scheduler.snapshots import a_snapshot, rejected, requeues, unresolvable

pytestmark = [pytest.mark.req("T23.counted"), pytest.mark.level("u")]

LATE = a_class(name="late", provisioner=DRIVER)
BOUND = [
    a_claim(volume="v", bound=True, storage_class="late"),
    a_volume(name="v", phase="Bound", storage_class="late", source={"csi": {"driver": DRIVER, "volumeHandle": "h"}}),
]
TO_BE_MADE = [a_claim(storage_class="late")]
INSTALLED = a_csi_node(name="n1", limits={DRIVER: 1})
MISSING = {f"{DRIVER} CSI driver is not installed on the node": {"n1"}}


@pytest.mark.parametrize("volumes", [BOUND, TO_BE_MADE], ids=["bound", "to be made"])
@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([a_csi_node(name="n1"), a_driver()], {}, id="the driver does not mind"),
        pytest.param([a_csi_node(name="n1"), a_driver(required=True)], MISSING, id="the driver minds"),
        pytest.param([a_driver(required=True)], MISSING, id="the node has said nothing"),
        pytest.param([INSTALLED, a_driver(required=True)], {}, id="installed"),
        pytest.param([a_csi_node(name="n1")], {}, id="no driver object"),
        pytest.param(
            [a_csi_node(name="n1", limits={DRIVER: 0}), a_driver(required=True)], {TOO_MANY: {"n1"}}, id="full"
        ),
    ],
)
def test_drivers(objects: list[ApiObject], want: dict[str, set[str]], volumes: list[ApiObject]) -> None:
    plugin = NodeVolumeLimits()
    snapshot = a_snapshot(a_node(name="n1"), LATE, *volumes, *objects)

    assert rejected(plugin, a_pod(claims=["claim-1"]), snapshot) == want
    assert unresolvable(plugin, a_pod(claims=["claim-1"]), snapshot) == set()


@pytest.mark.req("T23.choice")
def test_a_claim_that_may_do_without_the_driver_is_not_kept_away() -> None:
    local = a_volume(name="local", node="n1", storage_class="late")
    snapshot = a_snapshot(a_node(name="n1"), LATE, *TO_BE_MADE, local, a_driver(required=True))

    assert rejected(NodeVolumeLimits(), a_pod(claims=["claim-1"]), snapshot) == {}


def test_a_node_has_one_reason() -> None:
    """Of two missing drivers one, and no limit of another driver beside it."""
    sources = {"full": DRIVER, "first": "a.example.com", "second": "b.example.com"}
    volumes = [
        a_volume(name=name, phase="Bound", source={"csi": {"driver": driver, "volumeHandle": name}})
        for name, driver in sources.items()
    ]
    claims = [a_claim(name=name, volume=name, bound=True) for name in sources]
    drivers = [a_driver(name=driver, required=True) for driver in sources.values()]
    full = a_csi_node(name="n1", limits={DRIVER: 0})
    snapshot = a_snapshot(a_node(name="n1"), full, *drivers, *volumes, *claims)

    reasons = rejected(NodeVolumeLimits(), a_pod(claims=list(sources)), snapshot)

    assert reasons == {"a.example.com CSI driver is not installed on the node": {"n1"}}


def test_a_driver_that_registers_without_a_limit_requeues_the_pod() -> None:
    """kube-scheduler's hint compares limits only: there the pod waits for the flush of the queue."""
    objects = (a_node(name="n1"), LATE, *TO_BE_MADE, a_driver(required=True))
    pod, registered = a_pod(claims=["claim-1"]), a_csi_node(name="n1", limits={DRIVER: None})

    assert rejected(NodeVolumeLimits(), pod, a_snapshot(*objects)) == MISSING
    assert requeues(NodeVolumeLimits(), pod, csi_node_event(a_csi_node(name="n1"), registered), *objects)
    assert rejected(NodeVolumeLimits(), pod, a_snapshot(*objects, registered)) == {}
