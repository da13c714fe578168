"""All of Mooring as its manifests install it, on kube-apiserver, instead of kube-scheduler and the PV controller.

kube-controller-manager creates the pods of Deployments and StatefulSets, and `mooring nodeagent` simulates the nodes;
our processes have only the permissions of the manifests.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tools.generate_deploy.installation import NAMESPACE

from mooring.api import well_known
from mooring.hostpath.records import DRIVER_NAME
from support.builders import Body
from support.conformance.control_plane import ControlPlane
from support.conformance.fake_kubelet import FakeKubelet, fake_kubelet
from support.conformance.simulated_nodes import PLACES, csi_node, nodes
from support.conformance.waiting import KUBECTL_TIMEOUT, wait

DEPLOY: Final = Path(__file__).parents[3] / "deploy"
CONTROLLERS: Final = (
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "garbage-collector-controller",
)
#: The class in the manifests.
MADE: Final = "mooring-hostpath"
SCHEDULER: Final = "mooring-scheduler"
#: The driver of the manifests serves one node; here it serves all, so that a node is to be selected.
DRIVER_OPTIONS: Final = (
    "--pool=default=10Gi",
    f"--topology={well_known.HOSTNAME}={PLACES[0]}",
    f"--serve={PLACES[1]}:{well_known.HOSTNAME}={PLACES[1]}",
)
QUICK: Final = ("--capacity-poll-interval=2s", "--retry-interval-max=1s")
#: Scheduler, coordinator, controllers, recovery and preset nodes, two of each, and the pod of the driver.
PODS: Final = 11
PARTS: Final = ("scheduler", "controller", "coordinator", "provisioner")
#: Characters of each log in a failure report.
LOG_TAIL_CHARS: Final = 3000


class Stack:
    def __init__(self, kube: ControlPlane, pods: FakeKubelet, nodes_log: Path) -> None:
        self.kube = kube
        self.pods = pods
        self._nodes_log = nodes_log

    def apply(self, bodies: Sequence[Body]) -> None:
        self.kube.kubectl("apply", "-f", "-", stdin=_listed([_ours(body) for body in bodies]))

    def items(self, kind: str) -> list[dict[str, Any]]:
        return list(self.kube.kubectl_json("get", kind, "-n", "default")["items"])

    def node_of(self, pod: str) -> str:
        return next((p["spec"].get("nodeName", "") for p in self.items("pods") if p["metadata"]["name"] == pod), "")

    def reasons(self) -> set[str]:
        return {event["reason"] for event in self.items("events")}

    def until(self, holds: Callable[[], bool]) -> None:
        """Restarts ended processes meanwhile. Conditions do not hold while the server does not respond."""

        def held() -> bool:
            self.pods.tend()
            try:
                return holds()
            except AssertionError:
                return False

        wait(held, account=self.account)

    def account(self) -> str:
        """The state of the cluster, for the report of a failure that cannot be reproduced."""
        waiting = [
            f"{pod['metadata']['name']} {pod['status']['phase']} on {pod['spec'].get('nodeName', 'no node')}: "
            + "; ".join(row.get("message", row["type"]) for row in pod["status"].get("conditions", ()))
            for pod in self.items("pods")
            if pod["status"]["phase"] != "Running"
        ]
        claims = [
            f"{claim['metadata']['name']} {claim['status']['phase']} {claim['metadata'].get('annotations', {})}"
            for claim in self.items("pvc")
            if claim["status"]["phase"] != "Bound"
        ]
        logs = {part: self.pods.log(part) for part in PARTS} | {"nodes": self._nodes_log.read_text()}
        words = [f"--- {part}\n{log[-LOG_TAIL_CHARS:]}" for part, log in logs.items()]
        return "\n".join(["it never came to that", *waiting, *claims, *words])

    def clear(self) -> None:
        """Delete all workloads, and check that their volumes are deleted too."""
        self.kube.kubectl("delete", "statefulsets", "--all", "--cascade=foreground", KUBECTL_TIMEOUT)
        self.kube.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
        self.kube.kubectl("delete", "pvc", "--all", "--wait=false")
        self.until(lambda: not self.items("pvc"))
        self.until(lambda: not self._made())
        self.kube.kubectl("delete", "pv", "--all", "--wait=false")
        self.until(lambda: not self.items("pv"))

    def _made(self) -> list[dict[str, Any]]:
        return [volume for volume in self.items("pv") if volume["spec"].get("csi", {}).get("driver") == DRIVER_NAME]


def _ours(body: Body) -> Body:
    """The same for our scheduler."""
    match body["kind"]:
        case "Pod":
            return {**body, "spec": {**body["spec"], "schedulerName": SCHEDULER}}
        case "StatefulSet":
            template = body["spec"]["template"]
            spec = {**template["spec"], "schedulerName": SCHEDULER}
            # One after the other, so that it is known which of three pods get the volumes of two nodes.
            ordered = {**body["spec"], "podManagementPolicy": "OrderedReady"}
            return {**body, "spec": {**ordered, "template": {**template, "spec": spec}}}
        case _:
            return body


def _listed(bodies: Sequence[Body]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies)})


@contextmanager
def mooring_stack(kube: ControlPlane, folder: Path) -> Iterator[Stack]:
    more = {"driver": DRIVER_OPTIONS, "provisioner": QUICK, "coordinator": ("--grace=3s",)}
    with (
        nodes(kube, folder) as nodes_log,
        kube.controllers(*CONTROLLERS),
        fake_kubelet(kube, folder, namespace=NAMESPACE, node=PLACES[0], more=more) as pods,
    ):
        kube.kubectl("apply", "-k", str(DEPLOY / "everything"))
        # No kube-scheduler runs that would call it.
        kube.kubectl("scale", "-n", NAMESPACE, "deployment/mooring-extender", "--replicas=0")
        kube.kubectl("apply", "-f", "-", stdin=_listed([csi_node(node) for node in PLACES]))
        wait(lambda: len(pods.pods()) == PODS)
        pods.sync()
        yield Stack(kube, pods, nodes_log)
