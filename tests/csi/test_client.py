"""The channel when the other side is not as it should be: one sentence, the right code, and never for ever."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import Int64Value

from mooring.csi.client import MAX_RESPONSE_BYTES, CsiClient
from mooring.csi.contract import Capacity, Code, DriverError
from mooring.csi.server import CsiServer
from mooring.csi.wire import csi_pb2 as pb
from mooring.hostpath.driver import Hostpath
from support.builders.hostpath import GIB, a_request, a_volume_store
from support.csi_drivers.raw import malformed_server, raw_driver

SHORT = 0.3


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "csi.sock"


async def error_of(call: Coroutine[Any, Any, object]) -> DriverError:
    with pytest.raises(DriverError) as caught:
        await asyncio.wait_for(call, 10)
    assert "\n" not in caught.value.message
    return caught.value


async def test_missing_socket_is_unavailable(socket: Path) -> None:
    async with CsiClient(socket) as channel:
        error = await error_of(channel.name())
    assert error.code is Code.UNAVAILABLE
    assert error.message == f"no driver listens at {socket}: No such file or directory"


async def test_stale_socket_is_unavailable(socket: Path) -> None:
    async with malformed_server(socket, b""):
        pass
    async with CsiClient(socket) as channel:
        error = await error_of(channel.probe())
    assert error.code is Code.UNAVAILABLE
    assert error.message == f"no driver listens at {socket}: Connection refused"


async def test_a_driver_that_hangs_is_given_up_on(socket: Path) -> None:
    async def hang(_call: str, _request: bytes) -> bytes:
        await asyncio.sleep(60)
        return b""

    async with raw_driver(socket, hang), CsiClient(socket, deadline=SHORT) as channel:
        error = await error_of(channel.create_volume(a_request(), secrets={}))
    assert error.code is Code.DEADLINE_EXCEEDED
    assert not error.final
    assert error.message == f"the driver at {socket} did not respond to CreateVolume within 0.3 s"


@pytest.mark.parametrize("words", [b"HTTP/1.1 200 OK\r\n\r\nhello", b"\x00" * 100, b""], ids=["http", "zeros", "mute"])
async def test_something_else_listens_there(socket: Path, words: bytes) -> None:
    async with malformed_server(socket, words), CsiClient(socket, deadline=SHORT) as channel:
        error = await error_of(channel.delete_volume("v", secrets={}))
    assert error.code in {Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED}
    assert str(socket) in error.message


async def test_a_driver_that_dies_in_the_middle_of_a_call(socket: Path) -> None:
    called = asyncio.Event()

    async def wait(_call: str, _request: bytes) -> bytes:
        called.set()
        await asyncio.sleep(60)
        return b""

    async with raw_driver(socket, wait) as server, CsiClient(socket) as channel:
        call = asyncio.ensure_future(error_of(channel.create_volume(a_request(), secrets={})))
        await called.wait()
        await server.stop(None)
        error = await call
    assert not error.final, "the volume may have been made"
    assert error.message


async def test_a_driver_that_comes_back_is_found_again(socket: Path) -> None:
    driver = Hostpath(await a_volume_store(), "node-1")
    async with CsiClient(socket) as channel:
        async with CsiServer(driver, socket):
            made = await channel.create_volume(a_request(), secrets={})
        assert (await error_of(channel.probe())).code is Code.UNAVAILABLE
        async with CsiServer(driver, socket):
            for _ in range(50):
                try:
                    assert await channel.list_volumes() == [made]
                    break
                except DriverError:
                    await asyncio.sleep(0.1)
            else:
                pytest.fail("the channel never found it")


GARBAGE = b"\xff\xff\xff\xff"
Ask = Callable[[CsiClient], Coroutine[Any, Any, object]]


@pytest.mark.parametrize(
    ("ask", "answer", "complaint"),
    [
        pytest.param(lambda c: c.name(), GARBAGE, "malformed response to GetPluginInfo: not the message", id="bytes"),
        pytest.param(lambda c: c.name(), b"", "name is empty", id="no name"),
        pytest.param(
            lambda c: c.create_volume(a_request(), secrets={}),
            pb.CreateVolumeResponse(volume=pb.Volume(capacity_bytes=GIB)).SerializeToString(),
            "malformed response to CreateVolume: a volume has no volume_id",
            id="volume without id",
        ),
        pytest.param(
            lambda c: c.create_volume(a_request(), secrets={}),
            pb.CreateVolumeResponse(volume=pb.Volume(volume_id="v", capacity_bytes=-1)).SerializeToString(),
            "volume v has -1 bytes",
            id="volume of negative size",
        ),
        pytest.param(
            lambda c: c.get_capacity(capabilities=(), parameters={}, accessible_from=None),
            pb.GetCapacityResponse(minimum_volume_size=Int64Value(value=-5)).SerializeToString(),
            "minimum_volume_size is -5",
            id="negative minimum",
        ),
        pytest.param(lambda c: c.info(), b"", "the node has no node_id", id="node without id"),
        pytest.param(
            lambda c: c.info(),
            pb.NodeGetInfoResponse(node_id="n", max_volumes_per_node=-1).SerializeToString(),
            "max_volumes_per_node is -1",
            id="negative limit",
        ),
        pytest.param(
            lambda c: c.list_volumes(),
            pb.ListVolumesResponse(next_token="again").SerializeToString(),
            "next_token was returned before",
            id="endless list",
        ),
        pytest.param(
            lambda c: c.list_volumes(),
            pb.ListVolumesResponse(entries=[pb.ListVolumesResponse.Entry()]).SerializeToString(),
            "malformed response to ListVolumes: a volume has no volume_id",
            id="listed volume without id",
        ),
        pytest.param(lambda c: c.get_volume("v"), b"", "a volume has no volume_id", id="found volume without id"),
    ],
)
async def test_answers_that_make_no_sense(socket: Path, ask: Ask, answer: bytes, complaint: str) -> None:
    async def behave(_call: str, _request: bytes) -> bytes:
        return answer

    async with raw_driver(socket, behave), CsiClient(socket) as channel:
        error = await error_of(ask(channel))
    assert error.code is Code.UNAVAILABLE, "whatever was asked for may have been done"
    assert complaint in error.message
    assert str(socket) in error.message


@pytest.mark.req("C7.nonsense")
async def test_less_than_nothing_left_is_nothing_left(socket: Path) -> None:
    answer = pb.GetCapacityResponse(available_capacity=-5, maximum_volume_size=Int64Value(value=-5))

    async def behave(_call: str, _request: bytes) -> bytes:
        return answer.SerializeToString()

    async with raw_driver(socket, behave), CsiClient(socket) as channel:
        said = await channel.get_capacity(capabilities=(), parameters={}, accessible_from=None)
    assert said == Capacity(0, 0)


async def test_an_answer_without_end_is_not_read(socket: Path) -> None:
    """gRPC calls this RESOURCE_EXHAUSTED, which would mean that there was no room for the volume."""

    async def behave(_call: str, _request: bytes) -> bytes:
        return bytes(MAX_RESPONSE_BYTES + 1)

    async with raw_driver(socket, behave), CsiClient(socket) as channel:
        error = await error_of(channel.create_volume(a_request(), secrets={}))
    assert error.code is Code.UNAVAILABLE
    assert "malformed response to CreateVolume: larger than 67108864 bytes" in error.message


async def test_a_status_of_the_driver_keeps_its_words(socket: Path) -> None:
    driver = Hostpath(await a_volume_store(), "node-1")
    async with CsiServer(driver, socket), CsiClient(socket) as channel:
        error = await error_of(channel.create_volume(a_request(size=1 << 50), secrets={}))
    assert (error.code, error.final) == (Code.OUT_OF_RANGE, True)
    assert error.message == "requested capacity 1125899906842624 exceeds maximum allowed 1099511627776"


async def test_all_pages_are_read(socket: Path) -> None:
    pages = {"": (["c", "a"], "t1"), "t1": (["b", "a"], "t2"), "t2": (["d"], "")}

    async def behave(_call: str, request: bytes) -> bytes:
        asked = pb.ListVolumesRequest.FromString(request)
        assert asked.max_entries == 0
        ids, token = pages[asked.starting_token]
        entries = [pb.ListVolumesResponse.Entry(volume=pb.Volume(volume_id=name)) for name in ids]
        return pb.ListVolumesResponse(entries=entries, next_token=token).SerializeToString()

    async with raw_driver(socket, behave), CsiClient(socket) as channel:
        assert [volume.volume_id for volume in await channel.list_volumes()] == ["a", "b", "c", "d"]


async def test_capabilities_from_the_future_keep_their_number(socket: Path) -> None:
    # {capabilities {rpc {type: 99}}} in each of the three answers that list capabilities this way.
    async def behave(_call: str, _request: bytes) -> bytes:
        return bytes([10, 4, 10, 2, 8, 99])

    async with raw_driver(socket, behave), CsiClient(socket) as channel:
        assert await channel.controller_capabilities() == {"99"}
        assert await channel.node_capabilities() == {"99"}
        assert await channel.plugin_capabilities() == {"99"}


async def test_a_driver_that_does_not_say_is_ready(socket: Path) -> None:
    async def behave(_call: str, _request: bytes) -> bytes:
        return b""

    async with raw_driver(socket, behave), CsiClient(socket) as channel:
        assert await channel.probe() is True
        assert await channel.validate_capabilities("v", capabilities=()) == "the driver gave no reason"
