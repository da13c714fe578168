"""All the decider knows of volumes, claims and classes, and what it has promised: the face of this library.

A scheduler feeds it with changes, shares its `TopologyIndex`, and asks in this order:

    claims_of(pod) ──► rejections(claims), for all nodes ──► plan(claims, node) ──► assume(plan) ──► restore(plan)?

`over_limit`, `in_use` and `disk_conflicts` reject for other reasons, `fits` compares the nodes that are left. Every
answer takes earlier promises into account. It writes nothing: carrying a plan out is the binder's work.
"""

import enum
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod
from mooring.api.views.storage import CsiDriver, CsiNode, StorageCapacity, StorageClass, VolumeAttachment
from mooring.api.views.volume import Volume
from mooring.volumes.assume import AssumeCache, OutOfSync
from mooring.volumes.attach_limits import ClaimUse, uses_of
from mooring.volumes.claim_kin import ClaimKin
from mooring.volumes.csi_nodes import CsiNodes
from mooring.volumes.decision import Decider
from mooring.volumes.fit import Fit
from mooring.volumes.in_tree import Identity, disks_with_drivers, driver_of, identity_of
from mooring.volumes.matching import points_to
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.plan import BindingPlan, Provisioning, StaticBinding
from mooring.volumes.pod_claims import PodClaims, sort_claims
from mooring.volumes.provisioning import Provisioners
from mooring.volumes.shortage import shortage
from mooring.volumes.topology import TopologyIndex
from mooring.volumes.usage import VolumeUsage
from mooring.volumes.volume_count import Choice, Wanted, exceeds, over_limit
from mooring.volumes.volume_index import VolumeIndex

__all__ = [
    "AFFINITY_CONFLICT",
    "NOTHING_TO_BIND",
    "NOT_ENOUGH_SPACE",
    "VOLUME_MISSING",
    "ConflictReason",
    "PodClaims",
    "VolumeState",
]


class ConflictReason(enum.StrEnum):
    """Why nodes do not do for a pod's claims: kube-scheduler's texts, in the order it lists them."""

    NODE_AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
    NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
    STORAGE_CAPACITY = "node(s) did not have enough free storage"
    VOLUME_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


AFFINITY_CONFLICT: Final = ConflictReason.NODE_AFFINITY
NOTHING_TO_BIND: Final = ConflictReason.NO_VOLUME
NOT_ENOUGH_SPACE: Final = ConflictReason.STORAGE_CAPACITY
VOLUME_MISSING: Final = ConflictReason.VOLUME_MISSING


