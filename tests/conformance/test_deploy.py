"""The manifests of `deploy/` on the real API server: kustomize builds them, the server takes them, and their pods."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from conformance.control_plane import ControlPlane
from conformance.waiting import KUBECTL_PATIENCE
from mooring.cluster.installation import NAMESPACE

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
OVERLAYS: Final = ("scheduler", "default", "everything", "drain")


@pytest.fixture(scope="module")
def namespace(kube: ControlPlane) -> Iterator[None]:
    """Even a dry run needs it for what shall be in it."""
    with kube.controllers("namespace-controller"):
        kube.kubectl("apply", "-k", str(DEPLOY / "base"))
        yield
        for overlay in ("drain", "everything"):
            kube.kubectl("delete", "-k", str(DEPLOY / overlay), "--ignore-not-found", KUBECTL_PATIENCE)


@pytest.fixture(scope="module")
def applied(kube: ControlPlane, namespace: None) -> None:
    for overlay in ("everything", "drain"):
        kube.kubectl("apply", "-k", str(DEPLOY / overlay), "--server-side")


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


def test_the_image_of_the_overlays_on_the_page_is_everywhere_by_its_digest(kube: ControlPlane, tmp_path: Path) -> None:
    """What runs at installing and at leaving, with the overlays that docs/install.md shows."""
    page = (DEPLOY.parent / "docs" / "install.md").read_text()
    [block] = re.findall(r"```yaml\n(apiVersion: kustomize.*?)```", page, re.DOTALL)
    digest = f"sha256:{'ab' * 32}"
    overlay = yaml.safe_load(block.replace("sha256:DIGEST", digest).replace("YOUR-REGISTRY", "registry.example"))
    (tmp_path / "deploy").symlink_to(DEPLOY)
    assert "`resources:\n   [../deploy/drain]`" in page
    for folder, resource in ((tmp_path, "deploy/everything"), (tmp_path / "leaving", "../deploy/drain")):
        folder.mkdir(exist_ok=True)
        (folder / "kustomization.yaml").write_text(yaml.safe_dump({**overlay, "resources": [resource]}))
        images = set(re.findall(r"image: (\S+)", kube.kubectl("kustomize", str(folder))))
        assert images == {f"registry.example/mooring@{digest}"}


@pytest.mark.req("T32.no-more")
@pytest.mark.parametrize(
    ("account", "wish", "granted"),
    [
        pytest.param("scheduler", "create pods --subresource=binding -A", "yes", id="the scheduler binds pods"),
        pytest.param("scheduler", "get leases/mooring-coordinator", "yes", id="and looks for the coordinator"),
        pytest.param("scheduler", "patch leases/mooring-coordinator", "no", id="whose lease it cannot take"),
        pytest.param("scheduler", "get leases/kube-scheduler -n kube-system", "no", id="nor see that of others"),
        pytest.param("scheduler", "get secrets -A", "no", id="the scheduler reads no secrets"),
        pytest.param("scheduler", "create pods -A", "no", id="the scheduler makes no pods"),
        pytest.param("coordinator", "patch persistentvolumes", "yes", id="the coordinator gives volumes"),
        pytest.param("coordinator", "delete persistentvolumes", "no", id="and deletes none"),
        pytest.param("coordinator", "delete configmaps", "no", id="nor records"),
        pytest.param("drain", "delete configmaps", "yes", id="which is for who leaves"),
        pytest.param("drain", "delete configmaps -n default", "no", id="at home only"),
        pytest.param("provisioner", "create configmaps", "yes", id="the provisioner keeps records"),
        pytest.param("provisioner", "create configmaps -n default", "no", id="at home only, too"),
        pytest.param("provisioner", "list secrets -A", "no", id="and lists no secrets"),
        pytest.param("provisioner", "patch leases/mooring-coordinator", "no", id="nor plays the coordinator"),
        pytest.param("controller", "create pods --subresource=binding -A", "no", id="controllers place nothing"),
        pytest.param("extender", "patch persistentvolumeclaims -A", "no", id="the extender only reads"),
    ],
)
def test_nobody_may_do_more(kube: ControlPlane, applied: None, account: str, wish: str, granted: str) -> None:
    wish = wish if " -" in wish else f"{wish} -n {NAMESPACE}"
    who = f"--as=system:serviceaccount:{NAMESPACE}:mooring-{account}"
    # It ends with 1 where the answer is no.
    assert kube.kubectl("auth", "can-i", *wish.split(), who, check=False).strip() == granted
