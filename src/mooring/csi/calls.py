"""How each CSI call is answered by a driver of the contract: check the request, ask, put the answer into a message.

One function per call, by its CSI name in `CALLS`; `service` finds them there. Calls that a driver does not say it
has are refused in `GATES` before anything else.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from google.protobuf.message import Message

from mooring.csi.contract import ControllerCapability, Driver, NodeCapability
from mooring.csi.messages import (
    capability_message,
    capacity_message,
    node_message,
    topology_value,
    volume_message,
)
from mooring.csi.paging import page
from mooring.csi.requests import (
    one_capability,
    required,
    several_capabilities,
    short,
    small,
    some_capabilities,
    volume_wanted,
)
from mooring.csi.wire import csi_pb2 as pb


async def get_plugin_info(driver: Driver, _: pb.GetPluginInfoRequest) -> pb.GetPluginInfoResponse:
    return pb.GetPluginInfoResponse(name=await driver.name(), vendor_version=await driver.vendor_version())


async def get_plugin_capabilities(
    driver: Driver, _: pb.GetPluginCapabilitiesRequest
) -> pb.GetPluginCapabilitiesResponse:
    return pb.GetPluginCapabilitiesResponse(
        capabilities=[
            pb.PluginCapability(service=pb.PluginCapability.Service(type=name))
            for name in sorted(await driver.plugin_capabilities())
        ]
    )


async def probe(driver: Driver, _: pb.ProbeRequest) -> pb.ProbeResponse:
    answer = pb.ProbeResponse()
    answer.ready.value = await driver.probe()
    return answer


async def controller_get_capabilities(
    driver: Driver, _: pb.ControllerGetCapabilitiesRequest
) -> pb.ControllerGetCapabilitiesResponse:
    return pb.ControllerGetCapabilitiesResponse(
        capabilities=[
            pb.ControllerServiceCapability(rpc=pb.ControllerServiceCapability.RPC(type=name))
            for name in sorted(await driver.controller_capabilities())
        ]
    )


async def create_volume(driver: Driver, request: pb.CreateVolumeRequest) -> pb.CreateVolumeResponse:
    volume = await driver.create_volume(volume_wanted(request), secrets=dict(request.secrets))
    return pb.CreateVolumeResponse(volume=volume_message(volume))


async def delete_volume(driver: Driver, request: pb.DeleteVolumeRequest) -> pb.DeleteVolumeResponse:
    required(volume_id=request.volume_id)
    await driver.delete_volume(request.volume_id, secrets=dict(request.secrets))
    return pb.DeleteVolumeResponse()


async def controller_publish_volume(
    driver: Driver, request: pb.ControllerPublishVolumeRequest
) -> pb.ControllerPublishVolumeResponse:
    required(volume_id=request.volume_id, node_id=request.node_id)
    capability = one_capability(request.volume_capability, present=request.HasField("volume_capability"))
    context = await driver.controller_publish(
        request.volume_id,
        node_id=request.node_id,
        capability=capability,
        read_only=request.readonly,
        context=dict(request.volume_context),
        secrets=dict(request.secrets),
    )
    return pb.ControllerPublishVolumeResponse(publish_context=context)


async def controller_unpublish_volume(
    driver: Driver, request: pb.ControllerUnpublishVolumeRequest
) -> pb.ControllerUnpublishVolumeResponse:
    required(volume_id=request.volume_id)
    await driver.controller_unpublish(request.volume_id, node_id=request.node_id, secrets=dict(request.secrets))
    return pb.ControllerUnpublishVolumeResponse()


async def validate_volume_capabilities(
    driver: Driver, request: pb.ValidateVolumeCapabilitiesRequest
) -> pb.ValidateVolumeCapabilitiesResponse:
    required(volume_id=request.volume_id)
    capabilities = some_capabilities(request.volume_capabilities)
    if request.mutable_parameters:
        return pb.ValidateVolumeCapabilitiesResponse(message="mutable_parameters are not supported")
    objection = await driver.validate_capabilities(
        request.volume_id,
        capabilities=capabilities,
        context=dict(request.volume_context),
        parameters=dict(request.parameters),
        secrets=dict(request.secrets),
    )
    if objection is not None:
        return pb.ValidateVolumeCapabilitiesResponse(message=objection)
    return pb.ValidateVolumeCapabilitiesResponse(
        confirmed=pb.ValidateVolumeCapabilitiesResponse.Confirmed(
            volume_context=request.volume_context,
            volume_capabilities=[capability_message(capability) for capability in capabilities],
            parameters=request.parameters,
        )
    )


async def list_volumes(driver: Driver, request: pb.ListVolumesRequest) -> pb.ListVolumesResponse:
    volumes, token = page(await driver.list_volumes(), token=request.starting_token, most=request.max_entries)
    return pb.ListVolumesResponse(
        entries=[
            pb.ListVolumesResponse.Entry(
                volume=volume_message(volume),
                status=pb.ListVolumesResponse.VolumeStatus(published_node_ids=volume.published_on),
            )
            for volume in volumes
        ],
        next_token=token,
    )


async def controller_get_volume(
    driver: Driver, request: pb.ControllerGetVolumeRequest
) -> pb.ControllerGetVolumeResponse:
    required(volume_id=request.volume_id)
    volume = await driver.get_volume(request.volume_id)
    return pb.ControllerGetVolumeResponse(
        volume=volume_message(volume),
        status=pb.ControllerGetVolumeResponse.VolumeStatus(published_node_ids=volume.published_on),
    )


async def get_capacity(driver: Driver, request: pb.GetCapacityRequest) -> pb.GetCapacityResponse:
    topology = request.accessible_topology
    capacity = await driver.get_capacity(
        capabilities=several_capabilities(request.volume_capabilities),
        parameters=dict(request.parameters),
        accessible_from=topology_value(topology) if request.HasField("accessible_topology") else None,
    )
    return capacity_message(capacity)


async def node_get_capabilities(driver: Driver, _: pb.NodeGetCapabilitiesRequest) -> pb.NodeGetCapabilitiesResponse:
    return pb.NodeGetCapabilitiesResponse(
        capabilities=[
            pb.NodeServiceCapability(rpc=pb.NodeServiceCapability.RPC(type=name))
            for name in sorted(await driver.node_capabilities())
        ]
    )


async def node_get_info(driver: Driver, _: pb.NodeGetInfoRequest) -> pb.NodeGetInfoResponse:
    return node_message(await driver.info())


async def node_stage_volume(driver: Driver, request: pb.NodeStageVolumeRequest) -> pb.NodeStageVolumeResponse:
    required(volume_id=request.volume_id, staging_target_path=request.staging_target_path)
    await driver.stage(
        request.volume_id,
        staging_target=request.staging_target_path,
        capability=one_capability(request.volume_capability, present=request.HasField("volume_capability")),
        context=dict(request.volume_context),
        publish_context=dict(request.publish_context),
        secrets=dict(request.secrets),
    )
    return pb.NodeStageVolumeResponse()


async def node_unstage_volume(driver: Driver, request: pb.NodeUnstageVolumeRequest) -> pb.NodeUnstageVolumeResponse:
    required(volume_id=request.volume_id, staging_target_path=request.staging_target_path)
    await driver.unstage(request.volume_id, staging_target=request.staging_target_path)
    return pb.NodeUnstageVolumeResponse()


async def node_publish_volume(driver: Driver, request: pb.NodePublishVolumeRequest) -> pb.NodePublishVolumeResponse:
    required(volume_id=request.volume_id, target_path=request.target_path)
    # An inline volume is created here, under the caller's id: what CreateVolume would refuse is refused here too.
    short(volume_id=request.volume_id)
    small(volume_context=request.volume_context)
    await driver.publish(
        request.volume_id,
        target=request.target_path,
        capability=one_capability(request.volume_capability, present=request.HasField("volume_capability")),
        read_only=request.readonly,
        staging_target=request.staging_target_path,
        context=dict(request.volume_context),
        publish_context=dict(request.publish_context),
        secrets=dict(request.secrets),
    )
    return pb.NodePublishVolumeResponse()


async def node_unpublish_volume(
    driver: Driver, request: pb.NodeUnpublishVolumeRequest
) -> pb.NodeUnpublishVolumeResponse:
    required(volume_id=request.volume_id, target_path=request.target_path)
    await driver.unpublish(request.volume_id, target=request.target_path)
    return pb.NodeUnpublishVolumeResponse()


#: gRPC hands each function the message its method is declared with; the types above are checked against the
#: descriptor by a test.
CALLS: Final[Mapping[str, Callable[[Driver, Any], Awaitable[Message]]]] = {
    "GetPluginInfo": get_plugin_info,
    "GetPluginCapabilities": get_plugin_capabilities,
    "Probe": probe,
    "ControllerGetCapabilities": controller_get_capabilities,
    "CreateVolume": create_volume,
    "DeleteVolume": delete_volume,
    "ControllerPublishVolume": controller_publish_volume,
    "ControllerUnpublishVolume": controller_unpublish_volume,
    "ValidateVolumeCapabilities": validate_volume_capabilities,
    "ListVolumes": list_volumes,
    "ControllerGetVolume": controller_get_volume,
    "GetCapacity": get_capacity,
    "NodeGetCapabilities": node_get_capabilities,
    "NodeGetInfo": node_get_info,
    "NodeStageVolume": node_stage_volume,
    "NodeUnstageVolume": node_unstage_volume,
    "NodePublishVolume": node_publish_volume,
    "NodeUnpublishVolume": node_unpublish_volume,
}

#: Calls that exist only for drivers with the capability.
GATES: Final[Mapping[str, ControllerCapability | NodeCapability]] = {
    "CreateVolume": ControllerCapability.CREATE_DELETE_VOLUME,
    "DeleteVolume": ControllerCapability.CREATE_DELETE_VOLUME,
    "ControllerPublishVolume": ControllerCapability.PUBLISH_UNPUBLISH_VOLUME,
    "ControllerUnpublishVolume": ControllerCapability.PUBLISH_UNPUBLISH_VOLUME,
    "ListVolumes": ControllerCapability.LIST_VOLUMES,
    "ControllerGetVolume": ControllerCapability.GET_VOLUME,
    "GetCapacity": ControllerCapability.GET_CAPACITY,
    "NodeStageVolume": NodeCapability.STAGE_UNSTAGE_VOLUME,
    "NodeUnstageVolume": NodeCapability.STAGE_UNSTAGE_VOLUME,
}
