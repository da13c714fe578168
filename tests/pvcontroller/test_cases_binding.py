"""Kubernetes' tables for claims: sets 1, 2, 3, 13, 14 and 15, under their numbers."""

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM
from support.builders import class_body
from support.pvcontroller.case import (
    BY_CTRL,
    MINE,
    NAMED,
    OTHER_UID,
    RWX,
    THEIRS,
    Case,
    check_claim,
    claim,
    row,
    volume,
)
from support.pvcontroller.fake_cluster import FakeCluster

WAIT = class_body(name="wait")
BOUND = {"claim-1": "Bound to volume-1 by controller", "volume-1": "Bound to claim-1 by controller"}
#: The user named the volume in the claim; the volume's part is the controller's.
BY_CLAIM = {"claim-1": "Bound to volume-1", "volume-1": "Bound to claim-1 by controller"}
#: The user named the claim in the volume.
BY_VOLUME = {"claim-1": "Bound to volume-1 by controller", "volume-1": "Bound to claim-1"}
BY_BOTH = {"claim-1": "Bound to volume-1", "volume-1": "Bound to claim-1"}
UNBOUND = {"claim-1": "Pending", "volume-1": "Available"}
ASKED = {"claim-1": "Pending to volume-1 unfinished", "volume-1": "Available"}
NO_CLASS, MISMATCH, NO_PLUGIN = "Normal FailedBinding", "Warning VolumeMismatch", "Warning ProvisioningFailed"
TAKEN, LOST, MISBOUND = "Warning FailedBinding", "Warning ClaimLost", "Warning ClaimMisbound"
SSD = {"matchLabels": {"disk": "ssd"}}
LABELS = {"disk": "ssd"}
DONE = {well_known.BIND_COMPLETED: well_known.ANNOTATION_SET}

both = pytest.mark.parametrize("settled", [pytest.param(False, id="once"), pytest.param(True, id="until settled")])


@both
@pytest.mark.parametrize(
    "case",
    [
        row("1-1 one that fits", [claim(), volume()], BOUND),
        row("1-2 too big", [claim(size="10Gi"), volume()], UNBOUND, [NO_CLASS]),
        row("1-3 too big, phase Bound", [claim(size="10Gi", phase="Bound"), volume()], UNBOUND, [NO_CLASS]),
        row(
            "1-4 the smallest",
            [claim(), volume(name="volume-2", size="10Gi"), volume()],
            BOUND | {"volume-2": "Available"},
        ),
        row(
            "1-5 reserved by name",
            [claim(), volume(size="10Gi", claim_ref=NAMED), volume(name="volume-2")],
            BY_VOLUME | {"volume-2": "Available"},
        ),
        row(
            "1-6 reserved by name and uid",
            [claim(), volume(size="10Gi", claim_ref=MINE), volume(name="volume-2")],
            BY_VOLUME | {"volume-2": "Available"},
        ),
        row(
            "1-7 reserved for an earlier claim",
            [claim(), volume(claim_ref=OTHER_UID)],
            {"claim-1": "Pending", "volume-1": "Available to claim-1"},
            [NO_CLASS],
            {"volume-1": "Released to claim-1"},
        ),
        row("1-8 crash after claimRef", [claim(), volume(claim_ref=MINE, annotations=BY_CTRL)], BOUND),
        row(
            "1-9 crash after the volume's status",
            [claim(), volume(claim_ref=MINE, annotations=BY_CTRL, phase="Bound")],
            BOUND,
        ),
        row(
            "1-10 crash after the claim's spec",
            [
                claim(volume="volume-1", annotations=BY_CTRL | DONE),
                volume(claim_ref=MINE, annotations=BY_CTRL, phase="Bound"),
            ],
            BOUND,
        ),
        row("1-11 selector matches", [claim(selector=SSD), volume(labels=LABELS)], BOUND),
        row("1-12 selector does not match", [claim(selector=SSD), volume()], UNBOUND, [NO_CLASS]),
        row(
            "1-13 delayed",
            [WAIT, claim(storage_class="wait"), volume(storage_class="wait")],
            UNBOUND,
            ["Normal WaitForFirstConsumer"],
        ),
        row(
            "1-14 delayed, reserved by name",
            [WAIT, claim(storage_class="wait"), volume(storage_class="wait", claim_ref=NAMED)],
            BY_VOLUME,
        ),
        row(
            "1-15 names a larger volume",
            [claim(volume="volume-1"), volume(size="10Gi"), volume(name="volume-2")],
            BY_CLAIM | {"volume-2": "Available"},
        ),
        row(
            "1-16 names one that lacks a mode",
            [claim(volume="volume-1", access_modes=[RWX]), volume()],
            ASKED,
            [MISMATCH],
        ),
        row(
            "1-17 none is Available",
            [
                claim(),
                volume(phase="Pending"),
                volume(name="volume-2", phase="Failed", size="2Gi"),
                volume(name="volume-3", phase="Released", size="3Gi"),
                volume(name="volume-4", phase="", size="4Gi"),
            ],
            {"claim-1": "Pending", "volume-1": "Pending", "volume-2": "Failed", "volume-3": "Released"},
            [NO_CLASS],
            BOUND | {"volume-2": "Available", "volume-3": "Available", "volume-4": "Available"},
        ),
        row(
            "1-18 delayed, with a node, reserved by uid",
            [
                WAIT,
                claim(storage_class="wait", selected_node="node-1"),
                volume(storage_class="wait", claim_ref=MINE, annotations=BY_CTRL),
            ],
            BOUND,
        ),
    ],
)
@pytest.mark.req("T42.PC6", "T42.PC7", "T42.PC8", "T42.PC12", "T6.not-bound")
def test_claim_that_names_no_volume(case: Case, settled: bool) -> None:
    check_claim(case, settled=settled)


