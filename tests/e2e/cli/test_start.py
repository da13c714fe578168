"""`mooring up` after an interrupted start: no start hangs, and none damages the data."""

import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from support.builders import claim_body, pod_body
from support.e2e.cluster import START_SECONDS, Cluster
from support.e2e.workspace import Workspace
from support.hostpath.command import csi_hostpath
from support.simulation.scenarios import seeds

pytestmark = pytest.mark.slow

#: Files that a first start creates, in this order: each is a point at which it can be killed.
TRACES: Final = ("data", "data/state.db", "data/token", "data/csi/hostpath/lock", "data/pki/ca.crt", "data/kubeconfig")
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
#: Seconds into a later start, which creates no new files.
LATER: Final = 0.9
LATER_ROUNDS: Final = len(seeds(3))


@contextmanager
def starting(folder: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "mooring", "up", "--port", "0", "--no-page", *options]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def end(process: "subprocess.Popen[str]", how: signal.Signals) -> None:
    """Stop by the signal or gracefully, within the time limit of a stop."""
    process.send_signal(how)
    _, errors = process.communicate(timeout=START_SECONDS)
    assert process.returncode in (0, 1, -how, 128 + how), (process.returncode, errors)
    if how is not signal.SIGKILL:
        assert "Traceback" not in errors, errors


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_cluster_starts_with_a_node_switched_off(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster("--data-dir", "data")
    cluster("annotate", "node", "node-2", "mooring.dev/power=off")
    failed = '{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}'
    cluster("patch", "node", "node-2", "--subresource=status", "--type=strategic", "-p", failed)
    assert cluster.stop(signal.SIGINT) == 0
    cluster.start()
    assert "  not ready: node-2 (kubectl describe node)" in cluster.output
    assert re.search(r"node-2 +NotReady", cluster("get", "nodes"))
    cluster("annotate", "node", "node-2", "mooring.dev/power-")
    cluster("wait", "node", "node-2", "--for=condition=Ready", "--timeout=30s")


def test_first_start_resumes_after_kill(tmp_path: Path, start_cluster: Callable[..., Cluster]) -> None:
    for number, trace in enumerate(TRACES):
        with starting(tmp_path, "--data-dir", "data") as process:
            wait_for(lambda trace=trace: (tmp_path / trace).exists())  # type: ignore[misc]
            end(process, SIGNALS[number % 3])
    cluster = start_cluster("--data-dir", "data")
    assert [node["metadata"]["name"] for node in cluster.items("nodes")] == ["node-1", "node-2", "node-3"]
    assert len(cluster.items("pv")) == 6


def test_later_start_resumes_after_kill(tmp_path: Path, start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster("--data-dir", "data")
    default = Workspace(cluster, "default")
    default.apply(
        claim_body(name="data", namespace="", storage_class="fast"), pod_body(name="web", namespace="", claims=["data"])
    )
    default.wait_ready("web")
    cluster.stop(signal.SIGKILL)
    rng = random.Random(10)
    for number in range(LATER_ROUNDS):
        with starting(tmp_path, "--data-dir", "data") as process:
            time.sleep(rng.random() * LATER)
            end(process, SIGNALS[number % 3])
    cluster.start()
    default.wait_ready("web")
    assert len(cluster.items("pv")) == 7


def test_driver_that_is_never_ready_is_reported(tmp_path: Path) -> None:
    with (
        csi_hostpath(tmp_path, "--pool", "disk=10Gi", "--fail", "Probe=DEADLINE_EXCEEDED"),
        starting(tmp_path, "--in-memory", f"--csi-endpoint=unix://{tmp_path}/csi.sock") as process,
    ):
        assert process.stderr is not None
        assert any(line == "waiting for the CSI driver …\n" for line in process.stderr)
        end(process, signal.SIGINT)
        assert process.returncode == 128 + signal.SIGINT


#: Limits the files of a process, which then becomes the command. Not a `preexec_fn`: gRPC, once other tests have
#: loaded it, does not survive a fork that runs Python.
LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execv(sys.executable, [sys.executable, "-m", "mooring", *sys.argv[2:]])
"""


@pytest.mark.parametrize("bytes_left", [100_000, 300_000])
def test_full_disk_is_reported_in_one_line(tmp_path: Path, bytes_left: int) -> None:
    """A file size limit stands for a full disk."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            LIMITED,
            str(bytes_left),
            "up",
            "--port",
            "0",
            "--data-dir",
            "data",
            "--log-level",
            "error",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("Error: ")
    assert "state.db" in last
    assert "Traceback" not in done.stderr
