"""Conversion between the contract's values and CSI's protobuf messages, for client and server.

Decoding raises `MalformedMessage`; required fields of requests are checked in `requests`.
"""

from collections.abc import Iterable, Sequence
from typing import overload

from mooring.csi.contract import (
    AccessibilityRequirements,
    AccessMode,
    Capacity,
    CreateVolume,
    DriverVolume,
    NodeInfo,
    Topology,
    VolumeCapability,
)
from mooring.csi.wire import csi_pb2 as pb


class MalformedMessage(Exception):
    """A message that parses but has invalid values."""


def topology_message(topology: Topology) -> pb.Topology:
    return pb.Topology(segments=topology.segments)


def topology_value(message: pb.Topology) -> Topology:
    return Topology(segments=dict(message.segments))


def topology_values(messages: Iterable[pb.Topology]) -> tuple[Topology, ...]:
    return tuple(map(topology_value, messages))


class TopologyView(Sequence[Topology]):
    """Topologies of a message, decoded when they are read: a request names thousands, of which drivers need few."""

    def __init__(self, messages: Sequence[pb.Topology]) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, position: int) -> Topology: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[Topology]: ...
    def __getitem__(self, position: int | slice) -> Topology | Sequence[Topology]:
        if isinstance(position, slice):
            return TopologyView(self._messages[position])
        return topology_value(self._messages[position])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)


class RequirementEncoder:
    """Encodes accessibility requirements. Consecutive requests share the values of `requisite`, one per node for local
    storage: they are encoded once, and `preferred`, which has them in another order, is put together from the parts."""

    def __init__(self) -> None:
        self._requisite: Sequence[Topology] = ()
        #: Its values, which must exist as long as their identities are compared.
        self._values: tuple[Topology, ...] = ()
        self._encoded = b""
        #: Encoded members of `preferred` by the identity of their values.
        self._preferred: dict[int, bytes] = {}

    def encode(self, requirements: AccessibilityRequirements) -> bytes:
        """A TopologyRequirement. Joining encoded messages merges them."""
        if requirements.requisite is not self._requisite:
            self._requisite, self._values = requirements.requisite, tuple(requirements.requisite)
            everywhere = pb.TopologyRequirement(requisite=map(topology_message, self._values))
            self._encoded = everywhere.SerializeToString()
            self._preferred = {id(each): _encode_preferred(each) for each in self._values}
        parts = (self._preferred.get(id(each)) or _encode_preferred(each) for each in requirements.preferred)
        return self._encoded + b"".join(parts)


def _encode_preferred(topology: Topology) -> bytes:
    return pb.TopologyRequirement(preferred=(topology_message(topology),)).SerializeToString()


def capability_message(capability: VolumeCapability) -> pb.VolumeCapability:
    mode = pb.VolumeCapability.AccessMode(mode=capability.mode.name)
    if capability.block:
        return pb.VolumeCapability(block=pb.VolumeCapability.BlockVolume(), access_mode=mode)
    mount = pb.VolumeCapability.MountVolume(fs_type=capability.fs_type, mount_flags=capability.mount_flags)
    return pb.VolumeCapability(mount=mount, access_mode=mode)


def capability_value(message: pb.VolumeCapability) -> VolumeCapability:
    kind = message.WhichOneof("access_type")
    if kind is None:
        raise MalformedMessage("a volume capability has neither block nor mount")
    number = message.access_mode.mode
    if number not in AccessMode._value2member_map_:
        raise MalformedMessage(
            f"{number} is not an access mode" if number else "a volume capability has no access mode"
        )
    mount = message.mount
    if mount.volume_mount_group:
        raise MalformedMessage("volume_mount_group is not supported")
    return VolumeCapability(AccessMode(number), kind == "block", mount.fs_type, tuple(mount.mount_flags))


def capability_values(messages: Iterable[pb.VolumeCapability]) -> tuple[VolumeCapability, ...]:
    return tuple(map(capability_value, messages))


