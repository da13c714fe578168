"""gRPC handlers of the CSI server: validate the request, call the driver, encode the response.

One function per CSI method, in `CALLS`; `GATES` has the capabilities that optional methods need.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from google.protobuf.message import Message

from mooring.csi import messages, requests
from mooring.csi.contract import ControllerCapability, Driver, NodeCapability
from mooring.csi.wire import csi_pb2 as pb


async def get_plugin_info(driver: Driver, _: pb.GetPluginInfoRequest) -> pb.GetPluginInfoResponse:
    return pb.GetPluginInfoResponse(name=await driver.name(), vendor_version=await driver.vendor_version())


async def get_plugin_capabilities(
    driver: Driver, _: pb.GetPluginCapabilitiesRequest
) -> pb.GetPluginCapabilitiesResponse:
    names, kind = sorted(await driver.plugin_capabilities()), pb.PluginCapability
    return pb.GetPluginCapabilitiesResponse(capabilities=[kind(service=kind.Service(type=name)) for name in names])


async def probe(driver: Driver, _: pb.ProbeRequest) -> pb.ProbeResponse:
    answer = pb.ProbeResponse()
    answer.ready.value = await driver.probe()
    return answer


async def controller_get_capabilities(
    driver: Driver, _: pb.ControllerGetCapabilitiesRequest
) -> pb.ControllerGetCapabilitiesResponse:
    names, kind = sorted(await driver.controller_capabilities()), pb.ControllerServiceCapability
    return pb.ControllerGetCapabilitiesResponse(capabilities=[kind(rpc=kind.RPC(type=name)) for name in names])


async def create_volume(driver: Driver, request: pb.CreateVolumeRequest) -> pb.CreateVolumeResponse:
    volume = await driver.create_volume(requests.create_request(request), secrets=dict(request.secrets))
    return pb.CreateVolumeResponse(volume=messages.volume_message(volume))


async def delete_volume(driver: Driver, request: pb.DeleteVolumeRequest) -> pb.DeleteVolumeResponse:
    requests.required(volume_id=request.volume_id)
    await driver.delete_volume(request.volume_id, secrets=dict(request.secrets))
    return pb.DeleteVolumeResponse()


async def controller_publish_volume(
    driver: Driver, request: pb.ControllerPublishVolumeRequest
) -> pb.ControllerPublishVolumeResponse:
    requests.required(volume_id=request.volume_id, node_id=request.node_id)
    capability = requests.one_capability(request.volume_capability, present=request.HasField("volume_capability"))
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
    requests.required(volume_id=request.volume_id)
    await driver.controller_unpublish(request.volume_id, node_id=request.node_id, secrets=dict(request.secrets))
    return pb.ControllerUnpublishVolumeResponse()


async def validate_volume_capabilities(
    driver: Driver, request: pb.ValidateVolumeCapabilitiesRequest
) -> pb.ValidateVolumeCapabilitiesResponse:
    requests.required(volume_id=request.volume_id)
    capabilities = requests.some_capabilities(request.volume_capabilities)
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
            volume_capabilities=[messages.capability_message(capability) for capability in capabilities],
            parameters=request.parameters,
        )
    )


async def list_volumes(driver: Driver, request: pb.ListVolumesRequest) -> pb.ListVolumesResponse:
    volumes, token = requests.page(
        await driver.list_volumes(), token=request.starting_token, max_entries=request.max_entries
    )
    return pb.ListVolumesResponse(
        entries=[
            pb.ListVolumesResponse.Entry(
                volume=messages.volume_message(volume),
                status=pb.ListVolumesResponse.VolumeStatus(published_node_ids=volume.published_on),
            )
            for volume in volumes
        ],
        next_token=token,
    )


async def controller_get_volume(
    driver: Driver, request: pb.ControllerGetVolumeRequest
) -> pb.ControllerGetVolumeResponse:
    requests.required(volume_id=request.volume_id)
    volume = await driver.get_volume(request.volume_id)
    return pb.ControllerGetVolumeResponse(
        volume=messages.volume_message(volume),
        status=pb.ControllerGetVolumeResponse.VolumeStatus(published_node_ids=volume.published_on),
    )


async def get_capacity(driver: Driver, request: pb.GetCapacityRequest) -> pb.GetCapacityResponse:
    topology = request.accessible_topology
    capacity = await driver.get_capacity(
        capabilities=requests.several_capabilities(request.volume_capabilities),
        parameters=dict(request.parameters),
        accessible_from=messages.topology_value(topology) if request.HasField("accessible_topology") else None,
    )
    return messages.capacity_message(capacity)


async def node_get_capabilities(driver: Driver, _: pb.NodeGetCapabilitiesRequest) -> pb.NodeGetCapabilitiesResponse:
    names, kind = sorted(await driver.node_capabilities()), pb.NodeServiceCapability
    return pb.NodeGetCapabilitiesResponse(capabilities=[kind(rpc=kind.RPC(type=name)) for name in names])


async def node_get_info(driver: Driver, _: pb.NodeGetInfoRequest) -> pb.NodeGetInfoResponse:
    return messages.node_message(await driver.info())


async def node_stage_volume(driver: Driver, request: pb.NodeStageVolumeRequest) -> pb.NodeStageVolumeResponse:
    requests.required(volume_id=request.volume_id, staging_target_path=request.staging_target_path)
    await driver.stage(
        request.volume_id,
        staging_target=request.staging_target_path,
        capability=requests.one_capability(request.volume_capability, present=request.HasField("volume_capability")),
        context=dict(request.volume_context),
        publish_context=dict(request.publish_context),
        secrets=dict(request.secrets),
    )
    return pb.NodeStageVolumeResponse()


async def node_unstage_volume(driver: Driver, request: pb.NodeUnstageVolumeRequest) -> pb.NodeUnstageVolumeResponse:
    requests.required(volume_id=request.volume_id, staging_target_path=request.staging_target_path)
    await driver.unstage(request.volume_id, staging_target=request.staging_target_path)
    return pb.NodeUnstageVolumeResponse()


async def node_publish_volume(driver: Driver, request: pb.NodePublishVolumeRequest) -> pb.NodePublishVolumeResponse:
    requests.required(volume_id=request.volume_id, target_path=request.target_path)
    # An inline volume is created here, under the caller's id: what CreateVolume would refuse is refused here too.
    requests.short(volume_id=request.volume_id)
    requests.small(volume_context=request.volume_context)
    await driver.publish(
        request.volume_id,
        target=request.target_path,
        capability=requests.one_capability(request.volume_capability, present=request.HasField("volume_capability")),
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
    requests.required(volume_id=request.volume_id, target_path=request.target_path)
    await driver.unpublish(request.volume_id, target=request.target_path)
    return pb.NodeUnpublishVolumeResponse()


#: By CSI method. A test checks the functions' types against the descriptor.
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

#: Methods that are only available with a capability.
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
