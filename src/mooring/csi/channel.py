"""A driver behind a Unix socket: the contract spoken over gRPC.

Every call ends within the channel's deadline. Answers are checked before anybody acts on them: a volume without an id
or of negative size is an error, not a value. Not here: retries, which are for the caller to time.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from google.protobuf.message import Message

from mooring.csi.contract import (
    Capacity,
    Code,
    CreateVolume,
    Driver,
    DriverError,
    DriverVolume,
    NodeInfo,
    Topology,
    VolumeCapability,
)
from mooring.csi.exchange import Exchange
from mooring.csi.interception import Interceptor
from mooring.csi.messages import (
    Unreadable,
    capability_message,
    capacity_value,
    create_message,
    node_value,
    topology_message,
    volume_value,
)
from mooring.csi.wire import csi_pb2 as pb

Answer = TypeVar("Answer", bound=Message)

#: Seconds; external-provisioner's `--timeout`.
DEADLINE: Final = 10.0
#: How often a list is begun anew because its token no longer counts, before that is the answer.
LIST_ATTEMPTS: Final = 3


class Channel:
    """`async with Channel(path) as driver:`, or `close` at the end."""

    def __init__(self, path: Path, *, deadline: float = DEADLINE, interceptors: Sequence[Interceptor] = ()) -> None:
        self._exchange = Exchange(path, deadline=deadline, interceptors=interceptors)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._exchange.close()

    async def name(self) -> str:
        answer = await self._ask("GetPluginInfo", pb.GetPluginInfoRequest(), pb.GetPluginInfoResponse)
        if not answer.name:
            raise self._exchange.unreadable("GetPluginInfo", "the driver has no name")
        return answer.name

    async def vendor_version(self) -> str:
        return (await self._ask("GetPluginInfo", pb.GetPluginInfoRequest(), pb.GetPluginInfoResponse)).vendor_version

    async def plugin_capabilities(self) -> frozenset[str]:
        answer = await self._ask(
            "GetPluginCapabilities", pb.GetPluginCapabilitiesRequest(), pb.GetPluginCapabilitiesResponse
        )
        known = pb.PluginCapability.Service.Type
        return frozenset(
            _named(known.items(), capability.service.type)
            for capability in answer.capabilities
            if capability.HasField("service")
        )

    async def probe(self) -> bool:
        answer = await self._ask("Probe", pb.ProbeRequest(), pb.ProbeResponse)
        return answer.ready.value if answer.HasField("ready") else True

    async def controller_capabilities(self) -> frozenset[str]:
        answer = await self._ask(
            "ControllerGetCapabilities", pb.ControllerGetCapabilitiesRequest(), pb.ControllerGetCapabilitiesResponse
        )
        known = pb.ControllerServiceCapability.RPC.Type
        return frozenset(_named(known.items(), capability.rpc.type) for capability in answer.capabilities)

    async def create_volume(self, request: CreateVolume, *, secrets: Mapping[str, str]) -> DriverVolume:
        message = create_message(request)
        message.secrets.update(secrets)
        answer = await self._ask("CreateVolume", message, pb.CreateVolumeResponse)
        try:
            return volume_value(answer.volume)
        except Unreadable as error:
            raise self._exchange.unreadable("CreateVolume", str(error)) from error

    async def delete_volume(self, volume_id: str, *, secrets: Mapping[str, str]) -> None:
        await self._ask(
            "DeleteVolume", pb.DeleteVolumeRequest(volume_id=volume_id, secrets=secrets), pb.DeleteVolumeResponse
        )

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
        request = pb.ControllerPublishVolumeRequest(
            volume_id=volume_id,
            node_id=node_id,
            volume_capability=capability_message(capability),
            readonly=read_only,
            volume_context=context,
            secrets=secrets,
        )
        answer = await self._ask("ControllerPublishVolume", request, pb.ControllerPublishVolumeResponse)
        return dict(answer.publish_context)

    async def controller_unpublish(self, volume_id: str, *, node_id: str, secrets: Mapping[str, str] = {}) -> None:
        request = pb.ControllerUnpublishVolumeRequest(volume_id=volume_id, node_id=node_id, secrets=secrets)
        await self._ask("ControllerUnpublishVolume", request, pb.ControllerUnpublishVolumeResponse)

    async def validate_capabilities(
        self,
        volume_id: str,
        *,
        capabilities: Sequence[VolumeCapability],
        context: Mapping[str, str] = {},
        parameters: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
    ) -> str | None:
        request = pb.ValidateVolumeCapabilitiesRequest(
            volume_id=volume_id,
            volume_context=context,
            volume_capabilities=[capability_message(capability) for capability in capabilities],
            parameters=parameters,
            secrets=secrets,
        )
        answer = await self._ask("ValidateVolumeCapabilities", request, pb.ValidateVolumeCapabilitiesResponse)
        return None if answer.HasField("confirmed") else answer.message or "the driver gave no reason"

    async def list_volumes(self) -> Sequence[DriverVolume]:
        for _ in range(LIST_ATTEMPTS - 1):
            try:
                return await self._list_from_the_start()
            except DriverError as error:
                # What ABORTED means in a list: the token no longer counts, begin again.
                if error.code is not Code.ABORTED:
                    raise
        return await self._list_from_the_start()

    async def get_volume(self, volume_id: str) -> DriverVolume:
        request = pb.ControllerGetVolumeRequest(volume_id=volume_id)
        answer = await self._ask("ControllerGetVolume", request, pb.ControllerGetVolumeResponse)
        try:
            return volume_value(answer.volume, answer.status.published_node_ids)
        except Unreadable as error:
            raise self._exchange.unreadable("ControllerGetVolume", str(error)) from error

    async def get_capacity(
        self,
        *,
        capabilities: Sequence[VolumeCapability],
        parameters: Mapping[str, str],
        accessible_from: Topology | None,
    ) -> Capacity:
        request = pb.GetCapacityRequest(
            volume_capabilities=[capability_message(capability) for capability in capabilities], parameters=parameters
        )
        if accessible_from is not None:
            request.accessible_topology.CopyFrom(topology_message(accessible_from))
        answer = await self._ask("GetCapacity", request, pb.GetCapacityResponse)
        try:
            return capacity_value(answer)
        except Unreadable as error:
            raise self._exchange.unreadable("GetCapacity", str(error)) from error

    async def node_capabilities(self) -> frozenset[str]:
        answer = await self._ask("NodeGetCapabilities", pb.NodeGetCapabilitiesRequest(), pb.NodeGetCapabilitiesResponse)
        known = pb.NodeServiceCapability.RPC.Type
        return frozenset(_named(known.items(), capability.rpc.type) for capability in answer.capabilities)

    async def info(self) -> NodeInfo:
        answer = await self._ask("NodeGetInfo", pb.NodeGetInfoRequest(), pb.NodeGetInfoResponse)
        try:
            return node_value(answer)
        except Unreadable as error:
            raise self._exchange.unreadable("NodeGetInfo", str(error)) from error

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
        request = pb.NodeStageVolumeRequest(
            volume_id=volume_id,
            publish_context=publish_context,
            staging_target_path=staging_target,
            volume_capability=capability_message(capability),
            secrets=secrets,
            volume_context=context,
        )
        await self._ask("NodeStageVolume", request, pb.NodeStageVolumeResponse)

    async def unstage(self, volume_id: str, *, staging_target: str) -> None:
        request = pb.NodeUnstageVolumeRequest(volume_id=volume_id, staging_target_path=staging_target)
        await self._ask("NodeUnstageVolume", request, pb.NodeUnstageVolumeResponse)

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
        request = pb.NodePublishVolumeRequest(
            volume_id=volume_id,
            publish_context=publish_context,
            staging_target_path=staging_target,
            target_path=target,
            volume_capability=capability_message(capability),
            readonly=read_only,
            secrets=secrets,
            volume_context=context,
        )
        await self._ask("NodePublishVolume", request, pb.NodePublishVolumeResponse)

    async def unpublish(self, volume_id: str, *, target: str) -> None:
        request = pb.NodeUnpublishVolumeRequest(volume_id=volume_id, target_path=target)
        await self._ask("NodeUnpublishVolume", request, pb.NodeUnpublishVolumeResponse)

    async def _ask(self, call: str, request: Message, answer: type[Answer]) -> Answer:
        return await self._exchange.ask(call, request, answer)

    async def _list_from_the_start(self) -> Sequence[DriverVolume]:
        """All pages. No page size is asked for: some drivers cut the list there and forget the token."""
        volumes: dict[str, DriverVolume] = {}
        seen = {""}
        token = ""
        while True:
            answer = await self._ask("ListVolumes", pb.ListVolumesRequest(starting_token=token), pb.ListVolumesResponse)
            for entry in answer.entries:
                try:
                    volume = volume_value(entry.volume, entry.status.published_node_ids)
                except Unreadable as error:
                    raise self._exchange.unreadable("ListVolumes", str(error)) from error
                volumes[volume.volume_id] = volume
            token = answer.next_token
            if not token:
                return [volumes[volume_id] for volume_id in sorted(volumes)]
            if token in seen:
                raise self._exchange.unreadable("ListVolumes", "the pages go round in a circle")
            seen.add(token)


def _named(known: Sequence[tuple[str, int]], number: int) -> str:
    """A capability's name, or its number when it is younger than this program."""
    return next((name for name, value in known if value == number), str(number))


def _contract(channel: Channel) -> Driver:
    return channel
