"""Two `mooring apiserver` processes on one etcd, with the real kubectl: both serve the same cluster."""

import json
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.e2e.kubectl import Kubectl
from support.store.etcd_process import EtcdProcess, require_etcd

#: Skips the module in one line without etcd.
BINARY: Final = require_etcd()
#: A start takes a second; CI machines may be slow.
START_SECONDS: Final = 60


class Server:
    """One of several servers with the same keys and tokens, as on control-plane nodes."""

    def __init__(self, etcd: EtcdProcess, folder: Path, name: str) -> None:
        self.kubectl = Kubectl(folder / name)
        self._command = [
            *(sys.executable, "-m", "mooring", "apiserver"),
            *("--etcd-servers", etcd.url, "--data-dir", str(folder / "data")),
            *("--kubeconfig", str(folder / name), "--secure-port", "0"),
        ]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        timer = threading.Timer(START_SECONDS, self._process.kill)
        timer.start()
        assert self._process.stdout is not None
        ready = any(line == "ready\n" for line in self._process.stdout)
        timer.cancel()
        assert ready, self._process.communicate()[1]

    def end(self, how: signal.Signals = signal.SIGTERM) -> str:
        """Stop the server; returns its log."""
        if self._process is None:
            return ""
        self._process.send_signal(how)
        _, errors = self._process.communicate(timeout=START_SECONDS)
        assert "Traceback" not in errors, errors
        assert self._process.returncode == (0 if how == signal.SIGTERM else -how)
        self._process = None
        return errors


@pytest.fixture(scope="module")
def etcd() -> Iterator[EtcdProcess]:
    with tempfile.TemporaryDirectory() as folder:
        process = EtcdProcess(BINARY, Path(folder))
        process.start()
        yield process
        process.stop()


@pytest.fixture(scope="module")
def servers(
    kubectl_on_path: None, etcd: EtcdProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, Server]]:
    folder = tmp_path_factory.mktemp("servers")
    one, two = Server(etcd, folder, "one"), Server(etcd, folder, "two")
    one.start()
    two.start()
    yield one, two
    one.end()
    two.end()


def config_map(name: str, value: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}})


def test_write_to_one_server_is_read_from_the_other(servers: tuple[Server, Server]) -> None:
    one, two = servers
    for n in range(5):
        writer, reader = (one, two) if n % 2 else (two, one)
        writer.kubectl("apply", "-f", "-", stdin=config_map("shared", str(n)))
        assert reader.kubectl("get", "configmap", "shared", "-o", "jsonpath={.data.k}") == str(n)
    two.kubectl("delete", "configmap", "shared")
    assert "NotFound" in one.kubectl.refusal("get", "configmap", "shared")


def test_concurrent_update_of_one_version_conflicts(servers: tuple[Server, Server]) -> None:
    one, two = servers
    one.kubectl("apply", "-f", "-", stdin=config_map("edited", "0"))
    seen = two.kubectl("get", "configmap", "edited", "-o", "json")
    one.kubectl("replace", "-f", "-", stdin=seen.replace('"k": "0"', '"k": "1"'))
    refused = two.kubectl.refusal("replace", "-f", "-", stdin=seen.replace('"k": "0"', '"k": "2"'))
    assert "the object has been modified" in refused
    assert two.kubectl("get", "configmap", "edited", "-o", "jsonpath={.data.k}") == "1"


def test_role_changes_take_effect_on_both_servers(servers: tuple[Server, Server]) -> None:
    one, two = servers
    asked = ("auth", "can-i", "list", "pods", "--as", "alice")
    assert "no" in two.kubectl(*asked, check=False)
    one.kubectl("create", "clusterrolebinding", "alice", "--clusterrole=view", "--user=alice")
    assert two.kubectl(*asked).strip() == "yes"
    two.kubectl("delete", "clusterrolebinding", "alice")
    assert "no" in one.kubectl(*asked, check=False)


def test_token_is_valid_on_both_servers(servers: tuple[Server, Server]) -> None:
    one, two = servers
    one.kubectl("create", "serviceaccount", "robot")
    token = one.kubectl("create", "token", "robot").strip()
    output = two.kubectl("auth", "whoami", "--token", token, "-o", "json")
    assert json.loads(output)["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"


def test_other_server_continues_after_kill(servers: tuple[Server, Server]) -> None:
    one, two = servers
    one.kubectl("apply", "-f", "-", stdin=config_map("kept", "0"))
    one.end(signal.SIGKILL)
    two.kubectl("apply", "-f", "-", stdin=config_map("kept", "1"))
    one.start()
    assert one.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.k}") == "1"


def test_kubectl_reports_unavailable_etcd(servers: tuple[Server, Server], etcd: EtcdProcess) -> None:
    one, two = servers
    one.kubectl("apply", "-f", "-", stdin=config_map("survivor", "0"))
    etcd.stop()
    assert "the server's store failed; its log says why" in one.kubectl.refusal("get", "configmap", "survivor")
    assert "etcd failed" in one.kubectl("get", "--raw", "/readyz?verbose", check=False)
    etcd.start()
    assert two.kubectl("get", "configmap", "survivor", "-o", "jsonpath={.data.k}") == "0"
    one.kubectl("apply", "-f", "-", stdin=config_map("survivor", "1"))
    assert two.kubectl("get", "configmap", "survivor", "-o", "jsonpath={.data.k}") == "1"
    assert one.kubectl("get", "--raw", "/readyz") == "ok"
