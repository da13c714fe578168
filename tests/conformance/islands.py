"""Random states of claims and volumes, in islands that do not touch: each has a class, one claim and a few volumes.

What a controller makes of an island must not depend on the order in which it looks at things, so volumes differ in
size, their access modes are nested, at most one is reserved for the claim, and the free ones are Available if the claim
may choose. One seed gives the same islands.
"""

import random
from typing import Any, Final, NamedTuple

from builders import Body, claim_body, claim_ref, class_body, pod_body, volume_body
from mooring.api import keys

RWO, ROX, RWX = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"
MODES: Final = ([RWO], [RWO, ROX], [RWO, ROX, RWX])
SSD: Final = {"disk": "ssd"}

#: Provisioner and binding mode; None is a class that does not exist.
CLASSES: Final = (
    (keys.NO_PROVISIONER, "Immediate"),
    (keys.NO_PROVISIONER, "Immediate"),
    (keys.NO_PROVISIONER, "WaitForFirstConsumer"),
    ("vendor.example/disk", "Immediate"),
    ("vendor.example/disk", "WaitForFirstConsumer"),
    ("kubernetes.io/gce-pd", "Immediate"),
    ("kubernetes.io/unknown", "Immediate"),
    None,
)
MAKERS: Final = ("", "", "", "vendor.example/disk", "kubernetes.io/gce-pd", "kubernetes.io/unknown")
CSI: Final = {"csi": {"driver": "vendor.example", "volumeHandle": "h"}}
GCE: Final = {"gcePersistentDisk": {"pdName": "d"}}


RESERVED: Final = ("name", "uid", "uid")


class Plan(NamedTuple):
    """A volume to be made, and how it refers to the claim, whose uid is known only later."""

    body: Body
    #: "": not at all; "name", "uid", "old uid", "ghost": of the claim by name, by uid, of an earlier, of nobody.
    refers: str


class Island(NamedTuple):
    name: str
    storage_class: Body | None
    claim: Body | None
    volumes: tuple[Plan, ...]
    #: A pod that uses the claim, if any: with a node or without, running or finished.
    pod: Body | None
    #: What was deleted before the controllers came, and is there still because it is protected.
    dying: tuple[str, ...]
    #: What a user deletes once everything has settled: "claim", or the name of a volume.
    deleted: str


def islands(seed: int, count: int) -> list[Island]:
    return [_island(random.Random(f"{seed}-{number}"), f"i{number}") for number in range(count)]


def _island(rng: random.Random, name: str) -> Island:
    kind = rng.choice(CLASSES)
    storage_class = None if kind is None else class_body(name=name, provisioner=kind[0], binding_mode=kind[1])
    sizes = rng.sample(range(1, 9), rng.choice((0, 1, 1, 2, 3)))
    names = [f"{name}-v{number}" for number in range(len(sizes))]
    claim = _claim(rng, name, names) if rng.random() < 0.9 else None
    chooses = claim is not None and "volumeName" not in claim["spec"]
    volumes: list[Plan] = []
    for volume, size in zip(names, sizes, strict=True):
        reserved = any(plan.refers in RESERVED for plan in volumes)
        volumes.append(_volume(rng, volume, name, size, chooses=chooses, reserved=reserved))
    things = names + ([] if claim is None else ["claim"] * 2)
    dying = tuple(plan.body["metadata"]["name"] for plan in volumes if _in_use(plan) and rng.random() < 0.5)
    pod = _pod(rng, name) if claim is not None and rng.random() < 0.3 else None
    return Island(name, storage_class, claim, tuple(volumes), pod, dying, rng.choice([*things, ""]))


def _in_use(plan: Plan) -> bool:
    """Whether protection holds the volume until a controller has looked at it."""
    return plan.refers == "uid" and plan.body["status"]["phase"] == "Bound"


def _pod(rng: random.Random, name: str) -> Body:
    node, phase = rng.choice((("", "Pending"), ("node-1", "Pending"), ("node-1", "Running"), ("node-1", "Succeeded")))
    return pod_body(name=name, namespace="default", claims=[name], node=node, phase=phase)


def _claim(rng: random.Random, name: str, volumes: list[str]) -> Body:
    notes: dict[str, str] = {}
    volume = rng.choice(["", "", *volumes, f"{name}-none"])
    if rng.random() < (0.5 if volume else 0.1):
        notes[keys.BIND_COMPLETED] = keys.YES
    if rng.random() < 0.3:
        notes[keys.BOUND_BY_CONTROLLER] = keys.YES
    return claim_body(
        name=name,
        namespace="default",
        storage_class=name,
        size=f"{rng.choice((1, 2, 5))}Gi",
        access_modes=rng.choice(MODES),
        mode=rng.choice(("Filesystem", "Filesystem", "Filesystem", "Block")),
        selector={"matchLabels": SSD} if rng.random() < 0.2 else None,
        volume=volume,
        selected_node="node-1" if rng.random() < 0.2 else None,
        attributes_class="gold" if rng.random() < 0.1 else "",
        annotations=notes,
        phase=rng.choice(("Pending", "Pending", "Bound", "Lost")),
    )


def _volume(rng: random.Random, name: str, storage_class: str, size: int, *, chooses: bool, reserved: bool) -> Plan:
    refers = rng.choice(("", "", "", "old uid", "ghost", *(() if reserved else RESERVED)))
    maker = rng.choice(MAKERS)
    notes: dict[str, str] = {keys.PROVISIONED_BY: maker} if maker else {}
    if rng.random() < 0.4:
        notes[keys.BOUND_BY_CONTROLLER] = keys.YES
    if rng.random() < 0.1:
        notes[keys.MIGRATED_TO] = "some.driver"
    phases = ("Available",) if chooses and not refers else ("Available", "Pending", "Bound", "Released", "Failed")
    source = rng.choice((CSI, GCE))
    body = volume_body(
        name=name,
        storage_class=storage_class if rng.random() < 0.85 else f"{storage_class}-other",
        size=f"{size}Gi",
        access_modes=rng.choice(MODES),
        mode=rng.choice(("Filesystem", "Filesystem", "Filesystem", "Block")),
        labels=SSD if rng.random() < 0.5 else None,
        reclaim=rng.choice(("Retain", "Retain", "Delete", "Recycle")),
        source=source,
        attributes_class="gold" if source is CSI and rng.random() < 0.15 else "",
        annotations=notes,
        phase=rng.choice(phases),
    )
    return Plan(body, refers)


def reference(plan: Plan, island: str, uid: str) -> dict[str, Any] | None:
    """The claimRef of a volume, once the claim's uid is known."""
    match plan.refers:
        case "name":
            return claim_ref(name=island)
        case "uid":
            return claim_ref(name=island, uid=uid or "never-there")
        case "old uid":
            return claim_ref(name=island, uid="an-earlier-uid")
        case "ghost":
            return claim_ref(name=f"{island}-ghost", uid="ghost-uid")
        case _:
            return None
