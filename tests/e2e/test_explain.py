"""`mooring explain` on a running cluster, as somebody who may only look."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import yaml

from builders import claim_body, pod_body
from e2e.cluster import Cluster
from e2e.test_rollback import begin, metric, open_the_others
from e2e.workspace import Workspace

PAGE: Final = Path(__file__).parents[2] / "docs" / "explain.md"


def seen_as(cluster: Cluster, user: str, namespace: str = "default") -> Path:
    """A kubeconfig of somebody else."""
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
    """Who has the role that the page gives, and no other."""
    [role] = re.findall(r"^```yaml$(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    cluster("apply", "-f", "-", stdin=role)
    cluster("create", "clusterrolebinding", "readers", "--clusterrole=mooring-explain", "--user=reader")
    return "reader"


def test_rights_to_read_suffice(workspace: Workspace, reader: str) -> None:
    assert workspace("auth", "can-i", "create", "pods", f"--as={reader}", check=False).strip() == "no"
    claim = claim_body(name="huge", namespace="", storage_class="fast", size="100Ti")
    workspace.apply(claim, pod_body(name="web", namespace="", claims=["huge"]))
    workspace.wait_unscheduled("web", "node(s) did not have enough free storage")
    kubeconfig = seen_as(workspace.cluster, reader)

    code, told = explain(kubeconfig, "pod/web", "-n", workspace.name)
    assert code == 1
    first = told.splitlines()[0]
    key = f"{workspace.name}/web"
    assert first == f"{key} would not fit: 0/3 nodes are available: 3 node(s) did not have enough free storage."
    assert re.search(r"kube-system/\S+ reports .*, 100Ti asked for", told), told
    assert "what would help:\n  - add " in told
    assert "said at " in told
    assert "could not be seen" not in told

    code, told = explain(kubeconfig, "pvc/huge", "-n", workspace.name)
    assert code == 1
    assert told.startswith(f"{workspace.name}/huge waits for {key} to be given a node: {key} would not fit")
    code, told = explain(kubeconfig, "node/node-1")
    assert code == 0
    assert f"{key}: node(s) did not have enough free storage" in told
    code, told = explain(kubeconfig, "-A")
    assert code == 1
    assert f"stuck pod/web -n {workspace.name}: {first}" in told


def test_claims_that_wait_as_they_should(workspace: Workspace, reader: str) -> None:
    workspace.apply(claim_body(name="later", namespace="", storage_class="fast"))
    workspace.wait_event("pvc/later", "WaitForFirstConsumer", "waiting for first consumer")
    code, told = explain(seen_as(workspace.cluster, reader, workspace.name), "pvc/later")
    assert code == 0
    assert told.startswith(f"{workspace.name}/later waits, as it should")


def test_a_class_that_is_not_there_and_a_pod_left_to_nobody(workspace: Workspace, reader: str) -> None:
    kubeconfig = seen_as(workspace.cluster, reader, workspace.name)
    workspace.apply(
        claim_body(name="typo", namespace="", storage_class="fasst"),
        pod_body(name="web", namespace="", claims=["typo"]),
        pod_body(name="stray", namespace="", scheduler="nobody"),
    )
    workspace.wait_unscheduled("web", "pod has unbound immediate PersistentVolumeClaims")
    code, told = explain(kubeconfig, "pod/web")
    assert code == 1
    assert "names class fasst, which does not exist" in told
    assert "  - create StorageClass fasst" in told


def test_who_sees_one_namespace_hears_what_is_missing(workspace: Workspace) -> None:
    workspace("create", "rolebinding", "viewer", "--clusterrole=view", "--user=tenant")
    workspace.apply(
        claim_body(name="later", namespace="", storage_class="fast"),
        pod_body(name="web", namespace="", requests={"cpu": "99"}),
    )
    workspace.wait_unscheduled("web", "Insufficient cpu")
    kubeconfig = seen_as(workspace.cluster, "tenant", workspace.name)
    code, told = explain(kubeconfig, "pod/web")
    assert code == 1
    assert told.startswith(f"Where {workspace.name}/web would go cannot be said, since nodes cannot be seen.")
    assert "3 Insufficient cpu" in told
    assert 'counts as not there: nodes: nodes is forbidden: User "tenant"' in told
    assert f"counts as not there: pods outside of {workspace.name}: pods is forbidden" in told
    code, told = explain(kubeconfig, "pod/nobody")
    assert code == 4
    assert "There is no pod" in told


def test_a_stranger_and_a_server_that_is_not_there(cluster: Cluster, tmp_path: Path) -> None:
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "wrong"}
    stranger = tmp_path / "stranger"
    stranger.write_text(yaml.safe_dump(config))
    assert explain(stranger, "-A") == (3, "Error: The API server refuses us: Unauthorized.\n")
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    stranger.write_text(yaml.safe_dump(config))
    code, told = explain(stranger, "-A")
    assert code == 3
    assert told.startswith("Error: Cannot use the API server: ")


@pytest.mark.req("R6")
def test_a_rollback_is_told_with_its_reason(start_cluster: Callable[..., Cluster]) -> None:
    workspace = begin(start_cluster, "")
    workspace.wait_for(lambda: metric(workspace, "mooring_held_volumes_rolled_back_total") >= 1)
    workspace.wait_event("pod/pair", "ProvisioningRolledBack", "of the same pod gets no volume on node node-1")
    _, told = explain(workspace.cluster.kubeconfig, "pod/pair")
    assert re.search(r'rolled back at .*: volume of claim "\w+" is rolled back: claim "\w+" of the same pod gets', told)
    claims = [explain(workspace.cluster.kubeconfig, f"pvc/{name}")[1] for name in ("left", "right")]
    assert any("is rolled back before anybody used it" in said for said in claims), claims
    open_the_others(workspace)
    workspace.wait_ready("pair")
    code, told = explain(workspace.cluster.kubeconfig, "pod/pair")
    assert code == 0
    assert told.startswith(f"default/pair is on {workspace.node_of('pair')}, and its volumes can be used there.")
