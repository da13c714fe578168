"""All the decider knows of volumes, claims and classes, and what it has promised: the face of this library.

A scheduler feeds it with changes, shares its `TopologyIndex`, and asks in this order:

    claims_of(pod) ──► rejections(claims), for all nodes ──► plan(claims, node) ──► assume(plan) ──► restore(plan)?

Every answer takes earlier promises into account. It writes nothing: carrying a plan out is the binder's work.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from mooring.api import keys, node_selector
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.volumes.affinity import affinity
from mooring.volumes.assume import AssumeCache, OutOfSync
from mooring.volumes.matching import Needs, points_to
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.plan import BindingPlan, Provisioning, StaticBinding
from mooring.volumes.pod_claims import PodClaims, sort_claims
from mooring.volumes.topology import TopologyIndex
from mooring.volumes.volume_index import VolumeIndex

__all__ = ["AFFINITY_CONFLICT", "NOTHING_TO_BIND", "NOT_PROVISIONED", "VOLUME_MISSING", "PodClaims", "VolumeState"]

# kube-scheduler's texts, in the order it lists them.
AFFINITY_CONFLICT: Final = "node(s) didn't match PersistentVolume's node affinity"
NOTHING_TO_BIND: Final = "node(s) didn't find available persistent volumes to bind"
VOLUME_MISSING: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
#: Said where kube-scheduler would have a provisioner make the volume.
NOT_PROVISIONED: Final = (
    "node(s) didn't find available persistent volumes to bind and dynamic provisioning is not available yet"
)


class VolumeState:
    """Volumes and claims as assumed, classes as observed, indexed for deciding."""

    def __init__(self, topology: TopologyIndex) -> None:
        self._topology = topology
        self._index = VolumeIndex(topology)
        self._volumes: AssumeCache[Volume] = AssumeCache()
        self._claims: AssumeCache[Claim] = AssumeCache()
        self._classes: dict[str, StorageClass] = {}

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
        if after is None:
            self._classes.pop(_key(before, after), None)
        else:
            self._classes[after.name] = after

    def volume(self, name: str) -> Volume | None:
        """A volume, as assumed where it is."""
        return self._volumes.get(name)

    def claim(self, key: str) -> Claim | None:
        """A claim by `namespace/name`, as assumed where it is."""
        return self._claims.get(key)

    def claims_of(self, pod: Pod) -> PodClaims | str:
        """The pod's claims, or the reason why it cannot be placed anywhere."""
        return sort_claims(pod, self._claims.get, self._classes)

    def rejections(self, claims: PodClaims) -> list[tuple[NodeSet, str]]:
        """Which nodes cannot have the pod because of its claims, and why; a node may be named more than once."""
        conflicting, missing = self._bound_elsewhere(claims.bound)
        unmatched, unprovisioned = self._unserved(claims)
        said = (
            (conflicting, AFFINITY_CONFLICT),
            (unmatched, NOTHING_TO_BIND),
            (unprovisioned, NOT_PROVISIONED),
            (missing, VOLUME_MISSING),
        )
        return [(nodes, reason) for nodes, reason in said if nodes]

    def matches(self, claims: PodClaims, node: str) -> list[tuple[Claim, Volume | None]]:
        """Each claim to be bound, the smallest first, with the volume it gets on this node or None."""
        ascending = sorted(claims.unbound, key=lambda claim: claim.size)
        volumes = self._index.assignment(ascending, node)
        return [(claim.claim, volume) for claim, volume in zip(ascending, volumes, strict=True)]

    def plan(self, claims: PodClaims, node: str) -> BindingPlan:
        """What binding takes on a node that `rejections` does not name."""
        unserved: list[tuple[Claim, Volume | None]] = [(needs.claim, None) for needs in claims.selected]
        bindings: list[StaticBinding] = []
        for claim, volume in unserved + self.matches(claims, node):
            if volume is None:
                raise ValueError(f'no volume for claim "{claim.key}" on node "{node}", which was rejected for that')
            bindings.append(StaticBinding(claim, volume))
        return BindingPlan(node, tuple(bindings))

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
        """The nodes where a claim finds no volume and none would be made for it, and those where one would be."""
        everywhere = self._topology.all
        unmatched, unprovisioned = EMPTY, EMPTY
        lacking: list[tuple[str, NodeSet]] = []
        by_class: dict[str, list[Needs]] = {}
        for needs in claims.selected:
            chosen = self._topology.named(needs.claim.selected_node or "")
            unmatched |= everywhere & ~chosen
            lacking.append((needs.storage_class, chosen))
        for needs in claims.unbound:
            by_class.setdefault(needs.storage_class, []).append(needs)
        for storage_class, alike in by_class.items():
            lacking.append((storage_class, everywhere & ~self._index.feasible(alike)))
        for storage_class, nodes in lacking:
            provisionable = nodes & self._provisionable(storage_class)
            unmatched |= nodes & ~provisionable
            unprovisioned |= provisionable
        return unmatched, unprovisioned & ~unmatched

    def _provisionable(self, name: str) -> NodeSet:
        """The nodes for which the class's provisioner could make a volume."""
        storage_class = self._classes.get(name)
        if storage_class is None or storage_class.provisioner in ("", keys.NO_PROVISIONER):
            return EMPTY
        return self._topology.allowed(node_selector.topologies_from_view(storage_class.allowed_topologies))

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