@both
@pytest.mark.parametrize(
    "case",
    [
        row("2-1 not there", [claim(volume="volume-1")], {"claim-1": "Pending to volume-1 unfinished"}),
        row(
            "2-2 not there, phase Bound",
            [claim(volume="volume-1", phase="Bound")],
            {"claim-1": "Pending to volume-1 unfinished"},
        ),
        row("2-3 free", [claim(volume="volume-1"), volume()], BY_CLAIM),
        row("2-4 named back", [claim(volume="volume-1"), volume(claim_ref=NAMED)], BY_BOTH),
        row("2-5 named back by uid", [claim(volume="volume-1"), volume(claim_ref=MINE)], BY_BOTH),
        row(
            "2-6 another's",
            [claim(volume="volume-1", phase="Bound"), volume(claim_ref=THEIRS, phase="Bound")],
            {"claim-1": "Pending to volume-1 unfinished", "volume-1": "Bound to other"},
            [TAKEN],
            {"volume-1": "Released to other"},
        ),
        row(
            "2-7 another's, chosen by the controller",
            [
                claim(volume="volume-1", phase="Bound", annotations=BY_CTRL),
                volume(claim_ref=THEIRS, phase="Bound"),
            ],
            {"claim-1": "Bound to volume-1 unfinished by controller", "volume-1": "Bound to other"},
            [TAKEN],
            {"volume-1": "Released to other"},
        ),
        row("2-8 selector does not match", [claim(volume="volume-1", selector=SSD), volume()], BY_CLAIM),
        row("2-9 too small", [claim(volume="volume-1", size="2Gi", phase="Bound"), volume()], ASKED, [MISMATCH]),
        row("2-10 another class", [claim(volume="volume-1"), volume(storage_class="gold")], ASKED, [MISMATCH]),
        row(
            "2-11 other attributes",
            [claim(volume="volume-1"), volume(attributes_class="gold")],
            ASKED,
            [MISMATCH],
        ),
        row(
            "2-12 the same attributes",
            [claim(volume="volume-1", attributes_class="gold"), volume(attributes_class="gold")],
            BY_CLAIM,
        ),
    ],
)
@pytest.mark.req("T42.PC10", "T42.PC12", "T6.prebound")
def test_claim_that_names_a_volume(case: Case, settled: bool) -> None:
    check_claim(case, settled=settled)


