"""What a CSI request must carry before a driver is asked: required fields, sizes, combinations.

The specification puts these checks before any look at what exists, and answers all of them INVALID_ARGUMENT. Pure
functions over messages; `calls` runs them, drivers can rely on them.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from mooring.csi.contract import Code, CreateVolume, DriverError, VolumeCapability
from mooring.csi.messages import Unreadable, capability_value, capability_values, create_value
from mooring.csi.wire import csi_pb2 as pb

#: Bytes of a string and of a map's keys and values together, from the specification's section on size limits.
STRING_BYTES: Final = 128
MAP_BYTES: Final = 4096


def invalid(sentence: str) -> DriverError:
    return DriverError(Code.INVALID_ARGUMENT, sentence)


def required(**strings: str) -> None:
    """Each of them must be there; in the order given, because the first one missing is named."""
    for field, value in strings.items():
        if not value:
            raise invalid(f"{field} is required")


def short(**strings: str) -> None:
    """Names and ids; paths may be as long as the operating system lets them."""
    for field, value in strings.items():
        if len(value.encode()) > STRING_BYTES:
            raise invalid(f"{field} has more than {STRING_BYTES} bytes")


def small(**maps: Mapping[str, str]) -> None:
    for field, entries in maps.items():
        if sum(len(key.encode()) + len(value.encode()) for key, value in entries.items()) > MAP_BYTES:
            raise invalid(f"{field} has more than {MAP_BYTES} bytes")


def one_capability(message: pb.VolumeCapability, *, present: bool) -> VolumeCapability:
    if not present:
        raise invalid("volume_capability is required")
    try:
        return capability_value(message)
    except Unreadable as error:
        raise invalid(str(error)) from error


def several_capabilities(messages: Iterable[pb.VolumeCapability]) -> tuple[VolumeCapability, ...]:
    try:
        return capability_values(messages)
    except Unreadable as error:
        raise invalid(str(error)) from error


def some_capabilities(messages: Iterable[pb.VolumeCapability]) -> tuple[VolumeCapability, ...]:
    capabilities = several_capabilities(messages)
    if not capabilities:
        raise invalid("volume_capabilities is required")
    return capabilities


def volume_wanted(message: pb.CreateVolumeRequest) -> CreateVolume:
    """The request as a value, once it is complete and asks for nothing Mooring does not do."""
    required(name=message.name)
    short(name=message.name)
    small(parameters=message.parameters)
    capabilities = some_capabilities(message.volume_capabilities)
    if len({capability.block for capability in capabilities}) > 1:
        raise invalid("a volume is either block or mount, not both")
    size = message.capacity_range
    if size.required_bytes < 0 or size.limit_bytes < 0:
        raise invalid("capacity_range has a negative size")
    if 0 < size.limit_bytes < size.required_bytes:
        raise invalid(f"required_bytes {size.required_bytes} exceeds limit_bytes {size.limit_bytes}")
    if message.HasField("volume_content_source"):
        raise invalid("volume_content_source is not supported: volumes start empty, never from a snapshot or a clone")
    if message.mutable_parameters:
        raise invalid("mutable_parameters are not supported")
    return create_value(message)
