"""A real `mooring up` process and the real kubectl, as a newcomer has them."""

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from scenarios.placements import Placed, placements

#: Generous: a start takes about a second, CI machines are slow at times.
START_SECONDS: Final = 30
OLDEST_KUBECTL: Final = (1, 30)
EVENT_KINDS: Final = {"pod": "Pod", "pvc": "PersistentVolumeClaim"}


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

    def apply(self, *bodies: dict[str, Any], namespace: str = "default") -> None:
        """Apply objects as one would a file of YAML; those of a namespace go into the one given."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(bodies)}
        self("apply", "-n", namespace, "-f", "-", stdin=json.dumps(listed))

    def item(self, kind: str, name: str, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self("get", kind, name, "-o", "json", *arguments))
        return found

    def placed(self) -> list[Placed]:
        """Pods with their nodes and their volumes' nodes; for the scenarios, which use the default namespace alone."""
        return placements(self.items("pods"), self.items("pvc"), self.items("pv"))

    def end(self) -> None:
        if self._process is not None:
            self.stop()


class Workspace:
    """A namespace of its own in a shared cluster."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        #: The namespace's, and a prefix no other test has for what is in no namespace.
        self.name = name

    def __call__(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        return self.cluster("-n", self.name, *arguments, stdin=stdin, check=check)

    def apply(self, *bodies: dict[str, Any]) -> None:
        self.cluster.apply(*bodies, namespace=self.name)

    def items(self, kind: str, *arguments: str) -> list[dict[str, Any]]:
        return self.cluster.items(kind, "-n", self.name, *arguments)

    def item(self, kind: str, name: str) -> dict[str, Any]:
        return self.cluster.item(kind, name, "-n", self.name)

    def wait_ready(self, *pods: str) -> None:
        self("wait", *(f"pod/{pod}" for pod in pods), "--for=condition=Ready", "--timeout=30s")

    def wait_bound(self, *claims: str) -> None:
        self("wait", *(f"pvc/{claim}" for claim in claims), "--for=jsonpath={.status.phase}=Bound", "--timeout=30s")

    def node_of(self, pod: str) -> str:
        return str(self.item("pod", pod)["spec"].get("nodeName", ""))

    def why_unscheduled(self, pod: str) -> str:
        """What the pod's PodScheduled condition says, once it says no."""
        self("wait", f"pod/{pod}", "--for=condition=PodScheduled=false", "--timeout=30s")
        [condition] = [c for c in self.item("pod", pod)["status"]["conditions"] if c["type"] == "PodScheduled"]
        return str(condition["message"])

    def wait_event(self, about: str, reason: str) -> str:
        """The message of the newest event with this reason about an object (`pod/web`), waited for."""
        kind, _, name = about.partition("/")
        chosen = f"involvedObject.kind={EVENT_KINDS[kind]},involvedObject.name={name},reason={reason}"
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if events := self.items("events", f"--field-selector={chosen}"):
                return str(events[-1]["message"])
            time.sleep(0.1)
        raise AssertionError(f"no event {reason} about {about}:\n{self('get', 'events')}")


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


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, kubectl_on_path: None) -> Iterator[Cluster]:
    """One process for all tests of a module, which keep out of each other's way by names and namespaces."""
    shared = Cluster(tmp_path_factory.mktemp("cluster"), "--in-memory")
    shared.start()
    yield shared
    shared.end()


_numbers = itertools.count(1)


@pytest.fixture
def workspace(cluster: Cluster) -> Iterator[Workspace]:
    own = Workspace(cluster, f"test-{next(_numbers)}")
    cluster("create", "namespace", own.name)
    yield own
    cluster("delete", "namespace", own.name, "--wait=false")
