"""Kubernetes' components on our API server: lines 41 and 81-90 of the compatibility list (`tests/checklist`).

The test simulates the kubelet: nodes are ready objects, and a terminating pod is deleted without grace. Lines 87 and 88
need a CSI driver and are with the tests of the provisioner.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from mooring.client.kubeconfig import from_files
from support.builders import claim_body, class_body, pod_body, volume_body
from support.checklist.bare_server import BareServer
from support.checklist.wire import Connection, Wire
from support.conformance.components import Components
from support.conformance.waiting import KUBECTL_TIMEOUT, TIMEOUT_SECONDS
from support.e2e.kubectl import Kubectl

#: Every condition takes a second or two.
NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/namespaces/default/pods"
CLAIMS: Final = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES: Final = "/api/v1/persistentvolumes"
BINDER: Final = ("persistentvolume-binder-controller", "persistentvolumeclaim-protection-controller")


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[BareServer]:
    server = BareServer(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def components(ours: BareServer, binaries: Path, tmp_path: Path) -> Components:
    return Components(binaries, tmp_path / "components", ours.kubeconfig)


@pytest.fixture
def wire(ours: BareServer) -> Wire:
    access = from_files([ours.kubeconfig])
    return Wire(access.server, access.authority, access.token)


@pytest.fixture
def kubectl(ours: BareServer, binaries: Path) -> Kubectl:
    return Kubectl(ours.kubeconfig, binary=binaries / "kubectl")


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not what():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.1)


def add_node(wire: Wire, name: str, *, cpu: str = "4") -> None:
    wire.post(NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
    resources = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    status = {"allocatable": resources, "capacity": resources, "conditions": [{"type": "Ready", "status": "True"}]}
    assert wire.patch(f"{NODES}/{name}/status", {"status": status}).code == 200


def add_pod(wire: Wire, name: str, **spec: object) -> None:
    body = pod_body(name=name, namespace="default", requests={"cpu": "1"})
    body["spec"] |= spec
    wire.post(PODS, body)


def node_of(wire: Wire, name: str) -> str:
    return str(wire.get(f"{PODS}/{name}")["spec"].get("nodeName", ""))


def condition(wire: Wire, name: str, kind: str) -> dict[str, Any]:
    conditions = wire.get(f"{PODS}/{name}")["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def as_json(folder: Path, kubeconfig: Path) -> str:
    """A configuration with which kube-scheduler uses JSON instead of protobuf."""
    file = folder / "scheduler.yaml"
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "contentType": "application/json"},
        "leaderElection": {"leaderElect": False},
    }
    file.write_text(json.dumps(configuration))
    return f"--config={file}"


@pytest.mark.parametrize("protobuf", [pytest.param(False, id="81 JSON"), pytest.param(True, id="82 protobuf")])
@pytest.mark.version_matrix("Mooring's API server", "kube-scheduler", "binds pods, over JSON and protobuf")
def test_81_82_scheduler_binds_a_pod(
    ours: BareServer, components: Components, wire: Wire, tmp_path: Path, protobuf: bool
) -> None:
    add_node(wire, "n1")
    options = () if protobuf else (as_json(tmp_path, ours.kubeconfig),)
    with components.scheduler(*options):
        add_pod(wire, "p")
        until(lambda: node_of(wire, "p") == "n1")
    assert condition(wire, "p", "PodScheduled")["status"] == "True"


@pytest.mark.version_matrix("Mooring's API server", "kube-scheduler", "requeues a pod when a node is added")
def test_83_pod_waits_for_resources(components: Components, wire: Wire, kubectl: Kubectl) -> None:
    add_node(wire, "small", cpu="500m")
    with components.scheduler():
        add_pod(wire, "p")
        until(lambda: condition(wire, "p", "PodScheduled").get("reason") == "Unschedulable")
        assert "1 Insufficient cpu" in condition(wire, "p", "PodScheduled")["message"]
        until(lambda: "FailedScheduling" in kubectl("get", "events"))
        add_node(wire, "large")
        until(lambda: node_of(wire, "p") == "large")


@pytest.mark.version_matrix("Mooring's API server", "kube-scheduler", "preemption")
def test_84_preemption(components: Components, wire: Wire, kubectl: Kubectl) -> None:
    add_node(wire, "n1", cpu="1")
    kubectl("create", "priorityclass", "high", "--value=1000")
    with components.scheduler():
        add_pod(wire, "victim")
        until(lambda: node_of(wire, "victim") == "n1")
        add_pod(wire, "winner", priorityClassName="high")
        until(lambda: condition(wire, "victim", "DisruptionTarget").get("reason") == "PreemptionByScheduler")
        until(lambda: wire.get(f"{PODS}/winner")["status"].get("nominatedNodeName") == "n1")
        until(lambda: "deletionTimestamp" in wire.get(f"{PODS}/victim")["metadata"])
        wire("DELETE", f"{PODS}/victim", {"gracePeriodSeconds": 0})
        until(lambda: node_of(wire, "winner") == "n1")


@pytest.mark.version_matrix("Mooring's API server", "kube-scheduler", "leader election")
def test_85_leader_election(components: Components, wire: Wire) -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
    add_node(wire, "n1")

    def holder() -> str:
        response = wire("GET", lease)
        return str(response.json["spec"]["holderIdentity"]) if response.code == 200 else ""

    quick = ("--leader-elect=true", "--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s")
    quick += ("--leader-elect-retry-period=1s",)
    with components.scheduler(*quick):
        with components.scheduler(*quick) as _:
            until(lambda: bool(holder()))
            first = holder()
            version = wire.get(lease)["metadata"]["resourceVersion"]
            until(lambda: wire.get(lease)["metadata"]["resourceVersion"] != version)
            assert holder() == first
        add_pod(wire, "p")
        until(lambda: node_of(wire, "p") == "n1")


@pytest.mark.version_matrix(
    "Mooring's API server", "kube-scheduler, kube-controller-manager", "delayed binding of a static volume"
)
def test_86_delayed_binding_of_a_static_volume(components: Components, wire: Wire) -> None:
    for name in ("n1", "n2"):
        add_node(wire, name)
    wire.post("/apis/storage.k8s.io/v1/storageclasses", class_body(name="late"))
    wire.post(VOLUMES, volume_body(name="v", node="n2", storage_class="late"))
    wire.post(CLAIMS, claim_body(name="c", namespace="default", storage_class="late"))
    with components.controllers(*BINDER), components.scheduler():
        add_pod(wire, "p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}])
        until(lambda: node_of(wire, "p") == "n2")
    assert wire.get(f"{CLAIMS}/c")["status"]["phase"] == "Bound"
    assert wire.get(f"{VOLUMES}/v")["spec"]["claimRef"]["name"] == "c"


WORKLOADS: Final = (
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "garbage-collector-controller",
)


@pytest.mark.version_matrix(
    "Mooring's API server", "kube-controller-manager", "Deployment, StatefulSet and their deletion"
)
def test_89_workloads_and_their_deletion(components: Components, wire: Wire, kubectl: Kubectl) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    claim = {"metadata": {"name": "data"}, "spec": claim_body(name="x", namespace="", storage_class="none")["spec"]}
    members = {"serviceName": "db", "replicas": 1, "volumeClaimTemplates": [claim]}
    stateful = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec | members}

    def pods() -> list[str]:
        return [item["metadata"]["name"] for item in wire.get(PODS)["items"]]

    with components.controllers(*WORKLOADS):
        for body in (deployment, stateful):
            kubectl("create", "-f", "-", stdin=json.dumps(body))
        until(lambda: len(pods()) == 3)
        assert [item["metadata"]["name"] for item in wire.get(CLAIMS)["items"]] == ["data-db-0"]
        kubectl("delete", "deployment", "web", "--cascade=foreground", KUBECTL_TIMEOUT)
        until(lambda: pods() == ["db-0"])


@pytest.mark.version_matrix("Mooring's API server", "kube-controller-manager", "deletion of a namespace")
def test_89_namespace_controller_empties_a_namespace(components: Components, wire: Wire, kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "ending")
    kubectl("-n", "ending", "create", "configmap", "a")
    with components.controllers("namespace-controller"):
        kubectl("delete", "namespace", "ending", KUBECTL_TIMEOUT)
    assert wire("GET", "/api/v1/namespaces/ending").code == 404


@pytest.mark.version_matrix("Mooring's API server", "kube-controller-manager", "all default controllers")
def test_all_default_controllers_run(components: Components, wire: Wire, kubectl: Kubectl) -> None:
    """Those whose kinds are not served report it and leave the others alone."""
    wire.post("/apis/storage.k8s.io/v1/storageclasses", class_body(name="now", binding_mode="Immediate"))
    wire.post(VOLUMES, volume_body(name="v", node="n1", storage_class="now"))
    kubectl("create", "namespace", "ending")
    with components.controllers("*", options=("--pvclaimbinder-sync-period=1s",)):
        kubectl("create", "deployment", "web", "--image=i", "--replicas=2")
        wire.post(CLAIMS, claim_body(name="c", namespace="default", storage_class="now"))
        until(lambda: len(wire.get(PODS)["items"]) == 2)
        until(lambda: wire.get(f"{CLAIMS}/c")["status"]["phase"] == "Bound")
        kubectl("delete", "namespace", "ending", KUBECTL_TIMEOUT)
        kubectl("delete", "deployment", "web", "--cascade=foreground", KUBECTL_TIMEOUT)
        until(lambda: not wire.get(PODS)["items"])


@pytest.mark.version_matrix("Mooring's API server", "kube-scheduler", "a restart of the API server")
def test_90_scheduling_continues_after_server_restart(ours: BareServer, components: Components, wire: Wire) -> None:
    for number in range(4):
        add_node(wire, f"n{number}", cpu="10")
    with components.scheduler():
        for number in range(10):
            add_pod(wire, f"before-{number}")
        ours.stop()
        ours.start()
        for number in range(10):
            add_pod(wire, f"after-{number}")
        until(lambda: all(item["spec"].get("nodeName") for item in wire.get(PODS)["items"]))
    assert len(wire.get(PODS)["items"]) == 20


def test_41_client_go_informers_survive_a_restart(ours: BareServer, components: Components, wire: Wire) -> None:
    add_node(wire, "n1")
    connection = Connection(from_files([ours.kubeconfig]))
    for number in range(5000):
        body = pod_body(name=f"other-{number}", namespace="default")
        body["spec"]["schedulerName"] = "another-scheduler"
        assert connection("POST", PODS, body)[0] == 201
    connection.close()
    with components.scheduler():
        add_pod(wire, "first")
        until(lambda: node_of(wire, "first") == "n1")
        ours.stop()
        ours.start()
        add_pod(wire, "second")
        until(lambda: node_of(wire, "second") == "n1")
