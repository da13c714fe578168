"""Workloads with kubectl: rollouts, undo, scale, budgets, and DaemonSets."""

from functools import partial
from typing import Any

import pytest

from support.builders import claim_body
from support.e2e.workspace import Workspace

LIMIT = "--timeout=30s"


def workload(kind: str, *, replicas: int | None = None, **spec: Any) -> dict[str, Any]:  # noqa: ANN401
    body: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "example.com/web:1"}]},
            },
            **spec,
        },
    }
    if replicas is not None:
        body["spec"]["replicas"] = replicas
    if kind == "StatefulSet":
        body["spec"]["serviceName"] = "web"
    return body


def images(workspace: Workspace) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in workspace.items("pods")}


def has_pods(workspace: Workspace, count: int) -> bool:
    return len(workspace.items("pods")) == count


@pytest.mark.parametrize(
    ("kind", "replicas"),
    [
        pytest.param("Deployment", 3, id="a Deployment"),
        pytest.param("StatefulSet", 3, id="a StatefulSet"),
        pytest.param("DaemonSet", None, id="a DaemonSet"),
    ],
)
def test_rollout_history_and_undo(workspace: Workspace, kind: str, replicas: int | None) -> None:
    workspace.apply(workload(kind, replicas=replicas))
    name = f"{kind.lower()}/web"
    workspace("rollout", "status", name, LIMIT)
    workspace("set", "image", name, "main=example.com/web:2")
    workspace("rollout", "status", name, LIMIT)
    assert images(workspace) == {"example.com/web:2"}
    history = workspace("rollout", "history", name).split()
    assert history[-4:] == ["1", "<none>", "2", "<none>"]
    assert "example.com/web:1" in workspace("rollout", "history", name, "--revision=1")
    workspace("rollout", "undo", name)
    workspace("rollout", "status", name, LIMIT)
    assert images(workspace) == {"example.com/web:1"}
    assert len(workspace.items("pods")) == 3


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_scaling(workspace: Workspace, kind: str) -> None:
    workspace.apply(workload(kind, replicas=1))
    name = f"{kind.lower()}/web"
    for replicas in (4, 2, 0):
        workspace("scale", name, f"--replicas={replicas}")
        workspace("rollout", "status", name, LIMIT)
        workspace.wait_for(partial(has_pods, workspace, replicas))


def test_deployment_is_paused_and_resumed(workspace: Workspace) -> None:
    workspace.apply(workload("Deployment", replicas=2))
    workspace("rollout", "status", "deployment/web", LIMIT)
    workspace("rollout", "pause", "deployment/web")
    workspace("set", "image", "deployment/web", "main=example.com/web:2")
    assert images(workspace) == {"example.com/web:1"}
    workspace("rollout", "resume", "deployment/web")
    workspace("rollout", "status", "deployment/web", LIMIT)
    assert images(workspace) == {"example.com/web:2"}


def test_budget_blocks_evictions(workspace: Workspace) -> None:
    # A label of its own: a drain looks at the pods of every namespace.
    deployment = workload("Deployment", replicas=2)
    deployment["spec"]["selector"]["matchLabels"]["app"] = "budgeted"
    deployment["spec"]["template"]["metadata"]["labels"]["app"] = "budgeted"
    workspace.apply(
        deployment,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web"},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "budgeted"}}},
        },
    )
    workspace("rollout", "status", "deployment/web", LIMIT)
    workspace.wait_for(lambda: workspace.item("pdb", "web")["status"].get("currentHealthy") == 2)
    node = workspace.items("pods")[0]["spec"]["nodeName"]
    output = workspace("drain", node, "--timeout=2s", "--pod-selector=app=budgeted", check=False)
    workspace("uncordon", node)
    assert "Cannot evict pod as it would violate the pod's disruption budget" in output
    assert len(workspace.items("pods")) == 2


@pytest.mark.req("T34.daemon-set")
def test_daemon_set_pods_are_scheduled_with_their_volumes(workspace: Workspace) -> None:
    spec = claim_body(name="data", namespace="", storage_class="local")["spec"]
    daemon = workload("DaemonSet")
    template = {"spec": spec}
    daemon["spec"]["template"]["spec"]["volumes"] = [{"name": "own", "ephemeral": {"volumeClaimTemplate": template}}]
    workspace.apply(daemon)
    workspace("rollout", "status", "daemonset/web", LIMIT)
    daemons = workspace.items("pods", "-l", "app=web")
    assert {pod["spec"]["nodeName"] for pod in daemons} == {"node-1", "node-2", "node-3"}
    assert [one["status"]["phase"] for one in workspace.items("pvc")] == ["Bound"] * 3
