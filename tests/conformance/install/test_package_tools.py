"""The wheel of a release with the real pipx and uv: installed, run and removed; nothing is left in the home folder."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from mooring import __version__

WHEEL: Final = f"mooring-{__version__}-py3-none-any.whl"
#: Seconds of one command.
SECONDS: Final = 120
#: Starts a cluster with the commands on the PATH, in the user's folders, and prints what kubectl mooring says about it.
UP: Final = """
mooring up --port 0 --no-page > up.txt 2>&1 &
up=$!
for attempt in $(seq 300); do grep -q '^ready$' up.txt && break; sleep 0.1; done
grep -q '^ready$' up.txt || cat up.txt
kubectl-mooring explain node/node-1 --kubeconfig "$HOME/.local/share/mooring/kubeconfig" && explained=yes
kill "$up"
wait "$up"
echo "ended: $?, explained: $explained"
"""


class User:
    """An account with an empty home folder, one tool, and the folder of packages as its only index."""

    def __init__(self, folder: Path, tool: Path, wheels: Path, artifacts: Path) -> None:
        self.home, self.wheel = folder / "home", artifacts / WHEEL
        self.home.mkdir()
        self._folder = folder
        path = [self.home / ".local" / "bin", tool, "/usr/local/bin", "/usr/bin", "/bin"]
        self.environment = {
            "PATH": os.pathsep.join(map(str, path)),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PIP_NO_INDEX": "1",
            "PIP_NO_CACHE_DIR": "1",
            # The release is found by its name and version, too.
            "PIP_FIND_LINKS": f"{wheels} {artifacts}",
            "UV_OFFLINE": "1",
            "UV_NO_INDEX": "1",
            "UV_FIND_LINKS": f"{wheels},{artifacts}",
            "UV_PYTHON": sys.executable,
            "UV_PYTHON_DOWNLOADS": "never",
            "PIPX_DEFAULT_PYTHON": sys.executable,
        }

    def __call__(self, *command: str | Path) -> str:
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def left(self) -> set[str]:
        """Files and folders of Mooring in the home folder, by path from there."""
        return {str(path.relative_to(self.home)) for path in self.home.rglob("*mooring*")}

    def start_a_cluster(self) -> None:
        """Start, look and stop; then delete the data as the documentation says."""
        assert "ended: 0, explained: yes" in self("/bin/sh", "-c", UP)
        shutil.rmtree(self.home / ".local" / "share" / "mooring")


@pytest.fixture(scope="session")
def start_user(wheels: Path, artifacts: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], User]:
    def start(tool: str) -> User:
        """The tool in an environment of its own: pipx uses uv if it finds it."""
        folder = tmp_path_factory.mktemp(tool)
        environment = folder / "tool"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install", "-q"]
        subprocess.run([*pip, "--no-index", "--find-links", str(wheels), tool], check=True)
        (environment / "only").mkdir()
        for name in (tool, f"{tool}x"):
            if (environment / "bin" / name).exists():
                (environment / "only" / name).symlink_to(environment / "bin" / name)
        return User(folder, environment / "only", wheels, artifacts)

    return start


def test_pipx_installs_and_removes(start_user: Callable[[str], User]) -> None:
    user = start_user("pipx")

    user("pipx", "install", user.wheel)
    assert user("mooring", "--version").split()[-1] == __version__
    user.start_a_cluster()
    user("pipx", "uninstall", "mooring")

    # pipx keeps an empty lock file for each package that it ever installed.
    assert user.left() <= {".local/share/pipx/venvs/.mooring.lock"}
    assert not list((user.home / ".local" / "bin").iterdir())


def test_uv_installs_and_removes(start_user: Callable[[str], User]) -> None:
    user = start_user("uv")

    user("uv", "tool", "install", user.wheel)
    assert user("mooring", "--version").split()[-1] == __version__
    user.start_a_cluster()
    user("uv", "tool", "uninstall", "mooring")
    user("uv", "cache", "clean")

    assert user.left() == set()
    assert not list((user.home / ".local" / "bin").iterdir())


@pytest.mark.parametrize(
    ("tool", "command"),
    [
        pytest.param("uv", ("uvx", "--from", f"mooring=={__version__}"), id="uvx"),
        pytest.param("pipx", ("pipx", "run", "--spec", f"mooring=={__version__}"), id="pipx run"),
    ],
)
def test_a_tool_runs_it_without_installing(
    start_user: Callable[[str], User], tool: str, command: tuple[str, ...]
) -> None:
    user = start_user(tool)

    assert user(*command, "mooring", "--version").split()[-1] == __version__
    assert not (user.home / ".local" / "bin" / "mooring").exists()
    assert {path for path in user.left() if not path.startswith(".cache/")} == set()
