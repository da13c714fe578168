"""What may be asked of a CSI driver: the calls Mooring uses, as plain values.

The gRPC channel and the in-process driver of the simulated world implement these protocols. Every call can fail
with `DriverError`, whose code decides what the caller may conclude: after a *final* error nothing was created, after
any other the volume may exist. Lost answers are `DriverError` with UNAVAILABLE or DEADLINE_EXCEEDED.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec


class Code(enum.IntEnum):
    """gRPC status codes, as CSI gives them meaning."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


#: After these the operation may still be going on, or may have succeeded without the caller hearing of it.
NOT_FINAL: Final = frozenset(
    {Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.ABORTED}
)


class DriverError(Exception):
    """The driver said no, or nothing."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message


class Topology(msgspec.Struct, frozen=True):
    """Where something can be reached from: label keys and values, all of which must hold."""

    segments: Mapping[str, str]


class AccessibilityRequirements(msgspec.Struct, frozen=True):
    requisite: tuple[Topology, ...] = ()
    preferred: tuple[Topology, ...] = ()


class AccessMode(enum.IntEnum):
    SINGLE_NODE_WRITER = 1
    SINGLE_NODE_READER_ONLY = 2
    MULTI_NODE_READER_ONLY = 3
    MULTI_NODE_SINGLE_WRITER = 4
    MULTI_NODE_MULTI_WRITER = 5
    SINGLE_NODE_SINGLE_WRITER = 6
    SINGLE_NODE_MULTI_WRITER = 7


class VolumeCapability(msgspec.Struct, frozen=True):
    mode: AccessMode
    block: bool = False
    fs_type: str = ""
    mount_flags: tuple[str, ...] = ()


class CreateVolume(msgspec.Struct, frozen=True):
    """A request by name: asking again with the same name and arguments returns the same volume."""

    name: str
    required_bytes: int
    limit_bytes: int = 0
    capabilities: tuple[VolumeCapability, ...] = ()
    parameters: Mapping[str, str] = {}
    accessibility: AccessibilityRequirements | None = None


class DriverVolume(msgspec.Struct, frozen=True):
    volume_id: str
    capacity_bytes: int = 0
    context: Mapping[str, str] = {}
    accessible_from: tuple[Topology, ...] = ()


class Capacity(msgspec.Struct, frozen=True):
    available_bytes: int
    maximum_volume_bytes: int | None = None


class NodeInfo(msgspec.Struct, frozen=True):
    node_id: str
    max_volumes: int = 0
    accessible_from: Topology | None = None


class Identity(Protocol):
    async def name(self) -> str: ...

    async def controller_capabilities(self) -> frozenset[str]:
        """Names of the controller RPC capabilities, e.g. GET_CAPACITY."""
        ...


class Controller(Protocol):
    async def create_volume(self, request: CreateVolume, *, secrets: Mapping[str, str]) -> DriverVolume: ...

    async def delete_volume(self, volume_id: str, *, secrets: Mapping[str, str]) -> None:
        """Idempotent: deleting what is not there succeeds."""
        ...

    async def list_volumes(self) -> Sequence[DriverVolume]: ...

    async def get_capacity(
        self,
        *,
        capabilities: Sequence[VolumeCapability],
        parameters: Mapping[str, str],
        accessible_from: Topology | None,
    ) -> Capacity: ...


class NodeService(Protocol):
    async def info(self) -> NodeInfo: ...

    async def publish(self, volume_id: str, *, target: str, capability: VolumeCapability, read_only: bool) -> None: ...

    async def unpublish(self, volume_id: str, *, target: str) -> None: ...


class Driver(Identity, Controller, NodeService, Protocol):
    """A driver with all three services, as one process offers them."""
