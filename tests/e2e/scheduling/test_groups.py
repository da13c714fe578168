"""Groups of pods with kubectl on `mooring up`: all volumes of a gang or none, woken by what it lacks, and visible."""

import json
import subprocess
import sys

import pytest

from support.builders import class_body, volume_body
from support.builders.claims import claim_body
from support.builders.groups import member_body, pod_group_body
from support.e2e.workspace import Workspace


def gang(workspace: Workspace, volumes: int) -> None:
    """A gang of three whose members have one claim each, and this many volumes of the class."""
    own = workspace.name
    members = [
        body
        for number in range(3)
        for body in (
            claim_body(name=f"data-{number}", namespace="", storage_class=own),
            member_body(name=f"g-{number}", namespace="", claims=[f"data-{number}"]),
        )
    ]
    existing = [volume(own, number) for number in range(volumes)]
    workspace.apply(class_body(name=own), *existing, pod_group_body(namespace="", min_count=3), *members)


def volume(own: str, number: int) -> dict[str, object]:
    return volume_body(name=f"{own}-{number}", storage_class=own, node=f"node-{number % 3 + 1}")


def condition(workspace: Workspace) -> dict[str, str]:
    status = json.loads(workspace("get", "podgroup", "g", "-o", "json")).get("status", {})
    return next(iter(status.get("conditions", ())), {})


def mooring(workspace: Workspace, *command: str) -> str:
    """Output of a command of Mooring for the namespace."""
    where = ("--kubeconfig", str(workspace.cluster.kubeconfig), "-n", workspace.name)
    done = subprocess.run(
        [sys.executable, "-m", "mooring", *command, *where], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.req("G2.committed")
@pytest.mark.req("G5.visible")
def test_gang_gets_all_its_volumes_and_reports_it(workspace: Workspace) -> None:
    gang(workspace, 3)
    workspace.wait_ready("g-0", "g-1", "g-2")
    workspace("wait", "podgroup/g", "--for=condition=PodGroupInitiallyScheduled", "--timeout=60s")
    assert condition(workspace)["reason"] == "Scheduled"
    assert sorted(workspace.node_of(f"g-{number}") for number in range(3)) == ["node-1", "node-2", "node-3"]
    events = workspace("get", "events", "--field-selector", "involvedObject.name=g")
    assert "GroupHolding" in events
    assert "GroupCommitted" in events
    assert "Scheduled" in workspace("get", "podgroup", "g")


@pytest.mark.req("G3.woken")
@pytest.mark.req("G5.visible")
def test_gang_short_of_a_volume_binds_none_until_it_is_created(workspace: Workspace) -> None:
    gang(workspace, 2)
    workspace("wait", "podgroup/g", "--for=condition=PodGroupInitiallyScheduled=false", "--timeout=60s")
    assert condition(workspace)["reason"] == "Unschedulable"
    assert condition(workspace)["message"].startswith("minCount (3) cannot be satisfied: 2 scheduled, 0 remaining")
    assert [claim["status"]["phase"] for claim in workspace.items("pvc")] == ["Pending"] * 3
    assert all("nodeName" not in pod["spec"] for pod in workspace.items("pods"))
    assert "FailedScheduling" in workspace("get", "events", "--field-selector", "involvedObject.name=g")
    own = workspace.name
    verdict = f"{own}/g does not fit: 3 members are needed, and at most 2 fit together (minCount 3, 0 bound)."
    missing = f"class {own}: 3 volumes requested, 2 free: node-1: 1, node-2: 1"
    explained, told = (mooring(workspace, command, "podgroup/g") for command in ("explain", "story"))
    assert explained.startswith(verdict)
    assert missing in explained
    assert told.startswith(f"PodGroup {own}/g has 0 bound members, minCount 3.")
    assert f"podgroup/{own}/g  default-scheduler: FailedScheduling: minCount (3)" in told
    assert f"podgroup/{own}/g  PodGroupInitiallyScheduled became False" in told
    # The names of its pods begin with its own: only the part about groups shows the group.
    _, groups, simulated = mooring(workspace, "simulate").partition("\ngroups:\n")
    assert groups, "simulate shows no groups"
    assert verdict in simulated
    assert missing in simulated

    workspace.apply(volume(workspace.name, 2))
    workspace.wait_ready("g-0", "g-1", "g-2")
    workspace("wait", "podgroup/g", "--for=condition=PodGroupInitiallyScheduled", "--timeout=60s")


@pytest.mark.req("G5.visible")
def test_groups_have_metrics(workspace: Workspace) -> None:
    gang(workspace, 3)
    workspace.wait_ready("g-0", "g-1", "g-2")
    metrics = workspace("get", "--raw", "/metrics")
    for name in ("mooring_group_decision_duration_seconds_count", "mooring_group_looks_count"):
        [line] = [line for line in metrics.splitlines() if line.startswith(f"{name} ")]
        assert float(line.split()[1]) >= 1
