"""`mooring doctor` on a running cluster, as a user who may see one namespace only."""

import json
import subprocess
import sys

from e2e.cli.test_explain import seen_as
from support.builders import claim_body, pod_body
from support.e2e.workspace import Workspace


def diagnose(workspace: Workspace, user: str) -> subprocess.CompletedProcess[str]:
    kubeconfig = seen_as(workspace.cluster, user, workspace.name)
    command = [sys.executable, "-m", "mooring", "doctor", "-o", "json", "--kubeconfig", str(kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_doctor_skips_what_it_may_not_list_and_promises_nothing(workspace: Workspace) -> None:
    workspace("create", "rolebinding", "viewer", "--clusterrole=view", "--user=tenant")
    workspace.apply(
        claim_body(name="typo", namespace="", storage_class="fasst"),
        pod_body(name="web", namespace="", claims=["typo"]),
    )
    workspace.wait_unscheduled("web", "pod has unbound immediate PersistentVolumeClaims")
    done = diagnose(workspace, "tenant")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "A clean result needs all objects: nodes: nodes is forbidden" in done.stderr
    skipped = {each["code"] for each in json.loads(done.stdout)["skipped"]}
    assert {"ClaimStuck", "NodeLost", "PermissionMissing"} <= skipped


def test_doctor_reports_stuck_claim_to_administrator(workspace: Workspace) -> None:
    workspace.apply(
        claim_body(name="typo", namespace="", storage_class="fasst"),
        pod_body(name="web", namespace="", claims=["typo"]),
    )
    workspace.wait_unscheduled("web", "pod has unbound immediate PersistentVolumeClaims")
    command = [
        sys.executable,
        "-m",
        "mooring",
        "doctor",
        "-o",
        "json",
        "--kubeconfig",
        str(workspace.cluster.kubeconfig),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    stuck = {each["object"] for each in json.loads(done.stdout)["findings"] if each["code"] == "ClaimStuck"}
    assert f"PersistentVolumeClaim {workspace.name}/typo" in stuck
