"""What a request must carry; every refusal is INVALID_ARGUMENT and names what is wrong."""

from collections.abc import Callable

import pytest

from builders.hostpath import GIB, MOUNT, a_request
from mooring.csi.contract import Code, DriverError
from mooring.csi.messages import capability_message, create_message
from mooring.csi.requests import one_capability, required, short, small, some_capabilities, volume_wanted
from mooring.csi.wire import csi_pb2 as pb


def wanted(**changes: object) -> pb.CreateVolumeRequest:
    message = create_message(a_request(size=GIB))
    message.MergeFrom(pb.CreateVolumeRequest(**changes))  # type: ignore[arg-type]
    return message


def without(field: str) -> pb.CreateVolumeRequest:
    message = wanted()
    message.ClearField(field)  # type: ignore[arg-type]
    return message


BLOCK = pb.VolumeCapability(
    block=pb.VolumeCapability.BlockVolume(), access_mode=pb.VolumeCapability.AccessMode(mode="SINGLE_NODE_WRITER")
)


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        pytest.param(without("name"), "name is required", id="no name"),
        pytest.param(wanted(name="x" * 129), "name has more than 128 bytes", id="long name"),
        pytest.param(without("volume_capabilities"), "volume_capabilities is required", id="no capabilities"),
        pytest.param(wanted(volume_capabilities=[BLOCK]), "either block or mount", id="block and mount"),
        pytest.param(
            wanted(volume_capabilities=[pb.VolumeCapability()]), "says neither block nor mount", id="empty capability"
        ),
        pytest.param(
            wanted(volume_capabilities=[pb.VolumeCapability(mount=pb.VolumeCapability.MountVolume())]),
            "has no access mode",
            id="no access mode",
        ),
        pytest.param(
            wanted(
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
        pytest.param(wanted(capacity_range=pb.CapacityRange(required_bytes=-1)), "negative", id="negative size"),
        pytest.param(wanted(capacity_range=pb.CapacityRange(limit_bytes=-1)), "negative", id="negative limit"),
        pytest.param(
            wanted(capacity_range=pb.CapacityRange(limit_bytes=1)), "exceeds limit_bytes 1", id="size beyond limit"
        ),
        pytest.param(wanted(parameters={"k": "v" * 4096}), "parameters has more than 4096 bytes", id="large map"),
        pytest.param(
            wanted(
                volume_content_source=pb.VolumeContentSource(
                    snapshot=pb.VolumeContentSource.SnapshotSource(snapshot_id="s")
                )
            ),
            "never from a snapshot or a clone",
            id="from a snapshot",
        ),
        pytest.param(
            wanted(
                volume_content_source=pb.VolumeContentSource(volume=pb.VolumeContentSource.VolumeSource(volume_id="v"))
            ),
            "never from a snapshot or a clone",
            id="clone",
        ),
        pytest.param(wanted(mutable_parameters={"iops": "1"}), "mutable_parameters are not supported", id="mutable"),
    ],
)
def test_a_volume_is_not_asked_for_so(message: pb.CreateVolumeRequest, complaint: str) -> None:
    with pytest.raises(DriverError, match=complaint) as caught:
        volume_wanted(message)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_what_is_complete_passes_unchanged() -> None:
    request = a_request(
        name="x" * 128, size=GIB, limit=2 * GIB, parameters={"pool": "fast"}, preferred=({"zone": "a"},)
    )
    assert volume_wanted(create_message(request)) == request


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