class VolumeState:
    """Volumes and claims as assumed, classes as observed, indexed for deciding."""

    def __init__(self, topology: TopologyIndex) -> None:
        self._topology = topology
        self._index = VolumeIndex(topology)
        self._volumes: AssumeCache[Volume] = AssumeCache()
        self._claims: AssumeCache[Claim] = AssumeCache()
        self._kin = ClaimKin()
        self._provisioners = Provisioners(topology)
        self._csi_nodes = CsiNodes(topology)
        self._decider = Decider(topology, self._index, self._provisioners, self._node_takes)
        #: What pods have on nodes; for reading.
        self.usage = VolumeUsage(topology, self._used_as, self._attached)

    def observe_volume(self, before: Volume | None, after: Volume | None) -> str:
        """A volume came (`before` is None), changed, or went (`after` is None).

        Answers with what is wrong with it, "" in the normal case; such a volume is not given to claims.
        """
        key = _key(before, after)
        self._volumes.observe(key, after)
        problem = self._reindex(key)
        self.usage.limits.recount(_claimants(before, after))
        self.usage.limits.recount_attachments(key)
        if after is None:
            self._provisioners.charges.volume_gone(key)
        else:
            self._provisioners.charges.volume(after, self._claimant(after))
        return problem

    def observe_claim(self, before: Claim | None, after: Claim | None) -> None:
        key = _key(before, after)
        self._claims.observe(key, after)
        self._kin.observe(key, after)
        self.usage.limits.recount((key,))
        if before is not None and (after is None or after.uid != before.uid):
            self._provisioners.charges.claim(before.uid, None)
        self._charge(key)

    def observe_class(self, before: StorageClass | None, after: StorageClass | None) -> None:
        self._provisioners.observe_class(_key(before, after), after)
        if before is None or after is None:
            self.usage.limits.recount_all()

    def observe_driver(self, before: CsiDriver | None, after: CsiDriver | None) -> None:
        self._provisioners.observe_driver(_key(before, after), after)

    def observe_capacity(self, before: StorageCapacity | None, after: StorageCapacity | None) -> str:
        """Answers with what is wrong with an object, "" in the normal case; such an object offers nothing."""
        return self._provisioners.observe_capacity(_key(before, after), after)

    def observe_csi_node(self, before: CsiNode | None, after: CsiNode | None) -> None:
        name = _key(before, after)
        self._csi_nodes.observe(name, after)
        self.usage.limits.observe_csi_node(name, after)

    def observe_attachment(self, before: VolumeAttachment | None, after: VolumeAttachment | None) -> None:
        self.usage.limits.observe_attachment(_key(before, after), after)

    def pod_came(self, pod: Pod, node: str) -> None:
        """A pod takes its volumes to a node, or was promised to. Each pod is on one node at a time."""
        self.usage.place(pod, node, 1)

    def pod_left(self, pod: Pod, node: str) -> None:
        """A pod that came to a node is there no more."""
        self.usage.place(pod, node, -1)

    def volume(self, name: str) -> Volume | None:
        """A volume, as assumed where it is."""
        return self._volumes.get(name)

    def claim(self, key: str) -> Claim | None:
        """A claim by `namespace/name`, as assumed where it is."""
        return self._claims.get(key)

    @property
    def provisioners(self) -> Provisioners:
        """Classes, drivers and what they report of their capacity; for reading."""
        return self._provisioners

    def storage_class(self, name: str) -> StorageClass | None:
        return self._provisioners.classes.get(name)

    def claims_of(self, pod: Pod) -> PodClaims | str:
        """The pod's claims, or the reason why it cannot be placed anywhere."""
        return sort_claims(pod, self._claims.get, self._provisioners.classes)

    def rejections(self, claims: PodClaims) -> list[tuple[NodeSet, ConflictReason]]:
        """Which nodes cannot have the pod because of its claims, and why; a node may be named more than once."""
        conflicting, missing = self._bound_elsewhere(claims.bound)
        unmatched, short = self._decider.unserved(claims)
        said = (
            (conflicting, AFFINITY_CONFLICT),
            (unmatched, NOTHING_TO_BIND),
            (short, NOT_ENOUGH_SPACE),
            (missing, VOLUME_MISSING),
        )
        return [(nodes, reason) for nodes, reason in said if nodes]

    def matches(self, claims: PodClaims, node: str) -> list[tuple[Claim, Volume | None]]:
        """Each claim to be bound, the smallest first, with the volume it gets on this node; None where one would
        have to be made."""
        return self._decider.matches(claims, node)

    def plan(self, claims: PodClaims, node: str) -> BindingPlan:
        """What binding takes on a node that `rejections` does not name."""
        return self._decider.plan(claims, node)

    def fits(self, claims: PodClaims) -> list[Fit]:
        """For each unbound claim, going up in size, about what it would get on every node: for comparing nodes."""
        return self._decider.fits(claims)

    def kin_in(self, claim: Claim, domains: Mapping[str, NodeSet]) -> Counter[str]:
        """How many volumes of claims like this one are, or are being made, in which of these domains of nodes; those
        that are not in one alone do not count."""
        counted: Counter[str] = Counter()
        for key in self._kin.of(claim.key):
            nodes = self._whereabouts(key)
            counted.update(name for name, domain in domains.items() if nodes & domain and not nodes & ~domain)
        return counted

    def over_limit(self, pod: Pod, claims: PodClaims | None) -> NodeSet:
        """The nodes that would have more volumes of a driver than they take, counting those the pod would be given.

        Without `claims`, where they could not be sorted, only what the pod has by now counts.
        """
        if not self.usage.limits.any:
            return EMPTY
        wanted = self._wanted(pod, claims)

        def choices(nodes: NodeSet) -> Iterator[Choice]:
            if claims is not None:
                for way in self._decider.ways(claims):
                    yield Choice(self._decider.serving(way, claims, nodes), way.drivers)

        return over_limit(wanted, self.usage.limits, self._topology, choices)

    def already_on(self, pod: Pod, claims: PodClaims | None) -> NodeSet:
        """The nodes that have volumes of the pod which count against limits; `claims` as for `over_limit`."""
        if not self.usage.limits.any:
            return EMPTY
        names = {name for volume in self._wanted(pod, claims).known for name in self.usage.limits.nodes_with(volume)}
        return sum(self._topology.named(name) for name in names)

    def lacking_drivers(self, pod: Pod, claims: PodClaims | None) -> list[tuple[NodeSet, str]]:
        """Drivers that the pod's volumes need wherever it goes and that want this looked at, with the nodes that lack
        them; `claims` as for `over_limit`."""
        drivers = [one for one in self._wanted(pod, claims).drivers if self._provisioners.is_required(one)]
        return [(self._topology.all & ~self._csi_nodes.having(driver), driver) for driver in drivers]

    def possible_drivers(self, pod: Pod, claims: PodClaims | None) -> frozenset[str]:
        """The drivers that the pod's volumes have or may come to have; `claims` as for `over_limit`."""
        wanted = self._wanted(pod, claims)
        return frozenset(one.driver for one in wanted.known).union(*wanted.further) - {""}

    def room_grew(self) -> frozenset[str]:
        """The classes for whose volumes there is more room somewhere than when this was last asked."""
        self._provisioners.charges.refresh()
        return self._provisioners.capacity.grown()

    def free_storage(self) -> dict[str, int]:
        """By capacity object, the bytes that are counted as free beside all that is in flight."""
        self._provisioners.charges.refresh()
        return {room.key: room.unused for room in self._provisioners.capacity.rooms()}

    def promised_nodes(self) -> dict[str, str]:
        """By claim, the node for which a volume was promised to it and that is not written yet."""
        return {claim.key: claim.selected_node or "" for claim in self._claims.promised()}

    def shortage(self, claims: PodClaims) -> str:
        """What the claims ask for and what there is, where free storage is looked at; "" where it is not."""
        return shortage((*claims.unbound, *claims.selected), self._provisioners)

    def in_use(self, claim: str) -> bool:
        """Whether a pod on a node that is there uses the claim with this key."""
        known = self._claims.get(claim)
        owner = None if known is None else known.controller
        return self.usage.limits.in_use(claim, "" if owner is None else owner.uid)

    def disk_conflicts(self, pod: Pod) -> NodeSet:
        """The nodes on which a disk that the pod names itself is in use in a way that excludes it."""
        return self.usage.disks.conflicting(pod)

    def assume(self, plan: BindingPlan) -> BindingPlan:
        """Promise the plan's volumes to its claims; later answers count them as taken.

        The plan that comes back holds volumes and claims as they will read once written, and is what `restore`
        takes. OutOfSync when something has changed since the plan was made; nothing is promised then.
        """
        bindings: list[StaticBinding] = []
        provisionings: list[Provisioning] = []
        try:
            for binding in plan.static:
                promised = self._promise(binding)
                bindings.append(promised)
            for provisioning in plan.provision:
                annotated = provisioning.claim.assumed_on(plan.node)
                self._claims.assume(annotated, instead_of=provisioning.claim)
                provisionings.append(Provisioning(annotated))
                self._charge(annotated.key)
        except OutOfSync:
            self.restore(BindingPlan(plan.node, tuple(bindings), tuple(provisionings)))
            raise
        return BindingPlan(plan.node, tuple(bindings), tuple(provisionings))

    def restore(self, plan: BindingPlan) -> None:
        """Take back what `assume` promised, except what the API has said something newer about. Idempotent."""
        for binding in plan.static:
            self._volumes.restore(binding.volume)
            self._reindex(binding.volume.key)
        for provisioning in plan.provision:
            self._claims.restore(provisioning.claim)
            self._charge(provisioning.claim.key)
        self.usage.limits.recount(binding.claim.key for binding in plan.static)

    def _bound_elsewhere(self, claims: Sequence[Claim]) -> tuple[NodeSet, NodeSet]:
        """The nodes that cannot reach a bound volume, and those stopped by a volume that does not exist.

        Claims are looked at in order, and a node's first problem is its only one.
        """
        reaching = self._topology.all
        for claim in claims:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                return self._topology.all & ~reaching, reaching
            reaching &= self._csi_nodes.reaching(volume)
        return self._topology.all & ~reaching, EMPTY

    def _whereabouts(self, key: str) -> NodeSet:
        """The nodes that reach the volume a claim has or was promised, or the one for which it is being made."""
        claim = self._claims.get(key)
        if claim is None:
            return EMPTY
        name = claim.spec.volume_name
        volume = self._volumes.get(name) if name else self._index.reserved_under(key)
        return self._topology.named(claim.selected_node or "") if volume is None else self._csi_nodes.reaching(volume)

    def _promise(self, binding: StaticBinding) -> StaticBinding:
        claim, volume = binding.claim, binding.volume
        reserved = points_to(volume, claim)
        reference = volume.spec.claim_ref
        if reserved and reference is not None and reference.uid == claim.uid:
            # Already reserved in full, perhaps by a promise for another pod with this claim. A copy keeps that
            # promise out of this plan's `restore`.
            return StaticBinding(claim, msgspec.structs.replace(volume))
        # A volume the user reserved by name stays the user's: only its uid is filled in.
        promised = volume.assumed_for(claim.reference, by_controller=not reserved)
        self._volumes.assume(promised, instead_of=volume)
        self._reindex(volume.key)
        self.usage.limits.recount((claim.key,))
        return StaticBinding(claim, promised)

    def _wanted(self, pod: Pod, claims: PodClaims | None) -> Wanted:
        further = {} if claims is None else {needs.claim.key: needs for needs in claims.unbound}
        further = {key: needs for key, needs in further.items() if self._index.reserved_for(needs) is None}
        fixed = [self._used_as(use) for use in uses_of(pod) if use.claim not in further]
        known = dict.fromkeys([one for one in fixed if one is not None] + list(disks_with_drivers(pod)))
        drivers = (frozenset(source.driver or "" for source in self._decider.sources(one)) for one in further.values())
        return Wanted(tuple(known), tuple(drivers))

    def _used_as(self, use: ClaimUse) -> Identity | None:
        """The volume that a pod has by its use of a claim."""
        claim = self._claims.get(use.claim) if use.owner else None
        if claim is not None and (claim.controller is None or claim.controller.uid != use.owner):
            return None
        return self._stands_for(use.claim)

    def _stands_for(self, key: str) -> Identity | None:
        """The volume that a claim has, was promised, or will have made for it; None where no driver knows it."""
        claim = self._claims.get(key)
        if claim is None:
            return None
        name = claim.spec.volume_name
        volume = self._volumes.get(name) if name else self._index.reserved_under(key)
        return self._to_be_made(claim) if volume is None else identity_of(volume)

    def _to_be_made(self, claim: Claim) -> Identity | None:
        driver = driver_of(self._provisioners.provisioner(claim.storage_class))
        return Identity(driver, f"to be made for {claim.key}") if driver else None

    def _node_takes(self, claims: PodClaims, matches: Sequence[tuple[Claim, Volume | None]], node: str) -> bool:
        """Whether a node takes all the volumes a pod would have there, given these for its unbound claims."""
        if not self.usage.limits.any:
            return True
        fixed = (self._stands_for(claim.key) for claim in (*claims.bound, *(one.claim for one in claims.selected)))
        chosen = (self._to_be_made(claim) if volume is None else identity_of(volume) for claim, volume in matches)
        coming = [identity for identity in (*fixed, *chosen) if identity is not None]
        return not exceeds([*coming, *claims.disks], node, self.usage.limits, self._topology)

    def _charge(self, key: str) -> None:
        """Whether the claim's volume is in flight may have changed."""
        claim = self._claims.get(key)
        if claim is None or (claim.fully_bound and claim.selected_node is None):
            return
        self._provisioners.charges.claim(claim.uid, claim)
        if claim.selected_node is not None:
            volume = self._index.reserved_under(key)
            if volume is not None:
                self._provisioners.charges.volume(volume, claim)

    def _claimant(self, volume: Volume) -> Claim | None:
        """The very claim a volume belongs to."""
        reference = volume.spec.claim_ref
        claim = None if reference is None else self._claims.get(f"{reference.namespace}/{reference.name}")
        return claim if claim is not None and reference is not None and claim.uid == reference.uid else None

    def _attached(self, attachment: VolumeAttachment) -> Identity | None:
        volume = self._volumes.get(attachment.spec.source.persistent_volume_name)
        identity = None if volume is None else identity_of(volume)
        return None if identity is None else Identity(attachment.spec.attacher, identity.handle)

    def _reindex(self, name: str) -> str:
        volume = self._volumes.get(name)
        if volume is not None:
            return self._index.put(volume)
        self._index.remove(name)
        return ""


def _claimants(*volumes: Volume | None) -> set[str]:
    """The keys of the claims that volumes were or are given to."""
    references = [volume.spec.claim_ref for volume in volumes if volume is not None]
    return {f"{reference.namespace}/{reference.name}" for reference in references if reference is not None}


def _key(before: ApiObject | None, after: ApiObject | None) -> str:
    thing = before if after is None else after
    assert thing is not None, "a change has a before or an after"
    return thing.key
