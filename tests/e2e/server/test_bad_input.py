"""Invalid objects are reported where users look, and do not affect others."""

from typing import Any, Final

import pytest

from mooring.api import well_known
from support.builders import claim_body, class_body, pod_body, volume_body
from support.e2e.workspace import Workspace

NOWHERE: Final = "node(s) didn't match PersistentVolume's node affinity"


def unrelated_pod(workspace: Workspace) -> None:
    """A valid, unrelated pod."""
    workspace.apply(pod_body(name="neighbour", namespace=""))
    workspace.wait_ready("neighbour")


def test_contradicting_volume_affinity_matches_no_node(workspace: Workspace) -> None:
    own = workspace.name
    expressions = [
        {"key": well_known.ZONE, "operator": "In", "values": ["zone-a"]},
        {"key": well_known.ZONE, "operator": "NotIn", "values": ["zone-a"]},
    ]
    affinity = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    for mode in ("Immediate", "WaitForFirstConsumer"):
        name = f"{own}-{mode.lower()}"
        workspace.apply(
            class_body(name=name, binding_mode=mode),
            volume_body(name=name, storage_class=name, affinity=affinity),
            claim_body(name=mode.lower(), namespace="", storage_class=name),
            pod_body(name=mode.lower(), namespace="", claims=[mode.lower()]),
        )
    workspace.wait_bound("immediate")
    workspace.wait_unscheduled("immediate", f"0/3 nodes are available: 3 {NOWHERE}")
    workspace.wait_unscheduled("waitforfirstconsumer", "3 node(s) didn't find available persistent volumes to bind")
    assert workspace.item("pvc", "waitforfirstconsumer")["status"]["phase"] == "Pending"
    unrelated_pod(workspace)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"size": None}, "spec.resources[storage]: Required value", id="no size"),
        pytest.param({"size": "0"}, "must be greater than zero", id="empty spec"),
        pytest.param({"access_modes": ()}, "at least 1 access mode is required", id="no access modes"),
    ],
)
def test_claims_without_a_request_are_rejected(workspace: Workspace, given: dict[str, Any], message: str) -> None:
    assert message in workspace.refused(claim_body(namespace="", **given))
    unrelated_pod(workspace)


def test_statefulset_scales_down_while_pods_are_pending(workspace: Workspace) -> None:
    own = workspace.name
    claim = claim_body(name="data", namespace="", storage_class=own)
    template = {
        "metadata": {"labels": {"app": own}},
        "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]},
    }
    workspace.apply(
        class_body(name=own),
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 3,
                "serviceName": "web",
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": {"app": own}},
                "template": template,
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim["spec"]}],
            },
        },
    )
    workspace.wait_unscheduled("web-2", "didn't find available persistent volumes to bind")
    workspace("scale", "statefulset/web", "--replicas=1")
    workspace.wait_for(lambda: [pod["metadata"]["name"] for pod in workspace.items("pods")] == ["web-0"])
    assert len(workspace.items("pvc")) == 3
    message = workspace("describe", "statefulset", "web")
    assert "delete Pod web-2 in StatefulSet web successful" in message
    # A matching volume is created: the remaining pod gets it.
    workspace.apply(volume_body(name=own, storage_class=own, node="node-1"))
    workspace.wait_ready("web-0")


def test_deleted_node_with_its_pod(workspace: Workspace) -> None:
    workspace(
        "apply",
        "-f",
        "-",
        stdin='{"apiVersion":"v1","kind":"Node","metadata":{"name":"brief"},"spec":{"providerID":"mooring://brief"}}',
    )
    workspace.wait_for(lambda: "capacity" in workspace.item("node", "brief").get("status", {}))
    workspace.apply(pod_body(name="passenger", namespace="", node="brief"))
    workspace.wait_ready("passenger")
    workspace("delete", "node", "brief")
    # Without its node only the pod garbage collector deletes the pod, after 40 seconds; a user can do it at once.
    workspace("delete", "pod", "passenger", "--force", "--grace-period=0")
    assert "passenger" not in {pod["metadata"]["name"] for pod in workspace.items("pods")}
    unrelated_pod(workspace)
