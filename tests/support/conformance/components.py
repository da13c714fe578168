"""kube-scheduler and kube-controller-manager as child processes, against any API server."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from mooring.clock import SystemClock
from mooring.cluster import identities
from mooring.server.auth.certificates import ensure_certificates
from support.conformance.process import Process, free_port

HOST: Final = "127.0.0.1"


class Components:
    """Started with a kubeconfig; their own ports have certificates that only these tests trust."""

    def __init__(self, binaries: Path, folder: Path, kubeconfig: Path) -> None:
        self._binaries = binaries
        self._folder = folder
        self._kubeconfig = kubeconfig
        self._certificates = ensure_certificates(folder / "pki", clock=SystemClock())

    @contextmanager
    def controllers(self, *names: str, options: tuple[str, ...] = ()) -> Iterator[Process]:
        """kube-controller-manager with these controllers only, such as `persistentvolume-binder-controller`."""
        with self._component(
            "kube-controller-manager", "/healthz", f"--controllers={','.join(names)}", *options
        ) as process:
            yield process

    @contextmanager
    def scheduler(self, *options: str) -> Iterator[Process]:
        """kube-scheduler under its usual name."""
        with self._component("kube-scheduler", "/readyz", *options) as process:
            yield process

    def process(self, name: str, *options: str, port: int) -> Process:
        serving = [
            f"--bind-address={HOST}",
            f"--secure-port={port}",
            f"--tls-cert-file={self._certificates.server}",
            f"--tls-private-key-file={self._certificates.server.with_suffix('.key')}",
        ]
        return Process([self._binaries / name, *serving, *options], self._folder / f"{name}-{port}.log")

    def wait(self, process: Process, url: str, token: str = "") -> None:
        tls = ssl.create_default_context(cadata=self._certificates.authority.read_text())
        process.wait_until_healthy(url, tls, token=token)

    @contextmanager
    def _component(self, name: str, health: str, *options: str) -> Iterator[Process]:
        port = free_port()
        alone = () if any(option.startswith("--leader-elect") for option in options) else ("--leader-elect=false",)
        process = self.process(name, f"--kubeconfig={self._kubeconfig}", *alone, *options, port=port)
        try:
            self.wait(process, f"https://{HOST}:{port}{health}")
            yield process
            assert process.running, f"{name} did not last\n{process.log_tail()}"
        finally:
            process.stop()


def identity_manifests() -> list[dict[str, Any]]:
    """Service accounts, roles and bindings of all components."""
    rows = (*identities.roles(), *identities.bindings())
    return [*identities.accounts(), *(row.body() for row in rows)]
