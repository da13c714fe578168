"""Serves any driver of the contract over gRPC on a Unix socket.

The driver stays unaware of gRPC: `DriverError` becomes the status of the same number, anything else it raises is its
own bug and becomes INTERNAL with a traceback in the log. Calls the driver does not advertise, and calls nobody here
knows, are UNIMPLEMENTED.
"""

import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import grpc
import grpc.aio
import structlog
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from structlog.typing import FilteringBoundLogger

from mooring.csi.calls import CALLS, GATES
from mooring.csi.contract import Code, ControllerCapability, Driver, DriverError
from mooring.csi.interception import Interceptor, through
from mooring.csi.wire import csi_pb2 as pb

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Seconds that calls under way may take to end once the service stops; a driver's own calls take milliseconds.
GRACE: Final = 5.0

STATUS: Final[Mapping[int, grpc.StatusCode]] = {status.value[0]: status for status in grpc.StatusCode}


class EndpointTaken(Exception):
    """Somebody else answers at this socket."""


class Service:
    """`async with Service(driver, path):` listens from then on, and leaves no socket behind."""

    def __init__(self, driver: Driver, path: Path, *, interceptors: Sequence[Interceptor] = ()) -> None:
        self._driver = driver
        self._path = path
        self._interceptors = interceptors
        self._server: grpc.aio.Server | None = None

    async def __aenter__(self) -> Self:
        _clear_the_way(self._path)
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(
                    service.full_name, {method.name: self._handler(method) for method in service.methods}
                )
                for service in pb.DESCRIPTOR.services_by_name.values()
            ]
        )
        # Whoever reaches the socket can delete volumes: it is for its owner alone.
        mask = os.umask(0o177)
        try:
            server.add_insecure_port(f"unix:{self._path}")
        except RuntimeError as error:  # without a reason
            raise EndpointTaken(f"cannot listen at {self._path}") from error
        finally:
            os.umask(mask)
        await server.start()
        self._server = server
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._server is not None:
            await self._server.stop(GRACE)
            self._server = None
        self._path.unlink(missing_ok=True)

    def _handler(self, method: MethodDescriptor) -> "grpc.RpcMethodHandler[Message, Message]":
        answer = CALLS[method.name]

        async def respond(request: Message, context: grpc.aio.ServicerContext[Message, Message]) -> Message:
            try:
                return await through(
                    self._interceptors, method.name, request, lambda: self._answer(method.name, answer, request)
                )
            except DriverError as error:
                await context.abort(STATUS[error.code], error.message)

        return grpc.unary_unary_rpc_method_handler(
            respond,
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=GetMessageClass(method.output_type).SerializeToString,
        )

    async def _answer(
        self, call: str, answer: Callable[[Driver, Any], Awaitable[Message]], request: Message
    ) -> Message:
        try:
            await self._refuse_what_is_not_advertised(call)
            return await answer(self._driver, request)
        except DriverError:
            raise
        except Exception as error:
            log.exception("csi driver failed", call=call)
            raise DriverError(Code.INTERNAL, f"{call} failed inside the driver: {type(error).__name__}") from error

    async def _refuse_what_is_not_advertised(self, call: str) -> None:
        needed = GATES.get(call)
        if needed is None:
            return
        if isinstance(needed, ControllerCapability):
            advertised = await self._driver.controller_capabilities()
        else:
            advertised = await self._driver.node_capabilities()
        if needed not in advertised:
            raise DriverError(Code.UNIMPLEMENTED, f"this driver does not have {needed}")


def _clear_the_way(path: Path) -> None:
    """Remove the socket of a driver that was killed; gRPC would also remove that of one that lives."""
    if not os.access(path.parent, os.W_OK | os.X_OK) or not path.parent.is_dir():
        raise EndpointTaken(f"cannot listen at {path}: its folder is missing or may not be written to")
    if not path.is_socket():
        if path.exists():
            raise EndpointTaken(f"{path} is there and is not a socket")
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink()
        else:
            raise EndpointTaken(f"another driver already listens at {path}")
