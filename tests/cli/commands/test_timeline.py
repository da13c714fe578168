"""`mooring timeline` on files: what it prints, and how it ends."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.cli.main import main
from support.builders import claim_body, pod_body

EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "web.1", "namespace": "default"},
    "involvedObject": {"kind": "Pod", "apiVersion": "v1", "namespace": "default", "name": "web"},
    "reason": "FailedScheduling",
    "message": "0/1 nodes are available.",
    "source": {"component": "default-scheduler"},
    "firstTimestamp": "2026-01-02T03:04:05Z",
    "lastTimestamp": "2026-01-02T03:09:05Z",
    "count": 5,
}


def timeline(tmp_path: Path, what: str, *flags: str) -> Result:
    file = tmp_path / "dump.yaml"
    file.write_text(yaml.safe_dump_all([pod_body(name="web", claims=["data"]), claim_body(name="data"), EVENT]))
    return CliRunner().invoke(main, ["timeline", what, "-f", str(file), *flags])


def test_text_output_has_the_state_and_a_line_per_entry(tmp_path: Path) -> None:
    done = timeline(tmp_path, "pod/web")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "Pod default/web is Pending, without a node.",
        "",
        "2026-01-02 03:04:05  pod/default/web  default-scheduler: FailedScheduling: 0/1 nodes are available. "
        "(x5 until 03:09:05)",
    ]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_it_all(tmp_path: Path, output: str) -> None:
    done = timeline(tmp_path, "po/web", "-o", output)
    shown = json.loads(done.stdout) if output == "json" else yaml.safe_load(done.stdout)
    assert shown["subject"] == "pod/default/web"
    assert shown["happenings"][0]["times"] == 5


def test_claim_without_entries_shows_its_state(tmp_path: Path) -> None:
    done = timeline(tmp_path, "pvc/data")
    assert done.exit_code == 0
    assert done.stdout == "Claim default/data is Pending.\n"


@pytest.mark.parametrize(
    ("what", "flags", "code", "want"),
    [
        pytest.param("web", (), 2, "'web' is not an object with a timeline: write pod/NAME, pvc/NAME", id="no kind"),
        pytest.param("node/n1", (), 2, "'node/n1' is not an object with a timeline", id="a kind without a timeline"),
        pytest.param(
            "pod/gone", (), 4, "There is no pod default/gone, and no Event names one.", id="nothing of the name"
        ),
        pytest.param("pod/web", ("-n", "x"), 4, "There is no pod x/web", id="another namespace"),
    ],
)
def test_invalid_targets_are_one_line_errors(
    tmp_path: Path, what: str, flags: tuple[str, ...], code: int, want: str
) -> None:
    done = timeline(tmp_path, what, *flags)
    assert done.exit_code == code
    assert done.stderr.startswith(f"Error: {want}")
