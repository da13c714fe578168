"""`simulate`, `orphans`, `doctor` and `story` on a running cluster.

On `mooring up` through its API, as on any Kubernetes; also as kubectl plugins.
"""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from support.e2e.cluster import Cluster

PROJECT = Path(__file__).parents[3] / "pyproject.toml"

#: A set whose volumes are disks of nodes.
SET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: main, image: example.com/db:1}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      storageClassName: local
      resources: {requests: {storage: 5Gi}}
"""


def asked(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mooring", *arguments, "--kubeconfig", str(cluster.kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def through_kubectl(cluster: Cluster, environment: dict[str, str], *arguments: str) -> str:
    """kubectl accepts no flags before a plugin's name."""
    known = {"KUBECONFIG": str(cluster.kubeconfig), "HOME": str(cluster.folder)}
    done = subprocess.run(
        ["kubectl", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | known | environment,
    )
    return done.stdout


@pytest.fixture
def plugins(tmp_path: Path) -> dict[str, str]:
    """A PATH with the plugins, as an installation provides them."""
    module, _, function = tomllib.loads(PROJECT.read_text())["project"]["scripts"]["kubectl-mooring"].partition(":")
    folder = tmp_path / "bin"
    folder.mkdir()
    plugin = folder / "kubectl-mooring"
    plugin.write_text(f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n")
    completing = folder / "kubectl_complete-mooring"
    completing.write_text(f'#!/bin/sh\nexec {plugin} completion kubectl -- "$@"\n')
    for file in (plugin, completing):
        file.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.level("e")
def test_what_if_does_not_change_the_cluster(
    start_cluster: Callable[..., Cluster], plugins: dict[str, str], tmp_path: Path
) -> None:
    cluster = start_cluster("--in-memory")
    cluster("apply", "-f", "-", stdin=SET)
    cluster("rollout", "status", "statefulset/db", "--timeout=30s")
    before = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in cluster.items("pods")}
    node = cluster.item("pod", "db-0")["spec"]["nodeName"]

    drained = asked(cluster, "simulate", "--drain", node, "-o", "json")
    assert drained.returncode == 1, drained.stderr
    outcome = json.loads(drained.stdout)
    assert [each["pod"] for each in outcome["pending"]] == ["default/db-0"]
    assert "didn't match PersistentVolume's node affinity" in outcome["pending"][0]["reason"]
    assert outcome["placements"] == []

    scaled = asked(cluster, "simulate", "--scale", "sts/db=3")
    assert scaled.returncode == 0, scaled.stdout + scaled.stderr
    assert scaled.stdout.startswith("The pod is scheduled.\n")

    pod = tmp_path / "pod.yaml"
    pod.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: huge}\nspec:\n  containers:\n"
        "  - {name: main, image: example.com/x:1, resources: {requests: {cpu: '999'}}}\n"
    )
    added = asked(cluster, "simulate", "-f", str(pod))
    assert added.returncode == 1
    assert "default/huge: 0/3 nodes are available: 3 Insufficient cpu." in added.stdout

    after = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in cluster.items("pods")}
    assert after == before
    assert cluster.item("statefulset", "db")["spec"]["replicas"] == 2

    story = asked(cluster, "story", "pod/db-0", "-o", "json")
    assert story.returncode == 0, story.stderr
    timeline = json.loads(story.stdout)
    assert timeline["verdict"] == f"Pod default/db-0 is Running on {node}."
    texts = [(each["about"].partition("/")[0], each["text"]) for each in timeline["happenings"]]
    assert ("pod", f"Scheduled: Successfully assigned default/db-0 to {node}") in texts
    assert ("pvc", "was created") in texts
    assert any(about == "pv" and text == "became Bound" for about, text in texts)
    assert any(text.startswith(f"attempt 1: selected {node}") for _, text in texts), "the scheduler remembers, unasked"
    assert not timeline["notes"]

    assert asked(cluster, "orphans").returncode == 0
    healthy = asked(cluster, "doctor", "-o", "json")
    assert healthy.returncode == 0, healthy.stdout + healthy.stderr
    assert json.loads(healthy.stdout)["skipped"] == []
    cluster("delete", "node", node)
    seen = json.loads(through_kubectl(cluster, plugins, "mooring", "orphans", "-o", "json"))
    bound = next(each for each in seen["volumes"] if each.get("claim", {}).get("claim") == "default/data-db-0")
    assert bound["missingNodes"] == [node]
    assert f"kubectl delete pv {bound['volume']}" in bound["helps"][-1]
    diagnosis = json.loads(through_kubectl(cluster, plugins, "mooring", "doctor", "-o", "json"))
    unreachable = [each["object"] for each in diagnosis["findings"] if each["code"] == "VolumeUnreachable"]
    assert f"PersistentVolume {bound['volume']}" in unreachable

    completed = through_kubectl(cluster, plugins, "__complete", "mooring", "sim")
    assert completed.splitlines()[0].startswith("simulate")
