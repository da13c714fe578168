"""A real etcd on loopback that can be killed and restarted on its data."""

import base64
import json
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from support.conformance.process import START_SECONDS, free_port

HOST: Final = "127.0.0.1"
DRIVER: Final = Path(__file__).parents[3] / "conformance" / "build.py"
POLL_SECONDS: Final = 0.02
#: PR_SET_PDEATHSIG: etcd ends with pytest, also after kill -9. Set by an intermediate program, not in a forked child:
#: gRPC's threads do not survive a fork.
DIES_WITH_US: Final = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"
_OPEN: Final = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


def require_etcd() -> Path:
    """The binary; skips the test or module if it is not built."""
    check = subprocess.run([sys.executable, DRIVER, "--check", "etcd"], capture_output=True, text=True, check=False)
    if check.returncode != 0:
        pytest.skip(f"no etcd: its tests are not run ({check.stderr.strip()})", allow_module_level=True)
    return Path(check.stdout.strip()) / "etcd"


class EtcdProcess:
    """`start` before use, `stop` at the end."""

    def __init__(self, binary: Path, folder: Path, *, options: Sequence[str] = (), scheme: str = "http") -> None:
        self.port = free_port()
        self.url = f"{scheme}://{HOST}:{self.port}"
        peers = f"http://{HOST}:{free_port()}"
        self._health = f"http://{HOST}:{free_port()}"
        self._log = folder / "etcd.log"
        self._data = folder / "etcd"
        self._command = [
            binary,
            f"--data-dir={self._data}",
            f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}",
            f"--listen-metrics-urls={self._health}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            # These tests kill processes, not the power.
            "--unsafe-no-fsync",
            "--log-level=warn",
            *options,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            command = [sys.executable, "-c", DIES_WITH_US, *self._command]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + START_SECONDS
        while not self._healthy():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """With SIGKILL: a graceful stop waits seconds for watches."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def forget(self) -> None:
        """Delete the data of the stopped etcd."""
        shutil.rmtree(self._data)

    def put(self, key: str, value: str) -> int:
        """As a foreign writer; returns the revision."""
        return int(self._call("put", {"key": key, "value": value})["header"]["revision"])

    def delete_everything(self, prefix: str) -> None:
        """In one transaction."""
        self._call("deleterange", {"key": prefix, "range_end": prefix[:-1] + chr(ord(prefix[-1]) + 1)})

    def value(self, key: str) -> bytes | None:
        found = self._call("range", {"key": key}).get("kvs", [])
        return base64.b64decode(found[0]["value"]) if found else None

    def compact(self) -> int:
        """Compact at the current revision, which is returned."""
        revision = int(self._call("range", {"key": "any"})["header"]["revision"])
        self._call("compaction", {}, revision=revision)
        return revision

    def _call(self, verb: str, texts: dict[str, str], **more: int) -> dict[str, Any]:
        body = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()} | more
        request = urllib.request.Request(f"{self.url}/v3/kv/{verb}", json.dumps(body).encode())
        with _OPEN(request, timeout=10.0) as answer:
            answer: dict[str, Any] = json.load(answer)
        return answer

    def _healthy(self) -> bool:
        try:
            with _OPEN(f"{self._health}/health", timeout=5.0):
                return True
        except OSError:
            return False
