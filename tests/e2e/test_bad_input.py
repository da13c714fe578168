"""What cannot work is told where people look, and everything beside it goes on."""

from typing import Any, Final

import pytest

from builders import claim_body, class_body, pod_body, volume_body
from e2e.workspace import Workspace
from mooring.api import keys

NOWHERE: Final = "node(s) didn't match PersistentVolume's node affinity"


def good_neighbour(workspace: Workspace) -> None:
    """A pod that has nothing to do with any of it."""
    workspace.apply(pod_body(name="neighbour", namespace=""))
    workspace.wait_ready("neighbour")


def test_a_volume_whose_affinity_contradicts_itself(workspace: Workspace) -> None:
    own = workspace.name
    expressions = [
        {"key": keys.ZONE, "operator": "In", "values": ["zone-a"]},
        {"key": keys.ZONE, "operator": "NotIn", "values": ["zone-a"]},
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
    good_neighbour(workspace)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param({"size": None}, "spec.resources[storage]: Required value", id="no size"),
        pytest.param({"size": "0"}, "must be greater than zero", id="nothing"),
        pytest.param({"access_modes": ()}, "at least 1 access mode is required", id="no way to use it"),
    ],
)
def test_claims_that_ask_for_nothing_are_refused(workspace: Workspace, given: dict[str, Any], told: str) -> None:
    assert told in workspace.refused(claim_body(namespace="", **given))
    good_neighbour(workspace)


def test_a_set_that_shrinks_while_its_pods_wait(workspace: Workspace) -> None:
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
    told = workspace("describe", "statefulset", "web")
    assert "delete Pod web-2 in StatefulSet web successful" in told
    # What was wanted comes: the pod that is left gets it.
    workspace.apply(volume_body(name=own, storage_class=own, node="node-1"))
    workspace.wait_ready("web-0")


def test_a_node_that_vanishes_with_its_pod(workspace: Workspace) -> None:
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
    # Without its node nobody ends the pod but the collector, which waits 40 seconds; a user need not.
    workspace("delete", "pod", "passenger", "--force", "--grace-period=0")
    assert "passenger" not in {pod["metadata"]["name"] for pod in workspace.items("pods")}
    good_neighbour(workspace)
