"""The manifests of `deploy/` on kube-apiserver: built with kustomize, accepted, and their pods admitted."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tools.generate_deploy.installation import NAMESPACE

from support.conformance.control_plane import ControlPlane
from support.conformance.waiting import KUBECTL_TIMEOUT

DEPLOY: Final = Path(__file__).parents[3] / "deploy"
OVERLAYS: Final = ("scheduler", "default", "everything", "drain")


@pytest.fixture(scope="module")
def namespace(kube: ControlPlane) -> Iterator[None]:
    """Required even for a dry run of the objects in it."""
    with kube.controllers("namespace-controller"):
        kube.kubectl("apply", "-k", str(DEPLOY / "base"))
        yield
        for overlay in ("drain", "everything"):
            kube.kubectl("delete", "-k", str(DEPLOY / overlay), "--ignore-not-found", KUBECTL_TIMEOUT)


@pytest.fixture(scope="module")
def applied(kube: ControlPlane, namespace: None) -> None:
    for overlay in ("everything", "drain"):
        kube.kubectl("apply", "-k", str(DEPLOY / overlay), "--server-side")


def built(kube: ControlPlane, overlay: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(kube.kubectl("kustomize", str(DEPLOY / overlay))))


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.version_matrix("kube-apiserver", "manifests", "accepted with strict validation")
def test_server_accepts_the_manifests(kube: ControlPlane, namespace: None, overlay: str) -> None:
    options = ("-k", str(DEPLOY / overlay), "--server-side", "--warnings-as-errors")
    taken = kube.kubectl("apply", *options, "--dry-run=server", "-o", "name").split()
    assert len(taken) == len(built(kube, overlay))
    kube.kubectl("apply", *options)


def test_pods_satisfy_restricted_pod_security(kube: ControlPlane, namespace: None) -> None:
    """The namespace enforces `restricted`; Deployments are accepted whatever their pods."""
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


def test_namespace_is_changed_in_one_line(kube: ControlPlane, tmp_path: Path) -> None:
    """Everything follows: accounts, subjects of bindings, and the flags through the environment."""
    (tmp_path / "deploy").symlink_to(DEPLOY)
    overlay = {"kind": "Kustomization", "namespace": "storage", "resources": ["deploy/everything"]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    text = kube.kubectl("kustomize", str(tmp_path))
    assert NAMESPACE not in text
    spaces = [body["metadata"]["name"] for body in yaml.safe_load_all(text) if body["kind"] == "Namespace"]
    assert spaces == ["storage"]


def test_overlay_sets_the_image_digest_in_all_pods(kube: ControlPlane, tmp_path: Path) -> None:
    """The pods of installation and removal, with the overlays of docs/install.md."""
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
    ("account", "verb_and_resource", "granted"),
    [
        pytest.param("scheduler", "create pods --subresource=binding -A", "yes", id="scheduler binds pods"),
        pytest.param(
            "scheduler", "get leases/mooring-coordinator", "yes", id="scheduler reads the coordinator's lease"
        ),
        pytest.param(
            "scheduler", "patch leases/mooring-coordinator", "no", id="scheduler cannot write the coordinator's lease"
        ),
        pytest.param(
            "scheduler", "get leases/kube-scheduler -n kube-system", "no", id="scheduler cannot read other leases"
        ),
        pytest.param("scheduler", "get secrets -A", "no", id="scheduler reads no secrets"),
        pytest.param("scheduler", "create pods -A", "no", id="scheduler creates no pods"),
        pytest.param("coordinator", "patch persistentvolumes", "yes", id="coordinator commits volumes"),
        pytest.param("coordinator", "delete persistentvolumes", "no", id="coordinator deletes no volumes"),
        pytest.param("coordinator", "delete configmaps", "yes", id="coordinator deletes records of deleted groups"),
        pytest.param(
            "coordinator",
            "delete configmaps -n default",
            "no",
            id="coordinator deletes records in the hold namespace only",
        ),
        pytest.param("drain", "delete configmaps", "yes", id="drain deletes records"),
        pytest.param(
            "drain", "delete configmaps -n default", "no", id="drain deletes records in the hold namespace only"
        ),
        pytest.param("provisioner", "create configmaps", "yes", id="provisioner writes records"),
        pytest.param(
            "provisioner",
            "create configmaps -n default",
            "no",
            id="provisioner writes records in the hold namespace only",
        ),
        pytest.param("provisioner", "list secrets -A", "no", id="provisioner lists no secrets"),
        pytest.param(
            "provisioner",
            "patch leases/mooring-coordinator",
            "no",
            id="provisioner cannot write the coordinator's lease",
        ),
        pytest.param("controller", "create pods --subresource=binding -A", "no", id="controllers bind no pods"),
        pytest.param("extender", "patch persistentvolumeclaims -A", "no", id="extender only reads"),
    ],
)
def test_account_has_only_its_permissions(
    kube: ControlPlane, applied: None, account: str, verb_and_resource: str, granted: str
) -> None:
    verb_and_resource = verb_and_resource if " -" in verb_and_resource else f"{verb_and_resource} -n {NAMESPACE}"
    who = f"--as=system:serviceaccount:{NAMESPACE}:mooring-{account}"
    # Exit code 1 means no.
    assert kube.kubectl("auth", "can-i", *verb_and_resource.split(), who, check=False).strip() == granted
