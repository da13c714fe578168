"""The manifests of `deploy/` on the real API server: kustomize builds them, the server takes them, and their pods."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from conformance.control_plane import ControlPlane
from mooring.cluster.installation import NAMESPACE

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
OVERLAYS: Final = ("scheduler", "default", "everything", "drain")


@pytest.fixture(scope="module")
def namespace(kube: ControlPlane) -> Iterator[None]:
    """Even a dry run needs it for what shall be in it."""
    with kube.controllers("namespace-controller"):
        kube.kubectl("apply", "-k", str(DEPLOY / "base"))
        yield
        kube.kubectl("delete", "-k", str(DEPLOY / "everything"), "--ignore-not-found", "--timeout=40s")


def built(kube: ControlPlane, overlay: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(kube.kubectl("kustomize", str(DEPLOY / overlay))))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_server_takes_it(kube: ControlPlane, namespace: None, overlay: str) -> None:
    options = ("-k", str(DEPLOY / overlay), "--server-side", "--warnings-as-errors")
    taken = kube.kubectl("apply", *options, "--dry-run=server", "-o", "name").split()
    assert len(taken) == len(built(kube, overlay))
    kube.kubectl("apply", *options)


def test_pods_are_admitted_under_the_strictest_pod_security(kube: ControlPlane, namespace: None) -> None:
    """The namespace enforces `restricted`; Deployments are taken whatever their pods look like."""
    bodies = [*built(kube, "everything"), *built(kube, "drain")]
    for body in bodies:
        if body["kind"] in ("Deployment", "Job"):
            name = body["metadata"]["name"]
            spec = body["spec"]["template"]["spec"] | {"restartPolicy": "Never"}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
            kube.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
    loose = {"containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "loose", "namespace": NAMESPACE}, "spec": loose}
    with pytest.raises(AssertionError, match="violates PodSecurity"):
        kube.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))


def test_another_namespace_is_one_line(kube: ControlPlane, tmp_path: Path) -> None:
    """Everything moves along: accounts, subjects of bindings, and by way of the environment the flags."""
    (tmp_path / "deploy").symlink_to(DEPLOY)
    overlay = {"kind": "Kustomization", "namespace": "storage", "resources": ["deploy/everything"]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    text = kube.kubectl("kustomize", str(tmp_path))
    assert NAMESPACE not in text
    spaces = [body["metadata"]["name"] for body in yaml.safe_load_all(text) if body["kind"] == "Namespace"]
    assert spaces == ["storage"]
