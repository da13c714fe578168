"""`mooring completion`: scripts for shells, and words for kubectl."""

import subprocess
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.cli.main import COMMANDS, main

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def completed(*words: str) -> Result:
    return CliRunner().invoke(main, ["completion", *words])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_of_every_shell_calls_mooring(shell: str) -> None:
    done = completed(shell)
    assert done.exit_code == 0
    assert f"_MOORING_COMPLETE={shell}_complete" in done.stdout


def test_bash_parses_its_completion() -> None:
    subprocess.run(["bash", "-n"], input=completed("bash").stdout, text=True, check=True)


def test_kubectl_completion_lists_commands_and_no_files() -> None:
    lines = completed("kubectl", "--", "").stdout.splitlines()
    assert {line.partition("\t")[0] for line in lines[:-1]} == set(COMMANDS)
    assert lines[-1] == ":4"


@pytest.mark.parametrize(
    ("words", "want"),
    [
        pytest.param(["sim"], ["simulate"], id="a command"),
        pytest.param(["simulate", "--remove-z"], ["--remove-zone"], id="a flag"),
        pytest.param(["explain", "pv"], ["pvc/", "pv/"], id="what can be explained"),
        pytest.param(["orphans", "-o", "j"], ["json"], id="a value"),
        pytest.param(["nothing"], [], id="nothing"),
    ],
)
def test_the_last_word_is_completed(words: list[str], want: list[str]) -> None:
    lines = completed("kubectl", "--", *words).stdout.splitlines()
    assert [line.partition("\t")[0] for line in lines[:-1]] == want


def test_a_shell_takes_no_words() -> None:
    assert completed("bash", "x").exit_code == 2


def test_kubectl_finds_us_as_its_plugin() -> None:
    scripts = tomllib.loads(PROJECT.read_text())["project"]["scripts"]
    assert scripts["kubectl-mooring"] == scripts["mooring"]
