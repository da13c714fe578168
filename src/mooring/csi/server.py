"""CSI server: serves a driver of the contract over gRPC on a Unix socket.

`DriverError` becomes the status of the same code, any other exception INTERNAL with a traceback in the log. Methods
that the driver does not advertise, and unknown methods, are UNIMPLEMENTED.
"""

import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
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

from mooring.csi.contract import Code, ControllerCapability, Driver, DriverError
from mooring.csi.handlers import CALLS, GATES
from mooring.csi.interceptors import Interceptor, through
from mooring.csi.wire import csi_pb2 as pb

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: For running calls when the server stops.
STOP_GRACE_SECONDS: Final = 5.0

STATUS: Final[Mapping[int, grpc.StatusCode]] = {status.value[0]: status for status in grpc.StatusCode}


class EndpointInUse(Exception):
    """The socket cannot be created; the text says why."""


class CsiServer:
    """`async with CsiServer(driver, path):` serves inside the block and removes the socket at the end."""

    def __init__(self, driver: Driver, path: Path, *, interceptors: Sequence[Interceptor] = ()) -> None:
        self._driver = driver
        self._path = path
        self._interceptors = interceptors
        self._server: grpc.aio.Server | None = None

    async def __aenter__(self) -> Self:
        _remove_stale_socket(self._path)
        server = grpc.aio.server()
        for service in pb.DESCRIPTOR.services_by_name.values():
            handlers = {method.name: self._handler(method) for method in service.methods}
            server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service.full_name, handlers)])
        # Clients of the socket can delete volumes: only the owner may connect.
        mask = os.umask(0o177)
        try:
            server.add_insecure_port(f"unix:{self._path}")
        except RuntimeError as error:  # without a reason
            raise EndpointInUse(f"cannot listen at {self._path}") from error
        finally:
            os.umask(mask)
        await server.start()
        self._server = server
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._server is not None:
            await self._server.stop(STOP_GRACE_SECONDS)
            self._server = None
        self._path.unlink(missing_ok=True)

    def _handler(self, method: MethodDescriptor) -> "grpc.RpcMethodHandler[Message, Message]":
        handler = CALLS[method.name]

        async def respond(request: Message, context: grpc.aio.ServicerContext[Message, Message]) -> Message:
            try:
                handle = partial(self._handle, method.name, handler, request)
                return await through(self._interceptors, method.name, request, handle)
            except DriverError as error:
                await context.abort(STATUS[error.code], error.message)

        return grpc.unary_unary_rpc_method_handler(
            respond,
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=GetMessageClass(method.output_type).SerializeToString,
        )

    async def _handle(
        self, call: str, handler: Callable[[Driver, Any], Awaitable[Message]], request: Message
    ) -> Message:
        try:
            await self._check_advertised(call)
            return await handler(self._driver, request)
        except DriverError:
            raise
        except Exception as error:
            log.exception("csi driver failed", call=call)
            raise DriverError(Code.INTERNAL, f"{call} failed inside the driver: {type(error).__name__}") from error

    async def _check_advertised(self, call: str) -> None:
        needed = GATES.get(call)
        if needed is None:
            return
        if isinstance(needed, ControllerCapability):
            advertised = await self._driver.controller_capabilities()
        else:
            advertised = await self._driver.node_capabilities()
        if needed not in advertised:
            raise DriverError(Code.UNIMPLEMENTED, f"this driver does not have {needed}")


def _remove_stale_socket(path: Path) -> None:
    """Remove the socket of a killed driver; gRPC would also remove that of a running one."""
    if not os.access(path.parent, os.W_OK | os.X_OK) or not path.parent.is_dir():
        raise EndpointInUse(f"cannot listen at {path}: its directory is missing or not writable")
    if not path.is_socket():
        if path.exists():
            raise EndpointInUse(f"{path} exists and is not a socket")
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink()
        else:
            raise EndpointInUse(f"another driver already listens at {path}")
