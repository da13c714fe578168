"""Findings about claims, volumes and nodes."""

import pytest

from mooring.doctor.findings import Severity
from support.builders import (
    Body,
    attachment_body,
    claim_body,
    claim_ref,
    class_body,
    csi_node_body,
    node_body,
    pod_body,
    volume_body,
)
from support.builders.drivers import DRIVER
from support.doctor import at, codes, examined, only

ERROR, WARNING, INFO = Severity
DAY = 24 * 3600.0

VOLUME = volume_body(name="disk", node="n1", claim_ref=claim_ref(name="data", uid="u"), phase="Bound")
CLAIM = claim_body(name="data", uid="u", volume="disk", bound=True)
POD = pod_body(name="db-0", claims=["data"], node="n1", phase="Running")
LOCAL = class_body()


def created(body: Body, seconds: float) -> Body:
    return body | {"metadata": body["metadata"] | {"creationTimestamp": at(seconds)}}


def lost(name: str = "n1", *, status: str = "Unknown", seconds: float = 600) -> Body:
    body = node_body(name=name)
    ready = {"type": "Ready", "status": status, "lastTransitionTime": at(seconds)}
    return body | {"status": body["status"] | {"conditions": [ready]}}


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        pytest.param([node_body(name="n1"), VOLUME, CLAIM, POD], set(), id="all is well"),
        pytest.param([lost(), VOLUME, CLAIM, POD], {(ERROR, "NodeLost"), (ERROR, "VolumeUnreachable")}, id="lost node"),
        pytest.param([lost(), node_body(name="n2")], {(ERROR, "NodeLost")}, id="lost node without volumes"),
        pytest.param([lost(status="False", seconds=5), VOLUME, CLAIM, POD], set(), id="not ready for a moment"),
        pytest.param([node_body(name="n2"), VOLUME, CLAIM], {(ERROR, "VolumeUnreachable")}, id="deleted node"),
        pytest.param(
            [node_body(name="n2"), volume_body(name="disk", node="n1", phase="Released")],
            {(WARNING, "VolumeUnreachable")},
            id="deleted node, volume without claim",
        ),
        pytest.param([node_body(name="n1"), CLAIM], {(ERROR, "ClaimLost")}, id="deleted volume"),
        pytest.param(
            [node_body(name="n1"), claim_body(name="data", storage_class="gone")],
            {(ERROR, "ClaimStuck")},
            id="class does not exist",
        ),
        pytest.param([node_body(name="n1"), LOCAL, claim_body(name="data")], set(), id="claim without a pod yet"),
    ],
)
def test_lost_and_stuck_objects_are_reported(bodies: list[Body], expected: set[tuple[Severity, str]]) -> None:
    assert codes(*bodies) == expected


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        pytest.param([created(CLAIM, 8 * DAY)], {(INFO, "ClaimUnused")}, id="no pod for eight days"),
        pytest.param([created(CLAIM, 6 * DAY)], set(), id="no pod for six days"),
        pytest.param([created(CLAIM, 8 * DAY), POD], set(), id="a pod uses it"),
        pytest.param(
            [created(CLAIM, 8 * DAY), pod_body(name="job", claims=["data"], phase="Succeeded")],
            {(INFO, "ClaimUnused")},
            id="a finished pod",
        ),
        pytest.param(
            [
                created(CLAIM, 30 * DAY)
                | {
                    "status": {
                        "phase": "Bound",
                        "conditions": [{"type": "Unused", "status": "True", "lastTransitionTime": at(DAY)}],
                    }
                }
            ],
            set(),
            id="an old claim that became unused yesterday",
        ),
    ],
)
def test_claims_unused_for_long_are_reported(bodies: list[Body], expected: set[tuple[Severity, str]]) -> None:
    assert codes(node_body(name="n1"), VOLUME, *bodies) == expected


def test_nothing_is_unused_when_the_time_of_listing_is_unknown() -> None:
    assert examined(node_body(name="n1"), VOLUME, created(CLAIM, 8 * DAY), now=None).findings == ()


def attached(number: int) -> list[Body]:
    source = {"csi": {"driver": DRIVER, "volumeHandle": "v"}}
    named = [f"v{index}" for index in range(number)]
    return [
        *(volume_body(name=name, source=source | {"csi": source["csi"] | {"volumeHandle": name}}) for name in named),
        *(attachment_body(name=f"a-{name}", volume=name, node="n1") for name in named),
    ]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        pytest.param(8, set(), id="eight of ten"),
        pytest.param(9, {(INFO, "AttachLimitNear")}, id="nine of ten"),
        pytest.param(10, {(WARNING, "AttachLimitReached")}, id="all"),
        pytest.param(11, {(WARNING, "AttachLimitReached")}, id="too many"),
    ],
)
def test_attach_limits_are_compared(number: int, expected: set[tuple[Severity, str]]) -> None:
    node = [node_body(name="n1"), csi_node_body(name="n1", limits={DRIVER: 10})]
    assert codes(*node, *attached(number)) == expected


def test_unlimited_drivers_have_no_limit() -> None:
    assert codes(node_body(name="n1"), csi_node_body(name="n1", limits={DRIVER: None}), *attached(50)) == set()


def test_unreachable_volume_names_nodes_and_pods() -> None:
    found = only("VolumeUnreachable", lost(), VOLUME, CLAIM, POD)
    assert found.evidence == ("requires kubernetes.io/hostname=n1", "lost nodes: n1", "pods: default/db-0")
    assert found.fix.startswith("bring n1 ")
