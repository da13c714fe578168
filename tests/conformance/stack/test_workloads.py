"""Workload controllers and nodes of Mooring on the real kube-apiserver, handled with kubectl."""

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any, Final

import pytest

from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.cluster import control_plane
from mooring.cluster.bootstrap import Layout
from support.conformance.control_plane import ControlPlane
from support.conformance.waiting import KUBECTL_TIMEOUT

TIMEOUT_SECONDS: Final = 180.0


def workload(kind: str, **spec: Any) -> dict[str, Any]:  # noqa: ANN401  # plain JSON
    name = kind.lower()
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **spec},
    }


WORKLOADS: Final = (
    workload("Deployment", replicas=3),
    workload("StatefulSet", replicas=2, serviceName="none", podManagementPolicy="Parallel"),
    workload("DaemonSet"),
)
BUDGET: Final = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "deployment"},
    "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "deployment"}}},
}


@pytest.mark.version_matrix("kube-apiserver", "workload controllers", "rollouts, undo, budgets, drain")
async def test_rollouts_undo_budgets_and_lost_nodes(start_kube: Callable[[], ControlPlane]) -> None:
    kube = start_kube()
    client = HttpClient(kube.access, component="mooring", clock=SystemClock())
    plane = control_plane.ControlPlane(
        lambda _: client, Layout(local_volumes=0), clock=SystemClock(), rng=random.Random(1)
    )

    def handle() -> None:
        kube.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": WORKLOADS}))
        for body in WORKLOADS:
            name = f"{body['kind'].lower()}/{body['metadata']['name']}"
            kube.kubectl("rollout", "status", name, KUBECTL_TIMEOUT)
            kube.kubectl("set", "image", name, "main=example.com/main:2")
            kube.kubectl("rollout", "status", name, KUBECTL_TIMEOUT)
            assert images(kube) >= {"example.com/main:2"}
            kube.kubectl("rollout", "undo", name)
            kube.kubectl("rollout", "status", name, KUBECTL_TIMEOUT)
        assert images(kube) == {"example.com/main:1"}
        kube.kubectl("scale", "deployment/deployment", "--replicas=5")
        kube.kubectl("rollout", "status", "deployment/deployment", KUBECTL_TIMEOUT)
        kube.kubectl("scale", "deployment/deployment", "--replicas=3")
        kube.kubectl("apply", "-f", "-", stdin=json.dumps(BUDGET))
        kube.kubectl("wait", "pdb/deployment", "--for=jsonpath={.status.currentHealthy}=3", KUBECTL_TIMEOUT)
        assert kube.kubectl_json("get", "pdb", "deployment")["status"]["disruptionsAllowed"] == 0
        kube.kubectl("delete", "pdb", "deployment")
        kube.kubectl("drain", "node-1", "--ignore-daemonsets", KUBECTL_TIMEOUT)
        kube.kubectl("rollout", "status", "statefulset/statefulset", KUBECTL_TIMEOUT)
        placed = {pod["spec"]["nodeName"] for pod in kube.kubectl_json("get", "pods", "-l", "app!=daemonset")["items"]}
        assert "node-1" not in placed
        kube.kubectl("uncordon", "node-1")
        lease = kube.kubectl_json("get", "lease", "node-1", "-n", "kube-node-lease")
        assert lease["spec"]["holderIdentity"] == "node-1"

    async with asyncio.timeout(TIMEOUT_SECONDS), control_plane.running_control_plane(plane):
        await asyncio.to_thread(handle)
    await client.close()


def images(kube: ControlPlane) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in kube.kubectl_json("get", "pods")["items"]}
