"""Predictions of `mooring simulate` for a cluster with Kubernetes' components, and the actual result."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from conformance.stack.test_workloads import workload
from support.builders import class_body, volume_body
from support.conformance.control_plane import ControlPlane
from support.conformance.process import Process
from support.conformance.waiting import KUBECTL_TIMEOUT, wait

CONTROLLERS: Final = (
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "daemonset-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "persistentvolume-binder-controller",
)
NODES: Final = ("node-1", "node-2", "node-3")

CLAIM: Final = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": "5Gi"}},
    },
}
OBJECTS: Final = (
    class_body(),
    *(volume_body(name=f"disk-{node}", node=node) for node in NODES),
    workload("Deployment", replicas=3),
    workload("DaemonSet"),
    workload("StatefulSet", replicas=2, serviceName="none", volumeClaimTemplates=[CLAIM]),
)


def asked(kube: ControlPlane, *flags: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "mooring", "simulate", "--kubeconfig", str(kube.kubeconfig), "-o", "json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr == ""
    response: dict[str, Any] = json.loads(done.stdout)
    return response


def places(kube: ControlPlane) -> dict[str, str]:
    """Node by pod."""
    return {
        pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in kube.kubectl_json("get", "pods")["items"]
    }


def test_drain_matches_the_prediction(start_kube: Callable[[], ControlPlane], tmp_path: Path) -> None:
    kube = start_kube()
    agent = Process(
        [sys.executable, "-m", "mooring", "nodeagent", "--kubeconfig", kube.kubeconfig, "--no-http"],
        tmp_path / "nodes.log",
    )
    try:
        with kube.controllers(*CONTROLLERS), kube.scheduler():
            _predict_and_drain(kube)
    finally:
        agent.stop()


def _predict_and_drain(kube: ControlPlane) -> None:
    wait(lambda: len(kube.kubectl_json("get", "nodes")["items"]) == len(NODES))
    kube.kubectl("wait", "nodes", "--all", "--for=condition=Ready", KUBECTL_TIMEOUT)
    kube.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": OBJECTS}))
    for name in ("deployment/deployment", "daemonset/daemonset", "statefulset/statefulset"):
        kube.kubectl("rollout", "status", name, KUBECTL_TIMEOUT)

    left = asked(kube)
    assert left["verdict"] == "No pod needs to be scheduled, and none stays pending."
    assert left["difference"] == {}, "what another implementation made is taken as it is"

    more = asked(kube, "--scale", "deploy/deployment=5", "--scale", "sts/statefulset=3")
    assert more["ok"]
    assert len(more["placements"]) == 3

    node = places(kube)["statefulset-0"]
    foretold = asked(kube, "--drain", node)
    assert [each["pod"] for each in foretold["pending"]] == ["default/statefulset-0"]
    kube.kubectl("drain", node, "--ignore-daemonsets", KUBECTL_TIMEOUT)
    moved = len(foretold["placements"])

    def settled() -> bool:
        now = places(kube)
        waiting = [name for name, where in now.items() if not where]
        return waiting == ["statefulset-0"] and len(now) == 8

    wait(settled)
    there = [name for name, where in places(kube).items() if where == node]
    assert all(name.startswith("daemonset-") for name in there)
    assert len(foretold["difference"]["podsRemoved"]) == moved
    message = kube.kubectl_json("get", "pod", "statefulset-0")["status"]["conditions"][0]["message"]
    assert message.partition(". ")[0] == foretold["pending"][0]["reason"].partition(". ")[0]
