"""VolumeState: observed volumes, claims, classes, capacity, pods and nodes, with every result a scheduler needs of
them.

Fed with object changes, it gives node sets for all nodes at once and a `BindingPlan` for one node. `assume` and
`restore` are kube-scheduler's: assumed volumes count as taken until the API reports something newer.
"""

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from mooring.api.views.meta import ApiObject, ObjectReference
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, CsiDriver, CsiNode, StorageCapacity, StorageClass, Volume, VolumeAttachment
from mooring.multimap import Multimap
from mooring.volumes.attach_limits import (
    AttachLimits,
    DriverChoice,
    PodClaimUse,
    RequestedVolumes,
    claim_uses,
    exceeds_limits,
    over_limit,
)
from mooring.volumes.binding import (
    HOLD_PREFIX,
    AssumeCache,
    BindingPlan,
    OutOfSync,
    PodClaims,
    Provisioning,
    StaticBinding,
    classify_claims,
)
from mooring.volumes.decider import Decider, Provisioners
from mooring.volumes.in_tree import CsiNodes, VolumeIdentity, disks_with_drivers, driver_of, identity_of
from mooring.volumes.matching import ClaimRequirements, is_reserved_for
from mooring.volumes.scoring import (
    Fit,
    Scores,
    policy_problem,
    preferred_affinity,
    preferred_nodes,
    preferred_nodes_problem,
)
from mooring.volumes.shortage import shortage_text
from mooring.volumes.topology import EMPTY, NodeSet, TopologyIndex, union
from mooring.volumes.usage import DisksInUse
from mooring.volumes.volume_index import SuitedVolumes, VolumeIndex

_Likeness = tuple[str, frozenset[tuple[str, str]]]


class ClaimGroups:
    """Keys of claims by what they have in common."""

    def __init__(self) -> None:
        self._groups: Multimap[_Likeness, str] = Multimap()
        self._likeness: dict[str, _Likeness] = {}

    def observe(self, key: str, now: Claim | None) -> None:
        """A claim came, changed or went."""
        likeness = (
            None if now is None or not now.metadata.labels else (now.namespace, frozenset(now.metadata.labels.items()))
        )
        before = self._likeness.get(key)
        if likeness == before:
            return
        if before is not None:
            del self._likeness[key]
            self._groups.discard(before, key)
        if likeness is not None:
            self._likeness[key] = likeness
            self._groups.add(likeness, key)

    def of(self, key: str) -> Iterator[str]:
        """The others like the claim with this key."""
        likeness = self._likeness.get(key)
        return (other for other in self._groups[likeness] if other != key) if likeness is not None else iter(())


