"""The real csi-driver-host-path as a child process: the driver of one node, and what a cluster is told of it.

What is left to a kubelet and its registrar (CSINode, label of the Node) is written by hand here; `mooring up` does it
itself. Not here: whoever provisions with it.
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

from builders import class_body, node_body
from conformance.process import START_SECONDS, Process
from mooring.csi.channel import Channel
from mooring.csi.contract import DriverVolume

DRIVER: Final = "hostpath.csi.k8s.io"
KEY: Final = "topology.hostpath.csi/node"
#: What the driver says it has, by the class parameter `kind`.
POOLS: Final = ("--capacity=slow=10Gi", "--capacity=fast=100Gi")
#: Where the kernel says what is mounted.
MOUNTS: Final = Path("/proc/self/mountinfo")
POLL_SECONDS: Final = 0.05
#: Between two looks at its state: it makes a volume in a few of these.
GLANCE_SECONDS: Final = 0.0005

Body = dict[str, Any]


class HostPathPlugin:
    """Socket, state and log lie in `folder`; `start` takes up the state an earlier process left."""

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
        """Until it answers on its socket."""
        process = self._process = Process(self._command, self.folder / "hostpathplugin.log")
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            assert process.running, process.last_words()
            assert time.monotonic() < deadline, process.last_words()
            time.sleep(POLL_SECONDS)

    def kill(self) -> None:
        """In the middle of anything but writing: it overwrites its state in place, and a half written file is its own
        loss, after which it does not start again."""
        process = self._process
        assert process is not None
        process.freeze()
        while self.kept() is None:
            process.thaw()
            time.sleep(GLANCE_SECONDS)
            process.freeze()
        process.stop(signal.SIGKILL)

    def kept(self) -> int | None:
        """How many volumes its state has, without asking it; None while it is being written."""
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
        async with Channel(self.socket) as driver:
            return list(await driver.list_volumes())

    def mounts(self, below: Path) -> list[str]:
        """What is mounted in a folder, as paths in it."""
        points = [line.split()[4] for line in MOUNTS.read_text().splitlines()]
        return sorted(point for point in points if point.startswith(f"{below}/"))

    def unmount(self, below: Path) -> None:
        """What is left of a test that went wrong: pytest could not remove its folders."""
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
    """Running inside the block, unless somebody kills it there."""
    driver = HostPathPlugin(binaries, folder, node, *options)
    driver.start()
    try:
        yield driver
    finally:
        driver.stop()


def introduction(nodes: Collection[str], *, without: Collection[str] = ()) -> str:
    """The driver, its classes, and nodes that have it; `without` are nodes that have not."""
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
