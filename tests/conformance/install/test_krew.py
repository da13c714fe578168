"""The kubectl plugin of a release with the real krew: checked by krew's own rules, installed, run and removed."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from mooring import __version__

ARCHIVE: Final = f"kubectl-mooring-{__version__}.tar.gz"
#: A message of kubectl, which `explain` knows without a cluster.
MESSAGE: Final = "Metrics API not available"


class KrewUser:
    """An account with kubectl, krew and this build of Mooring on the PATH, and nothing else of Python."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.root = folder / "krew"
        tools = folder / "tools"
        tools.mkdir()
        [krew], [check] = binaries.glob("krew-v*"), binaries.glob("validate-krew-v*")
        for name, file in {
            "kubectl": binaries / "kubectl",
            "kubectl-krew": krew,
            "validate-krew-manifest": check,
        }.items():
            (tools / name).symlink_to(file)
        (tools / "mooring").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mooring "$@"\n')
        (tools / "mooring").chmod(0o755)
        # krew removes plugins only where its index was fetched once; an empty one will do.
        subprocess.run(["git", "init", "-q", str(self.root / "index" / "default")], check=True)
        self._environment = {
            "PATH": os.pathsep.join([str(self.root / "bin"), str(tools), "/usr/bin", "/bin"]),
            "HOME": str(folder),
            "KREW_ROOT": str(self.root),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }

    def __call__(self, *command: str | Path) -> str:
        done = subprocess.run(
            command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def installed(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*mooring*")}


@pytest.fixture
def user(binaries: Path, tmp_path: Path) -> KrewUser:
    return KrewUser(binaries, tmp_path)


@pytest.fixture
def address(artifacts: Path) -> Iterator[str]:
    """The artifacts over HTTP on loopback."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name in the base class
            pass

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(artifacts))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_krew_installs_and_removes_the_plugin(user: KrewUser, artifacts: Path) -> None:
    manifest, archive = artifacts / "mooring.krew.yaml", artifacts / ARCHIVE

    user("kubectl", "krew", "install", f"--manifest={manifest}", f"--archive={archive}")
    assert "bin/kubectl-mooring" in user.installed()
    assert "mooring" in user("kubectl", "krew", "list")
    assert user("kubectl", "mooring", "--version").split()[-1] == __version__
    assert MESSAGE in user("kubectl", "mooring", "explain", MESSAGE)

    user("kubectl", "krew", "uninstall", "mooring")
    assert user.installed() == set()


def test_krew_accepts_the_manifest(user: KrewUser, artifacts: Path, address: str, tmp_path: Path) -> None:
    """krew's check for its index: structure, platforms, license, and an installation for each platform."""
    manifest = tmp_path / "mooring.yaml"
    shutil.copy(artifacts / "mooring.krew.yaml", manifest)
    text = manifest.read_text()
    [given] = {line.split()[-1] for line in text.splitlines() if line.strip().startswith("uri:")}
    manifest.write_text(text.replace(given, f"{address}/{ARCHIVE}"))

    assert "all 2 spec.platforms installed fine" in user("validate-krew-manifest", f"-manifest={manifest}")
