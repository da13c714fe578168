"""The ways to write a Unix socket.

Pages of a list that changes under the reader.

What a request must carry; every refusal is INVALID_ARGUMENT and names what is wrong.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.csi.contract import AccessibilityRequirements, Code, DriverError, DriverVolume, Topology
from mooring.csi.messages import RequirementEncoder, capability_message, create_message
from mooring.csi.requests import (
    BadEndpoint,
    create_request,
    one_capability,
    page,
    required,
    short,
    small,
    socket_path,
    some_capabilities,
)
from mooring.csi.wire import csi_pb2 as pb
from support.builders.hostpath import GIB, MOUNT, a_request


@pytest.mark.parametrize("text", ["unix:///run/csi.sock", "unix:/run/csi.sock", "/run/csi.sock"])
def test_the_usual_spellings_mean_the_same(text: str) -> None:
    assert socket_path(text) == Path("/run/csi.sock")


def test_relative_paths_begin_here() -> None:
    assert socket_path("unix://csi.sock") == Path.cwd() / "csi.sock"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tcp://127.0.0.1:10000", "not a Unix socket"),
        ("", "names no socket"),
        ("unix://", "names no socket"),
        ("/" + "x" * 107, "longer than the 107 bytes"),
    ],
)
def test_what_cannot_be_listened_at_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(BadEndpoint, match=complaint):
        socket_path(text)


IDS = st.sets(st.text(min_size=1, max_size=4), max_size=12)


def volumes(ids: set[str]) -> list[DriverVolume]:
    return [DriverVolume(name) for name in sorted(ids)]


@given(before=IDS, after=IDS, most=st.integers(1, 5))
def test_what_stays_is_listed_once_whatever_comes_and_goes(before: set[str], after: set[str], most: int) -> None:
    entries, token = page(volumes(before), token="", max_entries=most)
    listed = [entry.volume_id for entry in entries]
    while token:
        entries, token = page(volumes(after), token=token, max_entries=most)
        listed += [entry.volume_id for entry in entries]
    assert len(listed) == len(set(listed))
    assert before & after <= set(listed)
    assert set(listed) <= before | after


def test_without_a_limit_everything_comes_at_once() -> None:
    assert page(volumes({"a", "b"}), token="", max_entries=0) == (volumes({"a", "b"}), "")


@pytest.mark.parametrize(
    ("token", "most", "code"),
    [("invalid-token", 0, Code.ABORTED), ("", -1, Code.INVALID_ARGUMENT)],
    ids=["foreign token", "negative page"],
)
def test_what_cannot_be_followed(token: str, most: int, code: Code) -> None:
    with pytest.raises(DriverError) as caught:
        page(volumes({"a"}), token=token, max_entries=most)
    assert caught.value.code is code


def a_message(**changes: object) -> pb.CreateVolumeRequest:
    message = create_message(a_request(size=GIB), RequirementEncoder())
    message.MergeFrom(pb.CreateVolumeRequest(**changes))  # type: ignore[arg-type]
    return message


def without(field: str) -> pb.CreateVolumeRequest:
    message = a_message()
    message.ClearField(field)  # type: ignore[arg-type]
    return message


BLOCK = pb.VolumeCapability(
    block=pb.VolumeCapability.BlockVolume(), access_mode=pb.VolumeCapability.AccessMode(mode="SINGLE_NODE_WRITER")
)


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        pytest.param(without("name"), "name is required", id="no name"),
        pytest.param(a_message(name="x" * 129), "name has more than 128 bytes", id="long name"),
        pytest.param(without("volume_capabilities"), "volume_capabilities is required", id="no capabilities"),
        pytest.param(a_message(volume_capabilities=[BLOCK]), "either block or mount", id="block and mount"),
        pytest.param(
            a_message(volume_capabilities=[pb.VolumeCapability()]),
            "has neither block nor mount",
            id="empty capability",
        ),
        pytest.param(
            a_message(volume_capabilities=[pb.VolumeCapability(mount=pb.VolumeCapability.MountVolume())]),
            "has no access mode",
            id="no access mode",
        ),
        pytest.param(
            a_message(
                volume_capabilities=[
                    pb.VolumeCapability(
                        mount=pb.VolumeCapability.MountVolume(volume_mount_group="1000"),
                        access_mode=pb.VolumeCapability.AccessMode(mode="SINGLE_NODE_WRITER"),
                    )
                ]
            ),
            "volume_mount_group is not supported",
            id="mount group",
        ),
        pytest.param(a_message(capacity_range=pb.CapacityRange(required_bytes=-1)), "negative", id="negative size"),
        pytest.param(a_message(capacity_range=pb.CapacityRange(limit_bytes=-1)), "negative", id="negative limit"),
        pytest.param(
            a_message(capacity_range=pb.CapacityRange(limit_bytes=1)),
            "exceeds limit_bytes 1",
            id="size beyond limit",
        ),
        pytest.param(a_message(parameters={"k": "v" * 4096}), "parameters has more than 4096 bytes", id="large map"),
        pytest.param(
            a_message(
                volume_content_source=pb.VolumeContentSource(
                    snapshot=pb.VolumeContentSource.SnapshotSource(snapshot_id="s")
                )
            ),
            "never from a snapshot or a clone",
            id="from a snapshot",
        ),
        pytest.param(
            a_message(
                volume_content_source=pb.VolumeContentSource(volume=pb.VolumeContentSource.VolumeSource(volume_id="v"))
            ),
            "never from a snapshot or a clone",
            id="clone",
        ),
        pytest.param(a_message(mutable_parameters={"iops": "1"}), "mutable_parameters are not supported", id="mutable"),
    ],
)
def test_a_volume_is_not_asked_for_so(message: pb.CreateVolumeRequest, complaint: str) -> None:
    with pytest.raises(DriverError, match=complaint) as caught:
        create_request(message)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_what_is_complete_passes_unchanged() -> None:
    request = a_request(
        name="x" * 128, size=GIB, limit=2 * GIB, parameters={"pool": "fast"}, preferred=({"zone": "a"},)
    )
    assert create_request(create_message(request, RequirementEncoder())) == request


_segments = st.lists(st.sampled_from("abcdef"), max_size=6, unique=True)


@given(st.lists(st.tuples(_segments, st.integers(0, 5), st.booleans()), min_size=1, max_size=5))
def test_requirements_are_encoded_as_they_are(rounds: list[tuple[list[str], int, bool]]) -> None:
    """By one encoder: `preferred` has the values of `requisite` in another order, or others; `requisite` may be that of
    the request before."""
    encoder = RequirementEncoder()
    requisite: Sequence[Topology] = ()
    for zones, turn, is_new in rounds:
        if is_new:
            requisite = tuple(Topology({"zone": zone}) for zone in zones)
        preferred = (*requisite[turn:], *requisite[:turn], *(Topology({"zone": zone}) for zone in zones[:2]))
        wanted = AccessibilityRequirements(requisite, preferred)
        request = msgspec.structs.replace(a_request(size=GIB), accessibility=wanted)
        message = pb.CreateVolumeRequest.FromString(create_message(request, encoder).SerializeToString())
        assert create_request(message) == request
        assert message.HasField("accessibility_requirements")


def test_an_access_mode_from_the_future_is_refused() -> None:
    message = capability_message(MOUNT)
    message.access_mode.MergeFromString(bytes([8, 42]))
    with pytest.raises(DriverError, match="42 is not an access mode"):
        some_capabilities([message])


@pytest.mark.parametrize(
    ("check", "complaint"),
    [
        (lambda: required(volume_id="", node_id=""), "volume_id is required"),
        (lambda: required(volume_id="v", node_id=""), "node_id is required"),
        (lambda: short(volume_id="ä" * 65), "volume_id has more than 128 bytes"),
        (lambda: small(volume_context={"ä" * 2048: "x"}), "volume_context has more than 4096 bytes"),
        (lambda: one_capability(pb.VolumeCapability(), present=False), "volume_capability is required"),
    ],
)
def test_the_first_thing_missing_is_named(check: Callable[[], None], complaint: str) -> None:
    with pytest.raises(DriverError, match=complaint) as caught:
        check()
    assert caught.value.code is Code.INVALID_ARGUMENT
