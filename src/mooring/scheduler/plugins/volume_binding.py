"""VolumeBinding and NodeVolumeLimits: nodes for a pod's volumes, and attachable volumes per driver; and scores of nodes
for volumes, VolumeSpread and VolumePreferredAffinity."""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from mooring.api import well_known
from mooring.api.quantity import QuantityError
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Volume, VolumeAttachment
from mooring.scheduler.cluster_events import (
    ADD,
    ALLOWED_TOPOLOGIES,
    CAPACITY_NOT_TRACKED,
    CLAIM,
    CLASS,
    DELETE,
    DRIVER,
    LABELS,
    MIGRATED_PLUGINS,
    MORE_CAPACITY,
    NEW_DRIVER,
    NOT_REQUIRED,
    PLUGIN,
    RAISED_LIMIT,
    UPDATE,
    VOLUME,
    PodInterests,
    QueueingHint,
)
from mooring.scheduler.framework import scoring
from mooring.scheduler.framework.interface import (
    CycleState,
    NodeRejection,
    PodDependentFilter,
    PodIndependentFilter,
    PreFilter,
    RejectionCode,
    Reserve,
    Score,
    Scores,
)
from mooring.volumes.binding import BindingPlan, PodClaims
from mooring.volumes.in_tree import disks_with_drivers
from mooring.volumes.inline_volumes import has_inline_volumes, nodes_short_of_inline_capacity
from mooring.volumes.scoring import (
    EMPTIEST_FIRST,
    CapacityPolicy,
    UtilizationShape,
    class_policy,
    preference,
    utilization,
)
from mooring.volumes.state import ConflictReason
from mooring.volumes.topology import EMPTY, NodeSet, mask_of

#: For a pod with one claim, an existing volume then counts at least 100 points more than one to be provisioned: more
#: than the maximum of NodeResourcesFit.
PREFERENCE_WEIGHT: Final = 3
#: kube-scheduler's default weight.
UTILIZATION_WEIGHT: Final = 1

CODES: Final[Mapping[ConflictReason, RejectionCode]] = {
    ConflictReason.NODE_AFFINITY: RejectionCode.VOLUME_AFFINITY,
    ConflictReason.NO_VOLUME: RejectionCode.NO_VOLUME,
    ConflictReason.STORAGE_CAPACITY: RejectionCode.STORAGE_CAPACITY,
    ConflictReason.VOLUME_MISSING: RejectionCode.VOLUME_MISSING,
}


def _hint_volume_matches(interests: PodInterests, volume: Volume) -> bool:
    """Whether the volume matches one of the pod's claims, wherever it is."""
    try:
        return any(needs.first_mismatch(volume) is None for needs in interests.unbound)
    except QuantityError:
        # A volume whose size cannot be parsed matches no claim.
        return False


