"""The steps of docs/install.md: a second scheduler is installed with `kubectl apply -k`, works, and is removed.

kube-controller-manager creates the pods of our manifests; `fake_kubelet` runs their processes, each with a token of its
own account. The cluster is otherwise stock: kube-controller-manager binds volumes, and no component of ours has more
permissions than the manifests grant.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tools.generate_deploy.installation import NAMESPACE

from mooring.cluster.bootstrap import local_class, local_volume
from mooring.hostpath.records import DRIVER_NAME
from support.builders import claim_body, pod_body
from support.conformance.control_plane import ControlPlane
from support.conformance.fake_kubelet import FakeKubelet, fake_kubelet
from support.conformance.simulated_nodes import nodes
from support.conformance.waiting import KUBECTL_TIMEOUT, wait
from support.scenarios import anti_affinity
from support.scenarios.placements import placements

DEPLOY: Final = Path(__file__).parents[3] / "deploy"
CONTROLLERS: Final = (
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "job-controller",
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
    "garbage-collector-controller",
    "namespace-controller",
)
NODE: Final = "node-1"
#: Of the nodes of this test, which are Mooring's and not part of the installation.
NODE_AGENT_LEASE: Final = "Lease kube-system/mooring-nodeagent-announcement"
#: The driver's topology.
PLACE: Final = "topology.hostpath.csi.mooring.dev/node"

Objects = dict[str, dict[str, Any]]


def create_volumes(kube: ControlPlane) -> None:
    """Local volumes, and the objects that a kubelet writes when a driver registers."""
    driver = {"name": DRIVER_NAME, "nodeID": NODE, "topologyKeys": [PLACE]}
    kube.kubectl("label", "node", NODE, f"{PLACE}={NODE}")
    bodies: list[dict[str, Any]] = [
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **local_class()},
        *({"apiVersion": "v1", "kind": "PersistentVolume", **local_volume(f"node-{n}", 3)} for n in (1, 2, 3)),
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": NODE},
            "spec": {"drivers": [driver]},
        },
    ]
    kube.kubectl("apply", "-f", "-", stdin=listed(bodies))


def listed(bodies: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies})


def stateful_set() -> str:
    """The example, for our scheduler."""
    bodies = anti_affinity.manifests()
    for body in bodies:
        if body["kind"] == "StatefulSet":
            body["spec"]["template"]["spec"]["schedulerName"] = "mooring-scheduler"
    return yaml.safe_dump_all(bodies)


def pair() -> str:
    """A pod with two volumes to provision: held first, then committed together."""
    names = ("left", "right")
    return listed(
        [
            *(claim_body(name=name, storage_class="mooring-hostpath", size="1Mi") for name in names),
            pod_body(name="pair", claims=list(names), scheduler="mooring-scheduler"),
        ]
    )


def everything(kube: ControlPlane) -> Objects:
    """All objects except events, which expire, and Leases of nodes, which are renewed."""
    kinds = kube.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    listed_kinds = ",".join(sorted(kind for kind in kinds if not kind.startswith("events")))
    found = kube.kubectl_json("get", listed_kinds, "--all-namespaces", "--ignore-not-found")["items"]
    return {_path(body): body for body in found if body["metadata"].get("namespace") != "kube-node-lease"}


def _path(body: dict[str, Any]) -> str:
    metadata = body["metadata"]
    return f"{body['kind']} {metadata.get('namespace', '')}/{metadata['name']}"


def marks(body: dict[str, Any]) -> list[str]:
    """Our entries in an object's metadata."""
    metadata = body["metadata"]
    words = [*metadata.get("annotations", ()), *metadata.get("labels", ()), *metadata.get("finalizers", ())]
    return [word for word in words if "mooring" in word and word != PLACE]


def claims_of(kube: ControlPlane, *names: str) -> list[str]:
    return [kube.kubectl_json("get", "pvc", name)["status"]["phase"] for name in names]


def phases(kube: ControlPlane) -> list[str]:
    return [pod["status"]["phase"] for pod in kube.kubectl_json("get", "pods", "-l", "app=db")["items"]]


