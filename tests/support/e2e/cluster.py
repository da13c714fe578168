"""A `mooring up` process, and the real kubectl against it."""

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

from support.e2e.kubectl import Kubectl
from support.scenarios.placements import Placed, placements

#: A start takes about a second; CI machines may be slow.
START_SECONDS: Final = 30
#: Log event of a component that lacks a permission.
REFUSED: Final = 'is forbidden: User "system:serviceaccount:kube-system:mooring-'


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
        """Stop the process and return its exit code; its log must not contain tracebacks or denied permissions."""
        process = self._process
        assert process is not None
        self._process = None
        process.send_signal(how)
        _, errors = process.communicate(timeout=START_SECONDS)
        assert "Traceback" not in errors, errors
        assert REFUSED not in errors, [line for line in errors.splitlines() if REFUSED in line]
        return process.returncode

    def kill_after(self, seconds: float) -> None:
        """Kill the process after a delay, during whatever it does then."""
        assert self._process is not None
        threading.Timer(seconds, self._process.kill).start()

    def __call__(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl against this cluster; returns its output."""
        return Kubectl(self.kubeconfig)(*arguments, stdin=stdin, check=check)

    def items(self, kind: str, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self("get", kind, "-o", "json", *arguments))["items"]
        return found

    def apply(self, *bodies: dict[str, Any], namespace: str = "default", check: bool = True) -> None:
        """Apply objects like a file of YAML; namespaced ones in the given namespace."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(bodies)}
        self("apply", "-n", namespace, "-f", "-", stdin=json.dumps(listed), check=check)

    def item(self, kind: str, name: str, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self("get", kind, name, "-o", "json", *arguments))
        return found

    def placed(self) -> list[Placed]:
        """Pods with their nodes and their volumes' nodes, of the default namespace, which the scenarios use."""
        return placements(self.items("pods"), self.items("pvc"), self.items("pv"))

    def end(self) -> None:
        if self._process is not None:
            self.stop()
