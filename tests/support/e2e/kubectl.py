"""The real kubectl with one kubeconfig, and a separate home folder, so that no cache of the user is used."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

OLDEST: Final = (1, 30)


def require_kubectl() -> None:
    """Skip the test, with one message, if no recent kubectl is installed."""
    version = _version()
    if version is None or version < OLDEST:
        pytest.skip("no kubectl 1.30 or newer on the PATH: end-to-end tests with kubectl are not run")


def _version() -> tuple[int, int] | None:
    if shutil.which("kubectl") is None:
        return None
    output = subprocess.run(
        ["kubectl", "version", "--client", "-o", "json"], capture_output=True, text=True, timeout=30, check=False
    )
    if output.returncode != 0:
        return None
    version = json.loads(output.stdout)["clientVersion"]
    return int(version["major"]), int(re.sub(r"\D", "", version["minor"]))


class Kubectl:
    """Call it with arguments; returns kubectl's output."""

    def __init__(self, kubeconfig: Path, *always: str, binary: str | Path = "kubectl") -> None:
        self._kubeconfig = kubeconfig
        self._binary = binary
        self._always = always

    def __call__(
        self, *arguments: str, stdin: str | None = None, check: bool = True, environment: dict[str, str] | None = None
    ) -> str:
        home = self._kubeconfig.parent
        done = subprocess.run(
            [self._binary, "--request-timeout=20s", *self._always, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
            # A process this short needs no garbage collection.
            env=os.environ
            | {"KUBECONFIG": str(self._kubeconfig), "HOME": str(home), "GOGC": "off"}
            | (environment or {}),
        )
        if check:
            assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def within(self, namespace: str) -> "Kubectl":
        return Kubectl(self._kubeconfig, *self._always, "-n", namespace, binary=self._binary)

    def refusal(self, *arguments: str, stdin: str | None = None) -> str:
        """The error output of a command that must fail."""
        output = self(*arguments, stdin=stdin, check=False)
        assert "rror" in output or "invalid" in output, output
        return output
