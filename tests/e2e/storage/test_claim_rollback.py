"""Bound, unused claims on a fresh `mooring up` with the gate ClaimRollback, with kubectl.

The same pod as in `test_rollback`, which shows the behaviour without the gate: its volumes are not held, and one of
them is bound on a node without capacity for the other.
"""

import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from e2e.storage.test_capacity import published_capacity
from e2e.storage.test_rollback import ELSEWHERE, OTHERS, begin, metric, phases, pod_of_both, uncordon_other_nodes
from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace

GATES: Final = "--feature-gates=ProvisioningRollback=false,ClaimRollback=true"
IMMUTABLE: Final = "spec is immutable after creation"

Start = Callable[..., Cluster]


def clean(workspace: Workspace, claim: str) -> tuple[str, str]:
    """Status and reason of a claim's Clean condition."""
    conditions = workspace.item("pvc", claim)["status"].get("conditions", [])
    found = [(one["status"], one["reason"]) for one in conditions if one["type"] == "mooring.dev/Clean"]
    return found[0] if found else ("", "")


def volumes(workspace: Workspace, *claims: str) -> list[str]:
    return [workspace.item("pvc", claim)["spec"].get("volumeName", "") for claim in claims]


@pytest.mark.req(
    "T39.dirty-before-use", "T40.unbound", "R2.used-claim", "R5.not-rolled-back", "R6.events", "R6.metrics"
)
def test_half_bound_pod_runs_and_used_claims_stay_bound(start_cluster: Start) -> None:
    workspace = begin(start_cluster, GATES)
    workspace.wait_for(lambda: sorted(phases(workspace)) == ["Bound", "Pending"])
    first = next(name for name in ("left", "right") if volumes(workspace, name) != [""])
    (volume,) = volumes(workspace, first)
    workspace.wait_for(lambda: clean(workspace, first) == ("True", "NeverUsed"))
    assert clean(workspace, "occupant") == ("False", "PodAdmitted")

    # Once there is a node for it, the claim bound elsewhere is unbound, with events.
    uncordon_other_nodes(workspace)
    workspace.wait_ready("pair")
    node = workspace.node_of("pair")
    assert node in OTHERS
    assert phases(workspace) == ["Bound", "Bound"]
    workspace.wait_event(f"pvc/{first}", "ClaimRolledBack", f'unbound from volume "{volume}", which no pod has used')
    workspace.wait_event("pod/pair", "RollingBackClaims", f"rolling back claims: {first}")
    assert metric(workspace, "mooring_scheduler_claims_unbound_total") >= 1
    assert {clean(workspace, name) for name in ("left", "right")} == {("False", "PodAdmitted")}

    # Used once, a claim is never unbound: neither by the scheduler nor by a condition set by an administrator.
    used = volumes(workspace, "left", "right")
    workspace("delete", "pod", "pair")
    workspace.cluster("cordon", node)
    workspace.apply(pod_of_both("later"))
    workspace.wait_unscheduled("later", ELSEWHERE)
    workspace("annotate", "pvc", "left", "pv.kubernetes.io/rollback=yes")
    workspace.wait_event("pvc/left", "ClaimRollbackRefused", "a pod may have used its volume")
    output = workspace("patch", "pvc", "left", "--type=merge", "-p", '{"spec":{"volumeName":null}}', check=False)
    assert IMMUTABLE in output
    forged = '{"status":{"conditions":[{"type":"mooring.dev/Clean","status":"True"}]}}'
    output = workspace("patch", "pvc", "left", "--subresource=status", "--type=merge", "-p", forged, check=False)
    assert "cannot become True on a claim that has a volume" in output
    time.sleep(3)
    assert volumes(workspace, "left", "right") == used
    workspace.cluster("uncordon", node)
    workspace.wait_ready("later")
    assert workspace.node_of("later") == node

    # No volume is leaked: the driver's whole capacity is free again.
    workspace("delete", "pod", "later", "occupant")
    workspace("delete", "pvc", "left", "right", "occupant")
    workspace.wait_for(lambda: not [pv for pv in workspace.cluster.items("pv") if "csi" in pv["spec"]])
    workspace.wait_for(lambda: set(published_capacity(workspace.cluster, "fast").values()) == {"100Gi"})


@pytest.mark.req("T41.replaced")
def test_rejected_pod_is_replaced_on_another_node(start_cluster: Start) -> None:
    cluster = start_cluster("--in-memory", "--feature-gates=ClaimRollback=true")
    workspace = Workspace(cluster, "default")
    # The node is down while the pod is scheduled to it, and has other labels afterwards.
    cluster("label", "node", "node-1", "disk=fast")
    cluster("annotate", "node", "node-1", "mooring.dev/power=off")
    workspace.apply(replicas())
    workspace.wait_bound("data-db-0")
    workspace.wait_for(lambda: workspace.node_of("db-0") == "node-1")
    cluster("label", "node", "node-1", "disk-")
    cluster("label", "node", "node-2", "disk=fast")
    cluster("annotate", "node", "node-1", "mooring.dev/power-")
    workspace.wait_ready("db-0")
    assert workspace.node_of("db-0") == "node-2"
    workspace.wait_event("pvc/data-db-0", "ClaimRolledBack", "which no pod has used")


def replicas() -> dict[str, Any]:
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "5Gi"}},
        },
    }
    template = {
        "metadata": {"labels": {"app": "db"}},
        "spec": {
            "containers": [{"name": "db", "image": "example/db:1"}],
            "nodeSelector": {"disk": "fast"},
            "terminationGracePeriodSeconds": 0,
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": template,
            "volumeClaimTemplates": [claim],
        },
    }