@both
@pytest.mark.parametrize(
    "case",
    [
        row("3-1 no name left", [claim(annotations=DONE, phase="Pending")], {"claim-1": "Lost"}, [LOST]),
        row(
            "3-2 gone",
            [claim(volume="volume-1", annotations=DONE)],
            {"claim-1": "Lost to volume-1"},
            [LOST],
        ),
        row(
            "3-3 it forgot the claim",
            [claim(volume="volume-1", annotations=DONE), volume()],
            BY_CLAIM,
        ),
        row(
            "3-4 an earlier claim's",
            [claim(volume="volume-1", annotations=DONE), volume(claim_ref=OTHER_UID)],
            {"claim-1": "Lost to volume-1", "volume-1": "Available to claim-1"},
            [MISBOUND],
            {"volume-1": "Released to claim-1"},
        ),
        row(
            "3-5 only the phases are old",
            [claim(volume="volume-1", annotations=DONE), volume(claim_ref=MINE)],
            BY_BOTH,
        ),
        row(
            "3-6 another claim's",
            [claim(volume="volume-1", annotations=DONE), volume(claim_ref=THEIRS)],
            {"claim-1": "Lost to volume-1", "volume-1": "Available to other"},
            [MISBOUND],
            {"volume-1": "Released to other"},
        ),
        row(
            "3-7 it forgot the claim, selector does not match",
            [claim(volume="volume-1", annotations=DONE, selector=SSD), volume()],
            BY_CLAIM,
        ),
    ],
)
@pytest.mark.req("T42.PC6", "T42.PC11", "T42.PC12")
def test_claim_that_was_bound(case: Case, settled: bool) -> None:
    check_claim(case, settled=settled)


TEN_GOLD = volume(size="10Gi", storage_class="gold")


@both
@pytest.mark.parametrize(
    "case",
    [
        row("13-1 gold", [claim(storage_class="gold"), volume(name="volume-2"), TEN_GOLD], BOUND),
        row(
            "13-2 no class",
            [claim(), volume(name="volume-2", storage_class="gold"), volume(size="10Gi")],
            BOUND,
        ),
        row(
            "13-3 not silver",
            [claim(storage_class="gold"), volume(name="volume-2", storage_class="silver"), TEN_GOLD],
            BOUND,
        ),
        row('13-4 class ""', [claim(storage_class=""), volume()], BOUND),
        row("13-5 class not named", [claim(storage_class=None), volume()], BOUND),
    ],
)
@pytest.mark.req("T42.PC7")
def test_classes(case: Case, settled: bool) -> None:
    check_claim(case, settled=settled)


@both
@pytest.mark.parametrize(
    "case",
    [
        row("14-1 block", [claim(mode="Block"), volume(mode="Block")], BOUND),
        row("14-2 file system", [claim(), volume()], BOUND),
        row("14-3 only a file system", [claim(mode="Block"), volume()], UNBOUND, [NO_CLASS]),
        row("14-4 only block", [claim(), volume(mode="Block")], UNBOUND, [NO_CLASS]),
        row(
            "14-5 of the class, another mode",
            [claim(storage_class="gold", mode="Block"), volume(storage_class="gold")],
            UNBOUND,
            [NO_PLUGIN],
        ),
        row(
            "14-5-1 of the mode, another class",
            [claim(storage_class="gold", mode="Block"), volume(storage_class="silver", mode="Block")],
            UNBOUND,
            [NO_PLUGIN],
        ),
        row(
            "14-5-2 named, another class",
            [
                claim(storage_class="gold", mode="Block", volume="volume-1"),
                volume(storage_class="silver", mode="Block"),
            ],
            ASKED,
            [MISMATCH],
        ),
        row("14-7 reserved, block", [claim(mode="Block"), volume(mode="Block", claim_ref=NAMED)], BY_VOLUME),
        row("14-8 named, another mode", [claim(mode="Block", volume="volume-1"), volume()], ASKED, [MISMATCH]),
        row(
            "14-8-1 reserved, another mode",
            [claim(mode="Block"), volume(claim_ref=NAMED)],
            {"claim-1": "Pending", "volume-1": "Available for claim-1"},
            [NO_CLASS],
        ),
        row("14-9 named, block", [claim(mode="Block", volume="volume-1"), volume(mode="Block")], BY_CLAIM),
        row("14-10 reserved, block", [claim(mode="Block"), volume(mode="Block", claim_ref=NAMED)], BY_VOLUME),
        row("14-11 named, file system", [claim(volume="volume-1"), volume()], BY_CLAIM),
        row("14-12 reserved, file system", [claim(), volume(claim_ref=NAMED)], BY_VOLUME),
    ],
)
@pytest.mark.req("T42.PC7", "T42.PC10")
def test_modes(case: Case, settled: bool) -> None:
    check_claim(case, settled=settled)


