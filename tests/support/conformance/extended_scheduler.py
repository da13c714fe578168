"""kube-scheduler with `mooring extender` beside it, configured by the printed configuration."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from mooring.cluster import identities
from mooring.cluster.identities import identity_of
from mooring.server.auth.server_files import kubeconfig, kubeconfig_text
from support.certificates import a_pair
from support.conformance.components import HOST
from support.conformance.control_plane import ControlPlane
from support.conformance.process import Process, free_port

#: The service account of each mode.
ACCOUNTS = {"filter": identity_of("extender").account, "bind": identity_of("extender-bind").account}


class Extended:
    """Both processes."""

    def __init__(self, command: Sequence[str], log: Path, port: int) -> None:
        self._command = command
        self._log = log
        #: Of probes and metrics.
        self.monitoring = f"http://{HOST}:{port}"
        self.extender = self.start()

    def start(self) -> Process:
        """Start the extender, again if it has ended."""
        self.extender = Process(self._command, self._log)
        self.extender.wait_until_healthy(f"{self.monitoring}/readyz", None)
        return self.extender

    def log_text(self) -> str:
        return self._log.read_text()


@contextmanager
def extended_scheduler(
    kube: ControlPlane,
    folder: Path,
    mode: str,
    *,
    mutual_tls: bool = False,
    options: Sequence[str] = (),
    **entry: object,
) -> Iterator[Extended]:
    """`options` are kube-scheduler's; `entry` overrides fields of every extender entry of the configuration."""
    port, monitoring = free_port(), free_port()
    flags = [f"--mode={mode}", f"--extender-port={port}", *(_tls_flags(folder) if mutual_tls else ())]
    configuration = _configuration(kube, folder, flags, entry)
    where = (f"--kubeconfig={_kubeconfig(kube, folder, ACCOUNTS[mode])}", f"--http-port={monitoring}")
    command = [sys.executable, "-m", "mooring", "extender", *flags, *where]
    extended = Extended(command, folder / "extender.log", monitoring)
    try:
        with kube.scheduler(f"--config={configuration}", *options):
            yield extended
    finally:
        extended.extender.stop()


def _configuration(kube: ControlPlane, folder: Path, flags: Sequence[str], entry: dict[str, object]) -> Path:
    command = [sys.executable, "-m", "mooring", "extender", *flags, "--print-scheduler-config"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    document: dict[str, Any] = yaml.safe_load(printed)
    # Its default rate limit would dominate measurements.
    document["clientConnection"] = {"kubeconfig": str(kube.kubeconfig), "qps": 5000, "burst": 10000}
    document["leaderElection"] = {"leaderElect": False}
    for extender in document["extenders"]:
        extender.update(entry)
        if "tlsConfig" in extender:
            files = {"caFile": "server.crt", "certFile": "client.crt", "keyFile": "client.key"}
            extender["tlsConfig"] = {field: str(folder / file) for field, file in files.items()}
    file = folder / "kube-scheduler.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def _tls_flags(folder: Path) -> Sequence[str]:
    """Each side has a self-signed certificate, which the other trusts."""
    for side, name in (("server", "mooring extender"), ("client", "system:kube-scheduler")):
        pair = a_pair(name=name)
        (folder / f"{side}.crt").write_text(pair.certificate)
        (folder / f"{side}.key").write_text(pair.key)
    return (
        f"--tls-cert-file={folder / 'server.crt'}",
        f"--tls-private-key-file={folder / 'server.key'}",
        f"--client-ca-file={folder / 'client.crt'}",
        "--client-name=system:kube-scheduler",
    )


def _kubeconfig(kube: ControlPlane, folder: Path, account: str) -> Path:
    """Of an account with exactly the permissions of its row."""
    token = kube.kubectl("create", "token", account, "-n", identities.NAMESPACE).strip()
    file = folder / account
    file.write_text(kubeconfig_text(kubeconfig(server=kube.url, authority=kube.authority.encode(), token=token)))
    return file
