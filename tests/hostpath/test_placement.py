"""Where a volume goes, what it costs, and which refusal says what."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.csi.contract import Capacity, Code, CreateVolume, DriverError
from mooring.hostpath.placement import DEFAULT_BYTES, DriverPools, capacity, existing_volume, place_volume
from mooring.hostpath.records import (
    FILE_SYSTEM,
    DriverLayout,
    HostpathSettings,
    PersistedState,
    Pool,
    PoolKind,
    Site,
    VolumePhase,
    VolumeRecord,
    VolumeRecords,
    central,
)
from support.builders.hostpath import BLOCK, GIB, SHARED, a_layout, a_pool, a_request

ZONE = "example.com/zone"
ZONES = central(
    {"n1": {ZONE: "a"}, "n2": {ZONE: "b"}, "n3": {ZONE: "c"}},
    pools=(a_pool("fast", 10 * GIB), a_pool("slow", 50 * GIB)),
)


def a_volume(name: str = "pvc-1", size: int = GIB, **more: object) -> VolumeRecord:
    facts: dict[str, Any] = {"block": False, "pool": "fast", "kind": PoolKind.STRIPED, "segments": {ZONE: "a"}}
    return VolumeRecord(f"id-{name}", name, size, **{**facts, **more})


def place(
    request: CreateVolume, *there: VolumeRecord, layout: DriverLayout = ZONES, free: int = 0, **settings: object
) -> VolumeRecord:
    pools = DriverPools(layout, HostpathSettings(**settings), VolumeRecords(PersistedState(0, there)), free)
    return place_volume(request, pools, volume_id="new")


def refusal(request: CreateVolume, *there: VolumeRecord, **more: object) -> DriverError:
    with pytest.raises(DriverError) as caught:
        place(request, *there, **more)
    return caught.value


@pytest.mark.parametrize(
    ("request_", "where", "pool"),
    [
        pytest.param(a_request(preferred=({ZONE: "b"},)), "b", "fast", id="the preferred zone, its first pool"),
        pytest.param(
            a_request(size=11 * GIB, preferred=({ZONE: "b"},)), "b", "slow", id="the next pool when the first is small"
        ),
        pytest.param(
            a_request(size=11 * GIB, preferred=({ZONE: "a"}, {ZONE: "c"}), parameters={"pool": "fast"}),
            None,
            "fast",
            id="never another pool than asked for",
        ),
        pytest.param(
            a_request(preferred=({ZONE: "c"}, {ZONE: "a"})), "c", "fast", id="the first of several preferences"
        ),
        pytest.param(a_request(requisite=({ZONE: "b"},)), "b", "fast", id="only allowed, not preferred"),
        pytest.param(
            a_request(requisite=({ZONE: "nowhere"}, {ZONE: "c"})), "c", "fast", id="unknown places are passed over"
        ),
    ],
)
def test_the_place_follows_the_request(request_: CreateVolume, where: str | None, pool: str) -> None:
    if where is None:
        assert refusal(request_).code is Code.RESOURCE_EXHAUSTED
        return
    volume = place(request_)
    assert (volume.segments, volume.pool, volume.phase) == ({ZONE: where}, pool, VolumePhase.CREATING)


def test_default_site_has_most_free_capacity() -> None:
    there = (a_volume("1", 40 * GIB, pool="slow"), a_volume("2", 20 * GIB, pool="slow", segments={ZONE: "b"}))
    assert place(a_request(), *there).segments == {ZONE: "c"}


def test_a_full_preference_gives_way_to_the_next() -> None:
    there = (a_volume("1", 10 * GIB), a_volume("2", 50 * GIB, pool="slow"))
    assert place(a_request(preferred=({ZONE: "a"}, {ZONE: "b"})), *there).segments == {ZONE: "b"}


def test_mirrored_volumes_cost_twice() -> None:
    mirrored = a_request(size=5 * GIB, preferred=({ZONE: "a"},), parameters={"pool": "fast", "kind": "mirrored"})
    first = place(mirrored)
    assert (first.kind, first.cost) == (PoolKind.MIRRORED, 10 * GIB)
    error = refusal(a_request("pvc-2", 1, preferred=({ZONE: "a"},), parameters={"pool": "fast"}), first)
    assert error.code is Code.RESOURCE_EXHAUSTED
    assert error.message == ("requested capacity 1 exceeds remaining capacity: 0 in pool fast at example.com/zone=a")


def test_a_pool_may_mirror_by_itself() -> None:
    layout = a_layout(Pool("safe", 10 * GIB, PoolKind.MIRRORED))
    assert place(a_request(size=5 * GIB), layout=layout).cost == 10 * GIB
    assert place(a_request(size=10 * GIB, parameters={"kind": "striped"}), layout=layout).cost == 10 * GIB
    assert refusal(a_request(size=6 * GIB), layout=layout).code is Code.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    ("required", "limit", "size"),
    [(5, 0, 5), (5, 9, 5), (0, 7, 7), (0, 0, DEFAULT_BYTES)],
    ids=["as required", "not more than required", "the limit when nothing is required", "default size"],
)
def test_the_size_is_exact(required: int, limit: int, size: int) -> None:
    assert place(a_request(size=required, limit=limit)).size == size


@pytest.mark.parametrize(
    ("request_", "code", "words"),
    [
        pytest.param(
            a_request(size=3 * GIB),
            Code.OUT_OF_RANGE,
            "requested capacity 3221225472 exceeds maximum allowed",
            id="large",
        ),
        pytest.param(
            a_request(preferred=({ZONE: "z"},)),
            Code.RESOURCE_EXHAUSTED,
            "no pool is accessible",
            id="elsewhere",
        ),
        pytest.param(
            a_request(preferred=({"rack": "7"},)), Code.RESOURCE_EXHAUSTED, "no pool is accessible", id="another key"
        ),
        pytest.param(
            a_request(parameters={"pool": "gold"}),
            Code.INVALID_ARGUMENT,
            "unknown pool 'gold': this driver has fast, slow",
            id="unknown pool",
        ),
        pytest.param(
            a_request(parameters={"kind": "raid6"}),
            Code.INVALID_ARGUMENT,
            "choose from striped, mirrored",
            id="unknown kind",
        ),
        pytest.param(
            a_request(parameters={"colour": "red", "pol": "fast"}),
            Code.INVALID_ARGUMENT,
            "unknown parameter colour, pol",
            id="unknown parameters",
        ),
    ],
)
def test_refusals(request_: CreateVolume, code: Code, words: str) -> None:
    error = refusal(request_, max_volume_bytes=2 * GIB)
    assert error.code is code
    assert words in error.message


def test_the_largest_volume_allowed_is_allowed() -> None:
    assert place(a_request(size=2 * GIB), max_volume_bytes=2 * GIB).size == 2 * GIB


def test_kubernetes_own_keys_are_passed_over() -> None:
    keys = {"csi.storage.k8s.io/pvc/name": "data", "csi.storage.k8s.io/fstype": "ext4", "fsType": "xfs", "pool": "slow"}
    assert place(a_request(parameters=keys)).pool == "slow"


@pytest.mark.parametrize(
    ("different", "words"),
    [
        pytest.param({"size": 2 * GIB}, "has 1073741824 bytes", id="larger"),
        pytest.param({"size": 1, "limit": GIB - 1}, "has 1073741824 bytes", id="smaller limit"),
        pytest.param({"capability": BLOCK}, "is a mount volume", id="block"),
        pytest.param({"parameters": {"pool": "fast"}}, "was created with other parameters", id="a pool named"),
        pytest.param({"parameters": {"kind": "striped"}}, "was created with other parameters", id="a kind named"),
        pytest.param({"preferred": ({ZONE: "b"},)}, f"is at {ZONE}=a", id="another place"),
    ],
)
def test_a_name_is_not_used_twice(different: Mapping[str, Any], words: str) -> None:
    records = VolumeRecords(PersistedState(0, (a_volume(),)))
    with pytest.raises(DriverError) as caught:
        existing_volume(a_request(**different), records)
    assert caught.value.code is Code.ALREADY_EXISTS
    assert words in caught.value.message


@pytest.mark.parametrize(
    "same",
    [
        {},
        {"size": 1, "limit": GIB},
        {"size": 0},
        {"capability": SHARED},
        {"preferred": ({ZONE: "b"}, {ZONE: "a"})},
        {"parameters": {"csi.storage.k8s.io/pv/name": "x"}},
    ],
    ids=["the same", "another range around it", "no size", "another mode", "reachable", "keys of Kubernetes"],
)
def test_a_repeated_request_finds_its_volume(same: Mapping[str, Any]) -> None:
    volume = a_volume()
    assert existing_volume(a_request(**same), VolumeRecords(PersistedState(0, (volume,)))) is volume


def test_arguments_are_checked_before_names() -> None:
    with pytest.raises(DriverError, match="INVALID_ARGUMENT: unknown parameter colour"):
        existing_volume(a_request(parameters={"colour": "red"}), VolumeRecords(PersistedState(0, (a_volume(),))))


def test_a_name_that_is_being_deleted_is_not_given_away() -> None:
    with pytest.raises(DriverError) as caught:
        existing_volume(a_request(), VolumeRecords(PersistedState(0, (a_volume(phase=VolumePhase.DELETING),))))
    assert caught.value.code is Code.ABORTED


def to_csi(
    layout: DriverLayout, *there: VolumeRecord, topology: Mapping[str, str] | None = None, free: int = 0, **more: object
) -> Capacity:
    parameters = more.pop("parameters", {})
    pools = DriverPools(layout, HostpathSettings(**more), VolumeRecords(PersistedState(0, there)), free)
    return capacity(pools, parameters, topology)


@pytest.mark.parametrize(
    ("parameters", "topology", "capacity"),
    [
        pytest.param({}, {ZONE: "a"}, Capacity(57 * GIB, 50 * GIB), id="all pools of a zone"),
        pytest.param({"pool": "fast"}, {ZONE: "a"}, Capacity(7 * GIB, 7 * GIB), id="a class that matters"),
        pytest.param({"pool": "fast"}, {ZONE: "b"}, Capacity(10 * GIB, 10 * GIB), id="another zone"),
        pytest.param({"pool": "fast", "kind": "mirrored"}, {ZONE: "b"}, Capacity(5 * GIB, 5 * GIB), id="mirrored"),
        pytest.param({"pool": "fast"}, {}, Capacity(27 * GIB, 10 * GIB), id="the whole cluster"),
        pytest.param({"pool": "fast"}, None, Capacity(27 * GIB, 10 * GIB), id="no topology asked"),
        pytest.param({"pool": "gold"}, {ZONE: "a"}, Capacity(0, 0), id="a pool that is not there"),
        pytest.param({"colour": "red"}, {ZONE: "a"}, Capacity(0, 0), id="parameters that make no sense"),
        pytest.param({}, {ZONE: "z"}, Capacity(0, 0), id="a zone that is not there"),
        pytest.param({}, {"rack": "7"}, Capacity(0, 0), id="a key that is not there"),
        pytest.param(
            {"csi.storage.k8s.io/fstype": "ext4"}, {ZONE: "b"}, Capacity(60 * GIB, 50 * GIB), id="keys of Kubernetes"
        ),
    ],
)
def test_capacity(parameters: Mapping[str, str], topology: Mapping[str, str] | None, capacity: Capacity) -> None:
    assert to_csi(ZONES, a_volume(size=3 * GIB), topology=topology, parameters=parameters) == capacity


def test_capacity_is_never_negative() -> None:
    """A pool may be made smaller than what is already on it."""
    assert to_csi(a_layout(a_pool("fast", 1)), a_volume(segments=a_layout().sites[0].segments)) == Capacity(0, 0)
    assert to_csi(DriverLayout((Site({}, (FILE_SYSTEM,)),), {}), free=-5) == Capacity(0, 0)


def test_the_largest_volume_is_bounded() -> None:
    assert to_csi(a_layout(a_pool(size=9)), max_volume_bytes=4) == Capacity(9, 4)


def test_the_file_system_below_is_a_pool_too() -> None:
    layout = DriverLayout((Site({}, (FILE_SYSTEM,)),), {})
    assert to_csi(layout, free=10) == Capacity(10, 10)
    assert place(a_request(size=10), layout=layout, free=10).pool == "default"
    assert refusal(a_request(size=11), layout=layout, free=10).code is Code.RESOURCE_EXHAUSTED


SIZES = st.lists(st.tuples(st.integers(1, 6 * GIB), st.sampled_from(["striped", "mirrored", None])), max_size=20)


@given(sizes=SIZES)
def test_reported_capacity_can_be_allocated(sizes: list[tuple[int, str | None]]) -> None:
    """A volume fits exactly when GetCapacity said so, and takes from it exactly what it should."""
    layout = a_layout(a_pool(size=10 * GIB))
    records = VolumeRecords(PersistedState())
    pools = DriverPools(layout, HostpathSettings(), records)
    for number, (size, kind) in enumerate(sizes):
        parameters = {} if kind is None else {"kind": kind}
        before = capacity(pools, parameters, None)
        request = a_request(f"pvc-{number}", size, parameters=parameters)
        assert before.maximum_volume_bytes is not None
        if size > before.maximum_volume_bytes:
            with pytest.raises(DriverError, match="RESOURCE_EXHAUSTED"):
                place_volume(request, pools, volume_id=f"v{number}")
        else:
            records.put(place_volume(request, pools, volume_id=f"v{number}"))
            after = capacity(pools, parameters, None)
            assert after.available_bytes == before.available_bytes - size
    assert records.used(layout.sites[0].segments, "default") <= 10 * GIB
