"""Two instances of every component with leader election, and the CSI driver; leaders are killed and replaced."""

import asyncio
import os
import re
import signal
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from bench.kube import metering
from bench.kube.metering import Usage
from bench.takeover import FIRST, HOLDS
from mooring.hostpath.records import DRIVER_NAME, NODE_KEY
from mooring.provisioner.settings import lease_name
from support.conformance.components import HOST
from support.conformance.process import Process, free_port

CONTROLLERS: Final = "persistentvolume-binder-controller,persistentvolume-protection-controller"
#: Lease of each component, in `HOLDS`.
LEASES: Final = {
    "scheduler": "mooring-scheduler",
    "controller": "mooring-controller",
    "coordinator": "mooring-coordinator",
    "provisioner": lease_name(DRIVER_NAME),
}
#: Seconds between two looks at the metrics of instances that do not lead yet.
POLL_SECONDS: Final = 0.2
#: Calls of the driver, from the metrics of the provisioner.
_CALL: Final = re.compile(r"csi_sidecar_operations_seconds_count\{(.*)\} (\S+)")
_UNLIMITED: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def options(component: str, socket: Path) -> tuple[str, ...]:
    if component == "provisioner":
        return (
            f"--csi-address={socket}",
            "--leader-election=true",
            f"--leader-election-namespace={HOLDS}",
            "--leader-election-retry-period=2s",
            "--enable-capacity=true",
            "--capacity-ownerref-level=-1",
            "--capacity-threads=8",
            "--enable-rollback=true",
        )
    return ("--leader-elect=true", *((f"--controllers={CONTROLLERS}",) if component == "controller" else ()))


class Instance:
    """One process of a component."""

    def __init__(self, component: str, number: int, kubeconfig: Path, socket: Path) -> None:
        self.component = component
        self.name = f"{component}-{number}"
        self._port = free_port()
        where = (
            (f"--http-endpoint={HOST}:{self._port}",) if component == "provisioner" else (f"--http-port={self._port}",)
        )
        command = (sys.executable, "-m", "mooring", component, *options(component, socket), *where)
        self.process = Process(
            (*command, f"--kubeconfig={kubeconfig}", "--log-level=warning"),
            kubeconfig.with_name(f"{self.name}.log"),
            {"NAMESPACE": HOLDS, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def metrics(self) -> str:
        """The metrics as text; "" while the process does not serve them."""
        try:
            with _UNLIMITED.open(f"http://{HOST}:{self._port}/metrics", timeout=10.0) as response:
                return str(response.read(), "utf-8")
        except OSError:
            return ""

    def leads(self) -> bool:
        return bool(re.search(rf'leader_election_master_status\{{name="{LEASES[self.component]}"\}} 1', self.metrics()))


class Instances:
    """All processes of the stack. What a killed one had used is kept."""

    def __init__(self, kubeconfig: Path, socket: Path) -> None:
        self._kubeconfig = kubeconfig
        self._socket = socket
        self._started = 0
        self._running: list[Instance] = []
        #: Driver calls by method and gRPC code, of ended processes.
        self._ended_calls: dict[tuple[str, str], float] = defaultdict(float)
        self.usage: dict[str, Usage] = {}
        #: Names of unexpectedly ended processes with the end of their logs.
        self.failures: list[str] = []

    def start(self, component: str) -> None:
        self._started += 1
        self._running.append(Instance(component, self._started, self._kubeconfig, self._socket))

    def leader(self, component: str) -> Instance | None:
        return next((one for one in self._running if one.component == component and one.leads()), None)

    async def wait_leaders(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        for component in LEASES:
            while await asyncio.to_thread(self.leader, component) is None:
                self.check()
                if time.monotonic() > deadline:
                    raise SystemExit(f"no {component} leads after {timeout:.0f} s")
                await asyncio.sleep(POLL_SECONDS)

    async def kill_leader(self, component: str) -> str:
        """SIGKILL; another instance is started in its place."""
        leader = await asyncio.to_thread(self.leader, component)
        if leader is None:
            return ""
        self._count_calls(leader)
        self.usage = self.measure()
        self._running.remove(leader)
        leader.process.stop(signal.SIGKILL)
        self.start(component)
        return leader.name

    def check(self) -> None:
        for one in [each for each in self._running if not each.process.running]:
            self.failures.append(f"{one.name} ended with {one.process.code}\n{one.process.log_tail()}")
            self._count_calls(one)
            self._running.remove(one)
            self.start(one.component)

    def measure(self) -> dict[str, Usage]:
        """Processor time and memory by process; that of ended ones as it was before they were killed."""
        own = {one.process.pid: one.name for one in self._running}
        return self.usage | metering.usage(own)

    def calls(self) -> dict[tuple[str, str], float]:
        """Driver calls of all provisioners by method and gRPC code."""
        total = defaultdict(float, self._ended_calls)
        for one in self._running:
            for key, count in _calls(one.metrics()):
                total[key] += count
        return total

    def _count_calls(self, ended: Instance) -> None:
        for key, count in _calls(ended.metrics()):
            self._ended_calls[key] += count

    def stop(self) -> None:
        for one in self._running:
            one.process.stop(signal.SIGKILL)


def _calls(metrics: str) -> Iterator[tuple[tuple[str, str], float]]:
    for labels, count in _CALL.findall(metrics):
        named = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        yield (named["method_name"].rpartition("/")[2], named["grpc_status_code"]), float(count)


@contextmanager
def stack(kubeconfig: Path, socket: Path) -> Iterator[Instances]:
    instances = Instances(kubeconfig, socket)
    with ExitStack() as ending:
        ending.callback(instances.stop)
        yield instances


@contextmanager
def driver(folder: Path, nodes: int) -> Iterator[Path]:
    """The hostpath driver for all nodes, with three pools on each. Returns its socket."""
    socket = folder / "csi.sock"
    served = [f"--served-node=node-{number:05}:{NODE_KEY}=node-{number:05}" for number in range(1, nodes)]
    command = (
        *(sys.executable, "-m", "mooring", "csi-hostpath", f"--endpoint=unix://{socket}", f"--node-id={FIRST}"),
        *(f"--state-dir={folder / 'csi'}", "--pool=fast=1Ti", "--pool=slow=1Ti", "--log-level=warning", *served),
    )
    process = Process(command, folder / "csi-hostpath.log", {"PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        deadline = time.monotonic() + 60.0
        while not socket.exists():
            if not process.running or time.monotonic() > deadline:
                raise SystemExit(f"the driver did not start\n{process.log_tail()}")
            time.sleep(0.1)
        yield socket
    finally:
        process.stop()
