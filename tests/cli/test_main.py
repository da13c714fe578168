"""The command as a whole: help is complete and cheap, and places that cannot be had are one sentence."""

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring import __version__
from mooring.cli.main import COMMANDS, main
from mooring.cli.runtime import run_event_loop
from mooring.server.http.listener import CannotListen

KUBECONFIG = json.dumps(
    {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}],
        "current-context": "c",
    }
)


def test_help_lists_every_command() -> None:
    shown = CliRunner().invoke(main, ["--help"])
    assert shown.exit_code == 0
    assert all(name in shown.output for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    shown = CliRunner().invoke(main, [name, "--help"])
    assert shown.exit_code == 0
    assert "Usage:" in shown.output


def test_version_is_printed() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"mooring, version {__version__}\n"


def test_an_unknown_command_is_refused() -> None:
    shown = CliRunner().invoke(main, ["frobnicate"])
    assert shown.exit_code == 2
    assert "No such command 'frobnicate'" in shown.output


def test_help_loads_nothing_heavy() -> None:
    """Import time is what makes a command feel slow; the list of what help needs is short."""
    script = (
        "import sys; from click.testing import CliRunner; from mooring.cli.main import main;"
        "CliRunner().invoke(main, ['--help']);"
        "heavy = ('aiohttp', 'numpy', 'msgspec', 'cryptography', 'structlog', 'sqlite3');"
        "print([name for name in heavy if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["page", "--port"], id="page"),
        pytest.param(["extender", "--extender-port"], id="extender"),
        pytest.param(["apiserver", "--data-dir", "data", "--secure-port"], id="apiserver"),
        pytest.param(["up", "--in-memory", "--port"], id="up"),
    ],
)
def test_a_busy_port_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kubeconfig").write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", "kubeconfig")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = CliRunner().invoke(main, [*arguments, str(port)])
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: Port {port} on 127.0.0.1 is already in use")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["up", "--port", "0", "--data-dir", "file/data"], id="up, data"),
        pytest.param(["up", "--in-memory", "--port", "0", "--kubeconfig", "file/config"], id="up, kubeconfig"),
        pytest.param(["apiserver", "--secure-port", "0", "--data-dir", "file/data"], id="apiserver, data"),
        pytest.param(
            ["apiserver", "--secure-port", "0", "--data-dir", "data", "--cert-dir", "file/pki"], id="apiserver, keys"
        ),
        pytest.param(["csi-hostpath", "--node-id", "n", "--state-dir", "file/state"], id="csi-hostpath, state"),
    ],
)
def test_a_path_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("mine")
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 1, done.exception
    assert done.stderr.startswith("Error: ")
    assert "file" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_error_inside_task_groups_is_met_like_any_other() -> None:
    async def fails() -> None:
        async with asyncio.TaskGroup(), asyncio.TaskGroup():
            raise CannotListen("Port 1 is taken.")

    with pytest.raises(CannotListen, match="Port 1"):
        run_event_loop(fails())
