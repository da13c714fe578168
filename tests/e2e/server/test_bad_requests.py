"""Claims that cannot be provisioned: each gets an event, retries back off, and other claims are provisioned."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace

DRIVER: Final = "hostpath.csi.mooring.dev"
NO_SECRET: Final = {
    "csi.storage.k8s.io/provisioner-secret-name": "nowhere",
    "csi.storage.k8s.io/provisioner-secret-namespace": "default",
}

Start = Callable[..., Cluster]


def class_with(name: str, **parameters: str) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": DRIVER,
        "parameters": parameters,
        "volumeBindingMode": "Immediate",
    }


def claim(name: str, storage_class: str, size: str = "1Gi", mode: str = "Filesystem") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "volumeMode": mode,
            "resources": {"requests": {"storage": size}},
        },
    }


@pytest.mark.req("C11.bad-input", "C4.raw-block")
def test_bad_claims_are_reported_and_others_provisioned(start_cluster: Start) -> None:
    workspace = Workspace(start_cluster("--in-memory"), "default")
    workspace.apply(
        class_with("good", pool="fast"),
        class_with("misspelt", pol="fast"),
        class_with("reserved", **{"csi.storage.k8s.io/fstyp": "xfs"}),
        class_with("secretive", pool="fast", **NO_SECRET),
        claim("unknown-parameter", "misspelt"),
        claim("unknown-key", "reserved"),
        claim("no-secret", "secretive"),
        claim("absurd", "good", "1e30"),
        claim("too-much", "good", "900Gi"),
        claim("served", "good"),
        claim("raw", "good", mode="Block"),
    )
    workspace.wait_bound("served", "raw")
    for name, why in {
        "unknown-parameter": "pol",
        "unknown-key": 'found unknown parameter key "csi.storage.k8s.io/fstyp"',
        "no-secret": 'secrets "nowhere" not found',
        "absurd": "code = OutOfRange",
        "too-much": "code = ResourceExhausted",
    }.items():
        workspace.wait_event(f"pvc/{name}", "ProvisioningFailed", why)
        assert workspace.item("pvc", name)["status"]["phase"] == "Pending"
    assert len([pv for pv in workspace.cluster.items("pv") if "csi" in pv["spec"]]) == 2
