"""What the log shows of a call, and what it never shows."""

import contextlib
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
        assert line["answer"]["volume"]["capacity_bytes"] == str(1 << 20)
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
