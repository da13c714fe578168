"""What the log shows of a call, and what it never shows."""

import contextlib
import logging
from pathlib import Path

import pytest
import structlog
from structlog.typing import EventDict

from mooring.clock import SystemClock
from mooring.csi.client import CsiClient
from mooring.csi.contract import DriverError
from mooring.csi.interceptors import STRIPPED, CallLog, plain
from mooring.csi.server import CsiServer
from mooring.csi.wire import csi_pb2 as pb
from mooring.hostpath.driver import Hostpath
from support.builders.hostpath import a_request, a_volume_store


async def lines_of(tmp_path: Path, *, size: int) -> list[EventDict]:
    """One CreateVolume, logged on both sides."""
    driver, socket = Hostpath(await a_volume_store(), "node-1"), tmp_path / "csi.sock"
    with structlog.testing.capture_logs() as logs:
        async with (
            CsiServer(driver, socket, interceptors=[CallLog(clock=SystemClock())]),
            CsiClient(socket, interceptors=[CallLog(clock=SystemClock(), driver="hostpath.example.com")]) as channel,
        ):
            with contextlib.suppress(DriverError):
                await channel.create_volume(a_request(size=size), secrets={"password": "hunter2"})
    return list(logs)


async def test_call_and_answer_on_both_sides(tmp_path: Path) -> None:
    server, client = await lines_of(tmp_path, size=1 << 20)
    for line in (server, client):
        assert line["event"] == "csi call"
        assert line["log_level"] == "info"
        assert line["call"] == "CreateVolume"
        assert line["request"]["name"] == "pvc-1"
        assert line["request"]["secrets"] == STRIPPED
        assert line["answer"]["volume"]["capacity_bytes"] == 1 << 20
        assert line["milliseconds"] >= 0
    assert client["driver"] == "hostpath.example.com"
    assert "hunter2" not in repr((server, client))


async def test_a_refusal_is_a_warning_with_its_code(tmp_path: Path) -> None:
    server, client = await lines_of(tmp_path, size=1 << 50)
    for line in (server, client):
        assert line["log_level"] == "warning"
        assert line["code"] == "OUT_OF_RANGE"
        assert "exceeds maximum allowed" in line["message"]
    assert "hunter2" not in repr((server, client))


SECRET_BEARERS = [
    message
    for message in pb.DESCRIPTOR.message_types_by_name.values()
    if any("secret" in field.name for field in message.fields)
]


@pytest.mark.parametrize("message", SECRET_BEARERS, ids=lambda message: message.name)
def test_no_message_shows_its_secrets(message: object) -> None:
    request = getattr(pb, message.name)(secrets={"token": "hunter2"})  # type: ignore[attr-defined]
    assert plain(request) == {"secrets": STRIPPED}


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        pytest.param(
            pb.CreateVolumeRequest(
                accessibility_requirements=pb.TopologyRequirement(
                    requisite=[pb.Topology(segments={"node": str(number)}) for number in range(5000)]
                )
            ),
            {
                "accessibility_requirements": {
                    "requisite": [*({"segments": {"node": str(number)}} for number in range(5)), "and 4995 more"]
                }
            },
            id="a segment per node",
        ),
        pytest.param(
            pb.ListVolumesResponse(
                entries=[pb.ListVolumesResponse.Entry(volume=pb.Volume(volume_id="v"))] * 6, next_token="t"
            ),
            {"entries": [*([{"volume": {"volume_id": "v"}}] * 5), "and 1 more"], "next_token": "t"},
            id="all volumes",
        ),
        pytest.param(
            pb.VolumeCapability(mount=pb.VolumeCapability.MountVolume(), access_mode={"mode": 1}),
            {"mount": {}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}},
            id="empty message, enumeration",
        ),
        pytest.param(
            pb.GetCapacityResponse(available_capacity=5, maximum_volume_size={"value": 7}),
            {"available_capacity": 5, "maximum_volume_size": 7},
            id="numbers",
        ),
        pytest.param("not a message", "not a message", id="text"),
    ],
)
def test_long_lists_are_cut(message: object, shown: object) -> None:
    assert plain(message) == shown


def test_long_maps_are_cut() -> None:
    shown = plain(pb.Topology(segments={str(number): "x" for number in range(9)}))
    assert isinstance(shown, dict)
    assert len(shown["segments"]) == 6
    assert shown["segments"]["..."] == "and 4 more"


async def test_messages_are_not_converted_for_a_log_that_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    converted: list[object] = []
    monkeypatch.setattr("mooring.csi.interceptors.plain", converted.append)
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))

    async def proceed() -> str:
        return "done"

    try:
        assert await CallLog(clock=SystemClock())("Probe", pb.ProbeRequest(), proceed) == "done"
    finally:
        structlog.configure(**before)
    assert converted == []
