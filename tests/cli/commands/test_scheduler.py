"""`mooring scheduler` as people run it: a process of its own beside a real API server, and what it says to nonsense."""

import asyncio
import json
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner

from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, EVENT, LEASE, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.cli.main import main
from mooring.client import kubeconfig
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.embedded import Settings, serving
from support.builders import claim_body, class_body, node_body, pod_body, volume_body

#: Generous: everything here takes about a second.
TIMEOUT_SECONDS = 30.0


class Running:
    """One `mooring scheduler` process."""

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
        assert self._process.stderr is not None
        raise AssertionError((await self._process.stderr.read()).decode())

    async def stop(self) -> tuple[int | None, str]:
        """Ask it to stop; its exit code and what it logged."""
        self._process.send_signal(signal.SIGTERM)
        return await self.wait()

    async def wait(self) -> tuple[int | None, str]:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            _, errors = await self._process.communicate()
        return self._process.returncode, errors.decode()

    def end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()


class World:
    """An API server without nodes, and the components started against it."""

    def __init__(self, client: HttpClient, config: Path) -> None:
        self.client = client
        self._config = config
        self._started: list[Running] = []

    async def start(self, *options: str) -> Running:
        running = await self._launch("--http-port", "0", *options)
        await running.started()
        return running

    async def _launch(self, *options: str) -> Running:
        command = ("-m", "mooring", "scheduler", "--kubeconfig", str(self._config), *options)
        pipe = asyncio.subprocess.PIPE
        running = Running(await asyncio.create_subprocess_exec(sys.executable, *command, stdout=pipe, stderr=pipe))
        self._started.append(running)
        return running

    async def refused(self, *options: str) -> tuple[int | None, str]:
        """Start one that does not come up: its exit code and what it complains of."""
        return await (await self._launch(*options)).wait()

    async def until(self, fulfilled: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not await fulfilled():
                await SystemClock().sleep(0.02)

    async def node_of(self, pod: str) -> str:
        return (await self.client.get(POD, pod, namespace="default")).spec.node_name

    async def placed(self, pod: str, node: str) -> None:
        async def there() -> bool:
            return await self.node_of(pod) == node

        await self.until(there)

    async def holder(self) -> str | None:
        try:
            return (await self.client.get(LEASE, "mooring-scheduler", namespace="kube-system")).spec.holder_identity
        except NotFound:
            return None

    def end(self) -> None:
        for running in self._started:
            running.end()


@asynccontextmanager
async def a_world(folder: Path) -> AsyncIterator[World]:
    config = folder / "kubeconfig"
    settings = Settings(Layout(nodes=0), 0, None, config)
    clock = SystemClock()
    async with serving(settings, clock=clock, rng=random.Random(0)):
        client = HttpClient(kubeconfig.load(str(config)), component="tester", clock=clock)
        world = World(client, config)
        try:
            yield world
        finally:
            world.end()
            await client.close()


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def test_a_second_scheduler_places_its_pods_and_leaves_in_order(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        client = world.client
        await client.create(NODE, node_body(name="n1"))
        await client.create(VOLUME, volume_body(name="v1", node="n1"))
        await client.create(CLAIM, claim_body(name="data"), namespace="default")
        await client.create(POD, pod_body(name="mine", scheduler="second", claims=["data"]), namespace="default")
        await client.create(POD, pod_body(name="foreign", scheduler="third"), namespace="default")
        running = await world.start("--scheduler-name", "second")
        await world.placed("mine", "n1")
        assert (await client.get(CLAIM, "data", namespace="default")).spec.volume_name == "v1"
        assert await world.node_of("foreign") == ""

        assert await get(f"{running.url}/readyz") == (200, "ok")
        status, checks = await get(f"{running.url}/readyz?verbose")
        assert status == 200
        assert checks == "[+]ping ok\n[+]informer-sync ok\n[+]second ok\nreadyz check passed\n"
        assert (await get(f"{running.url}/livez"))[0] == 200
        assert (await get(f"{running.url}/api/v1/pods"))[0] == 404
        status, metrics = await get(f"{running.url}/metrics")
        assert status == 200
        for line in (
            'scheduler_schedule_attempts_total{profile="second",result="scheduled"} 1.0',
            'scheduler_pending_pods{queue="active"} 0.0',
            'mooring_scheduler_volume_bindings_total{kind="static"} 1.0',
            'leader_election_master_status{name="mooring-scheduler"} 1.0',
        ):
            assert line in metrics.splitlines()
        status, attempts = await get(f"{running.url}/debug/attempts?pod=default/mine")
        assert status == 200
        [attempt] = json.loads(attempts)["attempts"]
        assert (attempt["node"], attempt["result"]) == ("n1", "scheduled")
        assert attempt["supplies"] == [{"claim": "default/data", "volume": "v1"}]
        assert (await get(f"{running.url}/debug/attempts"))[0] == 400

        async def second_has_attempts() -> bool:
            events = (await client.list(EVENT, namespace="default")).items
            return any(event.reason == "Scheduled" and event.source.component == "second" for event in events)

        await world.until(second_has_attempts)
        assert await world.holder()
        code, logged = await running.stop()
        assert code == 0
        assert "Traceback" not in logged
        assert await world.holder() == ""


async def test_a_binding_under_way_does_not_keep_it_from_leaving(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        client = world.client
        await client.create(NODE, node_body(name="n1"))
        await client.create(STORAGE_CLASS, class_body(name="made", provisioner="example.com/absent"))
        await client.create(CLAIM, claim_body(name="data", storage_class="made"), namespace="default")
        await client.create(POD, pod_body(scheduler="second", claims=["data"]), namespace="default")
        running = await world.start("--scheduler-name", "second")

        async def sent_off() -> bool:
            return (await client.get(CLAIM, "data", namespace="default")).selected_node == "n1"

        await world.until(sent_off)
        assert (await running.stop())[0] == 0
        assert await world.node_of("pod-1") == ""
        assert await world.holder() == ""


async def test_a_standby_is_ready_and_takes_over(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        first = await world.start("--scheduler-name", "second", "--leader-elect-retry-period", "100ms")

        async def held() -> bool:
            return bool(await world.holder())

        await world.until(held)
        standby = await world.start("--scheduler-name", "second", "--leader-elect-retry-period", "100ms")
        holder = await world.holder()

        async def standby_ready() -> bool:
            return (await get(f"{standby.url}/readyz"))[0] == 200

        await world.until(standby_ready)
        assert 'leader_election_master_status{name="mooring-scheduler"} 0.0' in (await get(f"{standby.url}/metrics"))[1]
        assert (await first.stop())[0] == 0
        await world.client.create(NODE, node_body(name="n1"))
        await world.client.create(POD, pod_body(scheduler="second"), namespace="default")
        await world.placed("pod-1", "n1")
        assert await world.holder() not in ("", holder)
        assert (await standby.stop())[0] == 0


async def test_profiles_of_a_configuration_file_are_all_served(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "leaderElection: {leaderElect: false}\n"
        "profiles:\n- schedulerName: one\n- schedulerName: two\n"
        "  plugins: {multiPoint: {disabled: [{name: NodeUnschedulable}, {name: TaintToleration}]}}\n"
    )
    async with a_world(tmp_path) as world:
        await world.client.create(NODE, node_body(name="n1", unschedulable=True))
        for name in ("one", "two"):
            await world.client.create(POD, pod_body(name=name, scheduler=name), namespace="default")
        running = await world.start("--config", str(file))
        await world.placed("two", "n1")
        assert await world.node_of("one") == ""
        assert await world.holder() is None
        assert (await running.stop())[0] == 0


async def test_losing_the_lease_ends_the_process(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        running = await world.start("--scheduler-name", "second", "--leader-elect-retry-period", "100ms")

        async def held() -> bool:
            return bool(await world.holder())

        await world.until(held)
        await world.client.delete(LEASE, "mooring-scheduler", namespace="kube-system")
        usurped = {
            "metadata": {"name": "mooring-scheduler"},
            "spec": {"holderIdentity": "usurper", "leaseDurationSeconds": 60},
        }
        await world.client.create(LEASE, usurped, namespace="kube-system")
        code, errors = await running.wait()
        assert code == 1
        assert errors.splitlines()[-1].startswith("Error: Lost the leader lease")


def run(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "mooring", "scheduler", *options]
    clean = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, timeout=60, check=False)


def complaint(done: "subprocess.CompletedProcess[str]") -> str:
    """The one line of it."""
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("Error: ")
    return line


def a_kubeconfig(folder: Path, server: str) -> str:
    file = folder / "kubeconfig"
    file.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: k, user: u}}]\nusers: [{name: u, user: {token: t}}]\n"
        f"clusters: [{{name: k, cluster: {{server: '{server}'}}}}]\n"
    )
    return str(file)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param([], "no kubeconfig was found", id="no kubeconfig"),
        pytest.param(["--kubeconfig", "missing"], "missing", id="a kubeconfig that does not exist"),
        pytest.param(["--config", "missing.yaml"], "missing.yaml: No such file", id="no configuration file"),
        pytest.param(["--config", "broken.yaml"], "broken.yaml: ", id="a configuration that is no YAML"),
        pytest.param(["--config", "parallel.yaml"], "parallelism: 4 is not supported", id="a foreign field"),
        pytest.param(["--config", "parallel.yaml", "--scheduler-name", "x"], "cannot be combined", id="names twice"),
        pytest.param(["--scheduler-name", ""], "must not be empty", id="an empty name"),
        pytest.param(["--feature-gates", "Frobnication=true"], "Frobnication", id="an unknown gate"),
        pytest.param(
            ["--leader-elect-renew-deadline", "20s"],
            "leaseDuration must be greater than renewDeadline",
            id="timings that cannot work",
        ),
    ],
)
def test_wrong_settings_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    (tmp_path / "broken.yaml").write_text("a: [")
    (tmp_path / "parallel.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 4\n"
    )
    monkeypatch.chdir(tmp_path)
    alone = {"HOME": str(tmp_path), "KUBECONFIG": None, "KUBERNETES_SERVICE_HOST": None}
    done = CliRunner(env=alone).invoke(main, ["scheduler", *options])
    assert done.exit_code == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert message in line


