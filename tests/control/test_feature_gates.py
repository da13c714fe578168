import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.control import feature_gates
from mooring.control.feature_gates import (
    CSI_STORAGE_CAPACITY,
    DEFAULTS,
    EMBEDDED,
    GANG_VOLUMES,
    GATES,
    VOLUME_SCHEDULING,
    BadGates,
    Gate,
    Stage,
    parse_feature_gates,
)

pytestmark = pytest.mark.req("T31.flag")

KNOWN = (
    "(known: CSIStorageCapacity, ClaimRollback, GangVolumes, PersistentVolumeClaimUnusedSinceTime, PresetNodeBinding, "
    "ProvisioningRollback, VolumeScheduling)"
)


@pytest.mark.parametrize(
    ("text", "scheduling", "capacity"),
    [
        pytest.param("", True, True, id="nothing set"),
        pytest.param("VolumeScheduling=false", False, True, id="one off"),
        pytest.param("VolumeScheduling=false,CSIStorageCapacity=false", False, False, id="both off"),
        pytest.param("VolumeScheduling=true", True, True, id="set to its default"),
        pytest.param(" VolumeScheduling = false , CSIStorageCapacity=F", False, False, id="blanks"),
        pytest.param("VolumeScheduling=false,", False, True, id="a comma too many"),
        pytest.param("VolumeScheduling=0,VolumeScheduling=1", True, True, id="the last one counts"),
    ],
)
def test_settings_as_the_flag_takes_them(text: str, scheduling: bool, capacity: bool) -> None:
    gates = parse_feature_gates(text)
    assert gates.enabled(VOLUME_SCHEDULING) is scheduling
    assert gates.enabled(CSI_STORAGE_CAPACITY) is capacity


@pytest.mark.parametrize("yes", ["1", "t", "T", "true", "TRUE", "True"])
@pytest.mark.parametrize("no", ["0", "f", "F", "false", "FALSE", "False"])
def test_spellings_of_yes_and_no(yes: str, no: str) -> None:
    gates = parse_feature_gates(f"VolumeScheduling={yes},CSIStorageCapacity={no}")
    assert gates.enabled(VOLUME_SCHEDULING)
    assert not gates.enabled(CSI_STORAGE_CAPACITY)


@pytest.mark.req("T31.unknown-gate")
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(
            "VolumeSheduling=true",
            f"unrecognized feature gate: VolumeSheduling {KNOWN}",
            id="unknown",
        ),
        pytest.param(
            "volumescheduling=true",
            f"unrecognized feature gate: volumescheduling {KNOWN}",
            id="case matters",
        ),
        pytest.param(
            "=true",
            f"unrecognized feature gate:  {KNOWN}",
            id="no name",
        ),
        pytest.param(
            "VolumeScheduling",
            "missing bool value for VolumeScheduling: write VolumeScheduling=true or VolumeScheduling=false",
            id="no value",
        ),
        pytest.param(
            "VolumeScheduling=yes",
            "invalid value of VolumeScheduling=yes: write VolumeScheduling=true or VolumeScheduling=false",
            id="not a value",
        ),
        pytest.param(
            "VolumeScheduling=true=false",
            "invalid value of VolumeScheduling=true=false: write VolumeScheduling=true or VolumeScheduling=false",
            id="two values",
        ),
    ],
)
def test_what_the_flag_does_not_take(text: str, complaint: str) -> None:
    with pytest.raises(BadGates) as refusal:
        parse_feature_gates(f"CSIStorageCapacity=true,{text}")
    assert str(refusal.value) == complaint


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate("Settled", Stage.GA, True, ("scheduler",), off="It cannot be.", locked=True)
    monkeypatch.setattr(feature_gates, "GATES", (*GATES, gate))
    monkeypatch.setattr(feature_gates, "BY_NAME", {**feature_gates.BY_NAME, gate.name: gate})
    return gate


def test_a_locked_gate_can_only_be_set_to_what_it_is(locked: Gate) -> None:
    assert parse_feature_gates("Settled=true").enabled(locked)
    with pytest.raises(BadGates) as refusal:
        parse_feature_gates("Settled=false")
    assert str(refusal.value) == "cannot set feature gate Settled to false, feature is locked to true"


@given(settings=st.fixed_dictionaries({}, optional={gate.name: st.booleans() for gate in GATES}))
def test_settings_can_be_written_down_and_read_again(settings: dict[str, bool]) -> None:
    gates = parse_feature_gates(",".join(f"{name}={on}" for name, on in settings.items()))
    assert parse_feature_gates(str(gates)) == gates
    assert all(gates.enabled(gate) is settings.get(gate.name, gate.default) for gate in GATES)


def test_different_feature_gates_are_reported() -> None:
    assert parse_feature_gates("VolumeScheduling=true") == DEFAULTS
    assert parse_feature_gates("VolumeScheduling=false") != DEFAULTS
    told = (
        "VolumeScheduling=false,CSIStorageCapacity=true,PersistentVolumeClaimUnusedSinceTime=true,"
        "ProvisioningRollback=true,ClaimRollback=false,PresetNodeBinding=true,GangVolumes=false"
    )
    assert str(parse_feature_gates("VolumeScheduling=false")) == told


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        DEFAULTS._on = frozenset()


@pytest.mark.parametrize("gate", GATES, ids=str)
def test_every_gate_says_where_it_counts_and_what_happens_when_it_is_off(gate: Gate) -> None:
    assert gate.components
    assert gate.off.endswith(".")
    assert DEFAULTS.enabled(gate) is gate.default


def test_gates_have_names_of_their_own() -> None:
    assert len(feature_gates.BY_NAME) == len(GATES)


def test_group_volumes_are_held_in_the_embedded_cluster_unless_the_flag_disables_it() -> None:
    assert not parse_feature_gates("").enabled(GANG_VOLUMES)
    assert parse_feature_gates("", EMBEDDED).enabled(GANG_VOLUMES)
    assert not parse_feature_gates("GangVolumes=false", EMBEDDED).enabled(GANG_VOLUMES)
