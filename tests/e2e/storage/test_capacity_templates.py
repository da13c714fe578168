"""Node groups without nodes: the provisioner publishes what their nodes would have, `mooring simulate` uses it.

Nodes with 10Gi each and a pod that needs 15Gi; nodes of the group `large` would have 20Gi.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.storage.test_central_publisher import DRIVER, HOURLY, KEY, NO_OWNER, NODES, figures, objects, serving
from support.e2e.cluster import Cluster
from support.e2e.provisioner_process import claim, pod, provisioner
from support.e2e.workspace import Workspace

pytestmark = pytest.mark.slow

TEMPLATES: Final = f"""
- nodeGroup: large
  topologyKeys: [{KEY}]
  storageClasses:
    disks: {{capacity: 20Gi, maximumVolumeSize: 20Gi}}
"""
#: What the cloud of an autoscaler knows of the group.
NODE: Final = f"""
apiVersion: v1
kind: Node
metadata:
  name: large
  labels: {{kubernetes.io/hostname: large, {KEY}: large_template}}
status:
  allocatable: {{cpu: "4", memory: 8Gi, pods: "100"}}
"""
SMALL: Final = NODE.replace("large_template", "small").replace("large", "small")
REAL: Final = dict.fromkeys(NODES, "10Gi")


def shown(workspace: Workspace, *arguments: str) -> tuple[int, Any]:
    """Exit code and JSON of a command."""
    command = [sys.executable, "-m", "mooring", *arguments, "--kubeconfig", str(workspace.cluster.kubeconfig)]
    done = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.req("C24.template-nodes", "C24.which-group")
def test_group_without_nodes_helps_a_pending_pod(tmp_path: Path, start_cluster: Callable[..., Cluster]) -> None:
    file, large, small = (tmp_path / name for name in ("templates.yaml", "large.yaml", "small.yaml"))
    file.write_text(TEMPLATES)
    large.write_text(NODE)
    small.write_text(SMALL)
    groups = ("--node-group", f"large={large}", "--node-group", f"small={small}")
    flag = f"--capacity-template-file={file}"
    with serving(tmp_path / "d", start_cluster) as workspace:
        with provisioner(workspace.cluster, tmp_path / "d", *HOURLY, NO_OWNER, flag):
            workspace.wait_for(lambda: figures(workspace) == REAL | {"large_template": "20Gi"})
            (template,) = (
                each for each in objects(workspace) if "mooring.dev/node-group" in each["metadata"]["labels"]
            )
            assert template["metadata"]["labels"] == {
                "csi.storage.k8s.io/drivername": DRIVER,
                "csi.storage.k8s.io/managed-by": "external-provisioner",
                "mooring.dev/node-group": "large",
            }
            _, rows = shown(workspace, "capacity", "--driver", DRIVER)
            assert {row["segment"][KEY]: row.get("nodeGroup") for row in rows} == dict.fromkeys(NODES) | {
                "large_template": "large"
            }

            workspace.apply(claim("big", "disks", "15Gi"), pod("big", "big"))
            workspace.wait_unscheduled("big", "enough free storage")
            _, explained = shown(workspace, "explain", "pod/big")
            assert "_template" not in json.dumps(explained)
            _, diagnosis = shown(workspace, "doctor")
            assert "_template" not in json.dumps(diagnosis["findings"])

            code, found = shown(workspace, "simulate", *groups)
            assert (code, found["ok"], found["best"]) == (0, True, "large")
            assert [each["pod"] for each in found["pending"]] == ["default/big"]
            assert found["groups"]["large"]["count"] == 1
            assert found["groups"]["large"]["scheduled"] == ["default/big"]
            assert found["groups"]["large"]["pending"] == []
            assert found["groups"]["small"]["count"] == 0
            assert [each["pod"] for each in found["groups"]["small"]["pending"]] == ["default/big"]

            file.write_text("[]")
            workspace.wait_for(lambda: figures(workspace) == REAL)
            code, found = shown(workspace, "simulate", *groups)
            assert (code, found["best"], found["groups"]["large"]["count"]) == (1, "", 0)
            file.write_text(TEMPLATES)
            workspace.wait_for(lambda: figures(workspace) == REAL | {"large_template": "20Gi"})
        with provisioner(workspace.cluster, tmp_path / "d", *HOURLY, NO_OWNER):
            workspace.wait_for(lambda: figures(workspace) == REAL)
