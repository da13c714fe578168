"""A test's own corner of a cluster that several tests share."""

import json
import time
from collections.abc import Callable
from typing import Any, Final

from e2e.cluster import Cluster

EVENT_KINDS: Final = {"pod": "Pod", "pvc": "PersistentVolumeClaim"}
#: Generous: what is waited for takes a fraction of a second, CI machines are slow at times.
PATIENCE_SECONDS: Final = 30


class Workspace:
    """A namespace of its own in a shared cluster."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        #: The namespace's, and a prefix no other test has for what is in no namespace.
        self.name = name

    def __call__(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        return self.cluster("-n", self.name, *arguments, stdin=stdin, check=check)

    def apply(self, *bodies: dict[str, Any]) -> None:
        self.cluster.apply(*bodies, namespace=self.name)

    def refused(self, body: dict[str, Any]) -> str:
        """What kubectl prints when the server will not have this."""
        told = self("apply", "-f", "-", stdin=json.dumps(body), check=False)
        assert "created" not in told, told
        return told

    def items(self, kind: str, *arguments: str) -> list[dict[str, Any]]:
        return self.cluster.items(kind, "-n", self.name, *arguments)

    def item(self, kind: str, name: str) -> dict[str, Any]:
        return self.cluster.item(kind, name, "-n", self.name)

    def wait_ready(self, *pods: str) -> None:
        """Wait for pods to be ready, all with one look: kubectl's own `wait` takes a tenth of a second for each."""

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
        """Wait until the pod's PodScheduled condition says no for all these reasons; others may pass before."""

        def refused() -> bool:
            said = _refusal(self.item("pod", pod))
            return bool(said) and all(reason in said for reason in reasons)

        self._wait(refused, lambda: self("describe", "pod", pod))

    def wait_refused(self, count: int, reason: str) -> list[str]:
        """Wait until the scheduler has refused so many pods for this reason; their names."""

        def refused() -> list[str]:
            return [pod["metadata"]["name"] for pod in self.items("pods") if reason in _refusal(pod)]

        self.wait_for(lambda: len(refused()) == count)
        return refused()

    def wait_event(self, about: str, reason: str, text: str) -> None:
        """Wait for an event about an object (`pod/web`) with this reason and text."""
        kind, _, name = about.partition("/")
        chosen = f"involvedObject.kind={EVENT_KINDS[kind]},involvedObject.name={name},reason={reason}"

        def told() -> bool:
            return any(text in event["message"] for event in self.items("events", f"--field-selector={chosen}"))

        self.wait_for(told)

    def wait_for(self, holds: Callable[[], bool]) -> None:
        self._wait(holds, lambda: self("get", "pods,pvc,events"))

    def _wait(self, holds: Callable[[], bool], state: Callable[[], str]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, state()
            time.sleep(0.1)


def _refusal(pod: dict[str, Any]) -> str:
    """What the pod's PodScheduled condition says if it says no."""
    condition = _condition(pod, "PodScheduled", "False")
    return "" if condition is None else str(condition["message"])


def _condition(pod: dict[str, Any], kind: str, status: str) -> dict[str, Any] | None:
    conditions = pod["status"].get("conditions", ())
    return next((one for one in conditions if (one["type"], one["status"]) == (kind, status)), None)
