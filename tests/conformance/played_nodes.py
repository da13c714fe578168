"""Machines that `mooring nodeagent` plays, on any API server, and what kubelets would say of a driver on them."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from builders import Body
from conformance.our_plane import Plane
from conformance.process import Process
from conformance.waiting import KUBECTL_PATIENCE, wait
from mooring.api import keys
from mooring.hostpath.layout import DRIVER_NAME

NODES: Final = ("node-1", "node-2", "node-3")
#: Where the driver has storage.
PLACES: Final = NODES[:2]


def csi_node(node: str) -> Body:
    """What a kubelet says of a driver that it has found."""
    driver = {"name": DRIVER_NAME, "nodeID": node, "topologyKeys": [keys.HOSTNAME]}
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode"}
    return {**kind, "metadata": {"name": node}, "spec": {"drivers": [driver]}}


@contextmanager
def nodes(kube: Plane, folder: Path) -> Iterator[Path]:
    """The file that they log to."""
    log = folder / "nodeagent.log"
    command = [sys.executable, "-m", "mooring", "nodeagent", "--leader-elect=false", "--no-http"]
    process = Process([*command, f"--kubeconfig={kube.kubeconfig}"], log)
    try:
        wait(lambda: len(kube.kubectl_json("get", "nodes")["items"]) == len(NODES))
        kube.kubectl("wait", "nodes", "--all", "--for=condition=Ready", KUBECTL_PATIENCE)
        yield log
    finally:
        process.stop(signal.SIGTERM)
