"""Two instances of each component as processes: one is active, the other takes over after a kill; skew is reported."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.builders import claim_body, class_body, volume_body
from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace

#: Shorter than in production, so that a test does not wait 15 seconds.
ELECTION: Final = (
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
)
START_SECONDS: Final = 60


class Process:
    """A `mooring` command that has printed its readiness message."""

    def __init__(self, words: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mooring", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=dict(os.environ),
        )
        timer = threading.Timer(START_SECONDS, self._process.kill)
        timer.start()
        assert self._process.stdout is not None
        started = any(words in line for line in self._process.stdout)
        timer.cancel()
        assert started, f"mooring {' '.join(arguments)} did not start"

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate(timeout=START_SECONDS)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            self._process.communicate(timeout=START_SECONDS)


@pytest.fixture
def kubeconfig(tmp_path: Path, kubectl_on_path: None) -> Iterator[Path]:
    """Of an API server without any controllers."""
    file = tmp_path / "kubeconfig"
    server = Process("ready", "apiserver", "--in-memory", "--secure-port=0", "--kubeconfig", str(file))
    yield file
    server.end()


def web(own: str, replicas: int) -> dict[str, object]:
    claim = claim_body(name="data", namespace="", storage_class=own)
    template = {
        "metadata": {"labels": {"app": own}},
        "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": own},
        "spec": {
            "replicas": replicas,
            "serviceName": own,
            "selector": {"matchLabels": {"app": own}},
            "template": template,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim["spec"]}],
        },
    }


@pytest.mark.req("T35.failover", "T35.skew")
def test_second_instance_takes_over_and_gate_skew_is_reported(kubeconfig: Path, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    own = Workspace(cluster, "default")

    def start(*arguments: str) -> Process:
        process = Process(" ", *arguments, "--kubeconfig", str(kubeconfig), "--no-http", *ELECTION)
        ended.callback(process.end)
        return process

    with contextlib.ExitStack() as ended:
        # The namespaces of leases are created by the cluster's installer.
        cluster("create", "namespace", "kube-node-lease", check=False)
        start("nodeagent", "--nodes", "2", "--zones", "2")
        first = [start("controller"), start("scheduler")]
        start("controller")
        start("scheduler", "--feature-gates", "CSIStorageCapacity=false")
        own.apply(
            class_body(name="disks"),
            *(volume_body(name=f"v{n}", storage_class="disks", node="node-1") for n in range(2)),
        )
        own.apply(web("disks", 1))
        own.wait_ready("disks-0")

        for process in first:
            process.kill()
        own("scale", "statefulset/disks", "--replicas=2")
        own.wait_ready("disks-0", "disks-1")
        system = Workspace(cluster, "kube-system")
        leases = {lease["metadata"]["name"]: lease["spec"] for lease in system.items("leases")}
        assert leases["mooring-controller"]["leaseTransitions"] >= 1
        assert leases["mooring-scheduler"]["leaseTransitions"] >= 1
        # The gate in which the new leader differs affects the scheduler only.
        assert "CSIStorageCapacity" not in system("get", "events")

        third = start(
            "controller",
            "--controllers=persistentvolume-binder-controller",
            "--leader-elect-resource-name=other",
            "--feature-gates=VolumeScheduling=false",
        )
        message = "VolumeScheduling is false in mooring-controller and true in mooring-scheduler"
        system.wait_for(lambda: message in system("get", "events", "--field-selector=reason=ComponentSkew"))
        third.end()
