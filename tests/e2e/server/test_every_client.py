"""Every published client reads, lists and watches every served kind, with objects of users and of our components."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from mooring.api.kinds import NEW_EVENT, STORED
from support.e2e import every_kind
from support.e2e.cluster import Cluster
from support.e2e.every_kind import CLIENTS, WRITTEN, Row
from support.e2e.workspace import Workspace

#: Kinds that a client cannot read from any server, and how it fails: its own model is missing.
UNREADABLE: Final = {
    ("kubernetes", "resource.k8s.io/v1 ResourceClaim"): "AttributeError: ",
    ("kubernetes_asyncio", "resource.k8s.io/v1 ResourceClaim"): "AttributeError: ",
    # New in 1.37, newer than the client.
    ("kubernetes_asyncio", "resource.k8s.io/v1 DeviceTaintRule"): "AttributeError: ",
    ("kubernetes_asyncio", "certificates.k8s.io/v1 ClusterTrustBundle"): "AttributeError: ",
    ("kubernetes_asyncio", "certificates.k8s.io/v1 PodCertificateRequest"): "AttributeError: ",
    ("kubernetes_asyncio", "storagemigration.k8s.io/v1 StorageVersionMigration"): "AttributeError: ",
    ("kubernetes_asyncio", "scheduling.k8s.io/v1beta1 PodGroup"): "AttributeError: ",
    ("kubernetes_asyncio", "scheduling.k8s.io/v1beta1 Workload"): "AttributeError: ",
}


@pytest.fixture(scope="module")
def rows(cluster: Cluster) -> list[Row]:
    """One object of every kind."""
    default = Workspace(cluster, "default")
    cluster.apply(*WRITTEN)
    default.wait_for(lambda: "FailedScheduling" in cluster("get", "events"))
    default.wait_for(lambda: len(default.items("pods")) == 6 and "Pending" not in _phases(default))
    kinds = (*STORED, NEW_EVENT)
    items = cluster.items(",".join(f"{kind.plural}.{kind.version}.{kind.group}" for kind in kinds), "-A")
    found = []
    for kind in kinds:
        alike = [
            item["metadata"] for item in items if (item["apiVersion"], item["kind"]) == (kind.api_version, kind.kind)
        ]
        assert alike, f"nothing of {kind.kind} to read"
        mine = next((metadata for metadata in alike if metadata["name"] == "web"), alike[-1])
        found.append((kind.api_version, kind.kind, kind.plural, mine.get("namespace", ""), mine["name"]))
    return found


def _phases(workspace: Workspace) -> list[str]:
    return [pod["status"]["phase"] for pod in workspace.items("pods") if pod["metadata"]["name"] != "waits"]


@pytest.mark.parametrize("client", CLIENTS)
def test_every_kind_is_read_listed_and_watched(client: str, cluster: Cluster, rows: list[Row]) -> None:
    tests = Path(every_kind.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "support.e2e.every_kind", client, json.dumps(rows)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tests,
        env=os.environ | {"KUBECONFIG": str(cluster.kubeconfig)},
    )
    assert done.returncode == 0, done.stderr
    failures = json.loads(done.stdout)
    for (whose, kind), how in UNREADABLE.items():
        if whose == client:
            assert failures.pop(kind, "").startswith(how), f"{client} can read {kind} now"
    assert failures == {}


def test_kubectl_reads_and_describes_every_kind(cluster: Cluster, rows: list[Row]) -> None:
    """In one call each."""
    kinds = ",".join(map(_where, rows))
    names = {name for *_, name in rows}
    assert names - {item["metadata"]["name"] for item in cluster.items(kinds, "-A")} == set()
    assert "error" not in cluster("get", kinds, "-A", "-o", "wide").lower()
    described = cluster("describe", kinds, "-A", check=False)
    assert [name for name in names if name not in described] == []


@pytest.mark.parametrize("plural", ["nodes", "persistentvolumeclaims", "events", "csistoragecapacities"])
def test_kubectl_watches(cluster: Cluster, rows: list[Row], plural: str) -> None:
    for row in [row for row in rows if row[2] == plural]:
        where = [_where(row), *(["-n", row[3]] if row[3] else [])]
        assert row[4] in cluster("get", *where, row[4], "--watch", "-o", "name", "--request-timeout=1s", check=False)


def _where(row: Row) -> str:
    group, _, version = row[0].rpartition("/")
    return f"{row[2]}.{version}.{group}"