class VolumeBinding(PreFilter, PodIndependentFilter, Score, Reserve):
    """Nodes must reach the pod's bound volumes, and offer a matching or provisionable volume for each unbound claim.

    Decided by the volume library. Preemption frees no volumes, so no rejection is resolvable.
    """

    name = "VolumeBinding"
    volumes_only = True
    weight = PREFERENCE_WEIGHT
    #: Deletions of claims and of free volumes are missing on purpose: neither frees a volume.
    events_to_register = (
        QueueingHint("PersistentVolumeClaim", (ADD, UPDATE), interest_kind=CLAIM),
        QueueingHint("PersistentVolume", (ADD, UPDATE), interest_kind=CLASS, interests_fn=_hint_volume_matches),
        QueueingHint("PersistentVolume", (ADD, UPDATE), interest_kind=VOLUME),
        # A claim with a reserved volume is bound to no other until that volume is deleted.
        QueueingHint("PersistentVolume", (ADD, UPDATE, DELETE), interest_kind=CLAIM),
        QueueingHint("StorageClass", (ADD, UPDATE), updated_fields=(ALLOWED_TOPOLOGIES,), interest_kind=CLASS),
        QueueingHint("Node", (ADD, UPDATE), updated_fields=(LABELS,)),
        QueueingHint("CSINode", (ADD, UPDATE, DELETE), updated_fields=(MIGRATED_PLUGINS,), interest_kind=PLUGIN),
        QueueingHint("CSIStorageCapacity", (ADD, UPDATE), updated_fields=(MORE_CAPACITY,), interest_kind=CLASS),
        QueueingHint("CSIDriver", (UPDATE, DELETE), updated_fields=(CAPACITY_NOT_TRACKED,), interest_kind=DRIVER),
        QueueingHint("Pod", (DELETE,), lambda pod, deleted: has_inline_volumes(pod) and has_inline_volumes(deleted)),
    )

    def __init__(self, ramp: UtilizationShape | None = None, *, policy: CapacityPolicy = CapacityPolicy.SPREAD) -> None:
        """A `ramp` is the shape of KUBE_SCHEDULER, and selects this policy. Classes may select another one for their
        claims; the weight stays."""
        self._ramp = ramp or EMPTIEST_FIRST
        self._policy = policy if ramp is None else CapacityPolicy.KUBE_SCHEDULER
        self.weight = UTILIZATION_WEIGHT if self._policy is CapacityPolicy.KUBE_SCHEDULER else PREFERENCE_WEIGHT

    def prefilter(self, state: CycleState) -> str | None:
        claims = state.claims
        return claims if isinstance(claims, str) else None

    def filter(self, state: CycleState) -> Iterable[NodeRejection]:
        claims, snapshot = _claims(state), state.snapshot
        rejections = [] if claims.none else snapshot.volumes.rejections(claims)
        provisioners, starting = snapshot.volumes.provisioners, snapshot.starting_pods()
        inline = nodes_short_of_inline_capacity(state.pod, starting, provisioners, snapshot.topology)
        if inline:
            rejections.append((inline, ConflictReason.STORAGE_CAPACITY))
        return [NodeRejection(nodes, reason, CODES[reason], resolvable=False) for nodes, reason in rejections]

    def score(self, state: CycleState, feasible: NodeSet) -> Scores | None:
        claims = _claims(state)
        if not claims.unbound:
            return None
        volumes, width = state.snapshot.volumes, state.snapshot.topology.width
        chosen = {
            needs.storage_class: class_policy(volumes.storage_class(needs.storage_class)) or self._policy
            for needs in claims.unbound
        }
        policies = sorted(frozenset(chosen.values()), key=lambda policy: policy.value)
        scores = np.zeros(width)
        for policy in policies:
            as_reported = policy is CapacityPolicy.KUBE_SCHEDULER
            # Of all claims, because they compete for volumes.
            fits = volumes.fits(claims, as_reported=as_reported)
            own = [fit for fit in fits if chosen[fit.claim.storage_class] is policy]
            scored = utilization(own, self._ramp, width) if as_reported else preference(own, width, policy)
            scores += scored * (len(own) / len(fits))
        state.volume_policy = ", ".join(policy.value for policy in policies)
        return scores

    def reserve(self, state: CycleState, node: str) -> BindingPlan:
        claims = _claims(state)
        if claims.all_bound:
            return BindingPlan(node)
        volumes = state.snapshot.volumes
        return volumes.assume(volumes.plan(claims, node))


def _claims(state: CycleState) -> PodClaims:
    """The claims of a pod that `prefilter` did not reject."""
    claims = state.claims
    assert not isinstance(claims, str), claims
    return claims


class VolumeSpread(Score):
    """Prefers zones with few volumes of the same application. Off unless a profile enables it.

    PodTopologySpread counts pods; volumes stay when pods are deleted, and pods return to them. Counted are, for each
    unbound claim, the volumes of claims with the same labels in its namespace. A volume in several zones counts in
    none.
    """

    name = "VolumeSpread"
    volumes_only = True
    #: As of PodTopologySpread.
    weight = 2
    events_to_register = ()

    def score(self, state: CycleState, feasible: NodeSet) -> Scores | None:
        claims = state.claims
        if isinstance(claims, str) or not claims.unbound:
            return None
        snapshot = state.snapshot
        zones = snapshot.topology.by_value(well_known.ZONE)
        counted = np.zeros(snapshot.resources.width)
        for needs in claims.unbound:
            for zone, volumes in snapshot.volumes.group_volumes_per_domain(needs.claim, zones).items():
                counted += volumes * mask_of(zones[zone], len(counted))
        if not counted.any():
            return None
        # Nodes without a zone score 0.
        return scoring.normalize_reversed(counted, feasible) * mask_of(
            snapshot.topology.having(well_known.ZONE), len(counted)
        )


