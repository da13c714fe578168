"""How far claims have come: what the public examples and the PV controller's texts leave over."""

import pytest

from mooring.api import well_known
from mooring.api.times import from_time
from support.builders import (
    Body,
    capacity_body,
    claim_body,
    claim_ref,
    class_body,
    csi_node_body,
    driver_body,
    node_body,
    pod_body,
    volume_body,
)
from support.builders.drivers import DRIVER
from support.explain.clusters import claim_report, event_body, explained

FAST = class_body(name="fast", provisioner=DRIVER)
NOW = class_body(name="now", provisioner=DRIVER, binding_mode="Immediate")
N1 = node_body(name="n1")
LATE = from_time("2026-11-02T10:00:00Z")


def lease(renewed: str | None, *, name: str = "csi-example-com", holder: str = "provisioner-0") -> Body:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
    meta = {"name": name, "namespace": "storage"}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    ("objects", "state", "stuck", "evidence"),
    [
        pytest.param(
            [N1, claim_body(name="data", volume="v1")],
            "NamedVolumeMissing",
            True,
            "asks for volume v1, which does not exist",
            id="a volume requested by name is not there",
        ),
        pytest.param(
            [N1, claim_body(name="data", volume="v1"), volume_body(name="v1")],
            "Binding",
            False,
            "will be bound to v1",
            id="a volume requested by name is free",
        ),
        pytest.param(
            [N1, claim_body(name="data", volume="v1", size="much"), volume_body(name="v1")],
            "Senseless",
            True,
            "is invalid",
            id="a size that is none, with a volume",
        ),
        pytest.param(
            [N1, NOW, claim_body(name="data", storage_class="now", size="much")],
            "Senseless",
            True,
            "is invalid",
            id="a size that is none",
        ),
        pytest.param(
            [N1, class_body(binding_mode="Immediate"), claim_body(name="data"), volume_body(name="v1")],
            "Binding",
            False,
            "will be bound to v1",
            id="a volume that does is there",
        ),
        pytest.param(
            [N1, class_body(name="usual", default=True), claim_body(name="data", storage_class=None)],
            "Binding",
            False,
            "will get the default class usual",
            id="a default class is there",
        ),
        pytest.param(
            [N1, FAST, claim_body(name="data", storage_class="fast"), pod_body(claims=["data"], gates=["quota"])],
            "ConsumerGated",
            False,
            "gates: quota",
            id="the pod has gates",
        ),
        pytest.param(
            [FAST, claim_body(name="data", volume="v1", bound=True), volume_body(name="v1", node="n1")],
            "Bound",
            False,
            "nodes that are not listed",
            id="no nodes are known",
        ),
        pytest.param(
            [N1, FAST, claim_body(name="data", deleting=True)],
            "Deleting",
            False,
            "is being deleted since",
            id="no pod uses a claim that is being deleted",
        ),
    ],
)
def test_where_a_claim_stands(objects: list[Body], state: str, stuck: bool, evidence: str) -> None:
    found = claim_report(*objects)
    assert (found.state, found.stuck) == (state, stuck)
    assert evidence in found.verdict


@pytest.mark.parametrize(
    ("objects", "state", "evidence"),
    [
        pytest.param([lease("2026-11-02T09:59:50Z")], "WaitingForProvisioner", "its provisioner runs", id="fresh"),
        pytest.param(
            [lease("2026-11-02T09:00:00Z")], "NoProvisioner", "is not responding: Lease storage/", id="an old Lease"
        ),
        pytest.param(
            [lease(None)],
            "WaitingForProvisioner",
            "it is unknown whether its provisioner runs",
            id="a Lease without a time",
        ),
        pytest.param(
            [lease("yesterday")], "WaitingForProvisioner", "it is unknown whether", id="a Lease with a senseless time"
        ),
        pytest.param(
            [csi_node_body(name="n1", limits={DRIVER: None}), csi_node_body(name="n2", limits={DRIVER: None})],
            "WaitingForProvisioner",
            f"driver {DRIVER} is registered on 2 nodes",
            id="the driver is on nodes",
        ),
        pytest.param([csi_node_body(name="n1"), driver_body()], "NoProvisioner", "its CSIDriver exists", id="no trace"),
        pytest.param([], "WaitingForProvisioner", "no Leases and no CSINodes were listed", id="nothing would tell"),
    ],
)
def test_whether_a_provisioner_is_there(objects: list[Body], state: str, evidence: str) -> None:
    found = claim_report(N1, NOW, claim_body(name="data", storage_class="now"), *objects, now=LATE)
    assert found.state == state
    assert evidence in "\n".join([found.verdict, *found.notes])


def test_a_dump_is_as_old_as_its_newest_lease() -> None:
    """Who renews all the time, as nodes do, tells when files were made."""
    claim = claim_body(name="data", storage_class="now")
    beat = lease("2026-11-02T10:00:00.123456Z", name="n1", holder="n1")
    assert claim_report(N1, NOW, claim, lease("2026-11-02T09:00:00Z"), beat).state == "NoProvisioner"
    assert claim_report(N1, NOW, claim, lease("2026-11-02T09:00:00Z")).state == "WaitingForProvisioner"


def test_a_driver_that_is_not_on_the_chosen_node_is_noted() -> None:
    claim = claim_body(name="data", storage_class="fast", selected_node="n1")
    found = claim_report(N1, FAST, claim, csi_node_body(name="n1"), lease("2026-11-02T09:59:50Z"), now=LATE)
    assert found.notes[0] == f"driver {DRIVER} is not registered on n1"
    assert found.node == "n1"


