"""`mooring explain` on a running cluster, as a user with read access."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import yaml

from e2e.storage.test_rollback import begin, metric, uncordon_other_nodes
from support.builders import claim_body, pod_body
from support.builders.stateful_sets import set_body
from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace

PAGE: Final = Path(__file__).parents[3] / "docs" / "explain.md"


def seen_as(cluster: Cluster, user: str, namespace: str = "default") -> Path:
    """A kubeconfig of another user."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = user
    config["contexts"][0]["context"]["namespace"] = namespace
    file = cluster.folder / f"as-{user}"
    file.write_text(yaml.safe_dump(config))
    return file


def explain(kubeconfig: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "mooring", "explain", *arguments, "--kubeconfig", str(kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def reader(cluster: Cluster) -> str:
    """A kubeconfig with only the role that the page documents."""
    [role] = re.findall(r"^```yaml$(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    cluster("apply", "-f", "-", stdin=role)
    cluster("create", "clusterrolebinding", "readers", "--clusterrole=mooring-explain", "--user=reader")
    return "reader"


def test_explain_needs_only_read_access(workspace: Workspace, reader: str) -> None:
    assert workspace("auth", "can-i", "create", "pods", f"--as={reader}", check=False).strip() == "no"
    claim = claim_body(name="huge", namespace="", storage_class="fast", size="100Ti")
    workspace.apply(claim, pod_body(name="web", namespace="", claims=["huge"]))
    workspace.wait_unscheduled("web", "node(s) did not have enough free storage")
    kubeconfig = seen_as(workspace.cluster, reader)

    code, output = explain(kubeconfig, "pod/web", "-n", workspace.name)
    assert code == 1
    first = output.splitlines()[0]
    key = f"{workspace.name}/web"
    assert first == f"{key} would not fit: 0/3 nodes are available: 3 node(s) did not have enough free storage."
    assert re.search(r"kube-system/\S+ reports .*, 100Ti requested", output), output
    assert "what would help:\n  - add " in output
    assert "reported at " in output
    assert "could not be seen" not in output

    code, output = explain(kubeconfig, "pvc/huge", "-n", workspace.name)
    assert code == 1
    assert output.startswith(f"{workspace.name}/huge waits for {key} to be scheduled: {key} would not fit")
    code, output = explain(kubeconfig, "node/node-1")
    assert code == 0
    assert f"{key}: node(s) did not have enough free storage" in output
    code, output = explain(kubeconfig, "-A")
    assert code == 1
    assert f"stuck pod/web -n {workspace.name}: {first}" in output


def test_explain_claims_that_wait_normally(workspace: Workspace, reader: str) -> None:
    workspace.apply(claim_body(name="later", namespace="", storage_class="fast"))
    workspace.wait_event("pvc/later", "WaitForFirstConsumer", "waiting for first consumer")
    code, output = explain(seen_as(workspace.cluster, reader, workspace.name), "pvc/later")
    assert code == 0
    assert output.startswith(f"{workspace.name}/later is Pending as intended")


def test_explain_missing_class_and_unknown_scheduler_name(workspace: Workspace, reader: str) -> None:
    kubeconfig = seen_as(workspace.cluster, reader, workspace.name)
    workspace.apply(
        claim_body(name="typo", namespace="", storage_class="fasst"),
        pod_body(name="web", namespace="", claims=["typo"]),
        pod_body(name="stray", namespace="", scheduler="unserved"),
    )
    workspace.wait_unscheduled("web", "pod has unbound immediate PersistentVolumeClaims")
    code, output = explain(kubeconfig, "pod/web")
    assert code == 1
    assert "names class fasst, which does not exist" in output
    assert "  - create StorageClass fasst" in output


def test_explain_lists_missing_permissions(workspace: Workspace) -> None:
    workspace("create", "rolebinding", "viewer", "--clusterrole=view", "--user=tenant")
    workspace.apply(
        claim_body(name="later", namespace="", storage_class="fast"),
        pod_body(name="web", namespace="", requests={"cpu": "99"}),
    )
    workspace.wait_unscheduled("web", "Insufficient cpu")
    kubeconfig = seen_as(workspace.cluster, "tenant", workspace.name)
    code, output = explain(kubeconfig, "pod/web")
    assert code == 1
    assert output.startswith(f"It is unknown where {workspace.name}/web fits: nodes cannot be listed.")
    assert "3 Insufficient cpu" in output
    assert 'counts as not there: nodes: nodes is forbidden: User "tenant"' in output
    assert f"counts as not there: pods outside of {workspace.name}: pods is forbidden" in output
    code, output = explain(kubeconfig, "pod/missing")
    assert code == 4
    assert "There is no pod" in output


def test_explain_without_access_or_server(cluster: Cluster, tmp_path: Path) -> None:
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "wrong"}
    stranger = tmp_path / "stranger"
    stranger.write_text(yaml.safe_dump(config))
    assert explain(stranger, "-A") == (3, "Error: The API server rejected the request: Unauthorized.\n")
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    stranger.write_text(yaml.safe_dump(config))
    code, output = explain(stranger, "-A")
    assert code == 3
    assert output.startswith("Error: Cannot use the API server: ")


@pytest.mark.req("R6.explain")
def test_explain_reports_the_rollback_reason(start_cluster: Callable[..., Cluster]) -> None:
    workspace = begin(start_cluster)
    workspace.wait_for(lambda: metric(workspace, "mooring_held_volumes_rolled_back_total") >= 1)
    workspace.wait_event("pod/pair", "ProvisioningRolledBack", "of the same pod gets no volume on node node-1")
    _, output = explain(workspace.cluster.kubeconfig, "pod/pair")
    assert re.search(
        r'rolled back at .*: volume of claim "\w+" is rolled back: claim "\w+" of the same pod gets', output
    )
    claims = [explain(workspace.cluster.kubeconfig, f"pvc/{name}")[1] for name in ("left", "right")]
    assert any("is rolled back unused" in text for text in claims), claims
    uncordon_other_nodes(workspace)
    workspace.wait_ready("pair")
    code, output = explain(workspace.cluster.kubeconfig, "pod/pair")
    assert code == 0
    assert output.startswith(f"default/pair is on {workspace.node_of('pair')}, and its volumes can be used there.")


def test_names_of_the_cluster_are_completed(workspace: Workspace) -> None:
    workspace.apply(pod_body(name="web", namespace=""), pod_body(name="db", namespace=""))
    kubeconfig = str(workspace.cluster.kubeconfig)

    def completed(*words: str) -> list[str]:
        command = ["explain", "--kubeconfig", kubeconfig, "-n", workspace.name, *words]
        run = [sys.executable, "-m", "mooring", "completion", "kubectl", "--", *command]
        return subprocess.run(run, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()[:-1]

    assert completed("pod/") == ["pod/db", "pod/web"]
    assert completed("pods/w") == ["pods/web"]
    assert completed("node/node-2") == ["node/node-2"]
    assert completed("--namespace", workspace.name) == [workspace.name]


def test_statefulset_is_explained_by_the_pod_that_matters(workspace: Workspace) -> None:
    claim = claim_body(name="data", namespace="", storage_class="fast", size="100Ti")
    body = set_body(name="db", replicas=2)
    body["metadata"].pop("namespace")
    body["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim["spec"]}]
    workspace.apply(body)
    workspace.wait_unscheduled("db-0", "node(s) did not have enough free storage")

    code, output = explain(workspace.cluster.kubeconfig, "sts/db", "-n", workspace.name)
    assert code == 1
    key = f"{workspace.name}/db"
    assert output.startswith(f"StatefulSet {key} has 0 of 2 pods ready. {key}-0 would not fit: 0/3 nodes are available")
    assert f"  data: 0 bound, not bound: {workspace.name}/data-db-0" in output
    assert "what would help:" in output
