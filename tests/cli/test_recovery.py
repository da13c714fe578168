"""`mooring orphans --plan` on files, and flags that do not go together; `--apply` is run in tests/e2e."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.api import well_known
from mooring.api.kinds import POD, POD_GROUP, Kind
from mooring.api.views.meta import ApiObject
from mooring.cli import recovery
from mooring.cli.main import main
from mooring.cli.sources import ClusterDocuments, SourceFlags, read
from mooring.client.documents import NOT_SERVED, UnlistedKind
from support.builders import claim_body, claim_ref, class_body, node_body, pod_body, volume_body

BODIES = (
    class_body(annotations={well_known.LOST_STORAGE: "confirmed"}),
    node_body(name="n1"),
    volume_body(name="free", node="n1"),
    volume_body(name="disk", node="n9", claim_ref=claim_ref(name="data", uid="data-uid"), phase="Bound"),
    claim_body(
        name="data",
        uid="data-uid",
        volume="disk",
        bound=True,
        phase="Bound",
        annotations={well_known.BOUND_BY_CONTROLLER: "yes"},
    ),
    pod_body(name="db-0", claims=["data"]),
)


def orphans(tmp_path: Path, *flags: str) -> Result:
    file = tmp_path / "dump.yaml"
    file.write_text(yaml.safe_dump_all(BODIES))
    return CliRunner().invoke(main, ["orphans", "-f", str(file), *flags])


@pytest.mark.req("R9.given-up")
def test_plan_prints_steps_loss_and_trial(tmp_path: Path) -> None:
    done = orphans(tmp_path, "--plan", "--confirm-lost", "n9")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "1 claim would be replaced, and the data lost."
    assert "  1. delete PersistentVolumeClaim default/data" in lines
    assert any(line.startswith("  loses: the binding of default/data to disk") for line in lines)
    assert any(line.startswith("  then: default/db-0 ") for line in lines)


def test_refusals_are_a_list_with_codes(tmp_path: Path) -> None:
    done = orphans(tmp_path, "--plan")
    assert done.exit_code == 1
    assert "  volume disk of claim default/data: Unconfirmed: n9 may come back with the data" in done.stdout


def test_programs_get_the_plan(tmp_path: Path) -> None:
    plan = json.loads(orphans(tmp_path, "--plan", "--confirm-lost", "n9", "-o", "json").stdout)
    assert [(item["claim"], item["reclaimPolicy"]) for item in plan["items"]] == [("default/data", "Retain")]
    assert plan["refused"] == []


@pytest.mark.parametrize(
    ("unseen", "code"),
    [
        pytest.param(UnlistedKind(POD_GROUP, NOT_SERVED), 0, id="groups on a server without them"),
        pytest.param(UnlistedKind(POD_GROUP, "forbidden"), 3, id="groups that may not be listed"),
        pytest.param(UnlistedKind(POD, NOT_SERVED), 3, id="pods"),
    ],
)
def test_plan_needs_every_kind_that_the_server_has(
    tmp_path: Path, unseen: UnlistedKind, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_in_part(flags: SourceFlags, kinds: Sequence[Kind[ApiObject]], *, component: str) -> ClusterDocuments:
        return read(flags, kinds, component=component)._replace(unseen=(unseen,))

    monkeypatch.setattr(recovery, "read", read_in_part)
    done = orphans(tmp_path, "--plan", "--confirm-lost", "n9")
    assert done.exit_code == code, done.output


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        pytest.param(["--apply", "--yes"], "--apply changes a cluster, and files were named", id="apply to files"),
        pytest.param(["--yes"], "--confirm-lost and --yes require --plan or --apply", id="only yes"),
        pytest.param(["--confirm-lost", "n9"], "--confirm-lost and --yes require --plan or --apply", id="only a node"),
    ],
)
def test_flags_that_do_not_go_together_are_rejected(tmp_path: Path, flags: list[str], error: str) -> None:
    done = orphans(tmp_path, *flags)
    assert done.exit_code == 2
    assert error in done.stderr