class ConflictReason(enum.StrEnum):
    """Why nodes do not do for a pod's claims: kube-scheduler's texts, in the order it lists them."""

    NODE_AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
    NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
    STORAGE_CAPACITY = "node(s) did not have enough free storage"
    VOLUME_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class VolumeState:
    """Volumes and claims as assumed, classes as observed, indexed for deciding."""

    def __init__(self, topology: TopologyIndex) -> None:
        self._topology = topology
        self._index = VolumeIndex(topology)
        self._volumes: AssumeCache[Volume] = AssumeCache()
        self._claims: AssumeCache[Claim] = AssumeCache()
        self._groups = ClaimGroups()
        #: Classes, drivers and what they report of their capacity; for reading.
        self.provisioners = Provisioners(topology)
        self._csi_nodes = CsiNodes(topology)
        self._decider = Decider(topology, self._index, self.provisioners, self._node_takes)
        #: Volumes that pods have on nodes, by driver; for reading.
        self.limits = AttachLimits(topology, self._used_as, self._attached)
        self._disks = DisksInUse(topology)

    def observe_volume(self, before: Volume | None, after: Volume | None) -> str:
        """A volume came (`before` is None), changed, or went (`after` is None). Answers with what is wrong with it, ""
        in the normal case; such a volume is not given to claims, or an annotation of it is ignored."""
        key = _key(before, after)
        self._volumes.observe(key, after)
        problem = self._reindex(key)
        self.limits.recount(_claim_keys(before, after))
        self.limits.recount_attachments(key)
        if after is None:
            self.provisioners.charges.remove_volume(key)
        else:
            self.provisioners.charges.volume(after, self._claimant(after))
            problem = problem or preferred_nodes_problem(after)
        return problem

    def observe_claim(self, before: Claim | None, after: Claim | None) -> None:
        key = _key(before, after)
        self._claims.observe(key, after)
        self._groups.observe(key, after)
        self.limits.recount((key,))
        if before is not None and (after is None or after.uid != before.uid):
            self.provisioners.charges.claim(before.uid, None)
        self._charge(key)

    def observe_class(self, before: StorageClass | None, after: StorageClass | None) -> str:
        """Answers with what is wrong with an annotation, "" in the normal case; it is ignored then."""
        self.provisioners.observe_class(_key(before, after), after)
        if before is None or after is None:
            self.limits.recount_all()
        return "" if after is None else policy_problem(after)

    def observe_driver(self, before: CsiDriver | None, after: CsiDriver | None) -> None:
        self.provisioners.observe_driver(_key(before, after), after)

    def observe_capacity(self, before: StorageCapacity | None, after: StorageCapacity | None) -> str:
        """Answers with what is wrong with an object, "" in the normal case; such an object offers nothing."""
        return self.provisioners.observe_capacity(_key(before, after), after)

    def observe_csi_node(self, before: CsiNode | None, after: CsiNode | None) -> None:
        name = _key(before, after)
        self._csi_nodes.observe(name, after)
        self.limits.observe_csi_node(name, after)

    def observe_attachment(self, before: VolumeAttachment | None, after: VolumeAttachment | None) -> None:
        self.limits.observe_attachment(_key(before, after), after)

    def add_pod(self, pod: Pod, node: str) -> None:
        """A pod takes its volumes to a node, or was promised to. Each pod is on one node at a time."""
        self.count_pod(pod, node, 1)

    def remove_pod(self, pod: Pod, node: str) -> None:
        """A pod that came to a node is there no more."""
        self.count_pod(pod, node, -1)

    def count_pod(self, pod: Pod, node: str, sign: int) -> None:
        """A pod came to a node (`sign` 1) or left it (-1)."""
        if pod.spec.volumes:
            self.limits.count_pod(node, claim_uses(pod), disks_with_drivers(pod), sign)
            self._disks.count_pod(pod, node, sign)

    def driver_over_limit(self, pod: Pod, node: str) -> str:
        """The driver of which a pod that came to a node has one volume too many there; "" where none is."""
        if not (pod.spec.volumes and self.limits.any):
            return ""
        return self.limits.driver_over_limit(node, claim_uses(pod), disks_with_drivers(pod))

    def volume(self, name: str) -> Volume | None:
        """A volume, as assumed where it is."""
        return self._volumes.get(name)

    def claim(self, key: str) -> Claim | None:
        """A claim by `namespace/name`, as assumed where it is."""
        return self._claims.get(key)

    def storage_class(self, name: str) -> StorageClass | None:
        return self.provisioners.classes.get(name)

    def claims_of(self, pod: Pod) -> PodClaims | str:
        """The pod's claims, or the reason why it cannot be placed anywhere."""
        return classify_claims(pod, self._claims.get, self.provisioners.classes)

    def rejections(self, claims: PodClaims) -> list[tuple[NodeSet, ConflictReason]]:
        """Which nodes cannot have the pod because of its claims, and why; a node may be named more than once."""
        conflicting, missing = self._bound_elsewhere(claims.bound)
        unmatched, short = self._decider.infeasible_nodes(claims)
        said = (
            (conflicting, ConflictReason.NODE_AFFINITY),
            (unmatched, ConflictReason.NO_VOLUME),
            (short, ConflictReason.STORAGE_CAPACITY),
            (missing, ConflictReason.VOLUME_MISSING),
        )
        return [(nodes, reason) for nodes, reason in said if nodes]

    def matches(self, claims: PodClaims, node: str) -> list[tuple[Claim, Volume | None]]:
        """Each claim to be bound, the smallest first, with its volume on this node; None for one to be provisioned."""
        return self._decider.matches(claims, node)

    def plan(self, claims: PodClaims, node: str) -> BindingPlan:
        """What binding takes on a node that `rejections` does not name."""
        return self._decider.plan(claims, node)

    def plans(self, claims: PodClaims, node: str) -> Iterator[BindingPlan]:
        """As `plan`, the best first, with others that use volumes or capacity that other pods may want less."""
        return self._decider.plans(claims, node)

    def reserved_volume(self, needs: ClaimRequirements) -> Volume | None:
        """The volume that is reserved for a claim, or was promised to it; no other will be taken then."""
        return self._index.reserved_for(needs)

    def reaching(self, volume: Volume) -> NodeSet:
        """The nodes that can use a volume."""
        return self._csi_nodes.reaching(volume)

    def suited_volumes(self, needs: ClaimRequirements) -> Iterator[SuitedVolumes]:
        """The free volumes that do for a claim by the nodes that reach them; nodes may repeat."""
        return self._index.suited_volumes(needs)

    def volumes_by_reach(self, needs: ClaimRequirements) -> Iterator[tuple[NodeSet, list[int]]]:
        """The sizes of free volumes that do for a claim in all but size, by the nodes that reach them."""
        return self._index.volumes_by_reach(needs)

    def possible_volume_drivers(self, needs: ClaimRequirements) -> frozenset[str]:
        """The drivers that the volume of an unbound claim may have; "" for a volume without one."""
        return frozenset(source.driver or "" for source in self._decider.sources(needs))

    def provisionable(self, needs: ClaimRequirements) -> NodeSet:
        """The nodes for which a volume could be provisioned beside what is in flight. A claim whose node is selected is
        in flight itself."""
        nodes = self._decider.provisionable(needs).nodes
        if needs.claim.selected_node is not None or self._index.reserved_for(needs) is not None:
            return nodes
        return nodes & ~self.provisioners.insufficient_for_all((needs,), nodes)

    def volume_identity(self, claim: str) -> VolumeIdentity | None:
        """The volume that the claim with this key has, was promised, or will have provisioned for it, as its driver
        knows it; None where no driver does."""
        return self._volume_identity(claim)

    def provisioned_reach(self, storage_class: str, node: str) -> NodeSet:
        """The nodes that would reach a volume provisioned for a node: by the topology keys of the driver there, else by
        the segments that report capacity for it, else all."""
        driver = driver_of(self.provisioners.provisioner(storage_class))
        reach = self._csi_nodes.provisioned_reach(driver, node)
        if reach is not None:
            return reach
        segments = self.provisioners.capacity.segments_at(node)
        found = union(self._topology.matching(one.segment) for one in segments if one.storage_class == storage_class)
        return found or self._topology.all

    def preferred_affinity(self, claims: PodClaims) -> Scores | None:
        """By slot, how much the pod's volumes prefer a node; None if they have no preference. Volumes that are bound,
        reserved or promised to its claims count: which of the free ones it takes depends on the node."""
        bound = (self._volumes.get(claim.spec.volume_name) for claim in claims.bound)
        reserved = (self._index.reserved_for(needs) for needs in claims.unbound)
        volumes = [volume for volume in (*bound, *reserved) if volume is not None and preferred_nodes(volume)]
        return preferred_affinity(volumes, self._topology) if volumes else None

    def nodes_using(self, claim: str) -> NodeSet:
        """The nodes with pods that use the claim with this key."""
        return union(map(self._topology.named, self.limits.nodes_using(claim)))

    def fits(self, claims: PodClaims, *, as_reported: bool = False) -> list[Fit]:
        """For each unbound claim, going up in size, about what it would get on every node: for comparing nodes.
        `as_reported` leaves what is in flight out of the free capacity."""
        return self._decider.fits(claims, as_reported=as_reported)

    def group_volumes_per_domain(self, claim: Claim, domains: Mapping[str, NodeSet]) -> Counter[str]:
        """How many volumes of claims like this one are, or are being made, in which of these domains of nodes; those
        that are not in one alone do not count."""
        counted: Counter[str] = Counter()
        for key in self._groups.of(claim.key):
            nodes = self._accessible_nodes(key)
            counted.update(name for name, domain in domains.items() if nodes & domain and not nodes & ~domain)
        return counted

    def over_limit(self, pod: Pod, claims: PodClaims | None) -> NodeSet:
        """The nodes that would have more volumes of a driver than they take, counting those the pod would be given.
        Without `claims`, where they could not be sorted, only what the pod has by now counts."""
        if not self.limits.any:
            return EMPTY
        requested = self._requested_volumes(pod, claims)

        def choices(nodes: NodeSet) -> Iterator[DriverChoice]:
            if claims is not None:
                for way in self._decider.ways(claims):
                    yield DriverChoice(self._decider.serving(way, claims, nodes), way.drivers)

        return over_limit(requested, self.limits, self._topology, choices)

    def nodes_with_pod_volumes(self, pod: Pod, claims: PodClaims | None) -> NodeSet:
        """The nodes that have volumes of the pod which count against limits; `claims` as for `over_limit`."""
        if not self.limits.any:
            return EMPTY
        known = self._requested_volumes(pod, claims).known
        return union(self._topology.named(name) for volume in known for name in self.limits.nodes_with(volume))

    def missing_drivers(self, pod: Pod, claims: PodClaims | None) -> list[tuple[NodeSet, str]]:
        """Drivers that the pod's volumes need wherever it goes and that want this looked at, with the nodes that lack
        them; `claims` as for `over_limit`."""
        drivers = [one for one in self._requested_volumes(pod, claims).drivers if self.provisioners.is_required(one)]
        return [(self._topology.all & ~self._csi_nodes.having(driver), driver) for driver in drivers]

    def possible_drivers(self, pod: Pod, claims: PodClaims | None) -> frozenset[str]:
        """The drivers that the pod's volumes have or may come to have; `claims` as for `over_limit`."""
        requested = self._requested_volumes(pod, claims)
        return frozenset(one.driver for one in requested.known).union(*requested.further) - {""}

    def classes_with_more_capacity(self) -> frozenset[str]:
        """The classes for whose volumes there is more capacity somewhere than when this was last asked."""
        self.provisioners.charges.refresh()
        return self.provisioners.capacity.take_grown_classes()

    def free_storage(self) -> dict[str, int]:
        """By capacity object, the bytes that are counted as free beside all that is in flight."""
        self.provisioners.charges.refresh()
        return {segment.key: segment.unused for segment in self.provisioners.capacity.segments()}

    def assumed_nodes(self) -> dict[str, str]:
        """By claim, the node for which a volume was promised to it and that is not written yet."""
        return {claim.key: claim.selected_node or "" for claim in self._claims.promised()}

    def capacity_shortage(self, claims: PodClaims) -> str:
        """What the claims ask for and what there is, where free storage is looked at; "" where it is not."""
        return shortage_text((*claims.unbound, *claims.provisioning), self.provisioners)

    def in_use(self, claim: str) -> bool:
        """Whether a pod on a node that is there uses the claim with this key."""
        known = self._claims.get(claim)
        owner = None if known is None else known.controller
        return self.limits.in_use(claim, "" if owner is None else owner.uid)

    def disk_conflicts(self, pod: Pod) -> NodeSet:
        """The nodes on which a disk that the pod names itself is in use in a way that excludes it."""
        return self._disks.conflicting(pod)

    def assume(self, plan: BindingPlan) -> BindingPlan:
        """Promise the plan's volumes to its claims; later answers count them as taken.

        The plan that comes back holds volumes and claims as they will read once written, and is what `restore`
        takes. OutOfSync when something has changed since the plan was made; nothing is promised then.
        """
        bindings: list[StaticBinding] = []
        provisionings: list[Provisioning] = []
        try:
            for binding in plan.static:
                bindings.append(self._assume_static(binding))  # noqa: PERF401  read when a later one raises
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
        self.limits.recount(binding.claim.key for binding in plan.static)

    def set_aside(self, plans: Iterable[BindingPlan]) -> Callable[[], None]:
        """Count what these plans were promised, or have held by now, as free until the returned function is called.
        What belongs to a claim for good stays. For decisions that ask whether giving it up would help."""
        charges, steps, names = self.provisioners.charges, list[Callable[[], None]](), list[str]()
        charges.refresh()
        capacity = self.provisioners.capacity
        grown = capacity.take_grown_classes()
        for plan in plans:
            for binding in plan.static:
                name = binding.volume.name
                volume = self._volumes.observed(name)
                reference = None if volume is None else volume.spec.claim_ref
                if volume is not None and (reference is None or _is_hold(reference, binding.claim.uid)):
                    free = msgspec.structs.replace(volume, spec=msgspec.structs.replace(volume.spec, claim_ref=None))
                    steps.append(self._volumes.set_aside(name, free))
                    names.append(name)
            steps += [charges.set_aside(provisioning.claim.uid) for provisioning in plan.provision]
        for name in names:
            self._reindex(name)

        def put_back() -> None:
            for step in reversed(steps):
                step()
            for name in names:
                self._reindex(name)
            # Nothing has become free in truth.
            capacity.take_grown_classes()
            capacity.note_grown(grown)

        return put_back

    def is_unused(self, binding: StaticBinding) -> bool:
        """Whether the claim was bound to another volume than the one it was promised."""
        claim = self._claims.get(binding.claim.key)
        return claim is not None and claim.spec.volume_name not in ("", binding.volume.name)

    def _bound_elsewhere(self, claims: Sequence[Claim]) -> tuple[NodeSet, NodeSet]:
        """The nodes that cannot reach a bound volume, and those stopped by a volume that does not exist. Claims are
        looked at in order, and a node's first problem is its only one."""
        reaching = self._topology.all
        for claim in claims:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                return self._topology.all & ~reaching, reaching
            reaching &= self._csi_nodes.reaching(volume)
        return self._topology.all & ~reaching, EMPTY

    def _accessible_nodes(self, key: str) -> NodeSet:
        """The nodes that reach the volume a claim has or was promised, or the one for which it is being provisioned."""
        claim = self._claims.get(key)
        if claim is None:
            return EMPTY
        name = claim.spec.volume_name
        volume = self._volumes.get(name) if name else self._index.reserved_regardless_of_match(claim)
        return self._topology.named(claim.selected_node or "") if volume is None else self._csi_nodes.reaching(volume)

    def _assume_static(self, binding: StaticBinding) -> StaticBinding:
        claim, volume = binding.claim, binding.volume
        reserved = is_reserved_for(volume, claim)
        reference = volume.spec.claim_ref
        if reserved and reference is not None and reference.uid == claim.uid:
            # Already reserved in full, perhaps by a promise for another pod with this claim. A copy keeps that
            # promise out of this plan's `restore`.
            return StaticBinding(claim, msgspec.structs.replace(volume))
        # A volume the user reserved by name stays the user's: only its uid is filled in.
        promised = volume.assumed_for(claim.reference, by_controller=not reserved)
        self._volumes.assume(promised, instead_of=volume)
        self._reindex(volume.key)
        self.limits.recount((claim.key,))
        return StaticBinding(claim, promised)

    def _requested_volumes(self, pod: Pod, claims: PodClaims | None) -> RequestedVolumes:
        further = {} if claims is None else {needs.claim.key: needs for needs in claims.unbound}
        further = {key: needs for key, needs in further.items() if self._index.reserved_for(needs) is None}
        fixed = [self._used_as(use) for use in claim_uses(pod) if use.claim not in further]
        known = dict.fromkeys([one for one in fixed if one is not None] + list(disks_with_drivers(pod)))
        drivers = (frozenset(source.driver or "" for source in self._decider.sources(one)) for one in further.values())
        return RequestedVolumes(tuple(known), tuple(drivers))

    def _used_as(self, use: PodClaimUse) -> VolumeIdentity | None:
        """The volume that a pod has by its use of a claim."""
        claim = self._claims.get(use.claim) if use.owner else None
        if claim is not None and (claim.controller is None or claim.controller.uid != use.owner):
            return None
        return self._volume_identity(use.claim)

    def _volume_identity(self, key: str) -> VolumeIdentity | None:
        """The volume that a claim has, was promised, or will have provisioned for it; None where no driver knows it."""
        claim = self._claims.get(key)
        if claim is None:
            return None
        name = claim.spec.volume_name
        volume = self._volumes.get(name) if name else self._index.reserved_regardless_of_match(claim)
        return self._planned_identity(claim) if volume is None else identity_of(volume)

    def _planned_identity(self, claim: Claim) -> VolumeIdentity | None:
        driver = driver_of(self.provisioners.provisioner(claim.storage_class))
        return VolumeIdentity(driver, f"to be made for {claim.key}") if driver else None

    def _node_takes(self, claims: PodClaims, matches: Sequence[tuple[Claim, Volume | None]], node: str) -> bool:
        """Whether a node takes all the volumes a pod would have there, given these for its unbound claims."""
        if not self.limits.any:
            return True
        fixed = (
            self._volume_identity(claim.key) for claim in (*claims.bound, *(one.claim for one in claims.provisioning))
        )
        chosen = (self._planned_identity(claim) if volume is None else identity_of(volume) for claim, volume in matches)
        coming = [identity for identity in (*fixed, *chosen) if identity is not None]
        return not exceeds_limits([*coming, *claims.disks], node, self.limits, self._topology)

    def _charge(self, key: str) -> None:
        """Whether the claim's volume is in flight may have changed."""
        claim = self._claims.get(key)
        if claim is None or (claim.fully_bound and claim.selected_node is None):
            return
        self.provisioners.charges.claim(claim.uid, claim)
        if claim.selected_node is not None:
            volume = self._index.reserved_regardless_of_match(claim)
            if volume is not None:
                self.provisioners.charges.volume(volume, claim)

    def _claimant(self, volume: Volume) -> Claim | None:
        """The very claim a volume belongs to."""
        reference = volume.spec.claim_ref
        claim = None if reference is None else self._claims.get(f"{reference.namespace}/{reference.name}")
        return claim if claim is not None and reference is not None and claim.uid == reference.uid else None

    def _attached(self, attachment: VolumeAttachment) -> VolumeIdentity | None:
        volume = self._volumes.get(attachment.spec.source.persistent_volume_name)
        identity = None if volume is None else identity_of(volume)
        return None if identity is None else VolumeIdentity(attachment.spec.attacher, identity.handle)

    def _reindex(self, name: str) -> str:
        volume = self._volumes.get(name)
        if volume is not None:
            return self._index.put(volume)
        self._index.remove(name)
        return ""


def _is_hold(reference: ObjectReference, claim_uid: str) -> bool:
    return not reference.uid and reference.name == f"{HOLD_PREFIX}{claim_uid}"


def _claim_keys(*volumes: Volume | None) -> set[str]:
    """The keys of the claims that volumes were or are given to."""
    references = [volume.spec.claim_ref for volume in volumes if volume is not None]
    return {f"{reference.namespace}/{reference.name}" for reference in references if reference is not None}


def _key(before: ApiObject | None, after: ApiObject | None) -> str:
    thing = before if after is None else after
    assert thing is not None, "a change has a before or an after"
    return thing.key
