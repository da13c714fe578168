"""Which processes do not fit together."""

import msgspec
import pytest

from mooring.api.kinds import LEASE
from mooring.control.component_info import (
    INSTANCE,
    ComponentInfo,
    LiveInstance,
    announcement_seconds,
    clock_skew,
    instances,
    lacking,
    read_component_info,
    skews,
)
from mooring.control.feature_gates import CLAIM_ROLLBACK, GATES, VOLUME_SCHEDULING, parse_feature_gates

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
    body["metadata"]["annotations"]["mooring.dev/feature-gates"] = "Volcano=true,VolumeScheduling=true"
    found = read_component_info(LEASE.decode(msgspec.json.encode(body)))
    assert found is not None
    # What a process of another version does not name, it does not have.
    assert str(found.gates) == ",".join(f"{gate}={str(gate is VOLUME_SCHEDULING).lower()}" for gate in GATES)


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


NOW = "2026-01-01T00:00:00.000000Z"
LATER = "2026-01-01T00:00:20.000000Z"
FEATURE = "ClaimRollback=true"


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        pytest.param([], {}, id="alone"),
        pytest.param([process("b", FEATURE)], {}, id="all announce it"),
        pytest.param(
            [process("b", FEATURE), process("c", version="0.9")],
            {CLAIM_ROLLBACK: "c of version 0.9"},
            id="one does not",
        ),
        pytest.param([process("a")], {CLAIM_ROLLBACK: "a of version 1.0"}, id="another instance of the same process"),
        pytest.param(
            [process("b", components=frozenset({"statefulset-controller"}))], {}, id="an instance that takes no part"
        ),
        pytest.param(
            [process("b", "VolumeScheduling=false,ClaimRollback=true")], {}, id="a gate that is not held back"
        ),
    ],
)
@pytest.mark.req("T35.upgrade")
def test_feature_is_lacking_where_an_instance_that_takes_part_does_not_announce_it(
    others: list[ComponentInfo], expected: dict[object, str]
) -> None:
    assert lacking(process("a", FEATURE), others) == expected
    assert lacking(process("a"), others) == {}, "a feature that is off here is not held back"


def test_every_instance_is_read_from_the_lease_and_a_leader_only_once() -> None:
    leader, standby = process("a", FEATURE), process("a", version="0.9")
    body = leader.body(now=LATER, seconds=12, instance="1")
    body["metadata"]["annotations"] |= standby.instance_body("2", now=NOW, seconds=12)["metadata"]["annotations"]
    body["metadata"]["annotations"][f"{INSTANCE}3"] = "{"
    lease = LEASE.decode(msgspec.json.encode(body))
    assert instances(lease) == [LiveInstance(leader, "1", LATER, 12), LiveInstance(standby, "2", NOW, 12)]
    assert instances(LEASE.decode(b'{"metadata": {"name": "node-1"}}')) == []


def test_leader_of_a_version_without_instances_counts_beside_the_others() -> None:
    older, standby = process("a", version="0.9"), process("a", FEATURE)
    body = older.body(now=LATER)
    body["metadata"]["annotations"] |= standby.instance_body("2", now=NOW, seconds=12)["metadata"]["annotations"]
    lease = LEASE.decode(msgspec.json.encode(body))
    assert instances(lease) == [LiveInstance(standby, "2", NOW, 12), LiveInstance(older, "", LATER, 60)]


def test_announcements_last_four_lease_durations() -> None:
    assert [announcement_seconds(duration) for duration in (None, 15, 3)] == [60, 60, 12]
