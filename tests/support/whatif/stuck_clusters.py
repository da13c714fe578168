"""Clusters with a pending pod, drawn from a seed, and remedies applied to their bodies.

The bodies are what an administrator would change: this is written without the product's own `edits`, so that a remedy
is applied twice in different ways with the same result.
"""

import copy
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from mooring.api import quantity, well_known
from mooring.explain.remedies import changes as nodes_and_pods
from support.builders import (
    Body,
    capacity_body,
    claim_body,
    claim_ref,
    class_body,
    csi_node_body,
    driver_body,
    node_body,
    pod_body,
    reachable_from,
    volume_body,
)
from support.whatif.questions import DRIVER

POD = "default/stuck"
SINCE = "2026-01-02T00:00:00Z"
TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
ANYWHERE = {"nfs": {"server": "nfs.example.com", "path": "/"}}
UNREACHABLE = {"key": well_known.UNREACHABLE, "effect": "NoSchedule"}


def stuck_cluster(rng: random.Random) -> list[Body]:
    """Nodes, storage and a pod, each with properties that may make the pod unschedulable."""
    names = [f"n{number + 1}" for number in range(rng.randint(1, 4))]
    bodies = [
        driver_body(name=DRIVER, tracks_capacity=True),
        class_body(name="fast", provisioner=DRIVER),
        class_body(name="local"),
        class_body(
            name="zonal", provisioner="free.example.com", allowed_topologies=[{well_known.ZONE: [rng.choice("abc")]}]
        ),
    ]
    for number, name in enumerate(names):
        bodies += _node(rng, name, "ab"[number % 2])
    bodies += _pod(rng, names)
    return bodies