class VolumePreferredAffinity(Score):
    """Prefers nodes that the preferred node affinity of the pod's volumes names, by the sum of the weights."""

    name = "VolumePreferredAffinity"
    volumes_only = True
    #: As of NodeAffinity.
    weight = 2
    events_to_register = ()

    def score(self, state: CycleState, feasible: NodeSet) -> Scores | None:
        claims = state.known_claims
        counted = None if claims is None else state.snapshot.volumes.preferred_affinity(claims)
        if counted is None:
            return None
        scores = np.zeros(state.snapshot.resources.width)
        scores[: len(counted)] = counted[: len(scores)]
        return scoring.normalize(scores, feasible)


TOO_MANY: Final = "node(s) exceed max volume count"

_ANY: Final = (ADD, UPDATE, DELETE)


def _hint_pod_with_volumes(pod: Pod, deleted: Pod) -> bool:
    return bool(deleted.claim_keys) or any(disks_with_drivers(deleted))


def _hint_volume_detached(pod: Pod, attachment: VolumeAttachment) -> bool:
    """Whether the detached volume may be of one of the pod's drivers; those of its claims are not known here."""
    return bool(pod.claim_keys) or any(disk.driver == attachment.spec.attacher for disk in disks_with_drivers(pod))


class NodeVolumeLimits(PodDependentFilter):
    """Limits the volumes per CSI driver on a node, and keeps pods off nodes without a driver that asks for it.

    Counts volumes in use and attached there, and those of this pod that are to be bound or provisioned: a pod is not
    scheduled to a node where its volumes could not be attached. Preemption helps.
    """

    name = "NodeVolumeLimits"
    volumes_only = True
    events_to_register = (
        QueueingHint("CSINode", _ANY, updated_fields=(RAISED_LIMIT, NEW_DRIVER), interest_kind=DRIVER),
        QueueingHint(
            "CSIDriver", (UPDATE, DELETE), updated_fields=(NOT_REQUIRED, CAPACITY_NOT_TRACKED), interest_kind=DRIVER
        ),
        QueueingHint("Pod", (DELETE,), _hint_pod_with_volumes),
        QueueingHint("PersistentVolumeClaim", (ADD, UPDATE), interest_kind=CLAIM),
        # The driver of an unbound claim's volume depends on the volumes to choose from, and on where one can be
        # provisioned instead.
        *(QueueingHint("PersistentVolume", _ANY, interest_kind=kind) for kind in (CLAIM, CLASS, VOLUME)),
        QueueingHint("StorageClass", (ADD, UPDATE), updated_fields=(ALLOWED_TOPOLOGIES,), interest_kind=CLASS),
        QueueingHint("CSIStorageCapacity", (ADD, UPDATE), updated_fields=(MORE_CAPACITY,), interest_kind=CLASS),
        QueueingHint("VolumeAttachment", (DELETE,), _hint_volume_detached),
        QueueingHint("Node", (ADD, UPDATE), updated_fields=(LABELS,)),
    )

    def filter(self, state: CycleState) -> Iterable[NodeRejection]:
        pod, volumes = state.pod, state.snapshot.volumes
        if not pod.spec.volumes:
            return ()
        for key in pod.claim_keys:
            if volumes.claim(key) is None:
                missing = f'looking up PVC {key}: persistentvolumeclaim "{key.partition("/")[2]}" not found'
                return (NodeRejection(state.snapshot.nodes, missing, RejectionCode.CLAIM_MISSING, resolvable=False),)
        claims = state.known_claims
        rejections: list[NodeRejection] = []
        # As in kube-scheduler, a node is reported with one reason: a missing driver, or else a limit.
        rejected = EMPTY
        for nodes, driver in volumes.missing_drivers(pod, claims):
            missing = f"{driver} CSI driver is not installed on the node"
            rejections.append(NodeRejection(nodes & ~rejected, missing, RejectionCode.DRIVER_MISSING, driver))
            rejected |= nodes
        over_limit = volumes.over_limit(pod, claims) & ~rejected
        return [*rejections, NodeRejection(over_limit, TOO_MANY, RejectionCode.VOLUME_LIMIT)]

    def pod_dependent_nodes(self, state: CycleState) -> NodeSet:
        """Where a limit is exceeded, and where volumes of the pod are already in use by other pods."""
        pod, volumes = state.pod, state.snapshot.volumes
        claims = state.known_claims
        return volumes.over_limit(pod, claims) | volumes.nodes_with_pod_volumes(pod, claims)
