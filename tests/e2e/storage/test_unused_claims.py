"""Bound claims that no pod ever used, on a fresh `mooring up` with kubectl: the class allows their replacement.

The same pod as in `test_rollback`: its volumes are not held, and one of them is bound on a node without capacity for
the other.
"""

from collections.abc import Callable
from typing import Final

import pytest

from e2e.storage.test_rollback import begin, phases, pod_of_both, uncordon_other_nodes
from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace

pytestmark = pytest.mark.slow

GATES: Final = "--feature-gates=ProvisioningRollback=false"
Start = Callable[..., Cluster]


def uid(workspace: Workspace, claim: str) -> str:
    return str(workspace.item("pvc", claim)["metadata"]["uid"])


@pytest.mark.req("R8.released")
def test_half_bound_pod_runs_and_a_used_claim_stays(start_cluster: Start) -> None:
    workspace = begin(start_cluster, GATES)
    workspace.wait_for(lambda: sorted(phases(workspace)) == ["Bound", "Pending"])
    first = next(name for name in ("left", "right") if workspace.item("pvc", name)["spec"].get("volumeName"))
    old = workspace.item("pvc", first)
    occupant = uid(workspace, "occupant")
    uncordon_other_nodes(workspace)
    assert uid(workspace, first) == old["metadata"]["uid"], "the class does not allow it yet"

    workspace.cluster("annotate", "storageclass", "fast", "mooring.dev/unused-claims=5s")
    workspace.wait_ready("pair")
    new = workspace.item("pvc", first)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert new["spec"]["volumeName"] != old["spec"]["volumeName"]
    assert new["metadata"]["annotations"]["mooring.dev/times-replaced"] == "1"
    workspace.wait_for(
        lambda: old["spec"]["volumeName"] not in [pv["metadata"]["name"] for pv in workspace.cluster.items("pv")]
    )
    assert workspace.cluster.items("configmaps", "-n", "kube-system", "-l", "mooring.dev/record=unused-claim") == []
    workspace.wait_event(f"pvc/{first}", "UnusedClaimReplaced", f"no pod ever had volume {old['spec']['volumeName']}")

    # Used once, a claim keeps its volume, however long its pod waits.
    node = workspace.node_of("pair")
    used = {name: uid(workspace, name) for name in ("left", "right")}
    workspace("delete", "pod", "pair")
    workspace.cluster("cordon", node)
    workspace.apply(pod_of_both("later"))
    for name in used:
        workspace.wait_event(f"pvc/{name}", "UnusedClaimKept", "PodHadNode: a pod that is deleted had a node")
    assert {name: uid(workspace, name) for name in ("left", "right")} == used
    assert uid(workspace, "occupant") == occupant
