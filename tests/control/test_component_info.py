"""Which processes do not fit together."""

import msgspec
import pytest

from mooring.api.kinds import LEASE
from mooring.control.component_info import ComponentInfo, clock_skew, read_component_info, skews
from mooring.control.feature_gates import parse_feature_gates

BOTH = frozenset({"scheduler", "persistentvolume-controller"})


def process(name: str, gates: str = "", *, version: str = "1.0", components: frozenset[str] = BOTH) -> ComponentInfo:
    return ComponentInfo(name, version, parse_feature_gates(gates), components)


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        pytest.param(process("b"), [], id="alike"),
        pytest.param(process("b", version="2.0"), ["a is of version 1.0, b of version 2.0"], id="another version"),
        pytest.param(
            process("b", "VolumeScheduling=false", components=frozenset({"persistentvolume-controller"})),
            ["VolumeScheduling is true in a and false in b, and both have to agree on it"],
            id="a gate that both have to agree on",
        ),
        pytest.param(
            process("b", "CSIStorageCapacity=false", components=frozenset({"persistentvolume-controller"})),
            [],
            id="a gate that means nothing to the other",
        ),
        pytest.param(
            process("b", "VolumeScheduling=false", components=frozenset({"statefulset-controller"})),
            [],
            id="a process the gate does not concern",
        ),
    ],
)
@pytest.mark.req("T35.skew", "T31.skew")
def test_skews(theirs: ComponentInfo, expected: list[str]) -> None:
    assert list(skews(process("a"), theirs)) == expected


def test_an_announcement_is_read_as_it_was_written() -> None:
    said = process("a", "VolumeScheduling=false")
    lease = LEASE.decode(msgspec.json.encode(said.body(now="2026-01-01T00:00:00.000000Z")))
    assert read_component_info(lease) == said


def test_lease_without_component_info_and_unknown_feature_gates() -> None:
    assert read_component_info(LEASE.decode(b'{"metadata": {"name": "node-1"}}')) is None
    body = process("a").body(now="2026-01-01T00:00:00.000000Z")
    body["metadata"]["annotations"]["mooring.dev/feature-gates"] = "Volcano=true"
    found = read_component_info(LEASE.decode(msgspec.json.encode(body)))
    assert found is not None
    assert found.gates == parse_feature_gates("")


@pytest.mark.parametrize(
    ("renewed", "expected"),
    [
        pytest.param(110.0, "", id="between the two looks"),
        pytest.param(124.0, "", id="a little ahead"),
        pytest.param(96.0, "", id="a little behind"),
        pytest.param(
            126.0, "the clock of b is more than 5 s ahead of that of a: set them by a time server", id="ahead"
        ),
        pytest.param(94.0, "the clock of b is more than 5 s behind that of a: set them by a time server", id="late"),
    ],
)
def test_clocks_that_are_far_apart_are_noticed(renewed: float, expected: str) -> None:
    assert clock_skew("a", "b", renewed=renewed, between=(100.0, 120.0)) == expected
