"""The PersistentVolume of a made volume."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mooring.api import keys
from mooring.csi.contract import DriverVolume, Topology
from mooring.provisioner.attempt import State
from mooring.provisioner.settings import DriverFacts
from mooring.provisioner.volume_object import PROVISIONER_IDENTITY, size, unusable, volume_body
from provisioner.paper_driver import DRIVER
from provisioner.plans import facts, plan_of

AT = "2026-01-02T03:04:05.000000Z"
GI = 2**30


def body_of(volume: DriverVolume, about: DriverFacts | None = None) -> dict[str, Any]:
    return volume_body(plan_of(), volume, about or facts(), created_at=AT)


def test_what_the_driver_answered_is_in_it() -> None:
    place = Topology({"b": "2", "a": "1"})
    body = body_of(DriverVolume("v-1", 6 * GI, {"pool": "a"}, (place,)))
    spec = body["spec"]
    assert spec["capacity"] == {"storage": "6Gi"}
    assert spec["csi"]["driver"] == DRIVER
    assert spec["csi"]["volumeHandle"] == "v-1"
    assert spec["csi"]["volumeAttributes"] == {PROVISIONER_IDENTITY: "id", "pool": "a"}
    assert spec["nodeAffinity"]["required"]["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["1"]},
                {"key": "b", "operator": "In", "values": ["2"]},
            ]
        }
    ]
    assert body["metadata"]["annotations"][keys.VOLUME_CREATED_AT] == AT


def test_the_drivers_word_wins_over_ours_in_the_attributes() -> None:
    body = body_of(DriverVolume("v-1", context={PROVISIONER_IDENTITY: "theirs"}))
    assert body["spec"]["csi"]["volumeAttributes"] == {PROVISIONER_IDENTITY: "theirs"}


def test_a_driver_that_does_not_say_how_large_gave_what_was_asked() -> None:
    assert body_of(DriverVolume("v-1"))["spec"]["capacity"] == {"storage": "5Gi"}


@pytest.mark.parametrize(
    ("places", "about", "terms"),
    [
        pytest.param([], facts(), None, id="usable everywhere"),
        pytest.param([{}], facts(), None, id="a place that says nothing: no terms the API would refuse for ever"),
        pytest.param([{"z": "a"}, {}, {"z": "b"}], facts(), 2, id="empty places are left out"),
        pytest.param([{"z": "a"}], facts(whole=frozenset()), None, id="a driver that knows no topology"),
    ],
)
def test_places(places: Sequence[Mapping[str, str]], about: DriverFacts, terms: int | None) -> None:
    body = body_of(DriverVolume("v-1", accessible_from=tuple(Topology(each) for each in places)), about)
    affinity = body["spec"].get("nodeAffinity")
    assert (None if affinity is None else len(affinity["required"]["nodeSelectorTerms"])) == terms


def test_drafts_are_not_written_into() -> None:
    plan = plan_of()
    before = repr(plan.draft)
    volume_body(plan, DriverVolume("v-1", context={"a": "b"}), facts(), created_at=AT)
    assert repr(plan.draft) == before


@pytest.mark.parametrize(
    ("volume", "said"),
    [
        pytest.param(DriverVolume("v", 5 * GI), "", id="as large as asked"),
        pytest.param(DriverVolume("v", 0), "", id="size not said"),
        pytest.param(DriverVolume("v", 5 * GI - 1), "less than requested capacity", id="a byte too small"),
        pytest.param(DriverVolume("", 5 * GI), "without an id", id="no id"),
    ],
)
def test_volumes_that_cannot_be_used(volume: DriverVolume, said: str) -> None:
    flaw = unusable(plan_of(), volume)
    assert (flaw is None) == (said == "")
    if flaw is not None:
        assert flaw.state is State.IN_BACKGROUND
        assert said in flaw.text


@pytest.mark.parametrize(
    ("count", "want"),
    [
        pytest.param(0, "0", id="nothing"),
        pytest.param(1, "1", id="bytes"),
        pytest.param(1500, "1500", id="not whole kibibytes"),
        pytest.param(1024, "1Ki", id="a kibibyte"),
        pytest.param(3 * 2**29, "1536Mi", id="the largest unit that is exact"),
        pytest.param(2**60, "1Ei", id="an exbibyte"),
        pytest.param(2**63 - 1, "9223372036854775807", id="the largest"),
    ],
)
def test_binary_sizes(count: int, want: str) -> None:
    assert size(count) == want
