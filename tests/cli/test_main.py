"""The command as a whole: help is complete and cheap."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from mooring import __version__
from mooring.cli.main import COMMANDS, main


def test_help_lists_every_command() -> None:
    shown = CliRunner().invoke(main, ["--help"])
    assert shown.exit_code == 0
    assert all(name in shown.output for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    shown = CliRunner().invoke(main, [name, "--help"])
    assert shown.exit_code == 0
    assert "Usage:" in shown.output


def test_the_version_is_told() -> None:
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
