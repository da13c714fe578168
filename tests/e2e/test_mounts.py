"""What nodes mount for pods through CSI, seen where the driver puts it, and what is left of it after a crash."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

from builders import claim_body, pod_body
from e2e.cluster import Cluster
from e2e.workspace import Workspace


def mounts(folder: Path) -> list[str]:
    """The places of pods' volumes, wherever below the data folder nodes keep them."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("kubernetes.io~csi/*/mount"))


def test_a_pod_finds_its_volume_and_nothing_is_left_after_a_crash(start_cluster: Callable[..., Cluster]) -> None:
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

    # Removed without asking the node, as when somebody has lost patience.
    own("delete", "pod", "lost", "--force", "--grace-period=0")
    own("delete", "pod", "kept", "--timeout=30s")
    own.wait_for(lambda: mounts(data) == [])
    own("delete", "pvc", "data", "--timeout=30s")
    own.wait_for(lambda: not [pv for pv in own.items("pv") if pv["metadata"]["name"].startswith("pvc-")])
    nodes = own.items("nodes")
    assert all("volumesInUse" not in node["status"] for node in nodes), json.dumps(nodes)
