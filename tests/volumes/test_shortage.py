import pytest

from mooring.api.views.meta import ApiObject
from mooring.volumes.shortage import ACTION
from support.builders import Body, a_capacity, a_claim, a_class, a_driver
from support.builders.drivers import DRIVER
from support.builders.volume_library import VolumeLibrary

pytestmark = [pytest.mark.req("C12.figures"), pytest.mark.level("u")]

CLASS = a_class(name="made", provisioner=DRIVER)


def zone(name: str) -> Body:
    return {"matchLabels": {"zone": name}}


@pytest.mark.req("C12.others-unnamed")
@pytest.mark.parametrize(
    ("things", "want"),
    [
        pytest.param([], "asked for: c 20Gi of class made; no driver reports capacity for it.", id="nothing reported"),
        pytest.param(
            [a_capacity(topology={}, capacity="10Gi")],
            "asked for: c 20Gi of class made; free: everywhere (10Gi).",
            id="one segment for all",
        ),
        pytest.param(
            [
                a_capacity(name="a", topology=zone("a"), capacity="1536Mi"),
                a_capacity(name="b", topology=zone("b"), capacity="100Gi", largest="10Gi"),
                a_capacity(name="x", topology=zone("a"), capacity="1Ti", storage_class="other"),
            ],
            "asked for: c 20Gi of class made; free: zone=b (100Gi, at most 10Gi each), zone=a (1.5Gi).",
            id="the best first, of this class only",
        ),
        pytest.param(
            [
                a_capacity(topology={}, capacity="30Gi", largest="25Gi"),
                a_claim(name="secret", namespace="theirs", storage_class="made", size="15Gi", selected_node="n1"),
            ],
            "asked for: c 20Gi of class made; free: everywhere (30Gi less 15Gi in flight, at most 25Gi each).",
            id="what is in flight, and not whose",
        ),
        pytest.param(
            [a_capacity(name=f"z{number}", topology=zone(f"z{number}"), capacity=number) for number in range(7)],
            "asked for: c 20Gi of class made; free: "
            "zone=z6 (6), zone=z5 (5), zone=z4 (4), zone=z3 (3), zone=z2 (2) and 2 segments with less.",
            id="many segments",
        ),
        pytest.param(
            [a_capacity(name=f"z{number}", topology=zone(f"z{number}"), capacity="9Gi") for number in range(6)],
            "asked for: c 20Gi of class made; free: "
            "zone=z0 (9Gi), zone=z1 (9Gi), zone=z2 (9Gi), zone=z3 (9Gi), zone=z4 (9Gi) and 1 segment with as much.",
            id="segments alike",
        ),
        pytest.param(
            [a_capacity(name=f"z{n}", topology=zone(f"z{n}"), capacity="9Gi" if n < 6 else "1Gi") for n in range(8)],
            "asked for: c 20Gi of class made; free: zone=z0 (9Gi), zone=z1 (9Gi), zone=z2 (9Gi), zone=z3 (9Gi), "
            "zone=z4 (9Gi) and 1 segment with as much and 2 segments with less.",
            id="some as much, some less",
        ),
        pytest.param(
            [a_capacity(capacity="10Gi")],
            "asked for: c 20Gi of class made; free: nowhere (10Gi).",
            id="a segment without nodes",
        ),
    ],
)
def test_figures(things: list[ApiObject], want: str) -> None:
    claim = a_claim(name="c", storage_class="made", size="20Gi")
    library = VolumeLibrary(CLASS, a_driver(tracks_capacity=True), claim, *things)
    assert library.state.capacity_shortage(library.claims("c")) == f"{want} {ACTION}"


def test_claims_of_several_classes_are_reports_total_and_maximum() -> None:
    claims = [a_claim(name="a", storage_class="made"), a_claim(name="b", storage_class="late"), a_claim(name="c")]
    late = a_class(name="late", provisioner=DRIVER)
    library = VolumeLibrary(
        CLASS, late, a_driver(tracks_capacity=True), *claims, a_capacity(topology={}, capacity="1Gi")
    )
    told = library.state.capacity_shortage(library.claims("a", "b", "c"))
    assert told == (
        "asked for: a 5Gi of class made; free: everywhere (1Gi). "
        "asked for: b 5Gi of class late; no driver reports capacity for it. "
        f"{ACTION}"
    )
