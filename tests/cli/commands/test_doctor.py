"""`mooring doctor`: output and exit codes, on files and on API servers that deny lists."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.cli.main import main
from mooring.cli.terminal import ExitCode
from support.builders import Body, claim_body, class_body, node_body, volume_body

STUCK = claim_body(name="data", storage_class="gone")
#: A warning.
RELEASED = volume_body(name="disk", node="n9", phase="Released")


def diagnose(tmp_path: Path, *bodies: Body, flags: tuple[str, ...] = ()) -> Result:
    file = tmp_path / "dump.yaml"
    file.write_text(yaml.safe_dump_all(bodies))
    return CliRunner().invoke(main, ["doctor", "-f", str(file), *flags])


def test_healthy_cluster_ends_with_zero(tmp_path: Path) -> None:
    done = diagnose(tmp_path, node_body(name="n1"), class_body())
    assert done.exit_code == ExitCode.OK
    assert done.stdout == "Nothing is wrong with storage and scheduling.\n"


def test_finding_has_evidence_and_fix(tmp_path: Path) -> None:
    done = diagnose(tmp_path, node_body(name="n1"), RELEASED)
    assert done.exit_code == ExitCode.PROBLEM
    assert done.stdout.splitlines()[:5] == [
        "1 warning.",
        "",
        "WARNING VolumeUnreachable: PersistentVolume disk",
        "  no ready node can reach the volume (10Gi, Released).",
        "    requires kubernetes.io/hostname=n9",
    ]
    assert done.stdout.splitlines()[-1].startswith("  fix: ")


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        pytest.param((), ExitCode.PROBLEM, id="warnings count"),
        pytest.param(("--fail-on", "error"), ExitCode.OK, id="only errors count"),
        pytest.param(("--ignore", "VolumeUnreachable"), ExitCode.OK, id="accepted"),
        pytest.param(("--ignore", "Unknown"), ExitCode.USAGE, id="no such code"),
    ],
)
def test_flags_decide_the_exit_code(tmp_path: Path, flags: tuple[str, ...], code: ExitCode) -> None:
    assert diagnose(tmp_path, node_body(name="n1"), RELEASED, flags=flags).exit_code == code


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_ranked_findings(tmp_path: Path, output: str) -> None:
    done = diagnose(tmp_path, node_body(name="n1"), RELEASED, STUCK, flags=("-o", output))
    whole = json.loads(done.stdout) if output == "json" else yaml.safe_load(done.stdout)
    assert [(one["severity"], one["code"]) for one in whole["findings"]] == [
        ("error", "ClaimStuck"),
        ("warning", "VolumeUnreachable"),
    ]
    assert whole["ok"] is False
    assert whole["skipped"] == []
