"""A real `mooring up` process and the real kubectl, as a newcomer has them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

#: Generous: a start takes about a second, CI machines are slow at times.
START_SECONDS: Final = 30
OLDEST_KUBECTL: Final = (1, 30)


def _kubectl_version() -> tuple[int, int] | None:
    if shutil.which("kubectl") is None:
        return None
    told = subprocess.run(
        ["kubectl", "version", "--client", "-o", "json"], capture_output=True, text=True, timeout=30, check=False
    )
    if told.returncode != 0:
        return None
    version = json.loads(told.stdout)["clientVersion"]
    return int(version["major"]), int(re.sub(r"\D", "", version["minor"]))


@pytest.fixture(scope="session")
def kubectl_on_path() -> None:
    version = _kubectl_version()
    if version is None or version < OLDEST_KUBECTL:
        pytest.skip("no kubectl 1.30 or newer on the PATH: end-to-end tests with kubectl are not run")


class Cluster:
    """One `mooring up` process."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self._options = options
        self._process: subprocess.Popen[str] | None = None
        self.output: list[str] = []

    def start(self) -> None:
        command = [sys.executable, "-m", "mooring", "up", "--port", "0", "--kubeconfig", str(self.kubeconfig)]
        self._process = subprocess.Popen(
            [*command, *self._options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder
        )
        timer = threading.Timer(START_SECONDS, self._process.kill)
        timer.start()
        assert self._process.stdout is not None
        self.output = []
        for line in self._process.stdout:
            self.output.append(line.rstrip("\n"))
            if line == "ready\n":
                timer.cancel()
                return
        timer.cancel()
        _, errors = self._process.communicate()
        raise AssertionError(f"mooring up ended with {self._process.returncode}: {errors}")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End the process and return its exit code; its output must be free of tracebacks."""
        process = self._process
        assert process is not None
        self._process = None
        process.send_signal(how)
        _, errors = process.communicate(timeout=START_SECONDS)
        assert "Traceback" not in errors, errors
        return process.returncode

    def __call__(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl against this cluster and return what it printed."""
        done = subprocess.run(
            ["kubectl", "--request-timeout=20s", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=os.environ | {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder)},
        )
        if check:
            assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def items(self, kind: str, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self("get", kind, "-o", "json", *arguments))["items"]
        return found

    def end(self) -> None:
        if self._process is not None:
            self.stop()


@pytest.fixture
def start_cluster(tmp_path: Path, kubectl_on_path: None) -> Iterator[Callable[..., Cluster]]:
    started: list[Cluster] = []

    def start(*options: str) -> Cluster:
        cluster = Cluster(tmp_path, *options)
        started.append(cluster)
        cluster.start()
        return cluster

    yield start
    for cluster in started:
        cluster.end()
