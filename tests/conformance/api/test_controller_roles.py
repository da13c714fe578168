"""Kubernetes' components on our API server, each with its own identity and only its default role."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from conformance.stack.test_upstream_components import BINDER, CLAIMS, VOLUMES, add_node, add_pod, node_of, until
from mooring.client.kubeconfig import from_files
from support.builders import claim_body, class_body, volume_body
from support.checklist.bare_server import BareServer
from support.checklist.wire import Wire
from support.conformance.components import Components
from support.e2e.kubectl import Kubectl

SCHEDULER: Final = "system:kube-scheduler"
CONTROLLERS: Final = "system:kube-controller-manager"


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[BareServer]:
    server = BareServer(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def wire(ours: BareServer) -> Wire:
    access = from_files([ours.kubeconfig])
    return Wire(access.server, access.authority, access.token)


def components(ours: BareServer, binaries: Path, folder: Path, user: str) -> Components:
    """Components with the identity of this user: the kubeconfig impersonates it."""
    config = yaml.safe_load(ours.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = user
    own = folder / user.replace(":", "-")
    own.mkdir()
    (own / "kubeconfig").write_text(yaml.safe_dump(config))
    return Components(binaries, own, own / "kubeconfig")


@pytest.mark.req("T32.their-components")
@pytest.mark.version_matrix(
    "Mooring's API server", "kube-scheduler, kube-controller-manager", "rights of the default roles"
)
def test_components_work_with_the_default_roles(ours: BareServer, wire: Wire, binaries: Path, tmp_path: Path) -> None:
    for name in ("n1", "n2"):
        add_node(wire, name)
    wire.post("/apis/storage.k8s.io/v1/storageclasses", class_body(name="late"))
    wire.post(VOLUMES, volume_body(name="v", node="n2", storage_class="late"))
    wire.post(CLAIMS, claim_body(name="c", namespace="default", storage_class="late"))
    theirs = components(ours, binaries, tmp_path, CONTROLLERS)
    scheduler = components(ours, binaries, tmp_path, SCHEDULER)
    own_accounts = ("--use-service-account-credentials=true", "--leader-elect=true")
    with theirs.controllers(*BINDER, options=own_accounts), scheduler.scheduler("--leader-elect=true"):
        add_pod(wire, "p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}])
        until(lambda: node_of(wire, "p") == "n2")
    assert wire.get(f"{CLAIMS}/c")["status"]["phase"] == "Bound"
    kubectl = Kubectl(ours.kubeconfig, binary=binaries / "kubectl")
    for user, verb, resource in (
        (SCHEDULER, "get", "secrets"),
        (SCHEDULER, "create", "pods"),
        (CONTROLLERS, "delete", "pods"),
    ):
        assert kubectl("auth", "can-i", verb, resource, f"--as={user}", check=False).strip() == "no"
