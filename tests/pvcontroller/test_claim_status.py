"""Which fields of a claim's status change, given what it says now and what its volume offers."""

from typing import Any

import msgspec
import pytest

from builders import Body, a_volume, claim_body
from mooring.api import keys
from mooring.api.kinds import CLAIM
from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.pvcontroller.claim_status import changes

OFFERED = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}}


def saying(**status: Any) -> Claim:  # noqa: ANN401  # a status is JSON
    body: Body = claim_body(uid="claim-1-uid", version="1") | {"status": status}
    return CLAIM.decode(msgspec.json.encode(body))


@pytest.mark.parametrize(
    ("claim", "phase", "volume", "wanted"),
    [
        pytest.param(saying(phase="Pending"), "Pending", None, {}, id="pending and says so"),
        pytest.param(saying(), "Pending", None, {"phase": "Pending"}, id="says nothing yet"),
        pytest.param(
            saying(phase="Bound", currentVolumeAttributesClassName="fast", **OFFERED),
            "Lost",
            None,
            {"phase": "Lost", "accessModes": None, "capacity": None, "currentVolumeAttributesClassName": None},
            id="without a volume nothing is offered",
        ),
        pytest.param(
            saying(phase="Pending", **OFFERED),
            "Pending",
            None,
            {"accessModes": None, "capacity": None},
            id="what is left over goes, even if the phase is right",
        ),
        pytest.param(saying(phase="Pending"), "Bound", a_volume(), {"phase": "Bound"} | OFFERED, id="becomes bound"),
        pytest.param(saying(phase="Bound", **OFFERED), "Bound", a_volume(), {}, id="bound and says so"),
        pytest.param(
            saying(phase="Bound", **OFFERED),
            "Bound",
            a_volume(access_modes=["ReadWriteOnce", "ReadOnlyMany"], size="20Gi"),
            {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]},
            id="bound: access modes follow the volume, the size does not",
        ),
        pytest.param(
            saying(phase="Pending", capacity={"storage": "10240Mi"}, accessModes=["ReadWriteOnce"]),
            "Bound",
            a_volume(),
            {"phase": "Bound"},
            id="the same size in other words is no change",
        ),
        pytest.param(
            saying(phase="Pending"),
            "Bound",
            a_volume(annotations={keys.PRE_RESIZE_CAPACITY: "4Gi"}),
            {"phase": "Bound"} | OFFERED | {"capacity": {"storage": "4Gi"}},
            id="a volume that is being grown shows its old size",
        ),
        pytest.param(
            saying(phase="Pending"),
            "Bound",
            a_volume(annotations={keys.PRE_RESIZE_CAPACITY: "much"}),
            {"phase": "Bound"} | OFFERED,
            id="an old size that cannot be read does not count",
        ),
        pytest.param(
            saying(phase="Pending"),
            "Bound",
            a_volume(attributes_class="fast"),
            {"phase": "Bound", "currentVolumeAttributesClassName": "fast"} | OFFERED,
            id="attributes are taken over on the way from Pending to Bound",
        ),
        pytest.param(
            saying(phase="Lost"),
            "Bound",
            a_volume(attributes_class="fast"),
            {"phase": "Bound"} | OFFERED,
            id="attributes are not taken over on another way",
        ),
    ],
)
@pytest.mark.req("T42.PC13")
def test_changes_of_a_claims_status(claim: Claim, phase: str, volume: Volume | None, wanted: dict[str, Any]) -> None:
    assert changes(claim, phase, volume) == wanted
