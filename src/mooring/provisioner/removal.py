"""What becomes of a volume: who keeps its finalizer, and when its storage is deleted.

Pure. The finalizer makes the order safe: storage first, object last, whoever asked for the object's deletion. Volumes
that are held or being rolled back are never `Released`, so this path does not touch them.
"""

import enum

from mooring.api import keys
from mooring.api.views.volume import Volume
from mooring.csi.contract import NodeInfo
from mooring.provisioner.topology_terms import Term
from mooring.volumes.affinity import reaches

BOUND = "Bound"
RELEASED = "Released"
DELETE = "Delete"


class Step(enum.Enum):
    NOTHING = "nothing"
    ADD_FINALIZER = "add finalizer"
    REMOVE_FINALIZER = "remove finalizer"
    #: Its storage, then the object, then the finalizer.
    DELETE = "delete"


def next_step(volume: Volume, driver: str, here: NodeInfo | None = None) -> Step:
    """`here` limits the deletion of storage to what is on this provisioner's node."""
    if not is_ours(volume, driver):
        return Step.NOTHING
    policy, phase = volume.spec.persistent_volume_reclaim_policy, volume.status.phase
    guarded = keys.EXTERNAL_PROVISIONER in volume.metadata.finalizers
    if policy != DELETE:
        # SEEN: an administrator wants to keep the data; nothing of ours must stand in the way of the object.
        return Step.REMOVE_FINALIZER if guarded else Step.NOTHING
    if phase == BOUND:
        return Step.ADD_FINALIZER if not guarded and not volume.deleting else Step.NOTHING
    if phase == RELEASED and (guarded or not volume.deleting) and is_here(volume, here):
        return Step.DELETE
    return Step.NOTHING


def is_ours(volume: Volume, driver: str) -> bool:
    annotations = volume.metadata.annotations
    maker = annotations.get(keys.PROVISIONED_BY)
    if driver in (maker, annotations.get(keys.MIGRATED_TO)):
        return True
    return maker is None and volume.spec.csi is not None and volume.spec.csi.driver == driver


def is_here(volume: Volume, node: NodeInfo | None) -> bool:
    """Whether a node reaches the volume; every node does where the volume or the driver knows no places."""
    if node is None or node.accessible_from is None:
        return True
    return reaches("", node.accessible_from.segments, volume)


def places_of(volume: Volume) -> tuple[Term, ...]:
    """The places a volume's affinity names, as far as it is of the form that provisioners write."""
    affinity = volume.required_affinity
    terms = affinity.node_selector_terms if affinity is not None else ()
    places: list[Term] = []
    for each in terms:
        expressions = each.match_expressions
        plain = all(row.operator == "In" and len(row.values) == 1 for row in expressions)
        if expressions and plain and not each.match_fields:
            places.append(tuple(sorted((row.key, row.values[0]) for row in expressions)))
    return tuple(places)
