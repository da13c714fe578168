"""Preemption with kubectl on `mooring up`: no pod is evicted on a node without a matching volume."""

import pytest

from support.builders import claim_body, class_body, pod_body, volume_body
from support.e2e.workspace import Workspace

pytestmark = pytest.mark.req("T22.volumes")

URGENT = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "urgent"},
    "value": 1000,
}


def urgent(name: str, **more: object) -> dict[str, object]:
    body = pod_body(name=name, namespace="", **more)
    body["spec"]["priorityClassName"] = "urgent"
    return body


def test_only_the_node_with_the_volume_is_preempted(workspace: Workspace) -> None:
    """Every node is full. The important pod's volume is on the second: only pods of that node are evicted."""
    own = workspace.name
    full = [pod_body(name=f"full-{n}", namespace="", node=f"node-{n}", requests={"cpu": "7"}) for n in (1, 2, 3)]
    workspace.apply(URGENT, class_body(name=own), *full)
    workspace.wait_ready("full-1", "full-2", "full-3")
    workspace.apply(
        volume_body(name=own, storage_class=own, node="node-2"),
        claim_body(name="data", namespace="", storage_class=own),
        urgent("important", claims=["data"], requests={"cpu": "7"}),
    )
    workspace.wait_ready("important")
    assert workspace.node_of("important") == "node-2"
    assert sorted(pod["metadata"]["name"] for pod in workspace.items("pods")) == ["full-1", "full-3", "important"]
    assert "Preempted" in workspace("get", "events", "--field-selector", "involvedObject.name=full-2")


def test_no_pod_is_evicted_without_a_matching_volume(workspace: Workspace) -> None:
    own = workspace.name
    workspace.apply(
        URGENT,
        class_body(name=own),
        pod_body(name="usual", namespace="", node="node-1"),
        claim_body(name="data", namespace="", storage_class=own),
        urgent("important", claims=["data"]),
    )
    workspace.wait_ready("usual")
    message = "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    workspace.wait_unscheduled("important", message)
    assert {pod["metadata"]["name"] for pod in workspace.items("pods")} == {"usual", "important"}
