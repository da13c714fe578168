"""A real etcd on loopback, to be stopped, killed and started again on the same data."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from conformance.process import Process, free_port

HOST: Final = "127.0.0.1"


class EtcdProcess:
    """`start` before use, `stop` at the end. `port` is another one where something stands in between."""

    def __init__(self, binary: Path, folder: Path, *, options: Sequence[str] = (), scheme: str = "http") -> None:
        self.port = free_port()
        self.url = f"{scheme}://{HOST}:{self.port}"
        peers = f"http://{HOST}:{free_port()}"
        self._health = f"http://{HOST}:{free_port()}"
        self._log = folder / "etcd.log"
        self._command = [
            binary,
            f"--data-dir={folder / 'etcd'}",
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
        self._process: Process | None = None

    def start(self) -> None:
        self._process = Process(self._command, self._log)
        self._process.wait_until_healthy(f"{self._health}/health", None)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.stop(how)
            self._process = None
