"""A `mooring up` process, and the real kubectl against it."""

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

from e2e.kubectl import Kubectl
from scenarios.placements import Placed, placements

#: Generous: a start takes about a second, CI machines are slow at times.
START_SECONDS: Final = 30
#: What the log says of a component that lacks a right it needs.
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
        """End the process and return its exit code; its log must be free of tracebacks and of missing rights."""
        process = self._process
        assert process is not None
        self._process = None
        process.send_signal(how)
        _, errors = process.communicate(timeout=START_SECONDS)
        assert "Traceback" not in errors, errors
        assert REFUSED not in errors, [line for line in errors.splitlines() if REFUSED in line]
        return process.returncode

    def kill_after(self, seconds: float) -> None:
        """Have the process killed in the middle of whatever comes next."""
        assert self._process is not None
        threading.Timer(seconds, self._process.kill).start()

    def __call__(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl against this cluster and return what it printed."""
        return Kubectl(self.kubeconfig)(*arguments, stdin=stdin, check=check)

    def items(self, kind: str, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self("get", kind, "-o", "json", *arguments))["items"]
        return found

    def apply(self, *bodies: dict[str, Any], namespace: str = "default", check: bool = True) -> None:
        """Apply objects as one would a file of YAML; those of a namespace go into the one given."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(bodies)}
        self("apply", "-n", namespace, "-f", "-", stdin=json.dumps(listed), check=check)

    def item(self, kind: str, name: str, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self("get", kind, name, "-o", "json", *arguments))
        return found

    def placed(self) -> list[Placed]:
        """Pods with their nodes and their volumes' nodes; for the scenarios, which use the default namespace alone."""
        return placements(self.items("pods"), self.items("pvc"), self.items("pv"))

    def end(self) -> None:
        if self._process is not None:
            self.stop()
