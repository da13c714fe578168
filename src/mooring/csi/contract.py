"""CSI calls that Mooring uses, as plain values; implemented by the gRPC client and by drivers in this process.

Every call can fail with `DriverError`: after a *final* error nothing is running and nothing was created, after any
other the operation may still run or have succeeded. Implementations have their own deadline and report a lost, late or
malformed response as DEADLINE_EXCEEDED or UNAVAILABLE. Snapshots, clones, expansion and volume attributes classes are
not supported; lists are returned whole.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Final, NotRequired, Protocol, Self, TypedDict, Unpack

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


#: After these the operation may still run or have succeeded, as in external-provisioner. RESOURCE_EXHAUSTED is final.
NOT_FINAL: Final = frozenset({Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.ABORTED})


class DriverError(Exception):
    """The driver failed the call or did not respond."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message

    @property
    def final(self) -> bool:
        """Whether the driver has ended the operation without creating anything."""
        return self.code not in NOT_FINAL


def invalid(sentence: str) -> DriverError:
    return DriverError(Code.INVALID_ARGUMENT, sentence)


class PluginCapability(enum.StrEnum):
    """From GetPluginCapabilities. A driver may return others, which Mooring does not use."""

    CONTROLLER_SERVICE = "CONTROLLER_SERVICE"
    VOLUME_ACCESSIBILITY_CONSTRAINTS = "VOLUME_ACCESSIBILITY_CONSTRAINTS"


class ControllerCapability(enum.StrEnum):
    """From ControllerGetCapabilities. A driver may return others, which Mooring does not use."""

    CREATE_DELETE_VOLUME = "CREATE_DELETE_VOLUME"
    PUBLISH_UNPUBLISH_VOLUME = "PUBLISH_UNPUBLISH_VOLUME"
    LIST_VOLUMES = "LIST_VOLUMES"
    GET_CAPACITY = "GET_CAPACITY"
    PUBLISH_READONLY = "PUBLISH_READONLY"
    LIST_VOLUMES_PUBLISHED_NODES = "LIST_VOLUMES_PUBLISHED_NODES"
    GET_VOLUME = "GET_VOLUME"
    SINGLE_NODE_MULTI_WRITER = "SINGLE_NODE_MULTI_WRITER"


class NodeCapability(enum.StrEnum):
    """From NodeGetCapabilities. A driver may return others, which Mooring does not use."""

    STAGE_UNSTAGE_VOLUME = "STAGE_UNSTAGE_VOLUME"
    SINGLE_NODE_MULTI_WRITER = "SINGLE_NODE_MULTI_WRITER"


class Topology(msgspec.Struct, frozen=True):
    """Labels of nodes from which a volume is accessible; a node must have all of them."""

    segments: Mapping[str, str]


class AccessibilityRequirements(msgspec.Struct, frozen=True):
    """The volume must be accessible from one of `requisite`; `preferred` has the same in order of preference."""

    requisite: Sequence[Topology] = ()
    preferred: Sequence[Topology] = ()

    def __post_init__(self) -> None:
        for field in ("requisite", "preferred"):
            if isinstance(value := getattr(self, field), list):  # decoded from a record
                msgspec.structs.force_setattr(self, field, tuple(value))


class AccessMode(enum.IntEnum):
    SINGLE_NODE_WRITER = 1
    SINGLE_NODE_READER_ONLY = 2
    MULTI_NODE_READER_ONLY = 3
    MULTI_NODE_SINGLE_WRITER = 4
    MULTI_NODE_MULTI_WRITER = 5
    SINGLE_NODE_SINGLE_WRITER = 6
    SINGLE_NODE_MULTI_WRITER = 7


_ACCESS_MODES: Final = {
    "ReadWriteOnce": AccessMode.SINGLE_NODE_WRITER,
    "ReadWriteOncePod": AccessMode.SINGLE_NODE_WRITER,
    "ReadOnlyMany": AccessMode.MULTI_NODE_READER_ONLY,
    "ReadWriteMany": AccessMode.MULTI_NODE_MULTI_WRITER,
}
_FINER_ACCESS_MODES: Final = _ACCESS_MODES | {
    "ReadWriteOnce": AccessMode.SINGLE_NODE_MULTI_WRITER,
    "ReadWriteOncePod": AccessMode.SINGLE_NODE_SINGLE_WRITER,
}


def access_modes(*, finer: bool) -> Mapping[str, AccessMode]:
    """CSI's modes by those of Kubernetes; `finer`: the driver has SINGLE_NODE_MULTI_WRITER."""
    return _FINER_ACCESS_MODES if finer else _ACCESS_MODES


class VolumeCapability(msgspec.Struct, frozen=True):
    mode: AccessMode
    block: bool = False
    fs_type: str = ""
    mount_flags: tuple[str, ...] = ()

    @classmethod
    def of(cls, mode: AccessMode, volume_mode: str, *, fs_type: str, mount_flags: Sequence[str]) -> Self:
        """For a volumeMode of Kubernetes; block volumes have no file system."""
        if volume_mode == "Block":
            return cls(mode, block=True)
        return cls(mode, fs_type=fs_type, mount_flags=tuple(mount_flags))