def test_a_wrong_duration_is_a_usage_error() -> None:
    done = CliRunner().invoke(main, ["scheduler", "--leader-elect-lease-duration", "15"])
    assert done.exit_code == 2
    assert "write it like 15s" in done.stderr


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = a_kubeconfig(tmp_path, f"http://127.0.0.1:{port}")
    assert f"127.0.0.1:{port}" in complaint(run(tmp_path, "--kubeconfig", config, "--no-http"))


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    config = a_kubeconfig(tmp_path, "http://127.0.0.1:1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = complaint(run(tmp_path, "--kubeconfig", config, "--http-port", str(port)))
    assert f"Port {port}" in line


def test_it_can_be_stopped_while_it_waits_for_the_server(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(TIMEOUT_SECONDS)
        config = a_kubeconfig(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")
        command = [sys.executable, "-m", "mooring", "scheduler", "--kubeconfig", config, "--no-http"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            connection, _ = silent.accept()
            process.send_signal(signal.SIGTERM)
            output, errors = process.communicate(timeout=TIMEOUT_SECONDS)
            connection.close()
    assert (process.returncode, output, errors) == (0, "", "")


async def test_a_server_that_does_not_know_us_is_quoted(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        config = tmp_path / "kubeconfig"
        config.write_text(re.sub(r"token: .*", "token: wrong", config.read_text()))
        code, errors = await world.refused("--no-http")
        assert code == 1
        [line] = errors.splitlines()
        assert line.startswith("Error: The API server rejected the request: ")
