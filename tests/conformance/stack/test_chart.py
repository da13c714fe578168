"""The Helm chart of a release on kube-apiserver: rendered, installed and uninstalled with the real Helm."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tools.release.__main__ import tracked
from tools.release.archives import write_archive
from tools.release.chart import chart_files

from mooring import __version__
from support.conformance.control_plane import ControlPlane

DEPLOY: Final = Path(__file__).parents[3] / "deploy"
NAMESPACE: Final = "storage-system"
#: All components on.
EVERYTHING: Final = ("controller", "recovery", "presetNodes", "extender", "exampleDriver")

Objects = dict[tuple[str, str], dict[str, Any]]


class Helm:
    def __init__(self, kube: ControlPlane, folder: Path) -> None:
        self._command = [kube.binaries / "helm", "--kubeconfig", str(kube.kubeconfig)]
        # Helm keeps caches and settings in the home directory otherwise.
        self._environment = {**os.environ, **{f"HELM_{name}_HOME": str(folder) for name in ("CACHE", "CONFIG", "DATA")}}

    def __call__(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            [*self._command, *arguments], env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout if done.returncode == 0 else done.stderr


@pytest.fixture(scope="module")
def helm(kube: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(kube, tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("chart") / f"mooring-{__version__}.tgz"
    files = chart_files(tracked("deploy"), __version__)
    write_archive(path, {f"mooring/{name}": content for name, content in files.items()}, 0)
    return str(path)


def rendered(helm: Helm, chart: str, *options: str) -> Objects:
    # Rendering asks no server; a Helm built from its module assumes a release that is too old for the chart.
    common = ("--namespace", NAMESPACE, "--kube-version", "1.34.0")
    documents = yaml.safe_load_all(helm("template", "mooring", chart, *common, *options))
    return {(body["kind"], body["metadata"]["name"]): body for body in documents if body}


def switched_on(*components: str) -> tuple[str, ...]:
    return tuple(option for name in components for option in ("--set", f"components.{name}=true"))


def kustomized(kube: ControlPlane, overlay: str) -> Objects:
    documents = yaml.safe_load_all(kube.kubectl("kustomize", str(DEPLOY / overlay)))
    return {(body["kind"], body["metadata"]["name"]): body for body in documents if body["kind"] != "Namespace"}


def comparable(value: Any) -> Any:  # noqa: ANN401  # part of an object
    """An object without what chart and overlay set differently: namespace, image reference, common labels."""
    match value:
        case dict():
            return {
                key: comparable(each)
                for key, each in value.items()
                if not (key == "labels" and set(each) == {"app.kubernetes.io/part-of"})
                and key != "app.kubernetes.io/part-of"
            }
        case list():
            return [comparable(each) for each in value]
        case str():
            return value.replace("mooring-system", NAMESPACE)
    return value


@pytest.mark.parametrize(
    ("overlay", "components"),
    [pytest.param("default", (), id="default"), pytest.param("everything", EVERYTHING, id="everything")],
)
def test_the_chart_renders_the_objects_of_the_overlay(
    kube: ControlPlane, helm: Helm, chart: str, overlay: str, components: tuple[str, ...]
) -> None:
    expected = {key: comparable(body) for key, body in kustomized(kube, overlay).items()}

    assert {key: comparable(body) for key, body in rendered(helm, chart, *switched_on(*components)).items()} == expected


def test_values_reach_the_objects(helm: Helm, chart: str) -> None:
    digest = f"sha256:{'0' * 64}"
    options = ("schedulerName=mine", "replicas=3", "image.repository=registry.example/m", f"image.digest={digest}")

    objects = rendered(helm, chart, *(part for option in options for part in ("--set", option)))

    spec = objects["Deployment", "mooring-scheduler"]["spec"]
    [container] = spec["template"]["spec"]["containers"]
    assert spec["replicas"] == 3
    assert container["image"] == f"registry.example/m@{digest}"
    assert "--scheduler-name=mine" in container["args"]


def test_a_misspelt_value_is_refused(helm: Helm, chart: str) -> None:
    error = helm("template", "mooring", chart, "--set", "components.shceduler=true", check=False)

    assert "shceduler" in error


@pytest.fixture
def installed(kube: ControlPlane, helm: Helm, chart: str) -> Iterator[None]:
    options = ("--namespace", NAMESPACE, "--create-namespace", *switched_on(*EVERYTHING))
    helm("install", "mooring", chart, *options)
    yield
    helm("uninstall", "mooring", "--namespace", NAMESPACE, "--ignore-not-found")
    kube.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def test_the_server_accepts_the_chart_and_uninstalling_removes_it(
    kube: ControlPlane, helm: Helm, chart: str, installed: None
) -> None:
    kinds = "deployment,serviceaccount,role,rolebinding,service,poddisruptionbudget,networkpolicy"
    scheduler = kube.kubectl("get", "deployment", "mooring-scheduler", "-n", NAMESPACE, "-o", "name")
    assert scheduler.strip() == "deployment.apps/mooring-scheduler"

    helm("uninstall", "mooring", "--namespace", NAMESPACE)

    left = kube.kubectl("get", kinds, "-n", NAMESPACE, "-o", "name").split()
    assert [name for name in left if "mooring" in name or "example-driver" in name] == []
    cluster_wide = kube.kubectl(
        "get", "clusterrole,clusterrolebinding,csidriver,validatingadmissionpolicy", "-o", "name"
    )
    assert "mooring" not in cluster_wide
