"""The extender's page: what it says is printed, its metrics, and the commands for certificates."""

import random
import re
import shutil
import ssl
import subprocess
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner
from prometheus_client import CollectorRegistry

from mooring.cli.main import main
from mooring.clock import SystemClock
from mooring.cluster.extender_server import ExtenderCredentials, ExtenderServer, ExtenderServerSettings
from mooring.scheduler.extender.metrics import ExtenderMetrics

PAGE = (Path(__file__).parents[2] / "docs" / "extender.md").read_text()


@pytest.mark.parametrize("options", [(), ("--mode=bind",)], ids=["filter", "bind"])
def test_page_matches_the_output(options: tuple[str, ...]) -> None:
    command = " ".join(("mooring extender", *options, "--print-scheduler-config"))
    printed = CliRunner().invoke(main, ["extender", *options, "--print-scheduler-config"]).stdout
    assert f"$ {command}\n{printed}```" in PAGE


def test_page_lists_every_metric() -> None:
    registry = CollectorRegistry()
    ExtenderMetrics(registry, unasked=lambda: 0, bindings=lambda: 0)
    names = {metric.name + ("_total" if metric.type == "counter" else "") for metric in registry.collect()}
    assert {name for name in names if f"`{name}" not in PAGE} == set()


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """The folder with what the page's commands make."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine")
    [script] = re.findall(r"^```bash$(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    subprocess.run(["bash", "-euc", script], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    return tmp_path


@pytest.mark.req("T33.mutual-tls")
async def test_commands_create_valid_certificates(certificates: Path) -> None:
    server, client = certificates / "server", certificates / "client"
    names = frozenset({"system:kube-scheduler"})
    ours = ExtenderCredentials(
        server.with_suffix(".crt"), server.with_suffix(".key"), certificates / "client-ca.crt", names
    )
    listener = await ExtenderServer(
        ExtenderServerSettings("127.0.0.1", 0, ours), SystemClock(), random.Random(0)
    ).open()
    theirs = ssl.create_default_context(cafile=certificates / "server-ca.crt")
    theirs.load_cert_chain(client.with_suffix(".crt"), client.with_suffix(".key"))
    try:
        url = f"{listener.url}/filter"
        async with aiohttp.ClientSession() as session, session.post(url, json={}, ssl=theirs) as answer:
            assert answer.status == 200
    finally:
        await listener.close()
