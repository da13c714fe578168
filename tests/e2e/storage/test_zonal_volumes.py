"""Volumes provisioned in the zone that the scheduler selects: the zonal example, and existing volumes beside them."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from support.builders import claim_body, class_body, pod_body, volume_body
from support.e2e.workspace import Workspace

EXAMPLES: Final = Path(__file__).parents[3] / "examples" / "provisioning"
ZONE: Final = "topology.kubernetes.io/zone"


def zone_of(workspace: Workspace, pod: str) -> str:
    return str(workspace.item("node", workspace.node_of(pod))["metadata"]["labels"][ZONE])


def zone_of_volume(workspace: Workspace, claim: str) -> str:
    volume = workspace.item("pv", workspace.item("pvc", claim)["spec"]["volumeName"])
    [term] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    [values] = [e["values"] for e in term["matchExpressions"] if e["key"] == ZONE]
    return str(values[0])


@pytest.mark.req("T19.runs", "T19.volume-in-zone")
def test_the_zonal_example_of_the_drafts(workspace: Workspace) -> None:
    draft = EXAMPLES / "zonal-draft.yaml"
    assert "volumeBindingMode" in workspace("apply", "--dry-run=server", "-f", str(draft), check=False)
    repaired = subprocess.run(
        [sys.executable, "-m", "mooring", "import", "-f", str(draft)], capture_output=True, text=True, check=True
    )
    assert "renamed bindingMode to volumeBindingMode" in repaired.stderr
    workspace("apply", "-f", "-", stdin=repaired.stdout)
    workspace.wait_ready("my-pod")
    volume = workspace.item("pv", workspace.item("pvc", "my-pvc")["spec"]["volumeName"])
    assert volume["spec"]["capacity"]["storage"] == "100Gi"
    assert "gcePersistentDisk" in volume["spec"]
    assert zone_of_volume(workspace, "my-pvc") == zone_of(workspace, "my-pod")


@pytest.mark.req("T20.provisioned", "T43.fallback")
def test_volume_is_provisioned_without_match(workspace: Workspace) -> None:
    workspace("apply", "-f", str(EXAMPLES / "fallback.yaml"))
    workspace.wait_ready("small", "large")
    assert workspace.item("pvc", "small")["spec"]["volumeName"] == "disk-by-hand"
    assert zone_of(workspace, "small") == "zone-a"
    made = workspace.item("pv", workspace.item("pvc", "large")["spec"]["volumeName"])
    assert made["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == "zonal.standins.mooring.dev"
    assert zone_of_volume(workspace, "large") == zone_of(workspace, "large")


@pytest.mark.req("T52.undone")
def test_zonal_upgrade_is_undone_and_pods_stay_in_the_zone_of_the_labels(workspace: Workspace) -> None:
    own = workspace.name
    disk = {"gcePersistentDisk": {"pdName": own}}
    labels = {ZONE: "zone-b"}
    workspace.apply(
        class_body(name=own, binding_mode="Immediate"),
        volume_body(name=own, storage_class=own, source=disk, labels=labels),
        claim_body(name="data", namespace="", storage_class=own),
        pod_body(name="before", namespace="", claims=["data"]),
    )
    workspace.wait_ready("before")
    assert "nodeAffinity" in workspace.cluster.item("pv", own)["spec"]

    command = [sys.executable, "-m", "mooring", "controller", "--undo-zonal-upgrade"]
    access = ["--kubeconfig", str(workspace.cluster.kubeconfig)]
    output = subprocess.run([*command, *access], capture_output=True, text=True, check=True).stdout
    assert f"{own}: node affinity removed\n" in output
    undone = workspace.cluster.item("pv", own)
    assert "nodeAffinity" not in undone["spec"]
    assert undone["metadata"]["labels"] == labels
    assert undone["spec"]["claimRef"]["name"] == "data"
    assert "0 volumes changed" in subprocess.run([*command, *access], capture_output=True, text=True, check=True).stdout

    # The labels are in force as before the upgrade.
    workspace.apply(pod_body(name="after", namespace="", claims=["data"]))
    workspace.wait_ready("before", "after")
    assert zone_of(workspace, "after") == "zone-b"
    workspace.apply(pod_body(name="elsewhere", namespace="", claims=["data"], node_selector={ZONE: "zone-a"}))
    workspace.wait_unscheduled("elsewhere", "node(s) had no available volume zone")
    assert "nodeAffinity" not in workspace.cluster.item("pv", own)["spec"]

    workspace("annotate", "pv", own, "mooring.dev/zonal-upgrade-")
    workspace.wait_for(lambda: "nodeAffinity" in workspace.cluster.item("pv", own)["spec"])
