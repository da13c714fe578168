"""A cluster of separate `mooring` processes: API server, simulated nodes, CSI driver, and instances of each component.

Each component may run from another tree of sources, so that instances of two versions run side by side.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from mooring.api import well_known
from mooring.hostpath.records import DRIVER_NAME
from support.builders import claim_body, class_body, pod_body
from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace
from support.hostpath.command import csi_hostpath

START_SECONDS: Final = 60
#: Shorter than in production, so that a test does not wait 15 seconds.
_TIMINGS: Final = {"lease-duration": "3s", "renew-deadline": "2s", "retry-period": "500ms"}
ELECTION: Final = tuple(f"--leader-elect-{name}={value}" for name, value in _TIMINGS.items())
#: Of everything that components write for each other.
NAMESPACE: Final = "kube-system"
NODES: Final = ("node-1", "node-2")
CLASS: Final = "made"
#: Every component that is elected, with its own flags.
COMPONENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "scheduler": ("--no-http", *ELECTION),
    "controller": ("--no-http", *ELECTION),
    "coordinator": ("--no-http", "--grace=3s", *ELECTION),
    "provisioner": (
        "--leader-election",
        "--enable-rollback",
        "--strict-topology",
        "--enable-capacity",
        "--capacity-ownerref-level=-1",
        "--capacity-poll-interval=1s",
        "--retry-interval-max=1s",
        *(f"--leader-election-{name}={value}" for name, value in _TIMINGS.items()),
    ),
}
#: Component -> Lease of its leader.
LEASES: Final = {
    "scheduler": "mooring-scheduler",
    "controller": "mooring-controller",
    "coordinator": "mooring-coordinator",
    "provisioner": DRIVER_NAME.replace(".", "-"),
}


class Process:
    """A `mooring` command that has printed its readiness message; `sources` is the tree it runs from."""

    def __init__(self, words: str, *arguments: str, sources: Path | None = None, log: Path | None = None) -> None:
        environment = {**os.environ, "NAMESPACE": NAMESPACE}
        if sources is not None:
            environment["PYTHONPATH"] = str(sources)
        self._log = log.open("a") if log is not None else None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mooring", *arguments],
            stdout=subprocess.PIPE,
            stderr=self._log or subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        timer = threading.Timer(START_SECONDS, self._process.kill)
        timer.start()
        assert self._process.stdout is not None
        started = any(words in line for line in self._process.stdout)
        timer.cancel()
        assert started, f"mooring {' '.join(arguments)} did not start: {log.read_text() if log else ''}"

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._wait()

    def end(self) -> None:
        if self.runs:
            self._process.terminate()
        self._wait()

    def _wait(self) -> None:
        self._process.communicate(timeout=START_SECONDS)
        if self._log is not None:
            self._log.close()
            self._log = None


class ProcessCluster:
    """Use as a context manager: processes started inside end with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = Cluster(folder)
        self.own = Workspace(self.cluster, "default")
        self.system = Workspace(self.cluster, NAMESPACE)
        self.driver = folder / "driver"
        self._ended = ExitStack()
        self._port = "0"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.close()

    def start_api_server(self, *options: str) -> Process:
        """The first picks a free port; each further one, after the last has ended, takes over its port and data."""
        arguments = ("--data-dir", str(self.folder / "data"), "--kubeconfig", str(self.cluster.kubeconfig), *options)
        server = self._started("apiserver", f"--secure-port={self._port}", *arguments, words="ready")
        self._port = _port(self.cluster.kubeconfig)
        return server

    def start_nodes(self, pool: str, *driver_options: str, node_options: Sequence[str] = ()) -> None:
        """Two simulated nodes, and a driver with a pool on each of them."""
        # The namespaces of Leases are created by the cluster's installer.
        self.cluster("create", "namespace", "kube-node-lease", check=False)
        nodes = ("--nodes=2", "--zones=2", "--leader-elect=false", "--no-http", *node_options)
        self._started("nodeagent", *nodes, *self._access)
        self.driver.mkdir()
        first, second = NODES
        options = [f"--topology={well_known.HOSTNAME}={first}", f"--serve={second}:{well_known.HOSTNAME}={second}"]
        self._ended.enter_context(csi_hostpath(self.driver, f"--pool={pool}", *options, *driver_options))
        self.own.wait_for(lambda: len(self.cluster.items("nodes")) == len(NODES))
        self.own.apply(class_body(name=CLASS, provisioner=DRIVER_NAME), _csi_driver(), *map(_csi_node, NODES))

    def start(self, component: str, *options: str, sources: Path | None = None) -> Process:
        """One more instance of a component."""
        address = [f"--csi-address={self.driver / 'csi.sock'}"] if component == "provisioner" else []
        return self._started(component, *COMPONENTS[component], *address, *self._access, *options, sources=sources)

    def create_pod(self, name: str) -> list[str]:
        """A pod with two volumes needs every component: each volume is provisioned, held, committed and bound. Returns
        its claims."""
        claims = [f"{name}-{part}" for part in ("left", "right")]
        bodies = (claim_body(name=each, namespace="", storage_class=CLASS, size="1Gi") for each in claims)
        self.own.apply(*bodies, pod_body(name=name, namespace="", claims=claims))
        return claims

    def leader(self, component: str) -> dict[str, Any]:
        """The spec of the Lease of the component's leader."""
        spec: dict[str, Any] = self.system.item("lease", LEASES[component])["spec"]
        return spec

    def wait_leader(self, component: str, *, after: int = -1) -> int:
        """Wait until an instance leads, and until the Lease has had more than `after` transitions; returns how many."""

        def led() -> bool:
            leases = {lease["metadata"]["name"]: lease["spec"] for lease in self.system.items("leases")}
            spec = leases.get(LEASES[component], {})
            return bool(spec.get("holderIdentity")) and spec["leaseTransitions"] > after

        self.system.wait_for(led)
        return int(self.leader(component)["leaseTransitions"])

    def log(self, component: str) -> str:
        """What all instances of the component have logged."""
        return (self.folder / f"{component}.log").read_text()

    @property
    def _access(self) -> tuple[str, str]:
        return "--kubeconfig", str(self.cluster.kubeconfig)

    def _started(self, *arguments: str, words: str = " ", sources: Path | None = None) -> Process:
        process = Process(words, *arguments, sources=sources, log=self.folder / f"{arguments[0]}.log")
        self._ended.callback(process.end)
        return process


def _port(kubeconfig: Path) -> str:
    (line,) = (line for line in kubeconfig.read_text().splitlines() if "server:" in line)
    return line.rpartition(":")[2].strip().strip("\"'")


def _csi_node(node: str) -> dict[str, Any]:
    driver = {"name": DRIVER_NAME, "nodeID": node, "topologyKeys": [well_known.HOSTNAME]}
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode"}
    return {**kind, "metadata": {"name": node}, "spec": {"drivers": [driver]}}


def _csi_driver() -> dict[str, Any]:
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver"}
    return {**kind, "metadata": {"name": DRIVER_NAME}, "spec": {"attachRequired": False, "storageCapacity": True}}
