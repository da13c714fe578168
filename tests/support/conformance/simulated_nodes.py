"""Nodes simulated by `mooring nodeagent`, on any API server, and their CSINodes."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mooring.api import well_known
from mooring.hostpath.records import DRIVER_NAME
from support.builders import Body
from support.conformance.our_control_plane import Plane
from support.conformance.process import Process
from support.conformance.waiting import KUBECTL_TIMEOUT, wait

NODES: Final = ("node-1", "node-2", "node-3")
#: Topology of the driver on each node.
PLACES: Final = NODES[:2]


def csi_node(node: str) -> Body:
    """The CSINode that a kubelet writes when a driver registers."""
    driver = {"name": DRIVER_NAME, "nodeID": node, "topologyKeys": [well_known.HOSTNAME]}
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode"}
    return {**kind, "metadata": {"name": node}, "spec": {"drivers": [driver]}}


@contextmanager
def nodes(kube: Plane, folder: Path) -> Iterator[Path]:
    """Runs the node agent inside the block; yields its log file."""
    log = folder / "nodeagent.log"
    command = [sys.executable, "-m", "mooring", "nodeagent", "--leader-elect=false", "--no-http"]
    process = Process([*command, f"--kubeconfig={kube.kubeconfig}"], log)
    try:
        wait(lambda: len(kube.kubectl_json("get", "nodes")["items"]) == len(NODES))
        kube.kubectl("wait", "nodes", "--all", "--for=condition=Ready", KUBECTL_TIMEOUT)
        yield log
    finally:
        process.stop(signal.SIGTERM)
