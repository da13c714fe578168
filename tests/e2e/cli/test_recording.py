"""`mooring simulate --record` on a live cluster, and `--replay` of what happened there."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import mooring.testing

EXAMPLE = Path(__file__).parents[3] / "examples" / "statefulset-local.yaml"
#: Patience with a busy machine.
SECONDS = 60.0


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mooring", "simulate", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_changes_of_a_live_cluster_are_recorded_and_replayed(tmp_path: Path) -> None:
    file = tmp_path / "changes.jsonl"
    with mooring.testing.cluster(nodes=3, zones=3) as cluster:
        source = ["--kubeconfig", str(cluster.kubeconfig), "--record", str(file)]
        command = [sys.executable, "-m", "mooring", "simulate", *source, "--for", "5m"]
        recorder = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            deadline = time.monotonic() + SECONDS
            while not (file.exists() and b'"LISTED"' in file.read_bytes()):
                assert time.monotonic() < deadline, "the cluster was not listed"
                assert recorder.poll() is None, recorder.communicate()
                time.sleep(0.1)
            cluster.apply(EXAMPLE)
            cluster.wait_running("db-0", "db-1", "db-2")
            recorder.send_signal(signal.SIGINT)
            out, err = recorder.communicate(timeout=SECONDS)
        finally:
            recorder.kill()
        assert (recorder.returncode, "changes in" in out) == (0, True), err
        again = simulate(*source)
        assert (again.returncode, "File exists" in again.stderr) == (2, True)
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    shown = simulate("--replay", str(file), "-o", "json")
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)
    assert (found["recorded"]["scheduled"], found["replayed"]["scheduled"]) == (3, 3)
    assert [each["pod"] for each in found["pods"]] == ["default/db-0", "default/db-1", "default/db-2"]
    assert found["notes"] == []
