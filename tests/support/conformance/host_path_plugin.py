"""csi-driver-host-path as a child process: the driver of one node, and the cluster's objects for it.

The objects that a kubelet and its registrar would write (CSINode, labels of the Node) are created here; `mooring up`
writes them itself. The provisioner is not part of this module.
"""

import json
import signal
import socket
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from mooring.csi.client import CsiClient
from mooring.csi.contract import DriverVolume
from support.builders import class_body, node_body
from support.conformance.process import START_SECONDS, Process

DRIVER: Final = "hostpath.csi.k8s.io"
KEY: Final = "topology.hostpath.csi/node"
#: Capacity that the driver reports, by the class parameter `kind`.
POOLS: Final = ("--capacity=slow=10Gi", "--capacity=fast=100Gi")
#: The kernel's mount table.
MOUNTS: Final = Path("/proc/self/mountinfo")
POLL_SECONDS: Final = 0.05
#: Interval between reads of its state; a volume takes a few of them.
GLANCE_SECONDS: Final = 0.0005

Body = dict[str, Any]


class HostPathPlugin:
    """Socket, state and log are in `folder`; `start` uses the state of an earlier process."""

    def __init__(self, binaries: Path, folder: Path, node: str, *options: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.node = node
        self.socket = folder / "csi.sock"
        self.state = folder / "state"
        self._command = [
            binaries / "hostpathplugin",
            f"--endpoint=unix://{self.socket}",
            f"--statedir={self.state}",
            f"--nodeid={node}",
            "-v=5",
            *options,
        ]
        self._process: Process | None = None

    def start(self) -> None:
        """Start it, and wait until it responds on its socket."""
        process = self._process = Process(self._command, self.folder / "hostpathplugin.log")
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            assert process.running, process.log_tail()
            assert time.monotonic() < deadline, process.log_tail()
            time.sleep(POLL_SECONDS)

    def kill(self) -> None:
        """At any time except during a write of its state: it overwrites the file in place, and does not start with a
        truncated one.
        """
        process = self._process
        assert process is not None
        process.freeze()
        while self.kept() is None:
            process.thaw()
            time.sleep(GLANCE_SECONDS)
            process.freeze()
        process.stop(signal.SIGKILL)

    def kept(self) -> int | None:
        """Number of volumes in its state file; None while the file is being written."""
        try:
            state = json.loads((self.state / "state.json").read_text())
        except FileNotFoundError:
            return 0
        except ValueError:
            return None
        return len(state["Volumes"] or ())

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()

    async def volumes(self) -> list[DriverVolume]:
        async with CsiClient(self.socket) as driver:
            return list(await driver.list_volumes())

    def mounts(self, below: Path) -> list[str]:
        """Mounted paths below a folder."""
        points = [line.split()[4] for line in MOUNTS.read_text().splitlines()]
        return sorted(point for point in points if point.startswith(f"{below}/"))

    def unmount(self, below: Path) -> None:
        """Unmount what a failed test left behind: pytest could not remove its folders."""
        for point in self.mounts(below):
            subprocess.run(["umount", point], check=True)

    def devices(self) -> list[str]:
        """Files of its state that are loop devices."""
        command = ["losetup", "--list", "--noheadings", "--output", "BACK-FILE"]
        files = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        return [file for file in files if file.startswith(f"{self.state}/")]

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.socket))
            except OSError:
                return False
        return True


@contextmanager
def plugin(binaries: Path, folder: Path, node: str, *options: str) -> Iterator[HostPathPlugin]:
    """Runs inside the block, unless the block kills it."""
    driver = HostPathPlugin(binaries, folder, node, *options)
    driver.start()
    try:
        yield driver
    finally:
        driver.stop()


def introduction(nodes: Collection[str], *, without: Collection[str] = ()) -> str:
    """The CSIDriver, its classes, and the CSINodes of nodes with the driver; `without` are nodes without it."""
    bodies: list[Body] = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER},
            "spec": {"attachRequired": False, "podInfoOnMount": True, "storageCapacity": True},
        },
        _class("slow", {"kind": "slow", "csi.storage.k8s.io/fstype": "xfs"}),
        _class("fast", {"kind": "fast"}),
        _class("now", {"kind": "fast"}, binding_mode="Immediate"),
    ]
    for name in (*nodes, *without):
        has = name not in without
        bodies += [
            node_body(name=name, labels={KEY: name} if has else {}),
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": {"name": name},
                "spec": {"drivers": [{"name": DRIVER, "nodeID": name, "topologyKeys": [KEY]}] if has else []},
            },
        ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies})


def _class(name: str, parameters: Mapping[str, str], *, binding_mode: str = "WaitForFirstConsumer") -> Body:
    return class_body(name=name, provisioner=DRIVER, parameters=parameters, binding_mode=binding_mode)
