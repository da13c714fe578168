"""Drivers that keep pods off nodes that lack them: Kubernetes' gate VolumeLimitScaling, as an option."""

import pytest

from builders import a_claim, a_class, a_csi_node, a_driver, a_node, a_pod, a_volume
from builders.drivers import DRIVER
from mooring.api.views.meta import ApiObject
from mooring.scheduler.plugins.node_volume_limits import TOO_MANY, NodeVolumeLimits, not_installed
from scheduler.snapshots import a_snapshot, rejected, unresolvable

pytestmark = [pytest.mark.req("T23"), pytest.mark.level("u")]

LATE = a_class(name="late", provisioner=DRIVER)
BOUND = [
    a_claim(volume="v", bound=True, storage_class="late"),
    a_volume(name="v", phase="Bound", storage_class="late", source={"csi": {"driver": DRIVER, "volumeHandle": "h"}}),
]
TO_BE_MADE = [a_claim(storage_class="late")]
INSTALLED = a_csi_node(name="n1", limits={DRIVER: 1})
MISSING = {not_installed(DRIVER): {"n1"}}


@pytest.mark.parametrize("volumes", [BOUND, TO_BE_MADE], ids=["bound", "to be made"])
@pytest.mark.parametrize(
    ("asked", "objects", "want"),
    [
        pytest.param(True, [a_csi_node(name="n1"), a_driver()], {}, id="the driver does not mind"),
        pytest.param(True, [a_csi_node(name="n1"), a_driver(required=True)], MISSING, id="the driver minds"),
        pytest.param(True, [a_driver(required=True)], MISSING, id="the node has said nothing"),
        pytest.param(False, [a_csi_node(name="n1"), a_driver(required=True)], {}, id="nobody looks at it"),
        pytest.param(True, [INSTALLED, a_driver(required=True)], {}, id="installed"),
        pytest.param(True, [a_csi_node(name="n1")], {}, id="no driver object"),
        pytest.param(
            True, [a_csi_node(name="n1", limits={DRIVER: 0}), a_driver(required=True)], {TOO_MANY: {"n1"}}, id="full"
        ),
    ],
)
def test_drivers(asked: bool, objects: list[ApiObject], want: dict[str, set[str]], volumes: list[ApiObject]) -> None:
    plugin = NodeVolumeLimits(requires_drivers=asked)
    snapshot = a_snapshot(a_node(name="n1"), LATE, *volumes, *objects)

    assert rejected(plugin, a_pod(claims=["claim-1"]), snapshot) == want
    assert unresolvable(plugin, a_pod(claims=["claim-1"]), snapshot) == set()


def test_a_claim_that_may_do_without_the_driver_is_not_kept_away() -> None:
    local = a_volume(name="local", node="n1", storage_class="late")
    snapshot = a_snapshot(a_node(name="n1"), LATE, *TO_BE_MADE, local, a_driver(required=True))

    assert rejected(NodeVolumeLimits(requires_drivers=True), a_pod(claims=["claim-1"]), snapshot) == {}
