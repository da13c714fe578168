"""Mounts of pods' volumes through CSI, on the driver's side, and their cleanup after a crash."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

from support.builders import claim_body, pod_body
from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace


def mounts(folder: Path) -> list[str]:
    """Target paths of pods' volumes below the data folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("kubernetes.io~csi/*/mount"))


def test_volume_is_mounted_and_cleaned_up_after_crash(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster("--data-dir", "data")
    data, own = cluster.folder / "data", Workspace(cluster, "default")
    scratch = {"name": "scratch", "csi": {"driver": "hostpath.csi.mooring.dev", "volumeAttributes": {"size": "1Gi"}}}
    own.apply(
        claim_body(name="data", namespace="", storage_class="fast"),
        pod_body(name="kept", namespace="", claims=["data"]),
        pod_body(name="lost", namespace="", volumes=[scratch]),
    )
    own.wait_ready("kept", "lost")
    assert len(mounts(data)) == 2
    uid = own.item("pod", "kept")["metadata"]["uid"]
    [kept] = [Path(data, mount) for mount in mounts(data) if uid in mount]
    (kept / "note").write_text("written by the pod")

    cluster.stop(signal.SIGKILL)
    cluster.start()
    own.wait_ready("kept", "lost")
    assert (kept / "note").read_text() == "written by the pod"

    # Force-deleted, without the node's confirmation.
    own("delete", "pod", "lost", "--force", "--grace-period=0")
    own("delete", "pod", "kept", "--timeout=30s")
    own.wait_for(lambda: mounts(data) == [])
    own("delete", "pvc", "data", "--timeout=30s")
    own.wait_for(lambda: not [pv for pv in own.items("pv") if pv["metadata"]["name"].startswith("pvc-")])
    nodes = own.items("nodes")
    assert all("volumesInUse" not in node["status"] for node in nodes), json.dumps(nodes)