def _node(rng: random.Random, name: str, zone: str) -> list[Body]:
    ill = rng.choice(("", "", "cordoned", "tainted", "lost", "both"))
    cordoned = ill in ("cordoned", "both")
    taints = [TAINT] if ill in ("tainted", "both") else [UNREACHABLE] if ill == "lost" else []
    taints += [{"key": well_known.UNSCHEDULABLE, "effect": "NoSchedule"}] if cordoned else []
    labels = {"disk": "ssd"} if rng.random() < 0.5 else {}
    pods = rng.choice(("110", "110", "1"))
    node = node_body(
        name=name,
        zone=zone,
        uid=f"{name}-uid",
        labels=labels,
        taints=taints,
        unschedulable=cordoned,
        allocatable={"cpu": rng.choice(("1", "4")), "pods": pods},
    )
    if ill == "lost":
        node["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "lastTransitionTime": SINCE}]
    bodies = [node]
    here = {"matchLabels": {well_known.HOSTNAME: name}}
    if rng.random() < 0.7:
        size = rng.choice(("0", "3Gi", "20Gi"))
        bodies.append(capacity_body(name=f"room-{name}", storage_class="fast", topology=here, capacity=size))
    if rng.random() < 0.4:
        bodies.append(csi_node_body(name=name, limits={DRIVER: rng.choice((0, 1, 5))}))
    if rng.random() < 0.4:
        bodies.append(volume_body(name=f"local-{name}", node=name, size=rng.choice(("3Gi", "20Gi"))))
    if rng.random() < 0.2:
        gone = claim_ref(name="gone", uid="gone-uid")
        bodies.append(volume_body(name=f"old-{name}", node=name, size="20Gi", claim_ref=gone, phase="Released"))
    for number in range(rng.randint(0, 2)):
        other = pod_body(
            name=f"other-{name}-{number}",
            node=name,
            uid=f"other-{name}-{number}-uid",
            requests={"cpu": "500m"},
            labels={"app": rng.choice(("web", "db"))},
            phase="Running",
            claims=["shared"] if rng.random() < 0.2 else [],
        )
        if rng.random() < 0.3:
            other["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
        bodies.append(other)
    return bodies


def _pod(rng: random.Random, names: Sequence[str]) -> list[Body]:
    wants: dict[str, Any] = {}
    if rng.random() < 0.5:
        wants["requests"] = {"cpu": rng.choice(("500m", "2", "6"))}
    if rng.random() < 0.25:
        wants["node_selector"] = {"disk": rng.choice(("ssd", "nvme"))}
    if rng.random() < 0.25:
        term = {
            "labelSelector": {"matchLabels": {"app": "db"}},
            "topologyKey": rng.choice((well_known.HOSTNAME, well_known.ZONE)),
        }
        kind = rng.choice(("podAffinity", "podAntiAffinity"))
        wants["affinity"] = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    bodies: list[Body] = []
    claims: list[str] = []
    for number in range(rng.choice((0, 1, 1, 2))):
        name = f"data-{number}"
        claims.append(name)
        bodies += _claim(rng, name, names)
    if rng.random() < 0.15:
        claims.append("shared")
    modes = ["ReadWriteOncePod"]
    shared = volume_body(
        name="shared",
        size="5Gi",
        access_modes=modes,
        source=ANYWHERE,
        claim_ref=claim_ref(name="shared", uid="shared-uid"),
        phase="Bound",
    )
    bodies += [shared, claim_body(name="shared", uid="shared-uid", volume="shared", bound=True, access_modes=modes)]
    pod = pod_body(name="stuck", uid="stuck-uid", claims=claims, labels={"app": "db"}, **wants)
    if rng.random() < 0.15:
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    return [*bodies, pod]


def _claim(rng: random.Random, name: str, names: Sequence[str]) -> list[Body]:
    size = rng.choice(("2Gi", "10Gi"))
    if rng.random() < 0.35:
        place = rng.choice(
            (reachable_from(well_known.HOSTNAME, rng.choice((*names, "gone"))), reachable_from(well_known.ZONE, "b"))
        )
        volume = volume_body(
            name=f"pv-{name}",
            size=size,
            storage_class="fast",
            affinity=place,
            claim_ref=claim_ref(name=name, uid=f"{name}-uid"),
            phase="Bound",
            reclaim=rng.choice(("Retain", "Delete")),
            source={"csi": {"driver": DRIVER, "volumeHandle": f"pv-{name}"}},
        )
        return [
            claim_body(name=name, uid=f"{name}-uid", size=size, storage_class="fast", volume=f"pv-{name}", bound=True),
            volume,
        ]
    kind = rng.choice(("fast", "fast", "local", "zonal", "missing"))
    return [claim_body(name=name, uid=f"{name}-uid", size=size, storage_class=kind)]


class Cluster:
    """Bodies by kind and name, changed like by an administrator."""

    def __init__(self, bodies: Sequence[Body]) -> None:
        self._all = {self._key(body): copy.deepcopy(body) for body in bodies}

    @property
    def bodies(self) -> list[Body]:
        return list(self._all.values())

    def apply(self, change: object) -> None:
        name = re.sub(r"(?<!^)([A-Z])", r"_\1", type(change).__name__).lower()
        applied: Callable[[Any], None] = getattr(self, f"apply_{name}")
        applied(change)

    def _key(self, body: Body) -> tuple[str, str]:
        meta = body["metadata"]
        return body["kind"], f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]

    def _put(self, body: Body) -> None:
        self._all[self._key(body)] = body

    def _get(self, kind: str, key: str) -> Body:
        return self._all[kind, key]

    def apply_uncordon(self, change: nodes_and_pods.Uncordon) -> None:
        spec = self._get("Node", change.node)["spec"]
        spec.pop("unschedulable", None)
        spec["taints"] = [taint for taint in spec.get("taints", ()) if taint["key"] != well_known.UNSCHEDULABLE]

    def apply_remove_taint(self, change: nodes_and_pods.RemoveTaint) -> None:
        spec = self._get("Node", change.node)["spec"]
        spec["taints"] = [taint for taint in spec["taints"] if taint["key"] != change.key]

    def apply_recover_node(self, change: nodes_and_pods.RecoverNode) -> None:
        node = self._get("Node", change.node)
        node["spec"]["taints"] = [taint for taint in node["spec"]["taints"] if taint["key"] != well_known.UNREACHABLE]
        node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]

    def apply_label_node(self, change: nodes_and_pods.LabelNode) -> None:
        self._get("Node", change.node)["metadata"]["labels"] |= change.labels

    def apply_free_resource(self, change: nodes_and_pods.FreeResource) -> None:
        """Delete unrelated pods from the node until enough is free; then increase its allocatable resources."""
        free = change.amount
        for (kind, key), body in list(self._all.items()):
            runs = kind == "Pod" and body["status"]["phase"] == "Running"
            there = runs and body["spec"]["nodeName"] == change.node
            if there and free > 0 and body["metadata"]["labels"]["app"] == "web":
                del self._all[kind, key]
                free -= 1 if change.resource == "pods" else 500
        if free > 0:
            amounts = self._get("Node", change.node)["status"]["allocatable"]
            more = quantity.to_milli(amounts[change.resource]) + free * (1 if change.resource == "cpu" else 1000)
            amounts[change.resource] = f"{more}m"

    def apply_add_node(self, change: nodes_and_pods.AddNode) -> None:
        node = node_body(name=change.name, uid=f"{change.name}-uid", labels=change.labels)
        node["status"]["allocatable"] = node["status"]["capacity"] = dict(change.allocatable)
        self._put(node)

    def apply_delete_pods(self, change: nodes_and_pods.DeletePods) -> None:
        for key in change.pods:
            if key != POD:
                del self._all["Pod", key]

    def apply_tolerate(self, change: nodes_and_pods.Tolerate) -> None:
        toleration = {"key": change.key, "operator": "Exists", "effect": change.effect}
        self._get("Pod", change.pod)["spec"].setdefault("tolerations", []).append(toleration)

    def apply_relax_pod(self, change: nodes_and_pods.RelaxPod) -> None:
        spec = self._get("Pod", change.pod)["spec"]
        match change.rule:
            case "nodeAffinity":
                spec.pop("nodeSelector", None)
            case "hostPorts":
                spec["containers"][0].pop("ports")
            case rule:
                spec["affinity"].pop(rule)

    def apply_lower_requests(self, change: nodes_and_pods.LowerRequests) -> None:
        requests = self._get("Pod", change.pod)["spec"]["containers"][0]["resources"]["requests"]
        requests[change.resource] = change.amount

    def apply_add_volume(self, change: nodes_and_pods.AddVolume) -> None:
        self._put(
            volume_body(
                name=f"added-{change.claim.replace('/', '-')}",
                size=change.size,
                storage_class=change.storage_class,
                access_modes=change.access_modes,
                node=change.node,
                source=None if change.node else ANYWHERE,
            )
        )

    def apply_clear_claim_ref(self, change: nodes_and_pods.ClearClaimRef) -> None:
        volume = self._get("PersistentVolume", change.volume)
        del volume["spec"]["claimRef"]
        volume["status"] = {"phase": "Available"}

    def apply_recreate_claim(self, change: nodes_and_pods.RecreateClaim) -> None:
        claim = self._get("PersistentVolumeClaim", change.claim)
        name = claim["spec"]["volumeName"]
        volume = self._get("PersistentVolume", name)
        if volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
            del self._all["PersistentVolume", name]
        else:
            volume["status"] = {"phase": "Released"}
        self._recreated(change.claim)

    def apply_change_class(self, change: nodes_and_pods.ChangeClass) -> None:
        self._recreated(change.claim)["spec"]["storageClassName"] = change.storage_class

    def apply_shrink_claim(self, change: nodes_and_pods.ShrinkClaim) -> None:
        self._recreated(change.claim)["spec"]["resources"] = {"requests": {"storage": change.size}}

    def _recreated(self, key: str) -> Body:
        claim = self._get("PersistentVolumeClaim", key)
        claim["metadata"]["uid"] += "-again"
        claim["metadata"].pop("annotations", None)
        claim["spec"].pop("volumeName", None)
        claim["status"] = {"phase": "Pending"}
        return claim

    def apply_create_class(self, change: nodes_and_pods.CreateClass) -> None:
        made = copy.deepcopy(self._get("StorageClass", change.like))
        made["metadata"] = {"name": change.storage_class}
        self._put(made)

    def apply_allow_topology(self, change: nodes_and_pods.AllowTopology) -> None:
        place = [{"key": key, "values": [value]} for key, value in change.labels.items()]
        terms = self._get("StorageClass", change.storage_class)["allowedTopologies"]
        terms.append({"matchLabelExpressions": place})

    def apply_raise_capacity(self, change: nodes_and_pods.RaiseCapacity) -> None:
        found = self._get("CSIStorageCapacity", change.capacity)
        found["capacity"] = str(quantity.to_bytes(found["capacity"]) + change.amount)

    def apply_publish_capacity(self, change: nodes_and_pods.PublishCapacity) -> None:
        here = {"matchLabels": {well_known.HOSTNAME: change.node}}
        name = f"published-{change.node}-{change.storage_class}"
        self._put(
            capacity_body(name=name, storage_class=change.storage_class, topology=here, capacity=str(change.amount))
        )
