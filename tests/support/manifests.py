"""The objects in `deploy/`, read from the files, before kustomize."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

Body = dict[str, Any]

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
KUSTOMIZATIONS: Final = sorted(DEPLOY.rglob("kustomization.yaml"))
FILES: Final = sorted(path for path in DEPLOY.rglob("*.yaml") if path not in KUSTOMIZATIONS)
#: Values of the downward API.
FACTS: Final = {"metadata.namespace": "mooring-system", "metadata.name": "a-pod", "spec.nodeName": "a-node"}


def documents(path: Path) -> list[Body]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def objects(*kinds: str) -> list[Body]:
    found = [body for path in FILES for body in documents(path)]
    return [body for body in found if not kinds or body["kind"] in kinds]


def workloads() -> list[Body]:
    return objects("Deployment", "DaemonSet", "Job")


class Container(NamedTuple):
    workload: Body
    body: Body

    @property
    def name(self) -> str:
        return f"{self.workload['metadata']['name']}/{self.body['name']}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            row["name"]: row["value"] if "value" in row else FACTS[row["valueFrom"]["fieldRef"]["fieldPath"]]
            for row in self.body.get("env", ())
        }

    @property
    def arguments(self) -> list[str]:
        """As the kubelet would pass them. KeyError for a variable that is not in the container's environment."""
        known = self.environment
        return [re.sub(r"\$\((\w+)\)", lambda found: known[found[1]], each) for each in self.body["args"]]

    def flag(self, name: str) -> str:
        """The value of a flag, "" if it is not set."""
        return next((each.partition("=")[2] for each in self.arguments if each.partition("=")[0] == name), "")


def containers() -> Iterator[Container]:
    for workload in workloads():
        for body in workload["spec"]["template"]["spec"]["containers"]:
            yield Container(workload, body)
