"""A real Kubernetes control plane on loopback: etcd and kube-apiserver, and the other two on request.

TLS with certificates of Mooring's own authority, RBAC enabled, one administrator with a token, pods without service
accounts, no kubelets. All data is in one temporary folder.
"""

import json
import os
import secrets
import signal
import subprocess
import urllib.request
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from mooring.client.access import Access
from mooring.client.kubeconfig import from_files
from mooring.clock import SystemClock
from mooring.server.auth.certificates import ensure_certificates
from mooring.server.auth.server_files import kubeconfig, kubeconfig_text
from support.conformance.components import HOST, Components
from support.conformance.process import Process, free_port
from support.conformance.releases import release_of
from support.conformance.waiting import TIMEOUT_SECONDS

#: What makes kube-apiserver 1.37 serve PodGroups and Workloads, and keep topology constraints. Options given to
#: `start_apiserver` come later and overrule it.
SERVE_GROUPS: Final = (
    "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
    "--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true",
)
_FIRST_WITH_GROUPS: Final = 37
#: Revisions before the start of the API server, compacted.
COMPACTED: Final = 10


class Etcd:
    """An etcd whose data is deleted with its folder."""

    def __init__(self, binary: Path, folder: Path) -> None:
        clients, peers = f"http://{HOST}:{free_port()}", f"http://{HOST}:{free_port()}"
        self.url = clients
        self._log = folder / "etcd.log"
        self._command = [
            binary,
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
            # etcd's recommended maximum: with the default of 2 GiB, 200,000 writes of a benchmark fill it before
            # kube-apiserver compacts for the first time, after five minutes.
            f"--quota-backend-bytes={8 << 30}",
            "--log-level=warn",
        ]
        self._process = Process(self._command, self._log)

    def wait_until_healthy(self) -> None:
        self._process.wait_until_healthy(f"{self.url}/health", None)

    def restart(self) -> None:
        """Same address, same data."""
        self._process.stop()
        self._process = Process(self._command, self._log)
        self.wait_until_healthy()

    def age(self, versions: int) -> None:
        """Write some revisions and compact them, so that a watch from there gets 410 Gone."""
        for _ in range(versions):
            revision = self._call("put", {"key": "YWdl", "value": "YWdl"})["header"]["revision"]
        self._call("compaction", {"revision": revision})

    def stop(self) -> None:
        self._process.stop()

    def _call(self, verb: str, body: dict[str, str]) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.url}/v3/kv/{verb}", json.dumps(body).encode())
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10.0) as response:
            decoded: dict[str, Any] = json.load(response)
        return decoded


class ControlPlane:
    """One cluster's control plane. `start` before use, `stop` at the end."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.binaries = binaries
        self._folder = folder
        self._certificates = ensure_certificates(folder / "pki", clock=SystemClock())
        self._apiserver: Process | None = None
        self._port = free_port()
        self.token = secrets.token_urlsafe(16)
        #: PEM of the authority that signed the servers' certificates.
        self.authority = self._certificates.authority.read_text()
        self.kubeconfig = folder / "kubeconfig"
        self._write_credentials()
        self._etcd = Etcd(binaries / "etcd", folder)
        self._components = Components(binaries, folder, self.kubeconfig)
        self._groups = SERVE_GROUPS if release_of(binaries).minor >= _FIRST_WITH_GROUPS else ()

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self._port}"

    @property
    def access(self) -> Access:
        """The administrator's access, from the kubeconfig."""
        return from_files([self.kubeconfig])

    @property
    def compacted_version(self) -> str:
        """A resourceVersion older than the history of the API server."""
        return "1"

    def start(self) -> None:
        self._etcd.wait_until_healthy()
        self._etcd.age(COMPACTED)
        self.start_apiserver()

    def stop(self) -> None:
        self.stop_apiserver()
        self._etcd.stop()

    def restart_etcd(self) -> None:
        self._etcd.restart()

    def forget_history(self) -> None:
        """Restart the API server on an etcd that has compacted the revisions of all watches."""
        self.stop_apiserver(signal.SIGKILL)
        self._etcd.age(COMPACTED)
        self.start_apiserver()

    def start_apiserver(self, *options: str) -> None:
        """Start it, again if it was stopped: same address, same data, without its watch cache."""
        account_key = self._folder / "pki" / "service-accounts.key"
        self._apiserver = self._components.process(
            "kube-apiserver",
            f"--etcd-servers={self._etcd.url}",
            f"--advertise-address={HOST}",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self._folder / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={account_key}",
            f"--service-account-signing-key-file={account_key}",
            # Pods need no service account: no controller creates one.
            # No controller issues service account tokens here or removes the taint of a new node.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--allow-privileged=true",
            "--profiling=false",
            *self._groups,
            *options,
            port=self._port,
        )
        self._components.wait(self._apiserver, f"{self.url}/readyz", self.token)
        # The server is ready before its system namespaces exist.
        self._components.wait(self._apiserver, f"{self.url}/api/v1/namespaces/default", self.token)

    def stop_apiserver(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._apiserver is not None:
            self._apiserver.stop(how)
            self._apiserver = None

    def controllers(self, *names: str, options: tuple[str, ...] = ()) -> AbstractContextManager[Process]:
        return self._components.controllers(*names, options=options)

    def scheduler(self, *options: str) -> AbstractContextManager[Process]:
        return self._components.scheduler(*options)

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """The output of kubectl; AssertionError with its error output, unless `check` is false."""
        done = subprocess.run(
            [self.binaries / "kubectl", "--request-timeout=20s", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
            env=os.environ | {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self._folder)},
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def kubectl_json(self, *arguments: str) -> dict[str, Any]:
        response: dict[str, Any] = json.loads(self.kubectl(*arguments, "-o", "json"))
        return response

    def _write_credentials(self) -> None:
        config = kubeconfig(server=self.url, authority=self.authority.encode(), token=self.token)
        self.kubeconfig.write_text(kubeconfig_text(config))
        (self._folder / "tokens.csv").write_text(f'{self.token},administrator,administrator,"system:masters"\n')
        key = ec.generate_private_key(ec.SECP256R1())
        (self._folder / "pki" / "service-accounts.key").write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        )