GOLD = class_body(name="gold", default=True, binding_mode="Immediate")
SILVER = class_body(name="silver", default=True, binding_mode="Immediate")
COPPER = {well_known.STORAGE_CLASS_BETA: "copper"}


@pytest.mark.parametrize(
    ("bodies", "assigned", "phase", "events"),
    [
        pytest.param([claim(storage_class=None)], None, "Pending", [NO_CLASS], id="15-1 no default class"),
        pytest.param(
            [claim(storage_class=None), GOLD, SILVER], "gold", "Pending", [NO_PLUGIN], id="15-2 two of one age"
        ),
        pytest.param(
            [claim(storage_class=None, volume="volume-1", annotations=DONE), GOLD],
            None,
            "Lost to volume-1",
            [LOST],
            id="15-3 bound to a volume that is gone",
        ),
        pytest.param(
            [claim(storage_class=None, volume="volume-1"), GOLD],
            None,
            "Pending to volume-1 unfinished",
            [],
            id="15-4 names a volume that is not there",
        ),
        pytest.param([claim(storage_class=None), GOLD], "gold", "Pending", [NO_PLUGIN], id="15-5 one default class"),
        pytest.param([claim(storage_class="copper"), GOLD], "copper", "Pending", [NO_PLUGIN], id="15-6 has a class"),
        pytest.param(
            [claim(storage_class=None, annotations=COPPER), GOLD],
            None,
            "Pending",
            [NO_PLUGIN],
            id="15-7 has an old one",
        ),
    ],
)
@pytest.mark.req("T42.PC9")
def test_default_class_for_claims_without(
    bodies: list[dict[str, object]], assigned: str | None, phase: str, events: list[str]
) -> None:
    cluster = FakeCluster(*bodies)
    said = cluster.settle(CLAIM, "default/claim-1")
    assert cluster.bodies[CLAIM, "default/claim-1"]["spec"].get("storageClassName") == assigned
    assert (cluster.claim(), said) == (phase, events)
    cluster.settle_all()
    assert cluster.claim() == phase


@pytest.mark.req("T42.PC13")
def test_status_shows_what_the_volume_offers() -> None:
    """1-5, 1-15, 2-12 and 5-2-3 to the end: size, modes and attributes are the volume's."""
    body = volume(size="10Gi", attributes_class="gold", claim_ref=NAMED)
    cluster = FakeCluster(claim(attributes_class="gold"), body)
    cluster.settle_all()
    assert cluster.bodies[CLAIM, "default/claim-1"]["status"] == {
        "phase": "Bound",
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "currentVolumeAttributesClassName": "gold",
    }
    grown = volume(size="2Gi", annotations={well_known.PRE_RESIZE_CAPACITY: "1Gi"})
    cluster = FakeCluster(claim(size="2Gi"), grown)
    cluster.settle_all()
    assert cluster.bodies[CLAIM, "default/claim-1"]["status"]["capacity"] == {"storage": "1Gi"}, "5-2-3"


@pytest.mark.req("T42.PC12", "T42.PC19")
def test_pairs_that_settle_over_several_looks() -> None:
    """10-1: a volume that is Pending still; 10-2: two volumes for one claim, of which one is given back."""
    cluster = FakeCluster(claim(), volume(phase="Pending"))
    cluster.settle_all()
    assert cluster.state() == BOUND
    double = FakeCluster(
        claim(volume="volume-1", annotations=BY_CTRL | DONE, phase="Bound"),
        volume(claim_ref=MINE, annotations=BY_CTRL, phase="Bound"),
        volume(name="volume-2", claim_ref=MINE, annotations=BY_CTRL, phase="Bound"),
    )
    double.settle_all()
    assert double.state() == BOUND | {"volume-2": "Available"}
