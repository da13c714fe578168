"""The problems that made delayed binding necessary, as files anybody can apply to a fresh `mooring up`."""

from pathlib import Path
from typing import Final

import pytest

from e2e.workspace import Workspace
from scenarios.placements import ANTI_AFFINITY

PROBLEMS: Final = Path(__file__).parents[2] / "examples" / "problems"
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
