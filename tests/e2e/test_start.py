"""`mooring up` on what an earlier start left behind and ended before it is ready: no start hangs or spoils another."""

import os
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

from builders import claim_body, pod_body
from e2e.cluster import START_SECONDS, Cluster
from e2e.workspace import Workspace
from hostpath.command import csi_hostpath

#: What a first start leaves in its folder, in this order: each is a moment at which it can end.
TRACES: Final = ("data", "data/state.db", "data/token", "data/csi/hostpath/lock", "data/pki/ca.crt", "data/kubeconfig")
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
#: Seconds into a later start, which leaves no new traces.
LATER: Final = 0.9
LATER_ROUNDS: Final = int(os.environ.get("MOORING_SIM_SEEDS", "3"))


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
    """By the signal, or in order, within the time a stop may take."""
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


def test_a_node_that_was_switched_off_does_not_keep_the_cluster_from_starting(
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


def test_a_first_start_can_end_at_any_moment_and_the_next_one_goes_on(
    tmp_path: Path, start_cluster: Callable[..., Cluster]
) -> None:
    for number, trace in enumerate(TRACES):
        with starting(tmp_path, "--data-dir", "data") as process:
            wait_for(lambda trace=trace: (tmp_path / trace).exists())  # type: ignore[misc]
            end(process, SIGNALS[number % 3])
    cluster = start_cluster("--data-dir", "data")
    assert [node["metadata"]["name"] for node in cluster.items("nodes")] == ["node-1", "node-2", "node-3"]
    assert len(cluster.items("pv")) == 6


def test_later_starts_can_end_at_any_moment_too(tmp_path: Path, start_cluster: Callable[..., Cluster]) -> None:
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


def test_a_driver_that_is_never_ready_is_named_and_a_signal_ends_the_waiting(tmp_path: Path) -> None:
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
def test_a_disk_without_room_is_one_sentence(tmp_path: Path, bytes_left: int) -> None:
    """Files that cannot grow are as good as a full disk."""
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
