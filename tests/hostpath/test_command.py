"""`mooring csi-hostpath` as people run it: options, restarts, signals, and what it says when it cannot start."""

import json
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import main
from mooring.csi.client import CsiClient
from mooring.csi.contract import Capacity, Code, DriverError, Topology
from mooring.hostpath.records import NODE_KEY
from support.builders.hostpath import BLOCK, GIB, MOUNT, a_request
from support.hostpath.command import START, csi_hostpath

pytestmark = pytest.mark.level("e")


def channel(folder: Path) -> CsiClient:
    return CsiClient(folder / "csi.sock")


@pytest.mark.req("C11.pools")
async def test_a_driver_with_pools_limits_and_topology(tmp_path: Path) -> None:
    options = [
        *("--pool", "fast=10Gi", "--pool", "safe=8Gi,mirrored", "--max-volume-size", "6Gi"),
        *("--max-volumes-per-node", "2", "--topology", "example.com/zone=a,example.com/rack=7"),
        *("--drivername", "pmem.example.com"),
    ]
    place = Topology({"example.com/zone": "a", "example.com/rack": "7"})
    with csi_hostpath(tmp_path, *options) as process:
        async with channel(tmp_path) as driver:
            assert await driver.name() == "pmem.example.com"
            info = await driver.info()
            assert (info.node_id, info.max_volumes, info.accessible_from) == ("node-1", 2, place)

            async def capacity(**parameters: str) -> Capacity:
                return await driver.get_capacity(capabilities=(), parameters=parameters, accessible_from=place)

            assert await capacity(pool="fast") == Capacity(10 * GIB, 6 * GIB)
            assert await capacity(pool="fast", kind="mirrored") == Capacity(5 * GIB, 5 * GIB)
            assert await capacity(pool="safe") == Capacity(4 * GIB, 4 * GIB)
            assert await capacity() == Capacity(14 * GIB, 6 * GIB)

            folder = await driver.create_volume(a_request("pvc-1", 4 * GIB, parameters={"pool": "fast"}), secrets={})
            block = await driver.create_volume(
                a_request("pvc-2", GIB, parameters={"pool": "safe"}, capability=BLOCK), secrets={}
            )
            assert await capacity(pool="fast") == Capacity(6 * GIB, 6 * GIB)
            assert await capacity(pool="safe") == Capacity(3 * GIB, 3 * GIB)
            assert (tmp_path / "state" / "volumes" / folder.volume_id).is_dir()
            assert (tmp_path / "state" / "volumes" / block.volume_id).stat().st_size == GIB
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    assert not (tmp_path / "csi.sock").exists()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {line["call"] for line in lines} >= {"GetPluginInfo", "CreateVolume", "GetCapacity"}