class CreateVolume(msgspec.Struct, frozen=True):
    """Idempotent by name: a repeated request with the same arguments returns the same volume."""

    name: str
    required_bytes: int
    limit_bytes: int = 0
    capabilities: tuple[VolumeCapability, ...] = ()
    parameters: Mapping[str, str] = {}
    accessibility: AccessibilityRequirements | None = None


class DriverVolume(msgspec.Struct, frozen=True):
    """A volume as its driver reports it; `capacity_bytes` is 0 if unknown."""

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


class CapacityRequest(TypedDict):
    capabilities: Sequence[VolumeCapability]
    parameters: Mapping[str, str]
    accessible_from: Topology | None


class _VolumeRequest(TypedDict):
    #: The volume's attributes, as CreateVolume returned them.
    context: NotRequired[Mapping[str, str]]
    secrets: NotRequired[Mapping[str, str]]


class ValidationRequest(_VolumeRequest):
    capabilities: Sequence[VolumeCapability]
    parameters: NotRequired[Mapping[str, str]]


class AttachRequest(_VolumeRequest):
    node_id: str
    capability: VolumeCapability
    read_only: NotRequired[bool]


class _NodeRequest(_VolumeRequest):
    capability: VolumeCapability
    #: What `controller_publish` returned.
    publish_context: NotRequired[Mapping[str, str]]


class StageRequest(_NodeRequest):
    staging_target: str


class PublishRequest(_NodeRequest):
    target: str
    read_only: bool
    staging_target: NotRequired[str]


class IdentityService(Protocol):
    async def name(self) -> str: ...

    async def vendor_version(self) -> str: ...

    async def plugin_capabilities(self) -> frozenset[str]:
        """Names of `PluginCapability`, and others that the driver returns."""

    async def probe(self) -> bool:
        """Whether the driver is ready; true if the response does not contain it."""


class ProvisioningService(Protocol):
    """The controller RPCs that a provisioner calls."""

    async def controller_capabilities(self) -> frozenset[str]:
        """Names of the controller RPC capabilities, e.g. GET_CAPACITY."""

    async def create_volume(self, request: CreateVolume, *, secrets: Mapping[str, str]) -> DriverVolume:
        """ALREADY_EXISTS: an incompatible volume has the name; RESOURCE_EXHAUSTED: not enough capacity."""

    async def delete_volume(self, volume_id: str, *, secrets: Mapping[str, str]) -> None:
        """Idempotent: deleting a missing volume succeeds. FAILED_PRECONDITION: it is in use."""

    async def list_volumes(self) -> Sequence[DriverVolume]:
        """All of them, in the order of their ids."""

    async def get_capacity(self, **request: Unpack[CapacityRequest]) -> Capacity:
        """Zero, not an error, for invalid parameters or an unknown topology."""


class ControllerService(ProvisioningService, Protocol):
    async def controller_publish(self, volume_id: str, **request: Unpack[AttachRequest]) -> Mapping[str, str]:
        """Attach to a node. Returns the publish context for `stage` and `publish`."""

    async def controller_unpublish(self, volume_id: str, *, node_id: str, secrets: Mapping[str, str] = {}) -> None:
        """Detach from a node, from all of them if `node_id` is empty. Idempotent."""

    async def validate_capabilities(self, volume_id: str, **request: Unpack[ValidationRequest]) -> str | None:
        """None if the volume supports all capabilities, else the reason."""

    async def get_volume(self, volume_id: str) -> DriverVolume: ...


class NodeService(Protocol):
    async def node_capabilities(self) -> frozenset[str]:
        """Names of the node RPC capabilities, e.g. STAGE_UNSTAGE_VOLUME."""

    async def info(self) -> NodeInfo: ...

    async def stage(self, volume_id: str, **request: Unpack[StageRequest]) -> None:
        """Prepare the volume on this node, once for all pods; only with STAGE_UNSTAGE_VOLUME."""

    async def unstage(self, volume_id: str, *, staging_target: str) -> None:
        """Idempotent; NOT_FOUND: the driver does not know the volume."""

    async def publish(self, volume_id: str, **request: Unpack[PublishRequest]) -> None:
        """Publish the volume to a pod at `target`, which the driver creates."""

    async def unpublish(self, volume_id: str, *, target: str) -> None:
        """Unpublish the volume and remove `target`. Idempotent; NOT_FOUND: the driver does not know the volume."""


class ProvisioningDriver(IdentityService, ProvisioningService, Protocol):
    """What a provisioner needs of a driver."""

    async def info(self) -> NodeInfo: ...


class Driver(IdentityService, ControllerService, NodeService, Protocol):
    """A driver with all three services."""
