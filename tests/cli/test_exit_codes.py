"""The same cause has the same exit code in every command that reads a cluster; every help text stands alone."""

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mooring.cli.main import COMMANDS, main
from mooring.cli.terminal import MEANINGS, ExitCode

#: Commands that read a cluster, with an object to ask about where they want one.
READING = (["doctor"], ["explain"], ["orphans"], ["capacity"], ["simulate", "--live"], ["story", "pod/web"])
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""


def _arguments(command: list[str]) -> list[str]:
    context = click.Context(main)
    found = main.get_command(context, command[0])
    assert found is not None
    known = {name for option in found.params for name in option.opts}
    return [one for one in command if not one.startswith("--") or one in known]


@pytest.mark.parametrize("command", READING, ids=lambda command: command[0])
def test_cluster_that_does_not_answer_has_one_exit_code(command: list[str], tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    done = CliRunner().invoke(main, [*_arguments(command), "--kubeconfig", str(kubeconfig)])
    assert done.exit_code == ExitCode.UNREACHABLE, done.output


@pytest.mark.parametrize("command", READING, ids=lambda command: command[0])
def test_missing_kubeconfig_has_one_exit_code(command: list[str], tmp_path: Path) -> None:
    done = CliRunner().invoke(main, [*_arguments(command), "--kubeconfig", str(tmp_path / "none")])
    assert done.exit_code == ExitCode.USAGE, done.output


def test_each_code_is_documented() -> None:
    assert set(MEANINGS) == set(ExitCode)


#: Words that refer to another flag: a help text is read alone.
REFERRING = re.compile(
    r"^(?:Its|Their|The same|That|Those|For (?:it|that|them))\b|\b(?:for (?:that|them|those)|that one's|of them)\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_text_stands_alone(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    for option in command.params:
        text = getattr(option, "help", None) or ""
        assert not REFERRING.search(text), f"{option.opts}: {text}"
