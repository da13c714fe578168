"""A machine with local volumes is lost: the runbook, typed in, and what must not happen before its last step."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.e2e.cluster import Cluster
from support.e2e.transcript import commands, run
from support.e2e.workspace import Workspace

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
Start = Callable[..., Cluster]


def stateful_set(storage_class: str) -> dict[str, Any]:
    request = {"requests": {"storage": "5Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, "resources": request}
    template = {
        "metadata": {"labels": {"app": "db"}},
        "spec": {"containers": [{"name": "main", "image": "example.com/db:1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "replicas": 1,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": template,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec}],
        },
    }


def set_on(cluster: Cluster, node: str, storage_class: str) -> Workspace:
    """The set runs on this node."""
    others = [each for each in ("node-1", "node-2", "node-3") if each != node]
    cluster("cordon", *others)
    workspace = Workspace(cluster, "default")
    workspace.apply(stateful_set(storage_class))
    workspace.wait_ready("db-0")
    assert workspace.node_of("db-0") == node
    cluster("uncordon", *others)
    return workspace


def orphans(cluster: Cluster, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "mooring", "orphans", *arguments, "-o", "json"]
    done = subprocess.run(
        [*command, "--kubeconfig", str(cluster.kubeconfig)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed


def is_ready(cluster: Cluster, node: str) -> bool:
    conditions = cluster.item("node", node)["status"]["conditions"]
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def power_off(cluster: Cluster, node: str) -> None:
    cluster("annotate", "node", node, "mooring.dev/power=off")
    deadline = time.monotonic() + 120
    while is_ready(cluster, node):
        assert time.monotonic() < deadline
        time.sleep(1)


@pytest.mark.req("R9.given-up")
def test_runbook_from_power_off_to_running_pod(start_cluster: Start) -> None:
    page = (ROOT / "docs" / "runbooks.md").read_text()
    typed = [*commands(page.partition("## From power-off to running pod\n")[2])]
    assert len(typed) > 8
    cluster = start_cluster("--in-memory")
    # Only the volume that the set uses is on the node.
    cluster("delete", "pv", "local-node-2-2")
    workspace = set_on(cluster, "node-2", "local")
    old = workspace.item("pvc", "data-db-0")["metadata"]["uid"]
    power_off(cluster, "node-2")
    for command in typed:
        run(command, kubeconfig=cluster.kubeconfig, folder=ROOT)
    workspace.wait_ready("db-0")
    assert workspace.node_of("db-0") != "node-2"
    assert workspace.item("pvc", "data-db-0")["metadata"]["uid"] != old
    assert cluster.items("configmaps", "-n", "kube-system", "-l", "mooring.dev/record=lost-storage") == []


@pytest.mark.req("R9.given-up")
def test_provisioned_volume_is_replaced_and_never_before_confirmation(start_cluster: Start) -> None:
    cluster = start_cluster("--in-memory")
    workspace = set_on(cluster, "node-3", "fast")
    claim = workspace.item("pvc", "data-db-0")
    volume = claim["spec"]["volumeName"]
    cluster("annotate", "storageclass", "fast", "mooring.dev/lost-storage=confirmed")
    power_off(cluster, "node-3")

    # The Node exists: not even with a confirmation.
    refused = orphans(cluster, "--apply", "--yes", "--confirm-lost", "node-3")
    assert [each["code"] for each in refused["plan"]["refused"]] == ["NodeExists"]
    assert refused["applied"] == []

    # Out of service, unconfirmed.
    cluster("taint", "node", "node-3", "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
    refused = orphans(cluster, "--apply", "--yes")
    assert [each["code"] for each in refused["plan"]["refused"]] == ["Unconfirmed"]
    assert workspace.item("pvc", "data-db-0")["metadata"]["uid"] == claim["metadata"]["uid"]

    report = orphans(cluster, "--apply", "--yes", "--confirm-lost", "node-3")
    assert [each["progress"] for each in report["applied"]] == ["Done"], report
    replaced(workspace, claim, "node-3")
    workspace.wait_for(lambda: volume not in [each["metadata"]["name"] for each in cluster.items("pv")])


def replaced(workspace: Workspace, old: dict[str, Any], node: str) -> None:
    """The pod runs elsewhere, with another claim and another volume."""

    def is_another() -> bool:
        claims = workspace.items("pvc")
        return bool(claims) and claims[0]["metadata"]["uid"] != old["metadata"]["uid"]

    workspace.wait_for(is_another)
    workspace.wait_ready("db-0")
    assert workspace.node_of("db-0") != node
    assert workspace.item("pvc", "data-db-0")["spec"]["volumeName"] != old["spec"]["volumeName"]


@pytest.mark.req("R9.given-up")
def test_class_with_a_delay_needs_no_command(start_cluster: Start) -> None:
    cluster = start_cluster("--in-memory")
    workspace = set_on(cluster, "node-1", "fast")
    claim = workspace.item("pvc", "data-db-0")
    cluster("annotate", "storageclass", "fast", "mooring.dev/lost-storage=2s")
    cluster("annotate", "node", "node-1", "mooring.dev/power=off")
    time.sleep(4)
    # The Node exists, so nothing happens however long it is off.
    assert workspace.item("pvc", "data-db-0")["metadata"]["uid"] == claim["metadata"]["uid"]
    cluster("delete", "node", "node-1")
    replaced(workspace, claim, "node-1")
