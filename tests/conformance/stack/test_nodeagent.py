"""Nodes simulated by Mooring under kube-controller-manager and kube-scheduler, which treat them like kubelets."""

import asyncio
import json
import random
from collections.abc import Callable
from typing import Final

import pytest

from conformance.stack.test_workloads import WORKLOADS
from mooring.client.http import HttpClient
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.control.component import Context
from mooring.nodeagent.component import NodeAgent
from support.conformance.control_plane import ControlPlane
from support.conformance.waiting import KUBECTL_TIMEOUT, wait

TIMEOUT_SECONDS: Final = 240.0
CONTROLLERS: Final = (
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "daemonset-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "persistentvolume-binder-controller",
)
#: Shorter than in production, so that a lost node is detected quickly.
QUICK: Final = ("--node-monitor-grace-period=12s", "--node-monitor-period=1s")


@pytest.mark.version_matrix("kube-apiserver", "node agent", "nodes under kube-controller-manager and kube-scheduler")
async def test_upstream_controllers_manage_pods_on_simulated_nodes(
    start_kube: Callable[[], ControlPlane],
) -> None:
    kube = start_kube()
    clock, rng = SystemClock(), random.Random(1)
    client = HttpClient(kube.access, component="nodeagent", clock=clock)
    informers, recorder = Informers(client, clock, rng), EventRecorder(client, clock, "node-agent", rng)
    rows = Layout(local_volumes=0).rows()
    agent = NodeAgent(Context(client, informers, recorder, clock, rng), rows)

    def handle() -> None:
        wait(lambda: len(kube.kubectl_json("get", "nodes")["items"]) == len(rows))
        kube.kubectl("wait", "nodes", "--all", "--for=condition=Ready", KUBECTL_TIMEOUT)
        kube.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": WORKLOADS}))
        for body in WORKLOADS:
            name = f"{body['kind'].lower()}/{body['metadata']['name']}"
            kube.kubectl("rollout", "status", name, KUBECTL_TIMEOUT)
            kube.kubectl("set", "image", name, "main=example.com/main:2")
            kube.kubectl("rollout", "status", name, KUBECTL_TIMEOUT)
        kube.kubectl("annotate", "node", "node-2", "mooring.dev/power=off")
        kube.kubectl("wait", "node/node-2", "--for=condition=Ready=Unknown", KUBECTL_TIMEOUT)
        wait(lambda: "node.kubernetes.io/unreachable" in kube.kubectl("describe", "node", "node-2"))
        kube.kubectl("annotate", "node", "node-2", "mooring.dev/power-")
        kube.kubectl("wait", "node/node-2", "--for=condition=Ready", KUBECTL_TIMEOUT)
        for body in WORKLOADS:
            kube.kubectl("rollout", "status", f"{body['kind'].lower()}/{body['metadata']['name']}", KUBECTL_TIMEOUT)

    with kube.controllers(*CONTROLLERS, options=QUICK), kube.scheduler():
        async with asyncio.timeout(TIMEOUT_SECONDS), asyncio.TaskGroup() as group:
            tasks = [group.create_task(part.run()) for part in (informers, recorder, agent)]
            await asyncio.to_thread(handle)
            for task in tasks:
                task.cancel()
    await client.close()
