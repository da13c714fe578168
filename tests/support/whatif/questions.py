"""Clusters as users list them, and changes to simulate."""

import copy
import itertools
from collections.abc import Iterable, Sequence

from mooring.api import well_known
from mooring.whatif.additions import Addition
from mooring.whatif.inventory import Inventory
from mooring.whatif.question import WhatIfQuestion, scaling
from mooring.whatif.results import SimulationResult
from mooring.whatif.run import answer
from support.builders import (
    Body,
    capacity_body,
    claim_body,
    claim_ref,
    class_body,
    driver_body,
    node_body,
    pod_body,
    volume_body,
)

DRIVER = "disks.example.com"
FAST = "fast"


def inventory(documents: Iterable[Body]) -> Inventory:
    made = Inventory()
    for document in documents:
        made.add(copy.deepcopy(document))
    return made


def asked(
    *documents: Body,
    drain: Sequence[str] = (),
    drain_zones: Sequence[str] = (),
    remove_zones: Sequence[str] = (),
    add: Sequence[tuple[str, int]] = (),
    scale: Sequence[str] = (),
    seed: int = 0,
) -> SimulationResult:
    there = inventory(documents)
    return answer(
        WhatIfQuestion(
            there,
            drain=drain,
            drain_zones=drain_zones,
            remove_zones=remove_zones,
            additions=[Addition(template, count, there) for template, count in add],
            scalings=[scaling(text, namespace="default") for text in scale],
            seed=seed,
        )
    )


def placed(result: SimulationResult) -> dict[str, str]:
    """Node by pod, without the namespace."""
    return {each.pod.partition("/")[2]: each.node for each in result.placements}


def pending(result: SimulationResult) -> dict[str, str]:
    """Reason by pod, without the namespace."""
    return {each.pod.partition("/")[2]: each.reason for each in result.pending}


def nodes(count: int, *, zones: str = "ab", **more: object) -> list[Body]:
    """n1, n2 and so on, in the zones in turn; ready, with 4 CPUs."""
    letters = itertools.cycle(zones)
    return [
        node_body(name=f"n{number + 1}", zone=next(letters), uid=f"n{number + 1}-uid", **more)
        for number in range(count)
    ]


def pool(node: str, size: str, *, storage_class: str = FAST) -> Body:
    """Free capacity of a driver on a node."""
    here = {"matchLabels": {well_known.HOSTNAME: node}}
    return capacity_body(name=f"room-{node}", topology=here, storage_class=storage_class, capacity=size)


def provisioned_class() -> list[Body]:
    """A driver with capacity tracking, and its class."""
    return [driver_body(name=DRIVER, tracks_capacity=True), class_body(name=FAST, provisioner=DRIVER)]


def stateful_set(
    name: str = "db", *, replicas: int = 1, storage_class: str = FAST, size: str = "1Gi", uid: str = "", **spec: object
) -> Body:
    """A set with one claim per pod; with a uid it exists already."""
    container = {"name": "main", "image": "example.com/main:1", "resources": {"requests": {"cpu": "1"}}}
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "default"} | ({"uid": uid, "generation": 1} if uid else {}),
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
            "volumeClaimTemplates": [claim],
        }
        | spec,
    }


def member(number: int, *, node: str, owner: str = "db", uid: str = "db-uid") -> list[Body]:
    """A running pod of a set, its claim and its volume, which only its node can use."""
    claim, volume, pod = f"data-{owner}-{number}", f"disk-{number}", f"{owner}-{number}"
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": owner, "uid": uid, "controller": True}
    running = pod_body(
        name=pod,
        uid=f"{pod}-uid",
        node=node,
        claims=[claim],
        labels={"app": owner},
        owners=[reference],
        requests={"cpu": "1"},
        phase="Running",
        conditions=[{"type": "Ready", "status": "True"}],
    )
    return [
        claim_body(name=claim, uid=f"{claim}-uid", volume=volume, bound=True, phase="Bound", storage_class="local"),
        volume_body(
            name=volume,
            uid=f"{volume}-uid",
            node=node,
            claim_ref=claim_ref(name=claim, uid=f"{claim}-uid"),
            phase="Bound",
        ),
        running,
    ]


def local_set(*on: str) -> list[Body]:
    """A StatefulSet that runs on local volumes of these nodes, with all its objects."""
    members = [body for number, node in enumerate(on) for body in member(number, node=node)]
    return [class_body(), stateful_set(replicas=len(on), storage_class="local", uid="db-uid"), *members]


def replica_set(name: str = "web", *, replicas: int, uid: str = "", labels: dict[str, str] | None = None) -> Body:
    chosen = labels or {"app": name}
    container = {"name": "main", "image": "example.com/main:1", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default"} | ({"uid": uid, "generation": 1} if uid else {}),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": chosen},
            "template": {"metadata": {"labels": chosen}, "spec": {"containers": [container]}},
        },
    }


def running(name: str, *, node: str, owner: Body | None = None, **more: object) -> Body:
    """A running pod, of the owner with this body, if any."""
    owners = []
    labels: dict[str, str] = {}
    if owner is not None:
        known = owner["metadata"]
        owners = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": known["name"],
                "uid": known["uid"],
                "controller": True,
            }
        ]
        labels = owner.get("spec", {}).get("selector", {}).get("matchLabels", {})
    return pod_body(
        name=name,
        uid=f"{name}-uid",
        node=node,
        owners=owners,
        labels=labels,
        phase="Running",
        requests={"cpu": "1"},
        conditions=[{"type": "Ready", "status": "True"}],
        **more,
    )
