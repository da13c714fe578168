"""The service around a driver: what never reaches it, what becomes of its bugs, and its socket."""

import socket as sockets
import stat
import typing
from pathlib import Path

import grpc
import grpc.aio
import pytest
import structlog
from google.protobuf.message_factory import GetMessageClass

from mooring.csi.client import CsiClient
from mooring.csi.contract import Capacity, Code, DriverError
from mooring.csi.handlers import CALLS, GATES
from mooring.csi.server import CsiServer, EndpointInUse
from mooring.csi.wire import csi_pb2 as pb
from mooring.hostpath.driver import Hostpath
from mooring.hostpath.records import HostpathSettings
from support.builders.hostpath import MOUNT, a_layout, a_request, a_volume_store


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "csi.sock"


async def a_driver(*, attach: bool = False) -> Hostpath:
    return Hostpath(await a_volume_store(a_layout(), settings=HostpathSettings(attach=attach)), "node-1")


def test_handlers_have_the_message_types_of_their_method() -> None:
    methods = {method.name: method for service in pb.DESCRIPTOR.services_by_name.values() for method in service.methods}
    assert CALLS.keys() == methods.keys()
    assert GATES.keys() <= CALLS.keys()
    for name, function in CALLS.items():
        *_, request, answer = typing.get_type_hints(function).values()
        assert request is GetMessageClass(methods[name].input_type)
        assert answer is GetMessageClass(methods[name].output_type)


class Broken(Hostpath):
    async def get_capacity(self, **_: object) -> Capacity:  # type: ignore[override]
        raise ZeroDivisionError("secret detail")


async def test_a_bug_in_the_driver_is_internal_and_logged(socket: Path) -> None:
    driver = Broken(await a_volume_store(), "node-1")
    with structlog.testing.capture_logs() as logs:
        async with CsiServer(driver, socket), CsiClient(socket) as channel:
            with pytest.raises(DriverError) as caught:
                await channel.get_capacity(capabilities=(), parameters={}, accessible_from=None)
            assert await channel.probe(), "the next call is served"
    assert caught.value.code is Code.INTERNAL
    assert caught.value.message == "GetCapacity failed inside the driver: ZeroDivisionError"
    assert [(line["event"], line["call"]) for line in logs] == [("csi driver failed", "GetCapacity")]


async def test_calls_that_are_not_advertised_are_unimplemented(socket: Path) -> None:
    async with CsiServer(await a_driver(), socket), CsiClient(socket) as channel:
        volume = await channel.create_volume(a_request(), secrets={})
        for call in (
            channel.controller_publish(volume.volume_id, node_id="node-1", capability=MOUNT),
            channel.controller_unpublish(volume.volume_id, node_id="node-1"),
        ):
            with pytest.raises(DriverError) as caught:
                await call
            assert caught.value.code is Code.UNIMPLEMENTED
            assert caught.value.message == "this driver does not have PUBLISH_UNPUBLISH_VOLUME"


@pytest.mark.parametrize("path", ["/csi.v1.Controller/CreateSnapshot", "/csi.v1.GroupController/Anything"])
async def test_unknown_method_is_unimplemented(socket: Path, path: str) -> None:
    async with CsiServer(await a_driver(), socket), grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(path)(b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_the_socket_is_for_its_owner_and_goes_with_the_service(socket: Path) -> None:
    def mode() -> int | None:
        return stat.S_IMODE(socket.stat().st_mode) if socket.exists() else None

    async with CsiServer(await a_driver(), socket):
        assert mode() == 0o600
    assert mode() is None


async def test_a_living_driver_keeps_its_socket(socket: Path) -> None:
    driver = await a_driver()
    async with CsiServer(driver, socket), CsiClient(socket) as channel:
        with pytest.raises(EndpointInUse, match="another driver already listens at"):
            async with CsiServer(driver, socket):
                pass
        assert await channel.probe()


async def test_the_socket_of_a_killed_driver_is_taken_over(socket: Path) -> None:
    with sockets.socket(sockets.AF_UNIX) as killed:
        killed.bind(str(socket))
    async with CsiServer(await a_driver(), socket), CsiClient(socket) as channel:
        assert await channel.probe()
