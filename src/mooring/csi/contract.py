"""What may be asked of a CSI driver: the calls Mooring uses, as plain values.

The gRPC channel and the drivers that run in this process implement these protocols; `conformance` tests hold them to
the same answers. Every call can fail with `DriverError`, whose code decides what the caller may conclude: after a
*final* error nothing is running and nothing was created, after any other the operation may still go on or may have
succeeded unheard. Every call ends: an implementation brings its own deadline and reports a lost or late answer as
DEADLINE_EXCEEDED or UNAVAILABLE, an answer nobody can read as UNAVAILABLE too.

Snapshots, clones, expansion and volume attribute classes are not here; whoever asks for them is refused before a
driver is called. Paging of lists is the implementation's business.
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
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


#: After these the operation may still be going on, or may have succeeded without the caller hearing of it.
#: external-provisioner draws the line at the same place. RESOURCE_EXHAUSTED is final: there was no room.
NOT_FINAL: Final = frozenset({Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.ABORTED})


class DriverError(Exception):
    """The driver said no, or nothing."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message

    @property
    def final(self) -> bool:
        """Whether the driver has stopped working on it, so that nothing was created and nothing will be."""
        return self.code not in NOT_FINAL


class PluginCapability(enum.StrEnum):
    """What a driver consists of, as GetPluginCapabilities says it."""

    CONTROLLER_SERVICE = "CONTROLLER_SERVICE"
    VOLUME_ACCESSIBILITY_CONSTRAINTS = "VOLUME_ACCESSIBILITY_CONSTRAINTS"


class ControllerCapability(enum.StrEnum):
    """Controller calls beyond the mandatory ones. A driver may name others, which Mooring does not use."""

    CREATE_DELETE_VOLUME = "CREATE_DELETE_VOLUME"
    PUBLISH_UNPUBLISH_VOLUME = "PUBLISH_UNPUBLISH_VOLUME"
    LIST_VOLUMES = "LIST_VOLUMES"
    GET_CAPACITY = "GET_CAPACITY"
    PUBLISH_READONLY = "PUBLISH_READONLY"
    LIST_VOLUMES_PUBLISHED_NODES = "LIST_VOLUMES_PUBLISHED_NODES"
    GET_VOLUME = "GET_VOLUME"
    SINGLE_NODE_MULTI_WRITER = "SINGLE_NODE_MULTI_WRITER"


class NodeCapability(enum.StrEnum):
    """Node calls beyond the mandatory ones. A driver may name others, which Mooring does not use."""

    STAGE_UNSTAGE_VOLUME = "STAGE_UNSTAGE_VOLUME"
    SINGLE_NODE_MULTI_WRITER = "SINGLE_NODE_MULTI_WRITER"


class Topology(msgspec.Struct, frozen=True):
    """Where something can be reached from: label keys and values, all of which must hold."""

    segments: Mapping[str, str]


class AccessibilityRequirements(msgspec.Struct, frozen=True):
    """The volume must be reachable from one of `requisite`; `preferred` are those, in the order to try them."""

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
    """A volume as its driver knows it. `capacity_bytes` 0 means the driver does not say."""

    volume_id: str
    capacity_bytes: int = 0
    context: Mapping[str, str] = {}
    accessible_from: tuple[Topology, ...] = ()
    #: Node ids it is published to; only lists and `get_volume` fill this, and only with the capability
    #: LIST_VOLUMES_PUBLISHED_NODES.
    published_on: tuple[str, ...] = ()


class Capacity(msgspec.Struct, frozen=True):
    """None of these is negative."""

    available_bytes: int
    maximum_volume_bytes: int | None = None
    minimum_volume_bytes: int | None = None


class NodeInfo(msgspec.Struct, frozen=True):
    """`max_volumes` 0 means that the driver sets no limit."""

    node_id: str
    max_volumes: int = 0
    accessible_from: Topology | None = None


class Identity(Protocol):
    async def name(self) -> str: ...

    async def vendor_version(self) -> str: ...

    async def plugin_capabilities(self) -> frozenset[str]:
        """Names of `PluginCapability`, and whatever else the driver calls its own."""
        ...

    async def probe(self) -> bool:
        """Whether the driver is ready; one that does not say is."""
        ...


class Controller(Protocol):
    async def controller_capabilities(self) -> frozenset[str]:
        """Names of the controller RPC capabilities, e.g. GET_CAPACITY."""
        ...

    async def create_volume(self, request: CreateVolume, *, secrets: Mapping[str, str]) -> DriverVolume:
        """ALREADY_EXISTS: the name is taken by a volume that does not suit; RESOURCE_EXHAUSTED: no room there."""
        ...

    async def delete_volume(self, volume_id: str, *, secrets: Mapping[str, str]) -> None:
        """Idempotent: deleting what is not there succeeds. FAILED_PRECONDITION: it is in use."""
        ...

    async def controller_publish(
        self,
        volume_id: str,
        *,
        node_id: str,
        capability: VolumeCapability,
        read_only: bool = False,
        context: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
    ) -> Mapping[str, str]:
        """Attach to a node; the answer is the publish context that `stage` and `publish` need."""
        ...

    async def controller_unpublish(self, volume_id: str, *, node_id: str, secrets: Mapping[str, str] = {}) -> None:
        """Detach from a node, from all of them if `node_id` is empty. Idempotent."""
        ...

    async def validate_capabilities(
        self,
        volume_id: str,
        *,
        capabilities: Sequence[VolumeCapability],
        context: Mapping[str, str] = {},
        parameters: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
    ) -> str | None:
        """None when the volume can be used in all of these ways, else a sentence on why not."""
        ...

    async def list_volumes(self) -> Sequence[DriverVolume]:
        """All of them, in the order of their ids."""
        ...

    async def get_volume(self, volume_id: str) -> DriverVolume: ...

    async def get_capacity(
        self,
        *,
        capabilities: Sequence[VolumeCapability],
        parameters: Mapping[str, str],
        accessible_from: Topology | None,
    ) -> Capacity:
        """Zero, not an error, where parameters or topology make no sense."""
        ...


class NodeService(Protocol):
    async def node_capabilities(self) -> frozenset[str]:
        """Names of the node RPC capabilities, e.g. STAGE_UNSTAGE_VOLUME."""
        ...

    async def info(self) -> NodeInfo: ...

    async def stage(
        self,
        volume_id: str,
        *,
        staging_target: str,
        capability: VolumeCapability,
        context: Mapping[str, str] = {},
        publish_context: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
    ) -> None:
        """Make the volume ready on this node, once for all pods; only with STAGE_UNSTAGE_VOLUME."""
        ...

    async def unstage(self, volume_id: str, *, staging_target: str) -> None:
        """Idempotent; NOT_FOUND: the driver does not know the volume."""
        ...

    async def publish(
        self,
        volume_id: str,
        *,
        target: str,
        capability: VolumeCapability,
        read_only: bool,
        staging_target: str = "",
        context: Mapping[str, str] = {},
        publish_context: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
    ) -> None:
        """Give the volume to a pod at `target`, which the driver makes."""
        ...

    async def unpublish(self, volume_id: str, *, target: str) -> None:
        """Take it away and remove `target`. Idempotent; NOT_FOUND: the driver does not know the volume."""
        ...


class Driver(Identity, Controller, NodeService, Protocol):
    """A driver with all three services, as one process offers them."""
