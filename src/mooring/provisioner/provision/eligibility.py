"""Which claims this provisioner serves and which volumes it deletes, as external-provisioner decides. Pure.

One difference: a terminating claim gets no volume unless a CreateVolume request is in flight.
"""

import enum

from mooring.api import well_known
from mooring.api.views.storage import Claim, StorageClass, Volume
from mooring.csi.contract import NodeInfo
from mooring.provisioner.provision.topology import Term
from mooring.provisioner.settings import NodeDeployment
from mooring.volumes.topology import reaches

SNAPSHOT_GROUP = "snapshot.storage.k8s.io"


def data_source_refusal(claim: Claim) -> str:
    """Why a claim's volume cannot be filled from its data source; "" if it has none, or one for a volume populator."""
    source = claim.spec.data_source or claim.spec.data_source_ref
    if source is None:
        return ""
    if source.namespace and source.namespace != claim.namespace:
        return f"dataSourceRef names namespace {source.namespace!r}: sources elsewhere are not supported"
    if source.kind == "VolumeSnapshot":
        if source.api_group != SNAPSHOT_GROUP:
            return f"the PVC source does not belong to the right APIGroup. Expected {SNAPSHOT_GROUP}"
        return "restoring a VolumeSnapshot is not supported by this provisioner"
    if source.kind == "PersistentVolumeClaim":
        return "cloning a PersistentVolumeClaim is not supported by this provisioner"
    return "" if source.name else f"the {source.kind} to fill the volume from has no name"


def awaits_populator(claim: Claim) -> bool:
    """Whether an external volume populator creates the claim's volume."""
    return bool(claim.spec.data_source or claim.spec.data_source_ref) and not data_source_refusal(claim)


class Eligibility(enum.Enum):
    PROVISION = "provision"
    #: Not for this provisioner, or not yet: the next change of the claim is examined.
    SKIP = "skip"
    #: Immediate binding without a selected node: this instance may claim it for its node.
    CLAIM_NODE = "claim node"
    #: For this driver, but the StorageClass does not exist: retry.
    NO_CLASS = "no class"


def eligibility_of(
    claim: Claim,
    storage_class: StorageClass | None,
    driver: str,
    deployment: NodeDeployment | None = None,
    *,
    delayed_binding: bool = True,
) -> Eligibility:
    """Without `delayed_binding` no class waits for a selected node."""
    if claim.spec.volume_name or claim.deleting or not addressed_to(claim, driver) or not claim.storage_class:
        return Eligibility.SKIP
    if storage_class is None:
        return Eligibility.NO_CLASS
    if storage_class.provisioner != driver:
        # The class was replaced after the PV controller had annotated the claim.
        return Eligibility.SKIP
    if deployment is not None and claim.selected_node != deployment.node:
        unclaimed = not claim.selected_node and deployment.immediate_binding
        unclaimed = unclaimed and (storage_class.immediate or not delayed_binding)
        return Eligibility.CLAIM_NODE if unclaimed else Eligibility.SKIP
    if delayed_binding and storage_class.delayed and not claim.metadata.annotations.get(well_known.SELECTED_NODE):
        return Eligibility.SKIP
    return Eligibility.PROVISION


def addressed_to(claim: Claim, driver: str) -> bool:
    """Whether the PV controller has annotated the claim with this driver."""
    annotations = claim.metadata.annotations
    named = annotations.get(well_known.STORAGE_PROVISIONER, annotations.get(well_known.STORAGE_PROVISIONER_BETA))
    return driver in (named, annotations.get(well_known.MIGRATED_TO))


BOUND = "Bound"
RELEASED = "Released"
DELETE = "Delete"


class VolumeAction(enum.Enum):
    NOTHING = "nothing"
    ADD_FINALIZER = "add finalizer"
    REMOVE_FINALIZER = "remove finalizer"
    #: The storage, then the object, then the finalizer.
    DELETE = "delete"


def next_step(volume: Volume, driver: str, node: NodeInfo | None = None) -> VolumeAction:
    """`node` limits the deletion of storage to volumes that this node reaches."""
    return finalizer_step(volume, node) if is_ours(volume, driver) else VolumeAction.NOTHING


def finalizer_step(volume: Volume, node: NodeInfo | None = None) -> VolumeAction:
    """The finalizer keeps the order: storage first, object last. Held volumes and those being rolled back are never
    Released, so they are not deleted here."""
    policy, phase = volume.spec.persistent_volume_reclaim_policy, volume.status.phase
    guarded = well_known.EXTERNAL_PROVISIONER in volume.metadata.finalizers
    if policy != DELETE:
        # An administrator keeps the data; the finalizer must not block the deletion of the object.
        return VolumeAction.REMOVE_FINALIZER if guarded else VolumeAction.NOTHING
    if phase == BOUND:
        return VolumeAction.ADD_FINALIZER if not guarded and not volume.deleting else VolumeAction.NOTHING
    if phase == RELEASED and (guarded or not volume.deleting) and is_reachable(volume, node):
        return VolumeAction.DELETE
    return VolumeAction.NOTHING


def is_ours(volume: Volume, driver: str) -> bool:
    annotations = volume.metadata.annotations
    provisioner = annotations.get(well_known.PROVISIONED_BY)
    if driver in (provisioner, annotations.get(well_known.MIGRATED_TO)):
        return True
    return provisioner is None and volume.spec.csi is not None and volume.spec.csi.driver == driver


def is_reachable(volume: Volume, node: NodeInfo | None) -> bool:
    """Whether the node reaches the volume; always true without topology."""
    if node is None or node.accessible_from is None:
        return True
    return reaches("", node.accessible_from.segments, volume)


def segments_of(volume: Volume) -> tuple[Term, ...]:
    """The topology segments in a volume's node affinity, if it has the form that provisioners write."""
    affinity = volume.required_affinity
    terms = affinity.node_selector_terms if affinity is not None else ()
    segments: list[Term] = []
    for each in terms:
        expressions = each.match_expressions
        plain = all(row.operator == "In" and len(row.values) == 1 for row in expressions)
        if expressions and plain and not each.match_fields:
            segments.append(tuple(sorted((row.key, row.values[0]) for row in expressions)))
    return tuple(segments)