def create_message(request: CreateVolume, encoder: RequirementEncoder) -> pb.CreateVolumeRequest:
    """Without secrets, which the caller adds."""
    message = pb.CreateVolumeRequest(
        name=request.name,
        capacity_range=pb.CapacityRange(required_bytes=request.required_bytes, limit_bytes=request.limit_bytes),
        volume_capabilities=map(capability_message, request.capabilities),
        parameters=request.parameters,
    )
    if request.accessibility is not None:
        message.accessibility_requirements.MergeFromString(encoder.encode(request.accessibility))
        message.accessibility_requirements.SetInParent()
    return message


def create_value(message: pb.CreateVolumeRequest) -> CreateVolume:
    wanted = message.accessibility_requirements
    places = AccessibilityRequirements(TopologyView(wanted.requisite), TopologyView(wanted.preferred))
    return CreateVolume(
        name=message.name,
        required_bytes=message.capacity_range.required_bytes,
        limit_bytes=message.capacity_range.limit_bytes,
        capabilities=capability_values(message.volume_capabilities),
        parameters=dict(message.parameters),
        accessibility=places if message.HasField("accessibility_requirements") else None,
    )


def volume_message(volume: DriverVolume) -> pb.Volume:
    return pb.Volume(
        capacity_bytes=volume.capacity_bytes,
        volume_id=volume.volume_id,
        volume_context=volume.context,
        accessible_topology=map(topology_message, volume.accessible_from),
    )


def volume_value(message: pb.Volume, published_on: Iterable[str] = ()) -> DriverVolume:
    if not message.volume_id:
        raise MalformedMessage("a volume has no volume_id")
    if message.capacity_bytes < 0:
        raise MalformedMessage(f"volume {message.volume_id} has {message.capacity_bytes} bytes")
    return DriverVolume(
        volume_id=message.volume_id,
        capacity_bytes=message.capacity_bytes,
        context=dict(message.volume_context),
        accessible_from=topology_values(message.accessible_topology),
        published_on=tuple(published_on),
    )


def capacity_message(capacity: Capacity) -> pb.GetCapacityResponse:
    message = pb.GetCapacityResponse(available_capacity=capacity.available_bytes)
    if capacity.maximum_volume_bytes is not None:
        message.maximum_volume_size.value = capacity.maximum_volume_bytes
    if capacity.minimum_volume_bytes is not None:
        message.minimum_volume_size.value = capacity.minimum_volume_bytes
    return message


def capacity_value(message: pb.GetCapacityResponse) -> Capacity:
    """Negative capacity becomes 0: csi-driver-host-path reports it for a pool shrunk below its used capacity."""
    maximum = max(0, message.maximum_volume_size.value) if message.HasField("maximum_volume_size") else None
    minimum = message.minimum_volume_size.value if message.HasField("minimum_volume_size") else None
    if minimum is not None and minimum < 0:
        raise MalformedMessage(f"minimum_volume_size is {minimum}")
    return Capacity(max(0, message.available_capacity), maximum, minimum)


def node_message(info: NodeInfo) -> pb.NodeGetInfoResponse:
    message = pb.NodeGetInfoResponse(node_id=info.node_id, max_volumes_per_node=info.max_volumes)
    if info.accessible_from is not None:
        message.accessible_topology.CopyFrom(topology_message(info.accessible_from))
    return message


def node_value(message: pb.NodeGetInfoResponse) -> NodeInfo:
    if not message.node_id:
        raise MalformedMessage("the node has no node_id")
    if message.max_volumes_per_node < 0:
        raise MalformedMessage(f"max_volumes_per_node is {message.max_volumes_per_node}")
    topology = topology_value(message.accessible_topology) if message.HasField("accessible_topology") else None
    return NodeInfo(message.node_id, message.max_volumes_per_node, topology)