@pytest.mark.req("C11.file-system")
async def test_without_pools_the_file_system_is_what_there_is(tmp_path: Path) -> None:
    with csi_hostpath(tmp_path):
        async with channel(tmp_path) as driver:
            before = await driver.get_capacity(capabilities=(), parameters={}, accessible_from=None)
            assert before.available_bytes > 0
            size = min(before.available_bytes // 2, 1 << 40)
            await driver.create_volume(a_request(size=size, capability=BLOCK), secrets={})
            after = await driver.get_capacity(
                capabilities=(), parameters={}, accessible_from=Topology({NODE_KEY: "node-1"})
            )
            assert before.available_bytes - after.available_bytes == pytest.approx(size, rel=0.5)


@pytest.mark.req("C11.crash-safe")
async def test_kill_and_start_again(tmp_path: Path) -> None:
    with csi_hostpath(tmp_path, "--pool", "default=10Gi") as process:
        async with channel(tmp_path) as driver:
            volume = await driver.create_volume(a_request(), secrets={})
            await driver.stage(volume.volume_id, staging_target=str(tmp_path), capability=MOUNT)
        process.kill()
        process.wait(10)
    assert (tmp_path / "csi.sock").exists(), "a killed driver cannot tidy up"
    with csi_hostpath(tmp_path, "--pool", "default=10Gi"):
        async with channel(tmp_path) as driver:
            assert await driver.list_volumes() == [volume]
            assert await driver.create_volume(a_request(), secrets={}) == volume
            with pytest.raises(DriverError, match="FAILED_PRECONDITION"):
                await driver.delete_volume(volume.volume_id, secrets={})


async def test_failures_on_request(tmp_path: Path) -> None:
    options = ("--pool", "default=10Gi", "--fail", "CreateVolume=UNAVAILABLE,after,count=1", "--log-level", "error")
    with csi_hostpath(tmp_path, *options):
        async with channel(tmp_path) as driver:
            with pytest.raises(DriverError, match="injected failure after CreateVolume") as caught:
                await driver.create_volume(a_request(), secrets={})
            assert caught.value.code is Code.UNAVAILABLE
            (lost,) = await driver.list_volumes()
            assert await driver.create_volume(a_request(), secrets={}) == lost
    assert (tmp_path / "log").read_text() == ""


async def test_a_central_driver(tmp_path: Path) -> None:
    options = ("--pool", "default=10Gi", "--topology", "zone=a", "--serve", "node-2:zone=b", "--serve", "node-3:zone=a")
    with csi_hostpath(tmp_path, *options, "--enable-attach"):
        async with channel(tmp_path) as driver:
            volume = await driver.create_volume(a_request(size=4 * GIB, preferred=({"zone": "b"},)), secrets={})
            for zone, free_bytes in (("a", 10 * GIB), ("b", 6 * GIB)):
                to_csi = await driver.get_capacity(
                    capabilities=(), parameters={}, accessible_from=Topology({"zone": zone})
                )
                assert to_csi.available_bytes == free_bytes
            await driver.controller_publish(volume.volume_id, node_id="node-2", capability=MOUNT)
            assert (await driver.get_volume(volume.volume_id)).published_on == ("node-2",)


def test_a_second_driver_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()

    def second(*options: str) -> str:
        command = [sys.executable, "-m", "mooring", "csi-hostpath", "--node-id", "n", *options]
        to_csi = subprocess.run(command, capture_output=True, text=True, timeout=START, check=False)
        assert to_csi.returncode == 1
        return to_csi.stderr

    with csi_hostpath(tmp_path, "--pool", "default=1Gi"):
        socket, state = str(tmp_path / "csi.sock"), str(tmp_path / "state")
        on_state = second("--state-dir", state, "--endpoint", str(other / "csi.sock"))
        on_socket = second("--state-dir", str(other / "state"), "--endpoint", socket)
    assert on_state == f"Error: another driver uses {state}: give each its own --state-dir.\n"
    assert on_socket == f"Error: another driver already listens at {socket}.\n"


@pytest.mark.parametrize(
    ("endpoint", "complaint"),
    [
        pytest.param(
            "file/csi.sock", "cannot listen at {}: its directory is missing or not writable", id="below a file"
        ),
        pytest.param("file", "{} exists and is not a socket", id="a file"),
    ],
)
def test_an_endpoint_that_cannot_be_had_is_one_sentence(tmp_path: Path, endpoint: str, complaint: str) -> None:
    (tmp_path / "file").write_text("mine")
    command = [
        sys.executable,
        "-m",
        "mooring",
        "csi-hostpath",
        "--node-id",
        "n",
        "--state-dir",
        str(tmp_path / "state"),
    ]
    command += ["--endpoint", str(tmp_path / endpoint)]
    to_csi = subprocess.run(command, capture_output=True, text=True, timeout=START, check=False)
    assert to_csi.returncode == 1
    assert to_csi.stderr == f"Error: {complaint.format(tmp_path / endpoint)}.\n"
    assert (tmp_path / "file").read_text() == "mine"


async def test_the_default_socket_is_its_owners_alone(tmp_path: Path) -> None:
    """In a folder that others may write to they could take its name first, or replace it."""
    with csi_hostpath(tmp_path, "--endpoint", "", "--pool", "default=1Gi"):
        socket = tmp_path / "state" / "run" / "csi.sock"
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
        async with CsiClient(socket) as driver:
            assert await driver.probe()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        pytest.param([], "Missing option '--node-id'", id="no node"),
        pytest.param(["--endpoint", "tcp://127.0.0.1:1"], "is not a Unix socket", id="tcp"),
        pytest.param(["--pool", "fast"], "is not NAME=SIZE or NAME=SIZE,KIND", id="pool without size"),
        pytest.param(["--pool", "fast=10Q"], "quantity", id="pool of no quantity"),
        pytest.param(["--pool", "fast=0"], "0 is not positive", id="empty pool"),
        pytest.param(["--pool", "fast=1Gi,raid6"], "choose from striped, mirrored", id="pool of unknown kind"),
        pytest.param(["--pool", "a=1Gi", "--pool", "a=2Gi"], "a pool is given twice", id="pool twice"),
        pytest.param(["--topology", "zone"], "'zone' is not KEY=VALUE", id="topology without value"),
        pytest.param(["--topology", "zone=a,zone=b"], "zone is given twice", id="topology twice"),
        pytest.param(["--serve", "n2"], "is not NODE:KEY=VALUE", id="served node without place"),
        pytest.param(["--serve", "n2:zone=b"], "--served-node needs a --pool", id="served node without pools"),
        pytest.param(["--serve", "n1:zone=b", "--pool", "a=1Gi"], "a node is given twice", id="served node twice"),
        pytest.param(["--fail", "Create=ABORTED"], "unknown call 'Create'", id="failure of no call"),
        pytest.param(["--max-volumes-per-node", "-1"], "Invalid value", id="negative limit"),
    ],
)
def test_options_that_cannot_be_followed(options: list[str], complaint: str) -> None:
    node = ["--node-id", "n1"] if options else []
    to_csi = CliRunner().invoke(main, ["csi-hostpath", *node, *options])
    assert to_csi.exit_code == 2
    assert complaint in " ".join(to_csi.output.split())
