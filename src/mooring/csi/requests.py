"""Request validation, list paging and endpoint parsing for the CSI server. Pure.

The specification requires the checks of fields, sizes and combinations before any lookup, with INVALID_ARGUMENT;
drivers can rely on them.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from mooring.csi.contract import Code, CreateVolume, DriverError, DriverVolume, VolumeCapability, invalid
from mooring.csi.messages import MalformedMessage, capability_values, create_value
from mooring.csi.wire import csi_pb2 as pb

#: `sun_path` holds 108 bytes on Linux, the last one is zero.
MAX_PATH_BYTES: Final = 107


class BadEndpoint(ValueError):
    """The address is invalid; the text says why."""


def socket_path(endpoint: str) -> Path:
    """`unix:///run/csi.sock`, `unix:/run/csi.sock` or `/run/csi.sock`; relative to the working directory."""
    scheme, colon, rest = endpoint.partition("://")
    if colon and scheme != "unix":
        raise BadEndpoint(f"{endpoint} is not a Unix socket: CSI endpoints here are unix:///path/to/csi.sock")
    text = rest if colon else endpoint.removeprefix("unix:")
    if not text:
        raise BadEndpoint(f"{endpoint!r} names no socket: write unix:///path/to/csi.sock")
    path = Path(text).absolute()
    if len(str(path).encode()) > MAX_PATH_BYTES:
        raise BadEndpoint(f"{path} is longer than the {MAX_PATH_BYTES} bytes a Unix socket's path may have")
    return path


TOKEN_PREFIX: Final = "after:"


def page(volumes: Sequence[DriverVolume], *, token: str, max_entries: int) -> tuple[Sequence[DriverVolume], str]:
    """The entries and the token of the next page, empty on the last. `max_entries` 0 returns all that remain.

    The token is the last id, so no volume is listed twice or skipped when others are created or deleted between two
    pages, and tokens never expire. Volumes are sorted by id.
    """
    if max_entries < 0:
        raise DriverError(Code.INVALID_ARGUMENT, f"max_entries is {max_entries}")
    if token and not token.startswith(TOKEN_PREFIX):
        raise DriverError(Code.ABORTED, f"{token!r} is not a token of this driver: start again without one")
    begin = bisect_right(volumes, token.removeprefix(TOKEN_PREFIX), key=lambda volume: volume.volume_id) if token else 0
    end = begin + max_entries if max_entries else len(volumes)
    entries = volumes[begin:end]
    return entries, TOKEN_PREFIX + entries[-1].volume_id if end < len(volumes) else ""


#: Size limits of the specification: of a string, and of a map's keys and values together.
MAX_STRING_BYTES: Final = 128
MAX_MAP_BYTES: Final = 4096


def required(**strings: str) -> None:
    """Checked in the order given: the error names the first one missing."""
    for field, value in strings.items():
        if not value:
            raise invalid(f"{field} is required")


def short(**strings: str) -> None:
    """For names and ids; the length of paths is limited by the operating system."""
    for field, value in strings.items():
        if len(value.encode()) > MAX_STRING_BYTES:
            raise invalid(f"{field} has more than {MAX_STRING_BYTES} bytes")


def small(**maps: Mapping[str, str]) -> None:
    for field, entries in maps.items():
        if sum(len(key.encode()) + len(value.encode()) for key, value in entries.items()) > MAX_MAP_BYTES:
            raise invalid(f"{field} has more than {MAX_MAP_BYTES} bytes")


def one_capability(message: pb.VolumeCapability, *, present: bool) -> VolumeCapability:
    if not present:
        raise invalid("volume_capability is required")
    return several_capabilities((message,))[0]


def several_capabilities(messages: Iterable[pb.VolumeCapability]) -> tuple[VolumeCapability, ...]:
    try:
        return capability_values(messages)
    except MalformedMessage as error:
        raise invalid(str(error)) from error


def some_capabilities(messages: Iterable[pb.VolumeCapability]) -> tuple[VolumeCapability, ...]:
    capabilities = several_capabilities(messages)
    if not capabilities:
        raise invalid("volume_capabilities is required")
    return capabilities


def create_request(message: pb.CreateVolumeRequest) -> CreateVolume:
    """The validated request. INVALID_ARGUMENT also for features that are not supported."""
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