@pytest.mark.parametrize(
    ("storage_class", "node"), [pytest.param("now", None, id="immediate"), pytest.param("fast", "n1", id="delayed")]
)
def test_a_volume_that_was_deleted_before_its_claim_was_bound_is_named_with_what_keeps_it(
    storage_class: str, node: str | None
) -> None:
    claim = claim_body(name="data", storage_class=storage_class, selected_node=node, uid="u")
    gone = {
        "storage_class": storage_class,
        "claim_ref": claim_ref(name="data", uid="u"),
        "finalizers": [well_known.EXTERNAL_PROVISIONER],
    }
    found = claim_report(N1, NOW, FAST, claim, volume_body(name="pvc-u", deleting=True, **gone))
    assert (found.state, found.stuck, found.volume) == ("VolumeLeaving", True, "pvc-u")
    assert "pvc-u was provisioned and then deleted before the claim was bound" in found.verdict
    assert well_known.EXTERNAL_PROVISIONER in "".join(found.notes)
    assert found.checks[0].startswith("loses the guard")
    assert "kubectl patch pv pvc-u " in found.checks[0]
    others = volume_body(name="pvc-u", deleting=True, **gone | {"claim_ref": claim_ref(name="data", uid="old")})
    assert claim_report(N1, NOW, FAST, claim, others).state == "WaitingForProvisioner"


def test_what_succeeded_since_is_no_failure() -> None:
    claim = claim_body(name="data", storage_class="now")
    failed = event_body(claim, "ProvisioningFailed", "rpc error: code = Internal desc = x", at="2026-11-02T09:00:00Z")
    made = event_body(claim, "ProvisioningSucceeded", "made", at="2026-11-02T09:00:01Z")
    assert claim_report(N1, NOW, claim, failed).state == "ProvisioningFailed"
    assert claim_report(N1, NOW, claim, failed, made).state == "WaitingForProvisioner"


def test_an_unknown_failure_is_quoted_from_its_event() -> None:
    claim = claim_body(name="data", storage_class="now")
    found = claim_report(N1, NOW, claim, event_body(claim, "ProvisioningFailed", "the disk is on fire", at="x"))
    assert found.verdict.endswith("failed to provision its volume: the disk is on fire.")
    assert found.checks == (f"check what {DRIVER} logs about default/data",)


def test_only_objects_that_had_promised_enough_are_stale() -> None:
    claim = claim_body(name="data", storage_class="now", size="8Gi")
    full = "rpc error: code = ResourceExhausted desc = full"
    capacities = [
        capacity_body(name="enough", storage_class="now", topology={}, capacity="10Gi"),
        capacity_body(name="little", storage_class="now", topology={}, capacity="1Gi"),
        capacity_body(name="senseless", storage_class="now", topology={}, capacity="much"),
        capacity_body(name="newer", storage_class="now", topology={}, capacity="10Gi"),
    ]
    for body, created in zip(capacities, ["09", "09", "09", "11"], strict=True):
        body["metadata"]["creationTimestamp"] = f"2026-11-02T{created}:00:00Z"
    failed = event_body(claim, "ProvisioningFailed", full, at="2026-11-02T10:00:00Z")
    notes = claim_report(N1, NOW, claim, failed, *capacities).notes
    stale = [note for note in notes if "stale" in note]
    assert stale == [
        "default/enough has reported enough since 2026-11-02T09:00:00Z, but at 2026-11-02T10:00:00Z the driver lacked "
        "capacity for 8Gi: the reported value is stale"
    ]


def test_events_of_an_earlier_claim_of_that_name_do_not_count() -> None:
    claim = claim_body(name="data", storage_class="now", uid="second")
    old = event_body(claim, "ProvisioningFailed", "rpc error: code = Internal desc = x", at="x")
    old["involvedObject"]["uid"] = "first"
    assert claim_report(N1, NOW, claim, old).state == "WaitingForProvisioner"


@pytest.mark.req("R1.explained")
def test_the_report_says_that_a_bound_claim_is_not_rolled_back() -> None:
    made = volume_body(
        name="v1",
        storage_class="fast",
        node="n1",
        claim_ref=claim_ref(name="data", uid="data-uid"),
        phase="Bound",
        annotations={well_known.PROVISIONED_BY: DRIVER},
    )
    verdict = explained(
        node_body(name="n1", unschedulable=True),
        node_body(name="n2"),
        FAST,
        claim_body(name="data", storage_class="fast", volume="v1", bound=True, uid="data-uid"),
        claim_body(name="log", storage_class="fast"),
        made,
        pod_body(claims=["data", "log"]),
    )
    assert not verdict.ok
    assert any("default/data: bound, and not rolled back; only held volumes" in note for note in verdict.notes)


@pytest.mark.parametrize(("size", "notes"), [("8Gi", 0), ("8192Mi", 0), ("9Gi", 1)])
def test_claim_that_was_patched_to_more_than_its_volume_has_is_noted(size: str, notes: int) -> None:
    claim = claim_body(name="data", volume="v1", bound=True, size=size)
    volume = volume_body(name="v1", node="n1", size="8Gi")
    found = claim_report(N1, FAST, claim, volume)
    assert (found.state, len(found.notes)) == ("Bound", notes)
    assert all("requests 9Gi, and v1 has 8Gi: Mooring does not resize volumes" in note for note in found.notes)
