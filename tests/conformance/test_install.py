"""What docs/install.md says, done: a second scheduler comes with `kubectl apply -k`, works, and leaves without a trace.

The real controllers make pods of our manifests; `played_pods` runs what those say, each process with a token of its own
account. The cluster is otherwise stock: kube-controller-manager binds volumes, and nothing of ours has more rights than
the manifests give.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from builders import claim_body, pod_body
from conformance.control_plane import ControlPlane
from conformance.played_nodes import nodes
from conformance.played_pods import PlayedPods, played_pods
from conformance.waiting import KUBECTL_PATIENCE, wait
from mooring.cluster.bootstrap import local_class, local_volume
from mooring.cluster.installation import NAMESPACE
from mooring.hostpath.layout import DRIVER_NAME
from scenarios import anti_affinity
from scenarios.placements import placements

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
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
#: Where the driver says that it is.
PLACE: Final = "topology.hostpath.csi.mooring.dev/node"

Objects = dict[str, dict[str, Any]]


def furnish(kube: ControlPlane) -> None:
    """Local volumes, and what a kubelet says of a driver that it has found."""
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
    """A pod with two volumes that have to be made: held first, then given together."""
    names = ("left", "right")
    return listed(
        [
            *(claim_body(name=name, storage_class="mooring-hostpath", size="1Mi") for name in names),
            pod_body(name="pair", claims=list(names), scheduler="mooring-scheduler"),
        ]
    )


def everything(kube: ControlPlane) -> Objects:
    """All objects there are but events, which expire, and Leases of nodes, which are renewed."""
    kinds = kube.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    wanted = ",".join(sorted(kind for kind in kinds if not kind.startswith("events")))
    found = kube.kubectl_json("get", wanted, "--all-namespaces", "--ignore-not-found")["items"]
    return {_path(body): body for body in found if body["metadata"].get("namespace") != "kube-node-lease"}


def _path(body: dict[str, Any]) -> str:
    metadata = body["metadata"]
    return f"{body['kind']} {metadata.get('namespace', '')}/{metadata['name']}"


def marks(body: dict[str, Any]) -> list[str]:
    """What of an object's metadata is ours."""
    metadata = body["metadata"]
    words = [*metadata.get("annotations", ()), *metadata.get("labels", ()), *metadata.get("finalizers", ())]
    return [word for word in words if "mooring" in word and word != PLACE]


def claims_of(kube: ControlPlane, *names: str) -> list[str]:
    return [kube.kubectl_json("get", "pvc", name)["status"]["phase"] for name in names]


def phases(kube: ControlPlane) -> list[str]:
    return [pod["status"]["phase"] for pod in kube.kubectl_json("get", "pods", "-l", "app=db")["items"]]


@pytest.mark.req("T32", "T43.anti-affinity")
def test_it_comes_works_and_leaves_without_a_trace(start_kube: Callable[[], ControlPlane], tmp_path: Path) -> None:
    kube = start_kube()
    with nodes(kube, tmp_path), kube.controllers(*CONTROLLERS, options=("--pvclaimbinder-sync-period=1s",)):
        furnish(kube)
        before = everything(kube)
        with played_pods(kube, tmp_path, namespace=NAMESPACE, node=NODE) as pods:
            come(kube, pods)
            work(kube)
            leave(kube, pods)
        after = everything(kube)
    added = {path: body for path, body in after.items() if path not in before}
    assert before.keys() - after.keys() == set()
    assert {body["kind"] for body in added.values()} <= WORK
    assert {path: marks(body) for path, body in after.items() if marks(body)} == {}


#: Kinds of what the work itself leaves: somebody else's pods, claims and volumes, which stay.
WORK: Final = {"Service", "StatefulSet", "ControllerRevision", "Pod", "PersistentVolumeClaim", "PersistentVolume"}


def come(kube: ControlPlane, pods: PlayedPods) -> None:
    kube.kubectl("apply", "-k", str(DEPLOY / "everything"))
    for name, replicas in (("scheduler", 2), ("coordinator", 2)):
        where = ("-n", NAMESPACE, f"deployment/mooring-{name}", KUBECTL_PATIENCE)
        kube.kubectl("wait", *where, f"--for=jsonpath={{.status.replicas}}={replicas}")
    # Kubernetes' own PV controller is at work, ours must not be; and there is no kube-scheduler that would ask us.
    off = ("deployment/mooring-controller", "deployment/mooring-extender")
    kube.kubectl("scale", "-n", NAMESPACE, *off, "--replicas=0")
    wait(lambda: len(pods.pods()) == 5)
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


def leave(kube: ControlPlane, pods: PlayedPods) -> None:
    """What the page says, line by line."""
    kube.kubectl("-n", NAMESPACE, "scale", "deployment/mooring-coordinator", "--replicas=0")
    wait(lambda: not any("coordinator" in pod["metadata"]["name"] for pod in pods.pods()))
    pods.sync()
    kube.kubectl("apply", "-k", str(DEPLOY / "drain"))
    wait(lambda: any("drain" in pod["metadata"]["name"] for pod in pods.pods()))
    pods.run_to_the_end(next(pod for pod in pods.pods() if "drain" in pod["metadata"]["name"]))
    kube.kubectl("-n", NAMESPACE, "wait", "job/mooring-drain", "--for=condition=Complete", KUBECTL_PATIENCE)
    # From here on their rights go as well, and they will complain.
    for part in ("scheduler", "coordinator", "provisioner", "drain"):
        assert "is forbidden" not in pods.log(part)
        assert "Traceback" not in pods.log(part)
    kube.kubectl("delete", "-k", str(DEPLOY / "drain"))
    kube.kubectl("delete", "-k", str(DEPLOY / "everything"), KUBECTL_PATIENCE)
    pods.stop()
    kube.kubectl("annotate", "pv", "--all", "mooring.dev/created-at-")
