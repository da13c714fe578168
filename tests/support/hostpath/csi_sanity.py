"""The hostpath driver on real files behind a Unix socket, called message by message like the csi-sanity suite does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import grpc
import grpc.aio
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from mooring.csi.client import PATHS
from mooring.csi.contract import VolumeCapability
from mooring.csi.messages import capability_message
from mooring.csi.server import CsiServer
from mooring.csi.wire import csi_pb2 as pb
from mooring.hostpath.driver import Hostpath, open_volume_store
from mooring.hostpath.files import Links
from mooring.hostpath.records import HostpathSettings
from support.builders.hostpath import GIB, a_layout, a_pool

SIZE = 10 * GIB
LIMIT = 3


class Sanity:
    """A connection to the driver, and the requests that the cases share."""

    def __init__(self, channel: grpc.aio.Channel, folder: Path, capability: VolumeCapability, *, attach: bool) -> None:
        self.channel = channel
        self.attach = attach
        self.capability = capability_message(capability)
        self.staging = folder / "csi-staging"
        self.target = folder / "csi-mount" / "target"
        self.staging.mkdir()
        self.target.parent.mkdir()

    async def call_rpc(self, request: Message) -> Message:
        """Call the RPC of this request type."""
        call = request.DESCRIPTOR.name.removesuffix("Request")
        response = GetMessageClass(pb.DESCRIPTOR.message_types_by_name[f"{call}Response"])
        line = self.channel.unary_unary(
            PATHS[call], request_serializer=type(request).SerializeToString, response_deserializer=response.FromString
        )
        received: Message = await line(request, timeout=10)
        return received

    async def code(self, request: Message) -> str:
        """ "OK" or the name of the status code."""
        try:
            await self.call_rpc(request)
        except grpc.aio.AioRpcError as error:
            return error.code().name if error.details() else "a status without details"
        return "OK"

    def create_request(self, name: str, **more: object) -> pb.CreateVolumeRequest:
        facts: dict[str, object] = {
            "name": name,
            "capacity_range": pb.CapacityRange(required_bytes=SIZE),
            "volume_capabilities": [self.capability],
        }
        return pb.CreateVolumeRequest(**facts | more)  # type: ignore[arg-type]

    async def create(self, name: str, **more: object) -> pb.Volume:
        response = await self.call_rpc(self.create_request(name, **more))
        assert isinstance(response, pb.CreateVolumeResponse)
        assert response.volume.volume_id
        return response.volume

    async def listed(self) -> list[str]:
        response = await self.call_rpc(pb.ListVolumesRequest())
        assert isinstance(response, pb.ListVolumesResponse)
        return [entry.volume.volume_id for entry in response.entries]

    async def node(self) -> pb.NodeGetInfoResponse:
        response = await self.call_rpc(pb.NodeGetInfoRequest())
        assert isinstance(response, pb.NodeGetInfoResponse)
        return response

    async def node_topology(self) -> pb.TopologyRequirement:
        return pb.TopologyRequirement(requisite=[(await self.node()).accessible_topology])

    def controller_publish_request(
        self, volume_id: str, node_id: str, **more: object
    ) -> pb.ControllerPublishVolumeRequest:
        return pb.ControllerPublishVolumeRequest(
            volume_id=volume_id,
            node_id=node_id,
            volume_capability=self.capability,
            **more,  # type: ignore[arg-type]
        )

    def node_stage_request(self, volume_id: str) -> pb.NodeStageVolumeRequest:
        return pb.NodeStageVolumeRequest(
            volume_id=volume_id, staging_target_path=str(self.staging), volume_capability=self.capability
        )

    def node_publish_request(self, volume_id: str, target: Path | None = None) -> pb.NodePublishVolumeRequest:
        return pb.NodePublishVolumeRequest(
            volume_id=volume_id,
            staging_target_path=str(self.staging),
            target_path=str(target or self.target),
            volume_capability=self.capability,
        )

    async def publish_to_pod(self, volume_id: str, *, times: int = 1) -> None:
        """Attach, stage and publish the volume, each `times` times."""
        for _ in range(times if self.attach else 0):
            await self.call_rpc(self.controller_publish_request(volume_id, (await self.node()).node_id))
        for _ in range(times):
            await self.call_rpc(self.node_stage_request(volume_id))
        for _ in range(times):
            await self.call_rpc(self.node_publish_request(volume_id))

    async def clean_up(self) -> None:
        """Like csi-sanity after each case: every call must succeed, whatever was done before."""
        for volume_id in await self.listed():
            unpublish = pb.NodeUnpublishVolumeRequest(volume_id=volume_id, target_path=str(self.target))
            unstage = pb.NodeUnstageVolumeRequest(volume_id=volume_id, staging_target_path=str(self.staging))
            assert await self.code(unpublish) in {"OK", "NOT_FOUND"}
            assert await self.code(unstage) in {"OK", "NOT_FOUND"}
            if self.attach:
                unpublished = pb.ControllerUnpublishVolumeRequest(volume_id=volume_id, node_id="node-1")
                assert await self.code(unpublished) == "OK"
            assert await self.code(pb.DeleteVolumeRequest(volume_id=volume_id)) == "OK"
        assert await self.listed() == []
        self.staging.rmdir()
        self.target.parent.rmdir()


@asynccontextmanager
async def sanity(folder: Path, capability: VolumeCapability, *, attach: bool) -> AsyncIterator[Sanity]:
    settings = HostpathSettings(version="1", max_volumes_per_node=LIMIT, attach=attach)
    layout = a_layout(a_pool(size=10 * SIZE))
    socket = folder / "csi.sock"
    async with (
        open_volume_store(layout, settings, folder / "state", Links(), chance=Random(1)) as volume_store,
        CsiServer(Hostpath(volume_store, "node-1"), socket),
        grpc.aio.insecure_channel(f"unix:{socket}") as channel,
    ):
        asked = Sanity(channel, folder, capability, attach=attach)
        yield asked
        await asked.clean_up()
