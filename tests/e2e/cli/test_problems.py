"""The problems that motivated delayed binding, as manifests for a fresh `mooring up`."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from mooring.api import well_known
from support.builders import claim_body, pod_body
from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace
from support.scenarios.placements import ANTI_AFFINITY

PROBLEMS: Final = Path(__file__).parents[3] / "examples" / "problems"
ELSEWHERE: Final = "node(s) didn't match PersistentVolume's node affinity"


def run(workspace: Workspace, name: str) -> None:
    workspace("apply", "-f", str(PROBLEMS / name))


def volume_of(workspace: Workspace, claim: str) -> str:
    return str(workspace.item("pvc", claim)["spec"]["volumeName"])


@pytest.mark.req("T45.zone-without-cpu")
def test_a_volume_in_a_zone_without_cpu(workspace: Workspace) -> None:
    run(workspace, "zone-without-cpu.yaml")
    workspace.wait_ready("busy", "delayed")
    assert volume_of(workspace, "delayed") == "zonal-delayed-zone-b"
    assert workspace.node_of("delayed") == "node-2"

    assert volume_of(workspace, "immediate") == "zonal-immediate-zone-a"
    workspace.wait_unscheduled("immediate", f"0/3 nodes are available: 1 Insufficient cpu, 2 {ELSEWHERE}")


@pytest.mark.req("T45.local-disk-anti-affinity")
def test_local_disks_against_anti_affinity(workspace: Workspace) -> None:
    run(workspace, "disks-against-anti-affinity.yaml")
    workspace("rollout", "status", "statefulset/delayed", "--timeout=30s")
    assert {workspace.node_of(f"delayed-{ordinal}") for ordinal in range(2)} == {"node-1", "node-2"}

    workspace.wait_ready("immediate-0")
    workspace.wait_unscheduled("immediate-1", f"0/3 nodes are available: 1 {ANTI_AFFINITY}, 2 {ELSEWHERE}")
    assert {volume_of(workspace, f"data-immediate-{n}") for n in range(2)} == {"disk-immediate-1", "disk-immediate-2"}
    assert workspace.node_of("immediate-0") == "node-1"


@pytest.mark.req("T45.ssd-and-hdd")
def test_two_disks_that_should_be_on_one_node(workspace: Workspace) -> None:
    run(workspace, "ssd-and-hdd.yaml")
    workspace.wait_ready("delayed")
    node = workspace.node_of("delayed")
    assert volume_of(workspace, "data-delayed") == f"ssd-delayed-{node}"
    assert volume_of(workspace, "logs-delayed") == f"hdd-delayed-{node}"

    workspace.wait_unscheduled("immediate", f"0/3 nodes are available: 3 {ELSEWHERE}")
    assert volume_of(workspace, "data-immediate") == "ssd-immediate-node-1"
    assert volume_of(workspace, "logs-immediate") == "hdd-immediate-node-2"


@pytest.mark.req("T45.several-zonal-claims")
def test_disks_provisioned_in_two_zones_for_one_pod(workspace: Workspace) -> None:
    run(workspace, "several-zonal-claims.yaml")
    workspace.wait_ready("delayed")
    home = zone_of(workspace, workspace.node_of("delayed"))
    assert {zone_of_claim(workspace, f"{name}-delayed") for name in ("data", "logs")} == {home}

    workspace.wait_unscheduled("immediate", f"0/3 nodes are available: 3 {ELSEWHERE}")
    assert len({zone_of_claim(workspace, f"{name}-immediate") for name in ("data", "logs")}) == 2

    # In every zone: without a selected node, a disk's zone follows from its claim's name, for some pairs the same.
    zones = ("zone-a", "zone-b", "zone-c")
    for zone in zones:
        pair = [f"data-{zone}", f"logs-{zone}"]
        workspace.apply(
            *(claim_body(name=name, namespace="", storage_class="made-delayed") for name in pair),
            pod_body(name=zone, namespace="", claims=pair, node_selector={well_known.ZONE: zone}),
        )
    workspace.wait_ready(*zones)
    assert all(zone_of_claim(workspace, f"{name}-{zone}") == zone for zone in zones for name in ("data", "logs"))


def zone_of(workspace: Workspace, node: str) -> str:
    return str(workspace.item("node", node)["metadata"]["labels"]["topology.kubernetes.io/zone"])


def zone_of_claim(workspace: Workspace, claim: str) -> str:
    volume = workspace.item("pv", volume_of(workspace, claim))
    [term] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    [zone] = next(e["values"] for e in term["matchExpressions"] if e["key"] == "topology.kubernetes.io/zone")
    return str(zone)


@pytest.mark.req("T45.solved")
def test_delayed_binding_solves_every_problem(
    start_cluster: Callable[..., Cluster],
) -> None:
    """All at once on a cluster of their own: the full node of one problem does not affect the others."""
    cluster = start_cluster("--in-memory")
    checks = {
        "zone": test_a_volume_in_a_zone_without_cpu,
        "disks": test_local_disks_against_anti_affinity,
        "two-disks": test_two_disks_that_should_be_on_one_node,
        "several": test_disks_provisioned_in_two_zones_for_one_pod,
    }
    for name, check in checks.items():
        cluster("create", "namespace", name)
        check(Workspace(cluster, name))
