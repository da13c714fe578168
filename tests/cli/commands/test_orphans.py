"""`mooring orphans` on files: what it prints, and how it ends."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.cli.main import main
from support.builders import Body, claim_body, claim_ref, node_body, pod_body, volume_body

VOLUME = volume_body(name="disk", node="n9", claim_ref=claim_ref(name="data", uid="data-uid"), phase="Bound")
CLAIM = claim_body(name="data", uid="data-uid", volume="disk", bound=True, phase="Bound")


def list_orphans(tmp_path: Path, *bodies: Body, output: str = "text") -> Result:
    file = tmp_path / "dump.yaml"
    file.write_text(yaml.safe_dump_all(bodies))
    return CliRunner().invoke(main, ["orphans", "-f", str(file), "-o", output])


def test_no_orphans_end_with_zero(tmp_path: Path) -> None:
    done = list_orphans(tmp_path, node_body(name="n9"), VOLUME, CLAIM)
    assert done.exit_code == 0
    assert done.stdout == "Every volume can be reached from a ready node.\n"


def test_orphans_are_a_table_and_what_can_be_done(tmp_path: Path) -> None:
    done = list_orphans(tmp_path, node_body(name="n1"), VOLUME, CLAIM, pod_body(name="db-0", claims=["data"]))
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "1 volume cannot be reached from any node; 1 claim and 1 pod are affected."
    assert lines[2].split() == ["VOLUME", "PHASE", "SIZE", "WHERE", "CLAIM", "PODS", "WAITING", "AGE"]
    assert lines[3].startswith(
        "disk     Bound   10Gi   kubernetes.io/hostname=n9 (no such node: n9)   default/data   db-0"
    )
    assert "what can be done (nothing was):" in lines


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_it_all(tmp_path: Path, output: str) -> None:
    done = list_orphans(tmp_path, node_body(name="n1"), VOLUME, CLAIM, output=output)
    whole = json.loads(done.stdout) if output == "json" else yaml.safe_load(done.stdout)
    assert whole["ok"] is False
    assert whole["volumes"][0]["claim"]["claim"] == "default/data"


def test_wide_adds_columns(tmp_path: Path) -> None:
    done = list_orphans(tmp_path, node_body(name="n1"), VOLUME, CLAIM, output="wide")
    assert done.stdout.splitlines()[2].split()[-3:] == ["CLASS", "RECLAIM", "SINCE"]


def test_claims_have_a_table_of_their_own(tmp_path: Path) -> None:
    lost = claim_body(name="lost", volume="gone", bound=True, phase="Lost")
    done = list_orphans(tmp_path, node_body(name="n1"), lost)
    assert "default/lost   Lost    its volume was deleted   -      -" in done.stdout


def test_files_without_nodes_are_refused(tmp_path: Path) -> None:
    done = list_orphans(tmp_path, VOLUME)
    assert done.exit_code == 2
    assert done.stderr == "Error: The objects contain no Node, so every volume would be reported as unreachable.\n"
