"""All of Mooring as its manifests install it, on their API server, in the place of their scheduler and PV controller.

Kubernetes' own controllers make pods of Deployments and StatefulSets, and `mooring nodeagent` plays the machines; our
processes have the rights of the manifests and nothing more.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from builders import Body
from conformance.control_plane import ControlPlane
from conformance.played_nodes import PLACES, csi_node, nodes
from conformance.played_pods import PlayedPods, played_pods
from conformance.waiting import KUBECTL_PATIENCE, wait
from mooring.api import keys
from mooring.cluster.installation import NAMESPACE
from mooring.hostpath.layout import DRIVER_NAME

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
CONTROLLERS: Final = (
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "garbage-collector-controller",
)
#: The class that the manifests bring.
MADE: Final = "mooring-hostpath"
SCHEDULER: Final = "mooring-scheduler"
#: The driver of the manifests knows one node; here it is central, so that there is something to choose.
DRIVER_OPTIONS: Final = (
    "--pool=default=10Gi",
    f"--topology={keys.HOSTNAME}={PLACES[0]}",
    f"--serve={PLACES[1]}:{keys.HOSTNAME}={PLACES[1]}",
)
QUICK: Final = ("--capacity-poll-interval=2s", "--retry-interval-max=1s")
#: Scheduler and coordinator and controllers, two of each, and the driver's pod.
PODS: Final = 7
PARTS: Final = ("scheduler", "controller", "coordinator", "provisioner")
#: Characters of each log that a failure tells.
LAST_WORDS: Final = 3000


class Stack:
    def __init__(self, kube: ControlPlane, pods: PlayedPods, nodes_log: Path) -> None:
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
        """Keeps what has ended running meanwhile. A server that does not answer holds nothing."""

        def held() -> bool:
            self.pods.tend()
            try:
                return holds()
            except AssertionError:
                return False

        wait(held, account=self.account)

    def account(self) -> str:
        """How things stand: for whoever reads of a failure that cannot be had again."""
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
        words = [f"--- {part}\n{log[-LAST_WORDS:]}" for part, log in logs.items()]
        return "\n".join(["it never came to that", *waiting, *claims, *words])

    def clear(self) -> None:
        """Remove the work, and see that its volumes go with it."""
        self.kube.kubectl("delete", "statefulsets", "--all", "--cascade=foreground", KUBECTL_PATIENCE)
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
            # One after the other: which of three get the volumes of two nodes is not left to chance.
            ordered = {**body["spec"], "podManagementPolicy": "OrderedReady"}
            return {**body, "spec": {**ordered, "template": {**template, "spec": spec}}}
        case _:
            return body


def _listed(bodies: Sequence[Body]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies)})


@contextmanager
def stormy_stack(kube: ControlPlane, folder: Path) -> Iterator[Stack]:
    more = {"driver": DRIVER_OPTIONS, "provisioner": QUICK, "coordinator": ("--grace=3s",)}
    with (
        nodes(kube, folder) as nodes_log,
        kube.controllers(*CONTROLLERS),
        played_pods(kube, folder, namespace=NAMESPACE, node=PLACES[0], more=more) as pods,
    ):
        kube.kubectl("apply", "-k", str(DEPLOY / "everything"))
        # There is no kube-scheduler that would ask it.
        kube.kubectl("scale", "-n", NAMESPACE, "deployment/mooring-extender", "--replicas=0")
        kube.kubectl("apply", "-f", "-", stdin=_listed([csi_node(node) for node in PLACES]))
        wait(lambda: len(pods.pods()) == PODS)
        pods.sync()
        yield Stack(kube, pods, nodes_log)
