"""Our API server instead of kube-apiserver, for scenarios with Kubernetes' own components."""

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from support.checklist.bare_server import BareServer
from support.conformance.components import Components
from support.conformance.process import Process
from support.e2e.kubectl import Kubectl


class Plane(Protocol):
    """What such a scenario needs of a control plane; `ControlPlane` is the real one."""

    @property
    def kubeconfig(self) -> Path: ...

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str: ...

    def kubectl_json(self, *arguments: str) -> dict[str, Any]: ...

    def scheduler(self, *options: str) -> AbstractContextManager[Process]: ...

    def controllers(self, *names: str, options: tuple[str, ...] = ()) -> AbstractContextManager[Process]: ...


class OurControlPlane:
    def __init__(self, server: BareServer, binaries: Path, folder: Path) -> None:
        self.kubeconfig = server.kubeconfig
        self._kubectl = Kubectl(server.kubeconfig, binary=binaries / "kubectl")
        self._components = Components(binaries, folder, server.kubeconfig)
        self.scheduler = self._components.scheduler
        self.controllers = self._components.controllers

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self._kubectl(*arguments, stdin=stdin)

    def kubectl_json(self, *arguments: str) -> dict[str, Any]:
        response: dict[str, Any] = json.loads(self.kubectl(*arguments, "-o", "json"))
        return response
