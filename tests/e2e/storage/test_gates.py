"""Feature gates off and on again, with what a user sees of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from support.builders import claim_body, pod_body
from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace

Start = Callable[..., Cluster]
INSUFFICIENT_STORAGE: Final = "0/3 nodes are available: 3 node(s) did not have enough free storage"


def claim(name: str, size: str = "5Gi") -> dict[str, Any]:
    return claim_body(name=name, namespace="", storage_class="fast", size=size)


def pod(name: str) -> dict[str, Any]:
    return pod_body(name=name, namespace="", claims=[name])


@pytest.mark.req("T31.volume-scheduling-off")
def test_delayed_claim_is_provisioned_without_a_pod_while_the_gate_is_off(start_cluster: Start) -> None:
    workspace = Workspace(start_cluster("--in-memory", "--feature-gates=VolumeScheduling=false"), "default")
    workspace.apply(claim("data"))
    workspace.wait_bound("data")
    assert workspace.cluster.item("sc", "fast")["volumeBindingMode"] == "WaitForFirstConsumer"
    workspace.apply(pod("data"))
    workspace.wait_ready("data")
    (volume,) = [pv for pv in workspace.cluster.items("pv") if pv["spec"].get("claimRef", {}).get("name") == "data"]
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert [workspace.node_of("data")] in [row["values"] for row in term["matchExpressions"]]


@pytest.mark.req("T31.capacity-off", "C14.gate")
def test_capacity_is_ignored_while_its_gate_is_off_and_counts_again(start_cluster: Start, tmp_path: Path) -> None:
    def published() -> dict[str, str]:
        found = workspace.cluster.items("csistoragecapacities", "-n", "kube-system")
        return {each["metadata"]["name"]: json.dumps(each["nodeTopology"]) for each in found}

    def restarted(*options: str) -> Workspace:
        return Workspace(start_cluster("--data-dir", str(tmp_path / "data"), *options), "default")

    workspace = restarted()
    workspace.wait_for(lambda: len(published()) == 9)
    before = published()
    workspace.apply(claim("big", "200Gi"), pod("big"))
    workspace.wait_unscheduled("big", INSUFFICIENT_STORAGE)
    workspace.cluster.stop()

    workspace = restarted("--feature-gates=CSIStorageCapacity=false")
    workspace.wait_event("pvc/big", "ProvisioningFailed", "ResourceExhausted")
    assert published() == before
    workspace("delete", "pod/big", "pvc/big", "--wait=false")
    workspace.wait_for(lambda: not workspace.items("pvc"))
    workspace.cluster.stop()

    workspace = restarted()
    workspace.apply(claim("big", "200Gi"), pod("big"))
    workspace.wait_unscheduled("big", INSUFFICIENT_STORAGE)
    assert published() == before
    workspace.apply(claim("small"), pod("small"))
    workspace.wait_ready("small")