@pytest.mark.req("T32.installed", "T43.anti-affinity")
def test_installation_works_and_uninstalls_completely(start_kube: Callable[[], ControlPlane], tmp_path: Path) -> None:
    kube = start_kube()
    with nodes(kube, tmp_path), kube.controllers(*CONTROLLERS, options=("--pvclaimbinder-sync-period=1s",)):
        create_volumes(kube)
        before = everything(kube)
        with fake_kubelet(kube, tmp_path, namespace=NAMESPACE, node=NODE) as pods:
            install(kube, pods)
            work(kube)
            uninstall(kube, pods)
        after = everything(kube)
    added = {path: body for path, body in after.items() if path not in before}
    assert before.keys() - after.keys() == set()
    assert {body["kind"] for body in added.values()} <= WORK
    left = {path: marks(body) for path, body in after.items() if marks(body) and path != NODE_AGENT_LEASE}
    assert left == {}


#: Kinds of the user's objects, which stay: pods, claims and volumes.
WORK: Final = {"Service", "StatefulSet", "ControllerRevision", "Pod", "PersistentVolumeClaim", "PersistentVolume"}


def install(kube: ControlPlane, pods: FakeKubelet) -> None:
    kube.kubectl("apply", "-k", str(DEPLOY / "everything"))
    for name, replicas in (("scheduler", 2), ("coordinator", 2)):
        where = ("-n", NAMESPACE, f"deployment/mooring-{name}", KUBECTL_TIMEOUT)
        kube.kubectl("wait", *where, f"--for=jsonpath={{.status.replicas}}={replicas}")
    # kube-controller-manager's PV controller runs, so ours must not; no kube-scheduler would call the extender.
    off = ("deployment/mooring-controller", "deployment/mooring-extender")
    kube.kubectl("scale", "-n", NAMESPACE, *off, "--replicas=0")
    wait(lambda: len(pods.pods()) == 9)
    pods.sync()


def work(kube: ControlPlane) -> None:
    kube.kubectl("apply", "-f", "-", stdin=stateful_set())
    kube.kubectl("apply", "-f", "-", stdin=pair())
    wait(lambda: phases(kube) == ["Running"] * 3)
    found = [kube.kubectl_json("get", kind, "-l", "app=db")["items"] for kind in ("pods", "pvc")]
    volumes = [body for body in kube.kubectl_json("get", "pv")["items"] if body["metadata"]["name"].startswith("local")]
    anti_affinity.assert_all_placed(placements(*found, volumes))
    wait(lambda: claims_of(kube, "left", "right") == ["Bound", "Bound"])
    reasons = {event["reason"] for event in kube.kubectl_json("get", "events")["items"]}
    assert {"VolumeHeld", "VolumeCommitted"} <= reasons


def uninstall(kube: ControlPlane, pods: FakeKubelet) -> None:
    """The steps of the page, line by line."""
    kube.kubectl("-n", NAMESPACE, "scale", "deployment/mooring-coordinator", "--replicas=0")
    wait(lambda: not any("coordinator" in pod["metadata"]["name"] for pod in pods.pods()))
    pods.sync()
    kube.kubectl("apply", "-k", str(DEPLOY / "drain"))
    wait(lambda: any("drain" in pod["metadata"]["name"] for pod in pods.pods()))
    pods.run_to_the_end(next(pod for pod in pods.pods() if "drain" in pod["metadata"]["name"]))
    kube.kubectl("-n", NAMESPACE, "wait", "job/mooring-drain", "--for=condition=Complete", KUBECTL_TIMEOUT)
    # From here on permissions are removed as well, and components log errors.
    for part in ("scheduler", "coordinator", "controller", "provisioner", "drain"):
        assert "is forbidden" not in pods.log(part)
        assert "Traceback" not in pods.log(part)
    kube.kubectl("delete", "-k", str(DEPLOY / "drain"))
    kube.kubectl("delete", "-k", str(DEPLOY / "everything"), KUBECTL_TIMEOUT)
    pods.stop()
    kube.kubectl("annotate", "pv", "--all", "mooring.dev/created-at-")
