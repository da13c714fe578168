"""`mooring reset`: an embedded cluster starts empty again, and nothing else is deleted."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.cli.main import main
from mooring.cli.terminal import ExitCode
from support.e2e.cluster import Cluster


def reset(folder: Path, *flags: str, answer: str = "") -> Result:
    return CliRunner().invoke(main, ["reset", "--data-dir", str(folder), *flags], input=answer)


def filled(folder: Path) -> Path:
    """A data folder as a stopped cluster leaves it, with a file of the user's beside."""
    (folder / "csi" / "volumes" / "v1").mkdir(parents=True)
    for name in ("state.db", "state.db-wal", "token", "kubeconfig", "csi/volumes/v1/data", "notes.txt"):
        (folder / name).write_bytes(b"")
    return folder


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_objects_and_volumes_go_and_the_rest_stays(tmp_path: Path) -> None:
    done = reset(filled(tmp_path), "--yes")

    assert done.exit_code == ExitCode.OK, done.output
    assert left(tmp_path) == {"token", "kubeconfig", "notes.txt"}


def test_a_damaged_file_is_deleted_too(tmp_path: Path) -> None:
    (filled(tmp_path) / "state.db").write_bytes(b"this is no database, and long enough to look at" * 100)

    assert reset(tmp_path, "--yes").exit_code == ExitCode.OK
    assert "state.db" not in left(tmp_path)


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_without_confirmation_nothing_is_deleted(tmp_path: Path, answer: str) -> None:
    before = left(filled(tmp_path))

    done = reset(tmp_path, answer=answer)

    assert "volumes with their data" in done.output
    assert done.exit_code == ExitCode.PROBLEM
    assert left(tmp_path) == before


def test_a_folder_without_a_cluster_is_refused(tmp_path: Path) -> None:
    (tmp_path / "csi").mkdir()

    done = reset(tmp_path, "--yes")

    assert done.exit_code == ExitCode.USAGE
    assert "has no cluster" in done.output
    assert left(tmp_path) == {"csi"}


def test_a_cluster_is_reset_once_it_is_stopped(tmp_path: Path) -> None:
    data = tmp_path / "data"
    cluster = Cluster(tmp_path, f"--data-dir={data}", "--no-page")
    cluster.start()
    try:
        cluster("create", "configmap", "kept")

        refused = reset(data, "--yes")
        assert refused.exit_code == ExitCode.PROBLEM
        assert "is in use" in refused.output
        assert cluster("get", "configmap", "kept", "-o", "name").strip() == "configmap/kept"

        cluster.stop()
        assert reset(data, "--yes").exit_code == ExitCode.OK
        cluster.start()
        assert "kept" not in cluster("get", "configmap", "-o", "name")
    finally:
        cluster.end()
