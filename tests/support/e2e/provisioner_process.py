"""`mooring provisioner` as a process beside `mooring up`: objects of its driver, start, kill and log."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from support.e2e.cluster import Cluster

#: Seconds to end after SIGTERM.
STOP: Final = 30


def register(cluster: Cluster, driver: str, key: str, *nodes: str) -> None:
    """The label and the CSINode entry that a kubelet writes when a driver registers on a node."""
    for node in nodes:
        cluster("label", "node", node, f"{key}={node}")
        entry = {"name": driver, "nodeID": node, "topologyKeys": [key]}
        patch = json.dumps([{"op": "add", "path": "/spec/drivers/-", "value": entry}])
        cluster("patch", "csinode", node, "--type=json", "-p", patch)


def driver_objects(driver: str, storage_class: str) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": driver},
            "spec": {"storageCapacity": True, "attachRequired": False},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": storage_class},
            "provisioner": driver,
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    ]


def claim(name: str, storage_class: str, size: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        },
    }


def pod(name: str, *claims: str, node: str = "") -> dict[str, Any]:
    """With these claims; `node` is a node selector."""
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": "main"}],
        "volumes": [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims],
    }
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@contextmanager
def provisioner(
    cluster: Cluster, folder: Path, *options: str, killed: bool = False, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """The provisioner of the driver at `folder/csi.sock`. `killed`: the block ends the process itself."""
    command = [sys.executable, "-m", "mooring", "provisioner", f"--csi-address={folder / 'csi.sock'}"]
    # Other endpoints than the default port: several run at once.
    command += [f"--kubeconfig={cluster.kubeconfig}", *options]
    with (folder / "provisioner.log").open("a") as log:
        process = subprocess.Popen(
            command, env=os.environ | {"NAMESPACE": "default"} | environment, stdout=log, stderr=log
        )
    try:
        yield process
        assert killed or process.poll() is None, (folder / "provisioner.log").read_text()
    finally:
        process.terminate()
        process.wait(STOP)
