"""Kubernetes' tables for provisioning, sets 11 and 12, under their numbers.

Mooring provisions nothing by itself: the rows about Kubernetes' mock plugin (11-1, 11-3, 11-4, 11-7 to 11-13, 11-19,
11-20, 11-23, 11-25, 12-1) all begin as 11-2 does, with a plugin that is not there.
"""

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM
from support.builders import Body, claim_ref, class_body
from support.pvcontroller.case import Case, check_claim, claim, row, volume
from support.pvcontroller.fake_cluster import FakeCluster

VENDOR = "vendor.com/my-volume"
GOLD = class_body(name="gold", provisioner="kubernetes.io/mock-volume", binding_mode="Immediate")
COPPER = class_body(name="copper", provisioner="kubernetes.io/mock-volume")
EXTERNAL = class_body(name="external", provisioner=VENDOR, binding_mode="Immediate")
EXTERNAL_WAIT = class_body(name="external-wait", provisioner=VENDOR)
MIGRATED = class_body(name="pd", provisioner="kubernetes.io/gce-pd", binding_mode="Immediate")

ASKED = {well_known.STORAGE_PROVISIONER: VENDOR, well_known.STORAGE_PROVISIONER_BETA: VENDOR}
WAITING, FAILED, NO_CLASS = "Normal ExternalProvisioning", "Warning ProvisioningFailed", "Normal FailedBinding"
BOUND = {"claim-1": "Bound to volume-1 by controller", "volume-1": "Bound to claim-1 by controller"}

both = pytest.mark.parametrize("settled", [pytest.param(False, id="once"), pytest.param(True, id="until settled")])


@both
@pytest.mark.parametrize(
    "case",
    [
        row("11-2 plugin not there", [GOLD, claim(storage_class="gold")], {"claim-1": "Pending"}, [FAILED]),
        row("11-6 a free volume", [GOLD, claim(storage_class="gold"), volume(storage_class="gold")], BOUND),
        row("11-14 class not there", [claim(storage_class="none")], {"claim-1": "Pending"}, [FAILED]),
        row('11-15 class ""', [claim(storage_class="")], {"claim-1": "Pending"}, [NO_CLASS]),
        row("11-16 no class", [claim(storage_class=None)], {"claim-1": "Pending"}, [NO_CLASS]),
        row("11-17 external", [EXTERNAL, claim(storage_class="external")], {"claim-1": "Pending"}, [WAITING]),
        row(
            "11-18 unknown plugin",
            [
                class_body(name="odd", provisioner="kubernetes.io/unknown", binding_mode="Immediate"),
                claim(storage_class="odd"),
            ],
            {"claim-1": "Pending"},
            [FAILED],
        ),
        row("11-21 a driver took over", [MIGRATED, claim(storage_class="pd")], {"claim-1": "Pending"}, [WAITING]),
        row(
            "11-22 external, a free volume",
            [EXTERNAL, claim(storage_class="external"), volume(storage_class="external")],
            BOUND,
        ),
        row(
            "11-23 delayed plugin with a node: a free volume is not taken",
            [COPPER, claim(storage_class="copper", selected_node="node-1"), volume(storage_class="copper")],
            {"claim-1": "Pending", "volume-1": "Available"},
            [FAILED],
        ),
        row(
            "11-24 delayed external with a node: a free volume is not taken",
            [
                EXTERNAL_WAIT,
                claim(storage_class="external-wait", selected_node="node-1"),
                volume(storage_class="external-wait"),
            ],
            {"claim-1": "Pending", "volume-1": "Available"},
            [WAITING],
        ),
        row(
            "11-26 asked already",
            [EXTERNAL, claim(storage_class="external", annotations=ASKED)],
            {"claim-1": "Pending"},
            [WAITING],
        ),
    ],
)
@pytest.mark.req("T42.PC26", "T42.PC27", "T42.PC28")
def test_claim_without_a_volume_to_be_had(case: Case, settled: bool) -> None:
    check_claim(case, settled=settled)


@pytest.mark.parametrize(
    ("storage_class", "given", "asked"),
    [
        pytest.param(GOLD, {}, {}, id="11-2 no provisioner is asked"),
        pytest.param(EXTERNAL, {}, ASKED, id="11-17 external"),
        pytest.param(EXTERNAL_WAIT, {}, {}, id="delayed without a node: no provisioner is asked"),
        pytest.param(
            EXTERNAL_WAIT, {"selected_node": "n"}, ASKED | {well_known.SELECTED_NODE: "n"}, id="11-24 with a node"
        ),
        pytest.param(
            MIGRATED,
            {},
            dict.fromkeys(
                (well_known.STORAGE_PROVISIONER, well_known.STORAGE_PROVISIONER_BETA), "pd.csi.storage.gke.io"
            ),
            id="11-21 the driver that took over",
        ),
    ],
)
@pytest.mark.req("T42.PC28", "T17.trigger")
def test_provisioner_of_a_claim(storage_class: Body, given: dict[str, str], asked: dict[str, str]) -> None:
    name = storage_class["metadata"]["name"]
    cluster = FakeCluster(storage_class, claim(storage_class=name, **given))
    cluster.settle_all()
    assert cluster.bodies[CLAIM, "default/claim-1"]["metadata"].get("annotations", {}) == asked


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        pytest.param([volume(storage_class="external")], "Bound to volume-1 by controller", id="12-2 a free volume"),
        pytest.param([], "Pending", id="12-3 no volume ever"),
        pytest.param(
            [volume(storage_class="external", claim_ref=claim_ref(name="claim-1", uid="claim-1-uid"))],
            "Bound to volume-1 by controller",
            id="12-4 a volume made for the claim",
        ),
    ],
)
@pytest.mark.req("T42.PC28")
def test_volume_that_comes_later(later: list[Body], expected: str) -> None:
    cluster = FakeCluster(EXTERNAL, claim(storage_class="external"))
    assert cluster.settle(CLAIM, "default/claim-1") == [WAITING]
    for body in later:
        cluster.create(body)
    cluster.deliver()
    cluster.settle_all()
    assert cluster.claim() == expected
    assert cluster.bodies[CLAIM, "default/claim-1"]["metadata"]["annotations"].items() >= ASKED.items()
