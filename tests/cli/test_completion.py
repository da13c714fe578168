"""`mooring completion`: scripts for shells, and words for kubectl."""

import json
import subprocess
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.cli.main import COMMANDS, main

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


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


@pytest.fixture
def unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubeconfig whose server does not answer."""
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "c", "user": ""}}
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps({"clusters": [cluster], "contexts": [context], "current-context": "x"}))
    monkeypatch.setenv("KUBECONFIG", str(file))


@pytest.mark.parametrize(
    ("words", "want"),
    [
        pytest.param(["explain", "sts/d"], [], id="a name"),
        pytest.param(["explain", "sts"], ["sts/"], id="the only kind"),
        pytest.param(["timeline", "-n", "sh"], [], id="a namespace"),
        pytest.param(["explain", "--kubeconfig", "/no/such/file", "pod/"], [], id="no kubeconfig"),
    ],
)
def test_unreachable_cluster_completes_nothing_and_prints_nothing(
    unreachable: None, words: list[str], want: list[str]
) -> None:
    done = completed("kubectl", "--", *words)
    assert done.stdout.splitlines() == [*want, ":4"]
    assert done.stderr == ""


def test_pages_are_completed() -> None:
    assert completed("kubectl", "--", "docs", "tutorials/a-p").stdout.splitlines()[0] == "tutorials/a-pending-pod"


def test_a_shell_takes_no_words() -> None:
    assert completed("bash", "x").exit_code == 2


def test_kubectl_finds_us_as_its_plugin() -> None:
    scripts = tomllib.loads(PROJECT.read_text())["project"]["scripts"]
    assert scripts["kubectl-mooring"] == scripts["mooring"]
