"""`mooring story` on files: what it prints, and how it ends."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from builders import claim_body, pod_body
from mooring.cli.main import main

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


def tell(tmp_path: Path, what: str, *flags: str) -> Result:
    file = tmp_path / "dump.yaml"
    file.write_text(yaml.safe_dump_all([pod_body(name="web", claims=["data"]), claim_body(name="data"), EVENT]))
    return CliRunner().invoke(main, ["story", what, "-f", str(file), *flags])


def test_people_get_the_standing_and_a_line_for_each_happening(tmp_path: Path) -> None:
    done = tell(tmp_path, "pod/web")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "Pod default/web is Pending, without a node.",
        "",
        "2026-01-02 03:04:05  pod/default/web  default-scheduler: FailedScheduling: 0/1 nodes are available. "
        "(x5 until 03:09:05)",
    ]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_it_all(tmp_path: Path, output: str) -> None:
    done = tell(tmp_path, "po/web", "-o", output)
    told = json.loads(done.stdout) if output == "json" else yaml.safe_load(done.stdout)
    assert told["subject"] == "pod/default/web"
    assert told["happenings"][0]["times"] == 5


def test_a_claim_without_a_past_is_told_as_it_stands(tmp_path: Path) -> None:
    done = tell(tmp_path, "pvc/data")
    assert done.exit_code == 0
    assert done.stdout == "Claim default/data is Pending.\n"


@pytest.mark.parametrize(
    ("what", "flags", "code", "want"),
    [
        pytest.param("web", (), 2, "'web' does not say whose story to tell: write pod/NAME or pvc/NAME.", id="no kind"),
        pytest.param("node/n1", (), 2, "'node/n1' does not say whose story to tell", id="a kind without stories"),
        pytest.param(
            "pod/gone", (), 4, "There is no pod default/gone, and nothing was told of one.", id="nothing of the name"
        ),
        pytest.param("pod/web", ("-n", "x"), 4, "There is no pod x/web", id="another namespace"),
    ],
)
def test_what_cannot_be_told_is_one_sentence(
    tmp_path: Path, what: str, flags: tuple[str, ...], code: int, want: str
) -> None:
    done = tell(tmp_path, what, *flags)
    assert done.exit_code == code
    assert done.stderr.startswith(f"Error: {want}")
