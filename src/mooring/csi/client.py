"""CSI client: the driver contract over gRPC on a Unix socket.

Every call ends within the client's deadline and raises only `DriverError`. Responses are validated: a volume without an
id or with a negative size is an error. No retries, except for a list whose token expired.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar, Unpack

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from mooring.csi import contract, messages
from mooring.csi.contract import Capacity, Code, CreateVolume, DriverError, DriverVolume, NodeInfo
from mooring.csi.interceptors import Interceptor, through
from mooring.csi.wire import csi_pb2 as pb

Response = TypeVar("Response", bound=Message)

#: Full path by method name: `/csi.v1.Controller/CreateVolume`.
PATHS: Final[Mapping[str, str]] = {
    method.name: f"/{service.full_name}/{method.name}"
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
#: A list of a hundred thousand volumes, of a few hundred bytes each; gRPC's own limit is 4 MiB.
MAX_RESPONSE_BYTES: Final = 64 << 20
#: Minimum and maximum between two connection attempts; gRPC's default maximum is two minutes.
RECONNECT_BACKOFF_MS: Final = (100, 1000)
OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", RECONNECT_BACKOFF_MS[0]),
    ("grpc.min_reconnect_backoff_ms", RECONNECT_BACKOFF_MS[0]),
    ("grpc.max_reconnect_backoff_ms", RECONNECT_BACKOFF_MS[1]),
    # Proxy settings of the environment do not apply to Unix sockets.
    ("grpc.enable_http_proxy", 0),
    # The default, the socket's path, is rejected as a host name by strict HTTP/2 servers.
    ("grpc.default_authority", "localhost"),
    # A connection per client: the backoff of one must not delay the others.
    ("grpc.use_local_subchannel_pool", 1),
)
#: Beginnings of gRPC's own status texts, as opposed to those that the driver sent.
CONNECT_FAILED: Final = "failed to connect to all addresses"
CONNECTION_BROKEN: Final = (
    "Socket closed", "Connection reset", "recvmsg:", "sendmsg:", "Broken pipe", "Stream removed", "Received RST_STREAM",
)  # fmt: skip
TOO_LARGE: Final = "CLIENT: Received message larger than max"

#: Seconds; external-provisioner's `--timeout`.
DEFAULT_DEADLINE_SECONDS: Final = 10.0
#: ListVolumes attempts while the driver answers ABORTED for an expired token.
MAX_LIST_ATTEMPTS: Final = 3


class CsiClient:
    """`async with CsiClient(path) as driver:`, or `close` at the end.

    A status from the driver keeps its code and message. Connection failures, timeouts and malformed responses get a
    message with the socket's path; after them the operation may have succeeded.
    """

    def __init__(
        self, path: Path, *, deadline: float = DEFAULT_DEADLINE_SECONDS, interceptors: Sequence[Interceptor] = ()
    ) -> None:
        self._path = path
        self._deadline = deadline
        self._interceptors = interceptors
        self._requirements = messages.RequirementEncoder()
        self._channel = grpc.aio.insecure_channel(f"unix:{path}", options=OPTIONS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._channel.close()

    async def name(self) -> str:
        response = await self._invoke(pb.GetPluginInfoRequest(), pb.GetPluginInfoResponse)
        if not response.name:
            raise self._malformed("GetPluginInfo", "name is empty")
        return response.name

    async def vendor_version(self) -> str:
        return (await self._invoke(pb.GetPluginInfoRequest(), pb.GetPluginInfoResponse)).vendor_version

    async def plugin_capabilities(self) -> frozenset[str]:
        response = await self._invoke(pb.GetPluginCapabilitiesRequest(), pb.GetPluginCapabilitiesResponse)
        known = pb.PluginCapability.Service.Type.items()
        return frozenset(_named(known, one.service.type) for one in response.capabilities if one.HasField("service"))

    async def probe(self) -> bool:
        response = await self._invoke(pb.ProbeRequest(), pb.ProbeResponse)
        return response.ready.value if response.HasField("ready") else True

    async def controller_capabilities(self) -> frozenset[str]:
        response = await self._invoke(pb.ControllerGetCapabilitiesRequest(), pb.ControllerGetCapabilitiesResponse)
        known = pb.ControllerServiceCapability.RPC.Type.items()
        return frozenset(_named(known, capability.rpc.type) for capability in response.capabilities)

    async def create_volume(self, request: CreateVolume, *, secrets: Mapping[str, str]) -> DriverVolume:
        message = messages.create_message(request, self._requirements)
        message.secrets.update(secrets)
        response = await self._invoke(message, pb.CreateVolumeResponse)
        with self._decoding("CreateVolume"):
            return messages.volume_value(response.volume)

    async def delete_volume(self, volume_id: str, *, secrets: Mapping[str, str]) -> None:
        await self._invoke(pb.DeleteVolumeRequest(volume_id=volume_id, secrets=secrets), pb.DeleteVolumeResponse)

    async def controller_publish(self, volume_id: str, **request: Unpack[contract.AttachRequest]) -> Mapping[str, str]:
        message = pb.ControllerPublishVolumeRequest(
            volume_id=volume_id,
            node_id=request["node_id"],
            volume_capability=messages.capability_message(request["capability"]),
            readonly=request.get("read_only", False),
            volume_context=request.get("context"),
            secrets=request.get("secrets"),
        )
        response = await self._invoke(message, pb.ControllerPublishVolumeResponse)
        return dict(response.publish_context)

    async def controller_unpublish(self, volume_id: str, *, node_id: str, secrets: Mapping[str, str] = {}) -> None:
        request = pb.ControllerUnpublishVolumeRequest(volume_id=volume_id, node_id=node_id, secrets=secrets)
        await self._invoke(request, pb.ControllerUnpublishVolumeResponse)

    async def validate_capabilities(self, volume_id: str, **request: Unpack[contract.ValidationRequest]) -> str | None:
        message = pb.ValidateVolumeCapabilitiesRequest(
            volume_id=volume_id,
            volume_context=request.get("context"),
            volume_capabilities=[messages.capability_message(capability) for capability in request["capabilities"]],
            parameters=request.get("parameters"),
            secrets=request.get("secrets"),
        )
        response = await self._invoke(message, pb.ValidateVolumeCapabilitiesResponse)
        return None if response.HasField("confirmed") else response.message or "the driver gave no reason"

    async def list_volumes(self) -> Sequence[DriverVolume]:
        for _ in range(MAX_LIST_ATTEMPTS - 1):
            try:
                return await self._list_all_pages()
            except DriverError as error:
                # In ListVolumes, ABORTED means that the token expired.
                if error.code is not Code.ABORTED:
                    raise
        return await self._list_all_pages()

    async def get_volume(self, volume_id: str) -> DriverVolume:
        request = pb.ControllerGetVolumeRequest(volume_id=volume_id)
        response = await self._invoke(request, pb.ControllerGetVolumeResponse)
        with self._decoding("ControllerGetVolume"):
            return messages.volume_value(response.volume, response.status.published_node_ids)

    async def get_capacity(self, **request: Unpack[contract.CapacityRequest]) -> Capacity:
        topology = request["accessible_from"]
        message = pb.GetCapacityRequest(
            volume_capabilities=[messages.capability_message(capability) for capability in request["capabilities"]],
            parameters=request["parameters"],
            accessible_topology=None if topology is None else messages.topology_message(topology),
        )
        response = await self._invoke(message, pb.GetCapacityResponse)
        with self._decoding("GetCapacity"):
            return messages.capacity_value(response)

    async def node_capabilities(self) -> frozenset[str]:
        response = await self._invoke(pb.NodeGetCapabilitiesRequest(), pb.NodeGetCapabilitiesResponse)
        known = pb.NodeServiceCapability.RPC.Type.items()
        return frozenset(_named(known, capability.rpc.type) for capability in response.capabilities)

    async def info(self) -> NodeInfo:
        response = await self._invoke(pb.NodeGetInfoRequest(), pb.NodeGetInfoResponse)
        with self._decoding("NodeGetInfo"):
            return messages.node_value(response)

    async def stage(self, volume_id: str, **request: Unpack[contract.StageRequest]) -> None:
        message = pb.NodeStageVolumeRequest(
            volume_id=volume_id,
            publish_context=request.get("publish_context"),
            staging_target_path=request["staging_target"],
            volume_capability=messages.capability_message(request["capability"]),
            secrets=request.get("secrets"),
            volume_context=request.get("context"),
        )
        await self._invoke(message, pb.NodeStageVolumeResponse)

    async def unstage(self, volume_id: str, *, staging_target: str) -> None:
        request = pb.NodeUnstageVolumeRequest(volume_id=volume_id, staging_target_path=staging_target)
        await self._invoke(request, pb.NodeUnstageVolumeResponse)

    async def publish(self, volume_id: str, **request: Unpack[contract.PublishRequest]) -> None:
        message = pb.NodePublishVolumeRequest(
            volume_id=volume_id,
            publish_context=request.get("publish_context"),
            staging_target_path=request.get("staging_target", ""),
            target_path=request["target"],
            volume_capability=messages.capability_message(request["capability"]),
            readonly=request["read_only"],
            secrets=request.get("secrets"),
            volume_context=request.get("context"),
        )
        await self._invoke(message, pb.NodePublishVolumeResponse)

    async def unpublish(self, volume_id: str, *, target: str) -> None:
        request = pb.NodeUnpublishVolumeRequest(volume_id=volume_id, target_path=target)
        await self._invoke(request, pb.NodeUnpublishVolumeResponse)

    async def _list_all_pages(self) -> Sequence[DriverVolume]:
        """Without max_entries: some drivers truncate the list there and return no token."""
        volumes: dict[str, DriverVolume] = {}
        seen = {""}
        token = ""
        while True:
            response = await self._invoke(pb.ListVolumesRequest(starting_token=token), pb.ListVolumesResponse)
            with self._decoding("ListVolumes"):
                for entry in response.entries:
                    volume = messages.volume_value(entry.volume, entry.status.published_node_ids)
                    volumes[volume.volume_id] = volume
            if not (token := response.next_token):
                return [volumes[volume_id] for volume_id in sorted(volumes)]
            if token in seen:
                raise self._malformed("ListVolumes", "next_token was returned before")
            seen.add(token)

    async def _invoke(self, request: Message, response: type[Response]) -> Response:
        call = request.DESCRIPTOR.name.removesuffix("Request")
        return await through(self._interceptors, call, request, lambda: self._send(call, request, response))

    async def _send(self, call: str, request: Message, response: type[Response]) -> Response:
        # Without deserializer: gRPC would report a malformed response as the driver's INTERNAL, which is final.
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(PATHS[call])
        try:
            received = await method(request.SerializeToString(), timeout=self._deadline)
        except grpc.aio.AioRpcError as error:
            raise self._driver_error(call, error) from error
        try:
            return response.FromString(received)
        except DecodeError as error:
            raise self._malformed(call, "not the message that CSI defines") from error

    @contextmanager
    def _decoding(self, call: str) -> Iterator[None]:
        """Reports a MalformedMessage inside the block as the driver's."""
        try:
            yield
        except messages.MalformedMessage as error:
            raise self._malformed(call, str(error)) from error

    def _malformed(self, call: str, reason: str) -> DriverError:
        text = f"the driver at {self._path} returned a malformed response to {call}: {reason}"
        return DriverError(Code.UNAVAILABLE, text)

    def _driver_error(self, call: str, error: grpc.aio.AioRpcError) -> DriverError:
        number: int = error.code().value[0]
        details = error.details() or "the driver gave no reason"
        match error.code():
            case grpc.StatusCode.UNAVAILABLE if details.startswith(CONNECT_FAILED):
                # gRPC's chain of causes ends with the system's error.
                cause = details.rpartition(": ")[2].rstrip(".")
                return DriverError(Code.UNAVAILABLE, f"no driver listens at {self._path}: {cause}")
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                text = f"the driver at {self._path} did not respond to {call} within {self._deadline:g} s"
                return DriverError(Code.DEADLINE_EXCEEDED, text)
            case _ if TOO_LARGE in details:
                return self._malformed(call, f"larger than {MAX_RESPONSE_BYTES} bytes")
            case _ if details.startswith(CONNECTION_BROKEN):
                return DriverError(Code.UNAVAILABLE, f"connection to the driver at {self._path} lost during {call}")
            case _:
                return DriverError(Code(number), details)


def _named(known: Sequence[tuple[str, int]], number: int) -> str:
    """A capability's name, or its number if this version of CSI does not define it."""
    return next((name for name, value in known if value == number), str(number))
