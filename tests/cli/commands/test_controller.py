"""`mooring controller` and `mooring nodeagent` as processes beside an API server that has neither of its own."""

import asyncio
import random
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.api.kinds import DEPLOYMENT, LEASE, NODE, POD
from mooring.cli.main import main
from mooring.client import kubeconfig
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.control_plane import CONTROLLERS
from mooring.cluster.embedded import Settings, serving
from mooring.nodeagent.component import NodeAgent
from support.builders.deployments import deployment_body

#: Generous: everything here takes about a second.
TIMEOUT_SECONDS = 30.0


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[None]:
    """A running `mooring` command that printed `ready` and exits with 0 on SIGTERM."""
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mooring", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert running.stdout is not None
        assert running.stderr is not None
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while b"health and metrics at" not in (line := await running.stdout.readline()):
                assert line, (await running.stderr.read()).decode()
            yield
            running.send_signal(signal.SIGTERM)
            _, errors = await running.communicate()
        assert running.returncode == 0, errors.decode()
        assert b"Traceback" not in errors, errors.decode()
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not await holds():
            await SystemClock().sleep(0.05)


async def test_controllers_and_nodes_of_their_own_run_a_deployment(tmp_path: Path) -> None:
    left_out = (NodeAgent.name, *(controller.source for controller in CONTROLLERS))
    settings = Settings(Layout(0, 1, 0), 0, None, tmp_path / "kubeconfig", left_out=left_out)
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(serving(settings, clock=SystemClock(), rng=random.Random(0)))
        client = HttpClient(kubeconfig.load(str(cluster.kubeconfig)), component="test", clock=SystemClock())
        stack.push_async_callback(client.close)
        common = ("--kubeconfig", str(cluster.kubeconfig), "--http-port", "0")
        await stack.enter_async_context(process("controller", "--controllers", "*", *common))
        await stack.enter_async_context(process("nodeagent", "--nodes", "4", "--racks", "2", "--name", "edge", *common))
        body = deployment_body()
        body["spec"]["template"]["spec"].pop("nodeName")
        await client.create(DEPLOYMENT, body, namespace="default")

        async def runs() -> bool:
            found = await client.get(DEPLOYMENT, "web", namespace="default")
            return found.status.available_replicas == 3

        await _until(runs)
        pods = (await client.list(POD, namespace="default")).items
        assert all(pod.spec.node_name.startswith("edge-") for pod in pods)
        racks = {node.metadata.labels["mooring.dev/rack"] for node in (await client.list(NODE)).items}
        assert racks == {"zone-a-rack-1", "zone-a-rack-2", "zone-b-rack-1", "zone-c-rack-1"}
        leases = {lease.name for lease in (await client.list(LEASE, namespace="kube-system")).items}
        assert {"mooring-controller", "mooring-nodeagent"} <= leases


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--controllers", "*,volcano"], "'volcano' is not in the list of known controllers", id="unknown"),
        pytest.param(["--controllers", ""], "no controller is selected", id="none"),
        pytest.param(["--feature-gates", "Volcano=true"], "unrecognized feature gate: Volcano", id="a gate"),
    ],
)
def test_invalid_flags_are_one_line_errors(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["controller", *arguments])
    assert result.exit_code == 2
    assert message in result.output
