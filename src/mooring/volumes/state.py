"""All the decider knows of volumes, claims and classes, and what it has promised: the face of this library.

A scheduler feeds it with changes, shares its `TopologyIndex`, and asks in this order:

    claims_of(pod) ──► rejections(claims), for all nodes ──► plan(claims, node) ──► assume(plan) ──► restore(plan)?

Every answer takes earlier promises into account. It writes nothing: carrying a plan out is the binder's work.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod
from mooring.api.views.storage import CsiDriver, StorageCapacity, StorageClass
from mooring.api.views.volume import Volume
from mooring.volumes.affinity import affinity
from mooring.volumes.assume import AssumeCache, OutOfSync
from mooring.volumes.matching import Needs, points_to
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.plan import BindingPlan, Provisioning, StaticBinding
from mooring.volumes.pod_claims import PodClaims, sort_claims
from mooring.volumes.provisioning import NOWHERE, Makeable, Provisioners
from mooring.volumes.topology import TopologyIndex
from mooring.volumes.volume_index import VolumeIndex

__all__ = ["AFFINITY_CONFLICT", "NOTHING_TO_BIND", "NOT_ENOUGH_SPACE", "VOLUME_MISSING", "PodClaims", "VolumeState"]

# kube-scheduler's texts, in the order it lists them.
AFFINITY_CONFLICT: Final = "node(s) didn't match PersistentVolume's node affinity"
NOTHING_TO_BIND: Final = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH_SPACE: Final = "node(s) did not have enough free storage"
VOLUME_MISSING: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class VolumeState:
    """Volumes and claims as assumed, classes as observed, indexed for deciding."""

    def __init__(self, topology: TopologyIndex) -> None:
        self._topology = topology
        self._index = VolumeIndex(topology)
        self._volumes: AssumeCache[Volume] = AssumeCache()
        self._claims: AssumeCache[Claim] = AssumeCache()
        self._provisioners = Provisioners(topology)

    def observe_volume(self, before: Volume | None, after: Volume | None) -> str:
        """A volume came (`before` is None), changed, or went (`after` is None).

        Answers with what is wrong with it, "" in the normal case; such a volume is not given to claims.
        """
        key = _key(before, after)
        self._volumes.observe(key, after)
        return self._reindex(key)

    def observe_claim(self, before: Claim | None, after: Claim | None) -> None:
        self._claims.observe(_key(before, after), after)

    def observe_class(self, before: StorageClass | None, after: StorageClass | None) -> None:
        self._provisioners.observe_class(_key(before, after), after)

    def observe_driver(self, before: CsiDriver | None, after: CsiDriver | None) -> None:
        self._provisioners.observe_driver(_key(before, after), after)

    def observe_capacity(self, before: StorageCapacity | None, after: StorageCapacity | None) -> str:
        """Answers with what is wrong with an object, "" in the normal case; such an object offers nothing."""
        return self._provisioners.observe_capacity(_key(before, after), after)

    def volume(self, name: str) -> Volume | None:
        """A volume, as assumed where it is."""
        return self._volumes.get(name)

    def claim(self, key: str) -> Claim | None:
        """A claim by `namespace/name`, as assumed where it is."""
        return self._claims.get(key)

    def claims_of(self, pod: Pod) -> PodClaims | str:
        """The pod's claims, or the reason why it cannot be placed anywhere."""
        return sort_claims(pod, self._claims.get, self._provisioners.classes)

    def rejections(self, claims: PodClaims) -> list[tuple[NodeSet, str]]:
        """Which nodes cannot have the pod because of its claims, and why; a node may be named more than once."""
        conflicting, missing = self._bound_elsewhere(claims.bound)
        unmatched, short = self._unserved(claims)
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
        ascending = sorted(claims.unbound, key=lambda claim: claim.size)
        slot = self._topology.slot(node)
        needing = [place for place, claim in enumerate(ascending) if not self._makeable(claim).nodes >> slot & 1]
        volumes = self._index.assignment(ascending, node, needing=needing)
        return [(claim.claim, volume) for claim, volume in zip(ascending, volumes, strict=True)]

    def plan(self, claims: PodClaims, node: str) -> BindingPlan:
        """What binding takes on a node that `rejections` does not name."""
        slot = self._topology.slot(node)
        unbound = {claim.claim.key: claim for claim in claims.unbound}
        bindings: list[StaticBinding] = []
        wanting = list(claims.selected)
        for claim, volume in self.matches(claims, node):
            if volume is None:
                wanting.append(unbound[claim.key])
            else:
                bindings.append(StaticBinding(claim, volume))
        for needs in wanting:
            if not self._makeable(needs).nodes >> slot & 1:
                key = needs.claim.key
                raise ValueError(f'no volume for claim "{key}" on node "{node}", which was rejected for that')
        return BindingPlan(node, tuple(bindings), tuple(Provisioning(needs.claim) for needs in wanting))

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

    def _bound_elsewhere(self, claims: Sequence[Claim]) -> tuple[NodeSet, NodeSet]:
        """The nodes that cannot reach a bound volume, and those stopped by a volume that does not exist.

        Claims are looked at in order, and a node's first problem is its only one.
        """
        reaching = self._topology.all
        for claim in claims:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                return self._topology.all & ~reaching, reaching
            reaching &= self._topology.matching(affinity(volume), by_name=False)
        return self._topology.all & ~reaching, EMPTY

    def _unserved(self, claims: PodClaims) -> tuple[NodeSet, NodeSet]:
        """The nodes where a claim finds no volume and nobody would make one, and those where only room is missing."""
        everywhere = self._topology.all
        unmatched, short = EMPTY, EMPTY
        for needs in claims.selected:
            chosen = self._topology.named(needs.claim.selected_node or "")
            makeable = self._makeable(needs)
            unmatched |= everywhere & ~(chosen & makeable.allowed)
            short |= chosen & makeable.allowed & ~makeable.nodes
        by_class: dict[str, list[Needs]] = {}
        for needs in claims.unbound:
            by_class.setdefault(needs.storage_class, []).append(needs)
        for alike in by_class.values():
            unserved, unmakeable = self._unserved_alike(alike)
            unmatched |= unserved & unmakeable
            short |= unserved & ~unmakeable
        return unmatched, short & ~unmatched

    def _unserved_alike(self, claims: Sequence[Needs]) -> tuple[NodeSet, NodeSet]:
        """For claims of one class: the nodes where not each gets a volume, existing or new, and the nodes for which
        it would take more than room to make the missing ones.

        Going down in size, a volume can be made on ever more nodes. So on each node it is the largest few that must
        find one, and there are at most as many cases as claims.
        """
        makeable = {claim.claim.key: self._makeable(claim) for claim in claims}
        descending = sorted(claims, key=lambda claim: (makeable[claim.claim.key].allowed != EMPTY, -claim.size))
        unserved, left = EMPTY, self._topology.all
        unmakeable = EMPTY
        for position, claim in enumerate(descending):
            here = left & makeable[claim.claim.key].nodes
            if here and position:
                unserved |= here & ~self._index.feasible(descending[:position])
            left &= ~here
            unmakeable |= ~makeable[claim.claim.key].allowed
        if left:
            unserved |= left & ~self._index.feasible(descending)
        return unserved, unmakeable

    def _makeable(self, claim: Needs) -> Makeable:
        """A claim for which a volume is reserved waits for that one: whoever binds it would not look at another."""
        return NOWHERE if self._index.reserved_for(claim) is not None else self._provisioners.makeable(claim)

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
        return StaticBinding(claim, promised)

    def _reindex(self, name: str) -> str:
        volume = self._volumes.get(name)
        if volume is not None:
            return self._index.put(volume)
        self._index.remove(name)
        return ""


def _key(before: ApiObject | None, after: ApiObject | None) -> str:
    thing = before if after is None else after
    assert thing is not None, "a change has a before or an after"
    return thing.key
