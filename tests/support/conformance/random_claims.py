"""Random states of claims and volumes, in independent groups: each has a class, one claim and a few volumes.

The result of a controller must not depend on the order in which it syncs objects, so volumes differ in
size, their access modes are nested, at most one is reserved for the claim, and the free ones are Available if the claim
may choose. One seed gives the same groups.
"""

import random
from typing import Any, Final, NamedTuple

from mooring.api import well_known
from support.builders import Body, claim_body, claim_ref, class_body, pod_body, volume_body

RWO, ROX, RWX = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"
MODES: Final = ([RWO], [RWO, ROX], [RWO, ROX, RWX])
SSD: Final = {"disk": "ssd"}

#: Provisioner and binding mode; None is a class that does not exist.
CLASSES: Final = (
    (well_known.NO_PROVISIONER, "Immediate"),
    (well_known.NO_PROVISIONER, "Immediate"),
    (well_known.NO_PROVISIONER, "WaitForFirstConsumer"),
    ("vendor.example/disk", "Immediate"),
    ("vendor.example/disk", "WaitForFirstConsumer"),
    ("kubernetes.io/gce-pd", "Immediate"),
    ("kubernetes.io/unknown", "Immediate"),
    None,
)
PROVISIONERS: Final = ("", "", "", "vendor.example/disk", "kubernetes.io/gce-pd", "kubernetes.io/unknown")
CSI: Final = {"csi": {"driver": "vendor.example", "volumeHandle": "h"}}
GCE: Final = {"gcePersistentDisk": {"pdName": "d"}}


RESERVED: Final = ("name", "uid", "uid")


class Plan(NamedTuple):
    """A volume to create, and its reference to the claim, whose uid is known only later."""

    body: Body
    #: "": not at all; "name", "uid", "old uid", "ghost": the claim by name, by uid, an earlier claim, no claim.
    refers: str


class ClaimGroup(NamedTuple):
    name: str
    storage_class: Body | None
    claim: Body | None
    volumes: tuple[Plan, ...]
    #: A pod that uses the claim, if any: with a node or without, running or finished.
    pod: Body | None
    #: Objects deleted before the controllers start, which their finalizers keep.
    terminating: tuple[str, ...]
    #: What a user deletes after convergence: "claim", or the name of a volume.
    deleted: str


def draw_groups(seed: int, count: int) -> list[ClaimGroup]:
    return [_group(random.Random(f"{seed}-{number}"), f"i{number}") for number in range(count)]


def _group(rng: random.Random, name: str) -> ClaimGroup:
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
    terminating = tuple(plan.body["metadata"]["name"] for plan in volumes if _in_use(plan) and rng.random() < 0.5)
    pod = _pod(rng, name) if claim is not None and rng.random() < 0.3 else None
    return ClaimGroup(name, storage_class, claim, tuple(volumes), pod, terminating, rng.choice([*things, ""]))


def _in_use(plan: Plan) -> bool:
    """Whether the volume has the protection finalizer until a controller syncs it."""
    return plan.refers == "uid" and plan.body["status"]["phase"] == "Bound"


def _pod(rng: random.Random, name: str) -> Body:
    node, phase = rng.choice((("", "Pending"), ("node-1", "Pending"), ("node-1", "Running"), ("node-1", "Succeeded")))
    return pod_body(name=name, namespace="default", claims=[name], node=node, phase=phase)


def _claim(rng: random.Random, name: str, volumes: list[str]) -> Body:
    notes: dict[str, str] = {}
    volume = rng.choice(["", "", *volumes, f"{name}-none"])
    if rng.random() < (0.5 if volume else 0.1):
        notes[well_known.BIND_COMPLETED] = well_known.ANNOTATION_SET
    if rng.random() < 0.3:
        notes[well_known.BOUND_BY_CONTROLLER] = well_known.ANNOTATION_SET
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
    maker = rng.choice(PROVISIONERS)
    notes: dict[str, str] = {well_known.PROVISIONED_BY: maker} if maker else {}
    if rng.random() < 0.4:
        notes[well_known.BOUND_BY_CONTROLLER] = well_known.ANNOTATION_SET
    if rng.random() < 0.1:
        notes[well_known.MIGRATED_TO] = "some.driver"
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


def reference(plan: Plan, group: str, uid: str) -> dict[str, Any] | None:
    """The claimRef of a volume, once the claim's uid is known."""
    match plan.refers:
        case "name":
            return claim_ref(name=group)
        case "uid":
            return claim_ref(name=group, uid=uid or "never-there")
        case "old uid":
            return claim_ref(name=group, uid="an-earlier-uid")
        case "ghost":
            return claim_ref(name=f"{group}-ghost", uid="ghost-uid")
        case _:
            return None
