"""`mooring.testing`: what a test of another project does with an embedded cluster."""

import asyncio
import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import mooring.testing
from mooring.api.errors import Invalid, NotFound
from mooring.testing.cluster import _kind
from support.e2e.kubectl import Kubectl

EXAMPLE = Path(__file__).parents[2] / "examples" / "statefulset-local.yaml"


def pod(name: str, claim: str) -> dict[str, object]:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    container = {"name": "main", "image": "none", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "volumes": [volume]},
    }


CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  storageClassName: local
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
"""


@pytest.fixture(scope="module")
def cluster():  # noqa: ANN201  # as a user writes it
    with mooring.testing.cluster(nodes=4, zones=2) as made:
        yield made


def test_a_file_is_applied_and_its_pods_run(cluster: mooring.testing.TestCluster) -> None:
    cluster.apply(EXAMPLE)

    pods = cluster.wait_running("db-0", "db-1", "db-2")

    assert len({each["spec"]["nodeName"] for each in pods}) == 3
    assert {each["metadata"]["name"] for each in cluster.objects("pods", selector="app=db")} >= {"db-0", "db-1", "db-2"}


def test_objects_and_text_are_applied_into_a_namespace(cluster: mooring.testing.TestCluster) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "one"}})

    cluster.apply(CLAIM, namespace="one")
    cluster.apply([pod("reader", "data")], namespace="one")

    cluster.wait_running("reader", namespace="one")
    bound = cluster.wait("pvc", "data", lambda claim: claim["status"]["phase"] == "Bound", namespace="one")
    assert cluster.get("pv", bound["spec"]["volumeName"])["spec"]["claimRef"]["namespace"] == "one"
    assert [each["kind"] for each in cluster.objects("pvc", namespace="one")] == ["PersistentVolumeClaim"]


def test_a_deleted_object_is_not_found(cluster: mooring.testing.TestCluster) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "short-lived"}})

    cluster.delete("cm", "short-lived")

    with pytest.raises(NotFound):
        cluster.get("cm", "short-lived")


def test_errors_of_the_api_server_reach_the_caller(cluster: mooring.testing.TestCluster) -> None:
    with pytest.raises(Invalid):
        cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "NOT A NAME"}})
    with pytest.raises(ValueError, match="is not a kind that Mooring serves"):
        cluster.apply({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})


def test_what_does_not_happen_ends_with_the_last_state(cluster: mooring.testing.TestCluster) -> None:
    cluster.apply(pod("homeless", "no-such-claim"))

    with pytest.raises(mooring.testing.WaitTimeout, match=r"pod/homeless is\n") as raised:
        cluster.wait("pod", "homeless", lambda _: False, timeout=0)
    assert '"claimName": "no-such-claim"' in str(raised.value)
    with pytest.raises(mooring.testing.WaitTimeout, match="pod/unborn does not exist"):
        cluster.wait("pod", "unborn", lambda _: True, timeout=0)


def test_a_cluster_can_be_used_inside_an_event_loop(cluster: mooring.testing.TestCluster) -> None:
    async def within() -> list[dict[str, object]]:
        return cluster.objects("nodes")

    assert len(asyncio.run(within())) == 4


def test_commands_run_against_the_cluster(cluster: mooring.testing.TestCluster) -> None:
    answered = cluster.mooring("explain", "node/node-1", "-o", "json")

    assert answered.returncode == 0, answered.stderr
    assert '"node-1"' in answered.stdout


def test_kubectl_gets_the_kubeconfig_from_the_environment(cluster: mooring.testing.TestCluster) -> None:
    assert cluster.environment["KUBECONFIG"] == str(cluster.kubeconfig)
    assert cluster.environment["PATH"] == os.environ["PATH"]
    assert Kubectl(cluster.kubeconfig)("get", "nodes", "-o", "name").count("node/") == 4


def test_a_cluster_that_does_not_start_says_why() -> None:
    unknown = mooring.testing.cluster(options=["--feature-gates=NoSuchGate=true"])
    with pytest.raises(mooring.testing.StartFailed, match=r"exit code 2\n(.|\n)*--feature-gates"), unknown:
        pytest.fail("a cluster with an unknown gate started")


def test_nothing_is_left_after_the_block() -> None:
    with mooring.testing.cluster(nodes=1, zones=1, local_pvs=0) as made:
        kubeconfig = made.kubeconfig
        assert kubeconfig.exists()

    assert not kubeconfig.parent.exists()


@pytest.mark.parametrize("name", ["Pod", "pods", "po", "PersistentVolumeClaim", "pvc", "sc", "storageclasses"])
def test_kinds_are_named_as_in_kubectl(name: str) -> None:
    assert _kind(name).kind in {"Pod", "PersistentVolumeClaim", "StorageClass"}


PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def snippets() -> list[str]:
    """The Python of the documentation page."""
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_first_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "statefulset.yaml").write_text(EXAMPLE.read_text())
    monkeypatch.chdir(tmp_path)

    exec(compile(snippets()[0], str(PAGE), "exec"), {})


def test_pytest_has_the_fixtures(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(snippets()[1])
    command = ["pytest", "-q", "--strict-markers", "-p", "no:cacheprovider", str(tmp_path)]
    # An installed package is found by its entry point; a checkout that was not installed again is not.
    registered = any(entry.name == "mooring" for entry in entry_points(group="pytest11"))
    run = subprocess.run(
        [sys.executable, "-m", *command, *(() if registered else ("-p", "mooring.testing.pytest_plugin"))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 passed" in run.stdout
