"""`mooring apiserver` as people run it: flags, what it lets in, and how it ends."""

import json
import signal
import ssl
import stat
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml
from click.testing import CliRunner

from mooring.cli.main import main

#: Generous: a start takes half a second, CI machines are slow at times.
START_SECONDS = 30


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "mooring", "apiserver", *options]


class Server:
    """A running `mooring apiserver`, and what its kubeconfig says."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        started = command("--secure-port", "0", "--log-level", "info", *options)
        self.process = subprocess.Popen(started, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.output = list(iter(self.process.stdout.readline, "ready\n"))
        self.kubeconfig = Path(self.output[1].partition("=")[2].strip())
        config = yaml.safe_load(self.kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self.url: str = cluster["server"]
        self.token: str = config["users"][0]["user"]["token"]
        self._trust = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())

    def ask(self, path: str, *, token: str = "", body: object = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        try:
            with urlopen(Request(self.url + path, data, headers), context=self._trust, timeout=10) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text[:1] == b"{" else text.decode()
        except HTTPError as error:
            return error.code, json.loads(error.read())

    def stop(self, with_signal: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(with_signal)
        _, errors = self.process.communicate(timeout=START_SECONDS)
        return self.process.returncode, errors


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path, "--data-dir", "data")
    yield running
    if running.process.poll() is None:
        running.stop()


def config_map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"k": "v"}}


def test_it_serves_and_comes_back_with_what_it_had(server: Server, tmp_path: Path) -> None:
    assert server.output[0].startswith("Mooring ")
    assert server.ask("/readyz") == (200, "ok")
    assert server.ask("/api/v1/namespaces/default/configmaps", body=config_map("a"))[0] == 201
    assert server.stop()[0] == 0
    again = Server(tmp_path, "--data-dir", "data")
    try:
        code, found = again.ask("/api/v1/namespaces/default/configmaps/a")
        assert (code, found["data"]) == (200, {"k": "v"})
        assert again.token == server.token
    finally:
        assert again.stop(signal.SIGINT)[0] == 0


def test_what_it_keeps_is_for_its_owner_alone(server: Server, tmp_path: Path) -> None:
    kept = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert {"state.db", "token", "kubeconfig", "ca.key", "server.key"} <= {path.name for path in kept}
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in kept if path.suffix != ".crt"} == {
        path.name: "0o600" for path in kept if path.suffix != ".crt"
    }


def test_what_every_cluster_has(server: Server) -> None:
    _, namespaces = server.ask("/api/v1/namespaces")
    assert [one["metadata"]["name"] for one in namespaces["items"]] == [
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
    ]
    _, classes = server.ask("/apis/scheduling.k8s.io/v1/priorityclasses")
    assert len(classes["items"]) == 2


def test_a_signal_ends_watches_and_then_the_server(server: Server) -> None:
    """A watcher sees the end of its stream, not a broken one."""
    headers = {"Authorization": f"Bearer {server.token}"}
    request = Request(f"{server.url}/api/v1/namespaces?watch=1&resourceVersion=0", headers=headers)
    with urlopen(request, context=server._trust, timeout=10) as stream:
        assert json.loads(stream.readline())["type"] == "ADDED"
        code, errors = server.stop()
        assert b"ERROR" not in stream.read()
    assert code == 0
    lines = [json.loads(line) for line in errors.splitlines()]
    assert [line["verb"] for line in lines if line["event"] == "request"] == ["WATCH"]
    assert not [line for line in lines if line["level"] in ("warning", "error")]
    assert server.token not in errors


def test_metrics_have_the_names_dashboards_know(server: Server) -> None:
    server.ask("/api/v1/namespaces")
    code, text = server.ask("/metrics")
    assert code == 200
    assert 'apiserver_storage_objects{resource="namespaces"} 4.0' in text
    for name in ("request_total", "request_duration_seconds_bucket", "current_inflight_requests"):
        assert f"apiserver_{name}{{" in text


def test_tokens_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "tokens.csv").write_text('sesame,alice,1,"system:masters,dev"\nknock,bob,2\n')
    server = Server(tmp_path, "--in-memory", "--token-auth-file", "tokens.csv")
    try:
        assert server.ask("/api/v1/nodes", token="sesame")[0] == 200
        code, status = server.ask("/api/v1/nodes", token="knock")
        assert (code, 'User "bob" cannot list resource "nodes"' in status["message"]) == (403, True)
        assert server.ask("/api/v1/nodes", token="wrong")[0] == 401
    finally:
        server.stop()


def test_events_go_after_their_time(tmp_path: Path) -> None:
    server = Server(tmp_path, "--in-memory", "--event-ttl", "200ms")
    try:
        event = {"metadata": {"name": "a"}, "involvedObject": {"kind": "Pod", "namespace": "default"}}
        assert server.ask("/api/v1/namespaces/default/events", body=event)[0] == 201
        deadline = time.monotonic() + 10
        while server.ask("/api/v1/events")[1]["items"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        server.stop()


def test_keys_may_lie_elsewhere(tmp_path: Path) -> None:
    server = Server(tmp_path, "--in-memory", "--cert-dir", "keys", "--kubeconfig", "config")
    server.stop()
    assert {"ca.crt", "ca.key", "server.crt", "server.key"} <= {path.name for path in (tmp_path / "keys").iterdir()}
    assert (tmp_path / "config").exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        pytest.param([], "Give either --data-dir", id="kept where"),
        pytest.param(["--in-memory", "--data-dir", "d"], "Give either --data-dir", id="kept and not kept"),
        pytest.param(["--in-memory", "--secure-port", "70000"], "is not in the range", id="no such port"),
        pytest.param(["--in-memory", "--event-ttl", "soon"], "invalid duration 'soon'", id="no such time"),
        pytest.param(["--in-memory", "--event-ttl", "0"], "must be greater than 0", id="no time"),
        pytest.param(["--in-memory", "--token-auth-file", "none"], "does not exist", id="no such file"),
        pytest.param(["--in-memory", "--feature-gates", "X=true"], "unrecognized feature gate: X", id="no such gate"),
        pytest.param(["--in-memory", "--storage-backend", "x"], "No such option", id="a flag it does not know"),
        pytest.param(
            ["--in-memory", "--etcd-servers", "http://127.0.0.1:1"],
            "--etcd-servers requires --data-dir",
            id="etcd without a place",
        ),
        pytest.param(
            ["--etcd-servers", "127.0.0.1:1"], "expected http://HOST:PORT or https://HOST:PORT", id="no such etcd"
        ),
        pytest.param(
            ["--etcd-servers", "http://127.0.0.1:1", "--etcd-compaction-interval", "soon"],
            "invalid duration 'soon'",
            id="no such interval",
        ),
    ],
)
def test_wrong_flags_are_refused_before_anything_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["apiserver", *options])
    assert (done.exit_code, done.stdout) == (2, "")
    assert complaint in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_an_address_that_is_not_here_is_named(tmp_path: Path) -> None:
    asked = command("--in-memory", "--bind-address", "192.0.2.1", "--secure-port", "0")
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, timeout=START_SECONDS, check=False)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "Cannot listen on 192.0.2.1" in line
