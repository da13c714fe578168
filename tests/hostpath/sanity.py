"""A driver on real files behind a real socket, asked message by message as the public csi-sanity suite asks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from builders.hostpath import GIB, a_layout, a_pool
from mooring.csi.contract import VolumeCapability
from mooring.csi.exchange import PATHS
from mooring.csi.messages import capability_message
from mooring.csi.service import Service
from mooring.csi.wire import csi_pb2 as pb
from mooring.hostpath.driver import Hostpath
from mooring.hostpath.layout import Settings
from mooring.hostpath.mounts import Links
from mooring.hostpath.running import on_files

Answer = TypeVar("Answer", bound=Message)

SIZE = 10 * GIB
LIMIT = 3


class Sanity:
    """One socket, and short words for what the cases do again and again."""

    def __init__(self, channel: grpc.aio.Channel, folder: Path, capability: VolumeCapability, *, attach: bool) -> None:
        self.channel = channel
        self.attach = attach
        self.capability = capability_message(capability)
        self.staging = folder / "csi-staging"
        self.target = folder / "csi-mount" / "target"
        self.staging.mkdir()
        self.target.parent.mkdir()

    async def ask(self, request: Message) -> Message:
        """Whatever the call is that takes this message."""
        call = request.DESCRIPTOR.name.removesuffix("Request")
        answer = GetMessageClass(pb.DESCRIPTOR.message_types_by_name[f"{call}Response"])
        line = self.channel.unary_unary(
            PATHS[call], request_serializer=type(request).SerializeToString, response_deserializer=answer.FromString
        )
        received: Message = await line(request, timeout=10)
        return received

    async def code(self, request: Message) -> str:
        """OK, or the name of the status."""
        try:
            await self.ask(request)
        except grpc.aio.AioRpcError as error:
            return error.code().name if error.details() else "a status without words"
        return "OK"

    def wanted(self, name: str, **more: object) -> pb.CreateVolumeRequest:
        facts: dict[str, object] = {
            "name": name,
            "capacity_range": pb.CapacityRange(required_bytes=SIZE),
            "volume_capabilities": [self.capability],
        }
        return pb.CreateVolumeRequest(**facts | more)  # type: ignore[arg-type]

    async def create(self, name: str, **more: object) -> pb.Volume:
        answer = await self.ask(self.wanted(name, **more))
        assert isinstance(answer, pb.CreateVolumeResponse)
        assert answer.volume.volume_id
        return answer.volume

    async def listed(self) -> list[str]:
        answer = await self.ask(pb.ListVolumesRequest())
        assert isinstance(answer, pb.ListVolumesResponse)
        return [entry.volume.volume_id for entry in answer.entries]

    async def node(self) -> pb.NodeGetInfoResponse:
        answer = await self.ask(pb.NodeGetInfoRequest())
        assert isinstance(answer, pb.NodeGetInfoResponse)
        return answer

    async def node_topology(self) -> pb.TopologyRequirement:
        return pb.TopologyRequirement(requisite=[(await self.node()).accessible_topology])

    def published(self, volume_id: str, node_id: str, **more: object) -> pb.ControllerPublishVolumeRequest:
        return pb.ControllerPublishVolumeRequest(
            volume_id=volume_id,
            node_id=node_id,
            volume_capability=self.capability,
            **more,  # type: ignore[arg-type]
        )

    def staged(self, volume_id: str) -> pb.NodeStageVolumeRequest:
        return pb.NodeStageVolumeRequest(
            volume_id=volume_id, staging_target_path=str(self.staging), volume_capability=self.capability
        )

    def shown(self, volume_id: str, target: Path | None = None) -> pb.NodePublishVolumeRequest:
        return pb.NodePublishVolumeRequest(
            volume_id=volume_id,
            staging_target_path=str(self.staging),
            target_path=str(target or self.target),
            volume_capability=self.capability,
        )

    async def to_the_pod(self, volume_id: str, *, times: int = 1) -> None:
        """Every step as often as told."""
        for _ in range(times if self.attach else 0):
            await self.ask(self.published(volume_id, (await self.node()).node_id))
        for _ in range(times):
            await self.ask(self.staged(volume_id))
        for _ in range(times):
            await self.ask(self.shown(volume_id))

    async def clean_up(self) -> None:
        """As the suite does after each case: every answer must be good, however little was done before."""
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
    settings = Settings(version="1", max_volumes_per_node=LIMIT, attach=attach)
    layout = a_layout(a_pool(size=10 * SIZE))
    socket = folder / "csi.sock"
    async with (
        on_files(layout, settings, folder / "state", Links(), chance=Random(1)) as volume_store,
        Service(Hostpath(volume_store, "node-1"), socket),
        grpc.aio.insecure_channel(f"unix:{socket}") as channel,
    ):
        asked = Sanity(channel, folder, capability, attach=attach)
        yield asked
        await asked.clean_up()
