"""`mooring up` given what it cannot work with: one sentence that says what to do, and nothing changed."""

import json
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import main


def up(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mooring", "up", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        pytest.param(["--nodes", "-1"], "-1 is not in the range", id="fewer nodes than none"),
        pytest.param(["--zones", "0"], "0 is not in the range", id="no zone"),
        pytest.param(["--port", "70000"], "70000 is not in the range", id="a port that does not exist"),
        pytest.param(["--port", "many"], "'many' is not a valid integer", id="a port that is no number"),
        pytest.param(["--in-memory", "--data-dir", "d"], "cannot be combined", id="kept and not kept"),
        pytest.param(["--wrong"], "No such option", id="an option that does not exist"),
    ],
)
def test_wrong_options_are_refused_before_anything_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["up", *options])
    assert done.exit_code == 2
    assert complaint in done.stderr
    assert list(tmp_path.iterdir()) == []


def refused(done: "subprocess.CompletedProcess[str]") -> str:
    """The one error line. A start that takes over a second also shows its progress."""
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    [line] = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    return line


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused(up(tmp_path, "--in-memory", "--port", str(port)))
    assert f"Port {port}" in line
    assert "choose another port" in line


def test_a_page_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = up(tmp_path, "--in-memory", "--port", "0", "--nodes", "1", "--page-port", str(port))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    # A slow start also prints its progress.
    assert done.stderr.splitlines()[-1:] == [
        f"Error: Port {port} on 127.0.0.1 is already in use: stop the program that holds it, or choose another port "
        "(0 picks a free one)."
    ]


def test_an_empty_token_file_is_refused(tmp_path: Path) -> None:
    """An empty token would be the administrator's: `Authorization: Bearer ` would do."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "token").write_text("\n")
    assert "token does not hold a token" in refused(up(tmp_path, "--data-dir", "data", "--port", "0"))


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "state.db"
    file.write_text("my diary\n" * 100)
    line = refused(up(tmp_path, "--data-dir", "data", "--port", "0"))
    assert "is not a database" in line
    assert file.read_text() == "my diary\n" * 100


def test_a_data_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    done = up(tmp_path, "--data-dir", "data")
    assert done.returncode == 2
    assert "is a file" in done.stderr


def test_a_kubeconfig_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    line = refused(up(tmp_path, "--in-memory", "--port", "0", "--kubeconfig", "file/kubeconfig"))
    assert "file" in line


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        pytest.param("token", b"", "does not hold a token", id="no token"),
        pytest.param("token", b"\xff\xfe", "does not hold a token", id="a token that is no text"),
        pytest.param("csi/hostpath/state.json", b"{", "is damaged", id="the driver's volumes"),
        pytest.param("pki/sa.key", b"x", "does not contain a key", id="the key of service accounts"),
    ],
)
def test_a_damaged_file_in_the_data_folder_is_named(tmp_path: Path, name: str, content: bytes, complaint: str) -> None:
    file = tmp_path / "data" / name
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    line = refused(up(tmp_path, "--data-dir", "data", "--port", "0"))
    assert name in line
    assert complaint in line
    assert file.read_bytes() == content


def test_a_data_folder_of_a_running_cluster_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with sqlite3.connect(tmp_path / "data" / "state.db") as other:
        other.execute("BEGIN EXCLUSIVE")
        line = refused(up(tmp_path, "--data-dir", "data", "--port", "0"))
    other.close()
    assert "state.db is in use" in line


def test_programs_read_one_line_when_the_cluster_is_ready(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mooring", "up", "--in-memory", "--port=0", "-o", "json", "--nodes=2", "--zones=1"]
    with subprocess.Popen([*command, "--kubeconfig=k"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            started = json.loads(process.stdout.readline())
        finally:
            process.terminate()
        rest = process.stdout.read()

    assert started["kubeconfig"] == str(tmp_path / "k")
    assert started["url"].startswith("https://127.0.0.1:")
    assert started["page"].startswith("http://127.0.0.1:")
    assert (started["nodes"], started["zones"], started["unreadyNodes"]) == (2, 1, [])
    assert len(started["storageClasses"]) == 3
    assert rest == ""
