"""The real kubectl on one kubeconfig, with a home folder of its own so that no cache of the machine's user is used."""

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
    """Leave the test out, and say so once, where the machine has none that is new enough."""
    version = _version()
    if version is None or version < OLDEST:
        pytest.skip("no kubectl 1.30 or newer on the PATH: end-to-end tests with kubectl are not run")


def _version() -> tuple[int, int] | None:
    if shutil.which("kubectl") is None:
        return None
    told = subprocess.run(
        ["kubectl", "version", "--client", "-o", "json"], capture_output=True, text=True, timeout=30, check=False
    )
    if told.returncode != 0:
        return None
    version = json.loads(told.stdout)["clientVersion"]
    return int(version["major"]), int(re.sub(r"\D", "", version["minor"]))


class Kubectl:
    """Call it with arguments; the answer is what kubectl printed."""

    def __init__(self, kubeconfig: Path, *always: str) -> None:
        self._kubeconfig = kubeconfig
        self._always = always

    def __call__(
        self, *arguments: str, stdin: str | None = None, check: bool = True, environment: dict[str, str] | None = None
    ) -> str:
        home = self._kubeconfig.parent
        done = subprocess.run(
            ["kubectl", "--request-timeout=20s", *self._always, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
            env=os.environ | {"KUBECONFIG": str(self._kubeconfig), "HOME": str(home)} | (environment or {}),
        )
        if check:
            assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def within(self, namespace: str) -> "Kubectl":
        return Kubectl(self._kubeconfig, *self._always, "-n", namespace)

    def refusal(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl prints for something that must fail."""
        told = self(*arguments, stdin=stdin, check=False)
        assert "rror" in told or "invalid" in told, told
        return told
