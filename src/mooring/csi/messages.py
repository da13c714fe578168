"""Between the contract's plain values and CSI's messages, both ways.

Channel and service share it, so that what one writes the other reads. Reading raises `Unreadable` with a clause on
what is wrong; who is to blame (a caller's request, a driver's answer) is for the reader to say. Not here: which fields
a request must carry, which is in `requests`.
"""

from collections.abc import Iterable

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


class Unreadable(Exception):
    """A message that parses and still makes no sense."""


def topology_message(topology: Topology) -> pb.Topology:
    return pb.Topology(segments=topology.segments)


def topology_value(message: pb.Topology) -> Topology:
    return Topology(segments=dict(message.segments))


def requirements_message(requirements: AccessibilityRequirements) -> pb.TopologyRequirement:
    return pb.TopologyRequirement(
        requisite=[topology_message(topology) for topology in requirements.requisite],
        preferred=[topology_message(topology) for topology in requirements.preferred],
    )


def requirements_value(message: pb.TopologyRequirement) -> AccessibilityRequirements:
    return AccessibilityRequirements(
        requisite=tuple(topology_value(topology) for topology in message.requisite),
        preferred=tuple(topology_value(topology) for topology in message.preferred),
    )


def capability_message(capability: VolumeCapability) -> pb.VolumeCapability:
    mode = pb.VolumeCapability.AccessMode(mode=capability.mode.name)
    if capability.block:
        return pb.VolumeCapability(block=pb.VolumeCapability.BlockVolume(), access_mode=mode)
    mount = pb.VolumeCapability.MountVolume(fs_type=capability.fs_type, mount_flags=capability.mount_flags)
    return pb.VolumeCapability(mount=mount, access_mode=mode)


def capability_value(message: pb.VolumeCapability) -> VolumeCapability:
    kind = message.WhichOneof("access_type")
    if kind is None:
        raise Unreadable("a volume capability says neither block nor mount")
    number = message.access_mode.mode
    if number not in AccessMode._value2member_map_:
        raise Unreadable(f"{number} is not an access mode" if number else "a volume capability has no access mode")
    if message.mount.volume_mount_group:
        raise Unreadable("volume_mount_group is not supported")
    return VolumeCapability(
        mode=AccessMode(number),
        block=kind == "block",
        fs_type=message.mount.fs_type,
        mount_flags=tuple(message.mount.mount_flags),
    )


def capability_values(messages: Iterable[pb.VolumeCapability]) -> tuple[VolumeCapability, ...]:
    return tuple(capability_value(message) for message in messages)


def create_message(request: CreateVolume) -> pb.CreateVolumeRequest:
    """Without the secrets, which only the caller knows."""
    message = pb.CreateVolumeRequest(
        name=request.name,
        capacity_range=pb.CapacityRange(required_bytes=request.required_bytes, limit_bytes=request.limit_bytes),
        volume_capabilities=[capability_message(capability) for capability in request.capabilities],
        parameters=request.parameters,
    )
    if request.accessibility is not None:
        message.accessibility_requirements.CopyFrom(requirements_message(request.accessibility))
    return message


def create_value(message: pb.CreateVolumeRequest) -> CreateVolume:
    requirements = message.accessibility_requirements
    return CreateVolume(
        name=message.name,
        required_bytes=message.capacity_range.required_bytes,
        limit_bytes=message.capacity_range.limit_bytes,
        capabilities=capability_values(message.volume_capabilities),
        parameters=dict(message.parameters),
        accessibility=requirements_value(requirements) if message.HasField("accessibility_requirements") else None,
    )


def volume_message(volume: DriverVolume) -> pb.Volume:
    return pb.Volume(
        capacity_bytes=volume.capacity_bytes,
        volume_id=volume.volume_id,
        volume_context=volume.context,
        accessible_topology=[topology_message(topology) for topology in volume.accessible_from],
    )


def volume_value(message: pb.Volume, published_on: Iterable[str] = ()) -> DriverVolume:
    if not message.volume_id:
        raise Unreadable("a volume has no volume_id")
    if message.capacity_bytes < 0:
        raise Unreadable(f"volume {message.volume_id} has {message.capacity_bytes} bytes")
    return DriverVolume(
        volume_id=message.volume_id,
        capacity_bytes=message.capacity_bytes,
        context=dict(message.volume_context),
        accessible_from=tuple(topology_value(topology) for topology in message.accessible_topology),
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
    """Less than nothing is nothing: csi-driver-host-path says so of a pool that was made smaller than what it holds."""
    maximum = max(0, message.maximum_volume_size.value) if message.HasField("maximum_volume_size") else None
    minimum = message.minimum_volume_size.value if message.HasField("minimum_volume_size") else None
    if minimum is not None and minimum < 0:
        raise Unreadable(f"no volume smaller than {minimum} bytes")
    return Capacity(max(0, message.available_capacity), maximum, minimum)


def node_message(info: NodeInfo) -> pb.NodeGetInfoResponse:
    message = pb.NodeGetInfoResponse(node_id=info.node_id, max_volumes_per_node=info.max_volumes)
    if info.accessible_from is not None:
        message.accessible_topology.CopyFrom(topology_message(info.accessible_from))
    return message


def node_value(message: pb.NodeGetInfoResponse) -> NodeInfo:
    if not message.node_id:
        raise Unreadable("the node has no node_id")
    if message.max_volumes_per_node < 0:
        raise Unreadable(f"at most {message.max_volumes_per_node} volumes per node")
    topology = topology_value(message.accessible_topology) if message.HasField("accessible_topology") else None
    return NodeInfo(message.node_id, message.max_volumes_per_node, topology)
