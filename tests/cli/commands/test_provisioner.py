"""`mooring provisioner` as people run it: beside a real API server and a real driver, and what it says to nonsense."""

import asyncio
import json
import random
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import yaml
from click.testing import CliRunner

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CSI_NODE, EVENT, LEASE, NODE, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME
from mooring.cli.commands.capacity import capacity
from mooring.cli.commands.provisioner import provisioner
from mooring.cli.main import main
from mooring.cli.provisioner_flags import gates_of
from mooring.client import kubeconfig
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.embedded import Settings, serving
from mooring.hostpath.records import DRIVER_NAME, NODE_KEY
from support.builders import claim_body, class_body, node_body
from support.hostpath.command import csi_hostpath

#: Generous: everything here takes about a second.
TIMEOUT_SECONDS = 30.0


class Running:
    """One `mooring provisioner` process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.url = ""

    async def started(self) -> None:
        assert self._process.stdout is not None
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while line := (await self._process.stdout.readline()).decode():
                if found := re.search(r"health and metrics at (\S+)", line):
                    self.url = found[1]
                    return
        raise AssertionError(await self.complaint())

    async def complaint(self) -> str:
        """The first line it writes to standard error."""
        assert self._process.stderr is not None
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return (await self._process.stderr.readline()).decode()

    async def stop(self) -> tuple[int | None, str]:
        self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            _, errors = await self._process.communicate()
        return self._process.returncode, errors.decode()

    async def end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.communicate()


async def launch(config: Path, socket: Path, *options: str) -> Running:
    command = ("-m", "mooring", "provisioner", "--kubeconfig", str(config), "--csi-address", str(socket), *options)
    pipe = asyncio.subprocess.PIPE
    return Running(await asyncio.create_subprocess_exec(sys.executable, *command, stdout=pipe, stderr=pipe))


@asynccontextmanager
async def a_cluster(folder: Path) -> AsyncIterator[tuple[HttpClient, Path]]:
    """An API server with one node that has the driver, and no provisioner."""
    config = folder / "kubeconfig"
    clock = SystemClock()
    async with serving(Settings(Layout(nodes=0), 0, None, config), clock=clock, rng=random.Random(0)):
        client = HttpClient(kubeconfig.load(str(config)), component="tester", clock=clock)
        await client.create(NODE, node_body(name="node-1", labels={NODE_KEY: "node-1"}))
        drivers = [{"name": DRIVER_NAME, "nodeID": "node-1", "topologyKeys": [NODE_KEY]}]
        await client.create(CSI_NODE, {"metadata": {"name": "node-1"}, "spec": {"drivers": drivers}})
        await client.create(
            STORAGE_CLASS, class_body(name="made", provisioner=DRIVER_NAME, parameters={"pool": "fast"})
        )
        try:
            yield client, config
        finally:
            await client.close()


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not await holds():
            await SystemClock().sleep(0.05)


async def get(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.status == 200
        return await answer.text()


async def test_volumes_are_made_and_capacity_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESPACE", "default")
    with csi_hostpath(tmp_path, "--pool", "fast=10Gi"):
        async with a_cluster(tmp_path) as (client, config):
            running = await launch(
                config,
                tmp_path / "csi.sock",
                *(
                    "--http-endpoint=127.0.0.1:0",
                    "--enable-capacity",
                    "--capacity-ownerref-level=-1",
                    "--leader-election",
                ),
            )
            try:
                await running.started()
                body = claim_body(name="data", storage_class="made", size="1Gi", selected_node="node-1")
                await client.create(CLAIM, body, namespace="default")

                async def bound() -> bool:
                    return (await client.get(CLAIM, "data", namespace="default")).status.phase == "Bound"

                async def capacity_published() -> bool:
                    items = (await client.list(STORAGE_CAPACITY, namespace="default")).items
                    return [each.capacity for each in items] == ["9Gi"]

                await until(bound)
                await until(capacity_published)
                (made,) = (await client.list(VOLUME)).items
                assert made.metadata.annotations[well_known.PROVISIONED_BY] == DRIVER_NAME
                lease = await client.get(LEASE, "hostpath-csi-mooring-dev", namespace="default")
                assert lease.spec.holder_identity
                metrics = await get(f"{running.url}/metrics")
                assert 'controller_persistentvolumeclaim_provision_total{class="made",source=""} 1.0' in metrics
                assert "csistoragecapacities_desired_goal 1.0" in metrics
                assert await get(f"{running.url}/readyz") == "ok"

                shown = await asyncio.to_thread(_shown, config, "-o", "json")
                (row,) = json.loads(shown)
                assert (row["capacity"], row["driver"], row["nodes"]) == ("9Gi", DRIVER_NAME, 1)
                assert yaml.safe_load(await asyncio.to_thread(_shown, config, "-o", "yaml")) == [row]
                wide = await asyncio.to_thread(_shown, config, "-o", "wide", "--driver", DRIVER_NAME)
                assert wide.splitlines()[0].endswith("MANAGED BY")
                nothing = await asyncio.to_thread(_shown, config, "--storage-class", "other")
                assert nothing == ""
                table = await asyncio.to_thread(_shown, config)
                assert table.splitlines()[0].split()[:3] == ["DRIVER", "CLASS", "SEGMENT"]
                assert f"{NODE_KEY}=node-1" in table

                await client.delete(CLAIM, "data", namespace="default")

                async def gone() -> bool:
                    return not (await client.list(VOLUME)).items

                await until(gone)
                code, logged = await running.stop()
                assert code == 0, logged
                assert "Traceback" not in logged
                sources = {e.source.component for e in (await client.list(EVENT)).items if e.reason == "Provisioning"}
                assert all(source.startswith(f"{DRIVER_NAME}_") for source in sources)
                assert sources
            finally:
                await running.end()


def _shown(config: Path, *options: str) -> str:
    result = CliRunner().invoke(capacity, ["--kubeconfig", str(config), *options])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(
    ("left_behind", "message"),
    [
        pytest.param(False, "which is not there yet", id="no socket"),
        pytest.param(True, "on which no process listens yet", id="the socket of a driver that was killed"),
    ],
)
async def test_it_waits_for_the_drivers_socket_and_says_so(tmp_path: Path, *, left_behind: bool, message: str) -> None:
    path = tmp_path / "not-yet.sock"
    if left_behind:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
    running = await launch(tmp_path / "kubeconfig", path)
    try:
        assert await running.complaint() == f"Waiting for the driver's socket {path}, {message}.\n"
    finally:
        await running.end()


@pytest.mark.parametrize(
    ("options", "environment", "message"),
    [
        pytest.param(["--node-deployment"], {}, "NODE_NAME", id="for one node, but which"),
        pytest.param(["--enable-capacity"], {}, "NAMESPACE", id="publish, but where"),
        pytest.param(["--enable-capacity"], {"NAMESPACE": "x"}, "POD_NAME", id="publish, but whose"),
        pytest.param(["--volume-name-prefix="], {}, "--volume-name-prefix", id="no prefix"),
        pytest.param(["--csi-address=tcp://x:1"], {}, "--csi-address", id="not a Unix socket"),
        pytest.param(["--timeout=soon"], {}, "--timeout", id="not a duration"),
        pytest.param(["--snapshot-metadata"], {}, "No such option", id="a flag for what we do not do"),
    ],
)
def test_flags_that_make_no_sense(options: list[str], environment: dict[str, str], message: str) -> None:
    clean = dict.fromkeys(("NODE_NAME", "NAMESPACE", "POD_NAME", "POD_NAMESPACE"))
    result = CliRunner().invoke(provisioner, options, env=clean | environment)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", (True, ""), id="empty"),
        pytest.param("Topology=false", (False, ""), id="topology off"),
        pytest.param(
            "Topology=true, CSIStorageCapacity=false", (True, "CSIStorageCapacity=false"), id="and one of ours"
        ),
    ],
)
def test_gates(text: str, want: tuple[bool, str]) -> None:
    assert gates_of(text) == want


def test_limits_of_the_client_are_taken_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "csi.sock"
    path.touch()
    options = ["--csi-address", str(path), "--timeout=2s", "--v=5", "--kube-api-qps=20", "--kube-api-burst=40"]
    result = CliRunner().invoke(provisioner, options)
    assert "note: --kube-api-qps, --kube-api-burst: requests to the API server are not limited here" in result.output


def test_a_driver_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "csi.sock"
    path.touch()
    result = CliRunner().invoke(main, ["provisioner", "--csi-address", str(path), "--timeout=2s"])
    assert result.exit_code == 1
    assert f"The driver at {path} cannot be used" in result.output
    assert "Traceback" not in result.output


def test_capacity_of_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(capacity, ["--kubeconfig", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert "none" in result.output
