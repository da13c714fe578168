"""One gRPC call to a driver and everything that can go wrong with it, as `DriverError`.

Below `channel`, which knows what the calls mean. A status the driver sent keeps its code and words. What comes from
the line itself gets a sentence that names the socket: nobody there, line broken, no answer in time, an answer that
cannot be read. All of these leave open whether the driver did it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from mooring.csi.contract import Code, DriverError
from mooring.csi.interception import Interceptor, through
from mooring.csi.wire import csi_pb2 as pb

Answer = TypeVar("Answer", bound=Message)

#: Full path by the name of the call: `/csi.v1.Controller/CreateVolume`.
PATHS: Final[Mapping[str, str]] = {
    method.name: f"/{service.full_name}/{method.name}"
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
#: A list of a hundred thousand volumes, of a few hundred bytes each; gRPC's own limit is 4 MiB.
LARGEST_ANSWER: Final = 64 << 20
#: Milliseconds between attempts to reach a driver that restarts; gRPC by itself would wait up to two minutes.
RECONNECT: Final = (100, 1000)
OPTIONS: Final = (
    ("grpc.max_receive_message_length", LARGEST_ANSWER),
    ("grpc.initial_reconnect_backoff_ms", RECONNECT[0]),
    ("grpc.min_reconnect_backoff_ms", RECONNECT[0]),
    ("grpc.max_reconnect_backoff_ms", RECONNECT[1]),
    # No proxy of the environment has any business on a Unix socket.
    ("grpc.enable_http_proxy", 0),
    # gRPC would send the socket's path as the host name, which strict HTTP/2 servers refuse.
    ("grpc.default_authority", "localhost"),
    # Two channels to one socket are two lines: a broken one must not slow down the other.
    ("grpc.use_local_subchannel_pool", 1),
)
#: How gRPC begins the text of a status that no driver sent.
NOBODY: Final = "failed to connect to all addresses"
BROKEN: Final = (
    "Socket closed",
    "Connection reset",
    "recvmsg:",
    "sendmsg:",
    "Broken pipe",
    "Stream removed",
    "Received RST_STREAM",
)
TOO_LARGE: Final = "CLIENT: Received message larger than max"


class Exchange:
    def __init__(self, path: Path, *, deadline: float, interceptors: Sequence[Interceptor] = ()) -> None:
        self._path = path
        self._deadline = deadline
        self._interceptors = interceptors
        self._channel = grpc.aio.insecure_channel(f"unix:{path}", options=OPTIONS)

    async def close(self) -> None:
        await self._channel.close()

    async def ask(self, call: str, request: Message, answer: type[Answer]) -> Answer:
        return await through(self._interceptors, call, request, lambda: self._ask(call, request, answer))

    async def _ask(self, call: str, request: Message, answer: type[Answer]) -> Answer:
        # Bytes in, bytes out: gRPC would report an answer it cannot parse as the driver's own INTERNAL, which is final.
        line: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(PATHS[call])
        try:
            received = await line(request.SerializeToString(), timeout=self._deadline)
        except grpc.aio.AioRpcError as error:
            raise self._explained(call, error) from error
        try:
            return answer.FromString(received)
        except DecodeError as error:
            raise self.unreadable(call, "it is not the message CSI defines") from error

    def unreadable(self, call: str, why: str) -> DriverError:
        return DriverError(Code.UNAVAILABLE, f"the driver at {self._path} answered {call} with nonsense: {why}")

    def _explained(self, call: str, error: grpc.aio.AioRpcError) -> DriverError:
        number: int = error.code().value[0]
        details = error.details() or "the driver gave no reason"
        match error.code():
            case grpc.StatusCode.UNAVAILABLE if details.startswith(NOBODY):
                return DriverError(Code.UNAVAILABLE, f"no driver answers at {self._path}: {_cause(details)}")
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return DriverError(
                    Code.DEADLINE_EXCEEDED,
                    f"the driver at {self._path} did not answer {call} within {self._deadline:g} s",
                )
            case _ if TOO_LARGE in details:
                return self.unreadable(call, f"it is larger than {LARGEST_ANSWER} bytes")
            case _ if details.startswith(BROKEN):
                return DriverError(Code.UNAVAILABLE, f"the line to the driver at {self._path} broke during {call}")
            case _:
                return DriverError(Code(number), details)


def _cause(details: str) -> str:
    """What the system said, out of gRPC's chain of causes."""
    return details.rpartition(": ")[2].rstrip(".")
