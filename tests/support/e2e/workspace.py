"""A namespace of one test in a cluster that several tests share."""

import json
import time
from collections.abc import Callable
from typing import Any, Final

from support.e2e.cluster import Cluster

EVENT_KINDS: Final = {"pod": "Pod", "pvc": "PersistentVolumeClaim"}
#: Every condition takes a fraction of a second; CI machines may be slow.
TIMEOUT_SECONDS: Final = 30


class Workspace:
    """A namespace of its own in a shared cluster."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        #: Name of the namespace, and a unique prefix for cluster-scoped objects.
        self.name = name

    def __call__(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        return self.cluster("-n", self.name, *arguments, stdin=stdin, check=check)

    def apply(self, *bodies: dict[str, Any]) -> None:
        self.cluster.apply(*bodies, namespace=self.name)

    def refused(self, body: dict[str, Any]) -> str:
        """kubectl's error output when the server rejects the objects."""
        event_exists = self("apply", "-f", "-", stdin=json.dumps(body), check=False)
        assert "created" not in event_exists, event_exists
        return event_exists

    def items(self, kind: str, *arguments: str) -> list[dict[str, Any]]:
        return self.cluster.items(kind, "-n", self.name, *arguments)

    def item(self, kind: str, name: str) -> dict[str, Any]:
        return self.cluster.item(kind, name, "-n", self.name)

    def wait_ready(self, *pods: str) -> None:
        """Wait for pods to be ready, all with one list request: kubectl's own `wait` takes a tenth of a second for
        each.
        """

        def ready() -> set[str]:
            return {pod["metadata"]["name"] for pod in self.items("pods") if _condition(pod, "Ready", "True")}

        self.wait_for(lambda: ready().issuperset(pods))

    def wait_bound(self, *claims: str) -> None:
        def bound() -> set[str]:
            return {c["metadata"]["name"] for c in self.items("pvc") if c["status"]["phase"] == "Bound"}

        self.wait_for(lambda: bound().issuperset(claims))

    def node_of(self, pod: str) -> str:
        return str(self.item("pod", pod)["spec"].get("nodeName", ""))

    def wait_unscheduled(self, pod: str, *reasons: str) -> None:
        """Wait until the pod's PodScheduled condition is False with all these reasons; others may occur before."""

        def refused() -> bool:
            message = _refusal(self.item("pod", pod))
            return bool(message) and all(reason in message for reason in reasons)

        self._wait(refused, lambda: self("describe", "pod", pod))

    def wait_refused(self, count: int, reason: str) -> list[str]:
        """Wait until this many pods are unschedulable for this reason; returns their names."""

        def refused() -> list[str]:
            return [pod["metadata"]["name"] for pod in self.items("pods") if reason in _refusal(pod)]

        self.wait_for(lambda: len(refused()) == count)
        return refused()

    def wait_event(self, about: str, reason: str, text: str) -> None:
        """Wait for an event about an object (`pod/web`) with this reason and text."""
        kind, _, name = about.partition("/")
        chosen = f"involvedObject.kind={EVENT_KINDS[kind]},involvedObject.name={name},reason={reason}"

        def event_exists() -> bool:
            return any(text in event["message"] for event in self.items("events", f"--field-selector={chosen}"))

        self.wait_for(event_exists)

    def wait_for(self, holds: Callable[[], bool]) -> None:
        self._wait(holds, lambda: self("get", "pods,pvc,events"))

    def _wait(self, holds: Callable[[], bool], state: Callable[[], str]) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not holds():
            assert time.monotonic() < deadline, state()
            time.sleep(0.1)


def _refusal(pod: dict[str, Any]) -> str:
    """The message of the pod's PodScheduled condition, if it is False."""
    condition = _condition(pod, "PodScheduled", "False")
    return "" if condition is None else str(condition["message"])


def _condition(pod: dict[str, Any], kind: str, status: str) -> dict[str, Any] | None:
    conditions = pod["status"].get("conditions", ())
    return next((one for one in conditions if (one["type"], one["status"]) == (kind, status)), None)
