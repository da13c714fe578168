"""Conversion between the contract's values and CSI's protobuf messages, for client and server.

Decoding raises `MalformedMessage`; required fields of requests are checked in `requests`.
"""

from collections.abc import Iterable

from mooring.csi import contract
from mooring.csi.contract import AccessMode, Capacity, CreateVolume, DriverVolume, NodeInfo, Topology, VolumeCapability
from mooring.csi.wire import csi_pb2 as pb


class MalformedMessage(Exception):
    """A message that parses but has invalid values."""


def topology_message(topology: Topology) -> pb.Topology:
    return pb.Topology(segments=topology.segments)


def topology_value(message: pb.Topology) -> Topology:
    return Topology(segments=dict(message.segments))


def topology_values(messages: Iterable[pb.Topology]) -> tuple[Topology, ...]:
    return tuple(map(topology_value, messages))


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


def create_message(request: CreateVolume) -> pb.CreateVolumeRequest:
    """Without secrets, which the caller adds."""
    message = pb.CreateVolumeRequest(
        name=request.name,
        capacity_range=pb.CapacityRange(required_bytes=request.required_bytes, limit_bytes=request.limit_bytes),
        volume_capabilities=map(capability_message, request.capabilities),
        parameters=request.parameters,
    )
    if (wanted := request.accessibility) is not None:
        requisite, preferred = map(topology_message, wanted.requisite), map(topology_message, wanted.preferred)
        message.accessibility_requirements.CopyFrom(pb.TopologyRequirement(requisite=requisite, preferred=preferred))
    return message


def create_value(message: pb.CreateVolumeRequest) -> CreateVolume:
    wanted = message.accessibility_requirements
    places = contract.AccessibilityRequirements(topology_values(wanted.requisite), topology_values(wanted.preferred))
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
