"""`mooring demo` from beginning to end, and the picture of it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tools.generate_demo import PICTURE, shown_commands

from e2e.cli.test_start import wait_for
from mooring.cli.demo import commands

pytestmark = pytest.mark.slow

DEMO = [sys.executable, "-m", "mooring", "demo"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Whose temporary files are the test's."""
    return {**os.environ, "TMPDIR": str(tmp_path), "KUBECONFIG": "/no/such/file"}


def test_demo_shows_a_stuck_pod_its_explanation_and_the_rollback(
    tmp_path: Path, environment: dict[str, str], kubectl_on_path: None
) -> None:
    done = subprocess.run(DEMO, env=environment, capture_output=True, text=True, timeout=300, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert re.findall(r"^\$ (.*)$", done.stdout, re.MULTILINE) == list(commands())
    parts = (
        "db-2   Running",
        "default/db-3 would not fit: 0/3 nodes are available",
        "what would help:",
        "The pod is scheduled.",
        'volume of claim "left" is rolled back: claim "right" of the same pod gets no volume on node node-1',
        "pod/pair condition met",
        "pair       Running   node-",
        "# Start a cluster of your own",
    )
    found = [done.stdout.find(part) for part in parts]
    assert -1 not in found
    assert found == sorted(found)
    assert list(tmp_path.iterdir()) == [], "nothing stays on disk"


def test_signal_ends_the_demo_and_its_cluster(
    tmp_path: Path, environment: dict[str, str], kubectl_on_path: None
) -> None:
    with subprocess.Popen(DEMO, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert any(line.startswith("$ ") for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGTERM
        assert list(tmp_path.iterdir()) == []
        # The command that was running may outlive the demo for a moment; the cluster would stay.
        wait_for(lambda: not group_exists(process.pid))


def group_exists(number: int) -> bool:
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True


def test_missing_kubectl_is_reported(environment: dict[str, str]) -> None:
    done = subprocess.run(
        DEMO, env={**environment, "PATH": "/no/such/folder"}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr == ("Error: The demo runs kubectl, which is not on the PATH: install kubectl 1.30 or newer.\n")


def test_picture_shows_the_commands_of_the_demo() -> None:
    picture = PICTURE.read_text()
    assert len(picture) < 150_000
    assert shown_commands(picture) == list(commands()), "run python -m tools.generate_demo"
