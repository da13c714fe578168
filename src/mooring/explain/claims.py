"""What the claims of one pod get on each node, and why a claim gets nothing.

Every answer is the volume library's: it is asked about the pod's claims together, as the scheduler asks, and about
each claim alone, to tell the one that fails from those that only suffer with it.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from mooring.api.kinds import STORAGE_CAPACITY, VOLUME
from mooring.api.node_selector import NodeSelector, topologies_from_view
from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.explain.candidates import Candidates
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.rooms import Rooms
from mooring.explain.verdicts import ClaimVerdict, Room
from mooring.scheduler.plugins.volume_binding import CODES
from mooring.scheduler.snapshot import Snapshot
from mooring.volumes.affinity import affinity
from mooring.volumes.matching import Needs
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.plan import BindingPlan, StaticBinding
from mooring.volumes.pod_claims import PodClaims
from mooring.volumes.shortage import where
from mooring.volumes.state import ConflictReason
from mooring.volumes.zone_parameters import allowed_topologies

#: Of a class with allowedTopologies.
ALLOWS_ONLY: Final = "allows volumes only in"

#: How many of the nodes are named that a bound volume can be used from.
NODES_NAMED: Final = 3


class ClaimsExplained:
    """The claims of one pod in one snapshot of these objects."""

    def __init__(self, snapshot: Snapshot, claims: PodClaims, objects: ClusterObjects) -> None:
        self._topology = snapshot.topology
        self._state = snapshot.volumes
        self._claims = claims
        self._volumes = sorted(objects.of(VOLUME), key=lambda volume: volume.name)
        self._rooms = Rooms(objects.of(STORAGE_CAPACITY), snapshot.volumes.provisioners, objects.changed)
        self._rooms_at: dict[tuple[str, frozenset[tuple[str, str]]], tuple[Room, ...]] = {}
        self._alone = {_claim(only).key: self._state.rejections(only) for only in _one_by_one(claims)}
        self._together: dict[frozenset[str], list[tuple[NodeSet, ConflictReason]]] = {}
        self._considered: dict[str, Candidates] = {}

    def on(self, node: str) -> tuple[ClaimVerdict, ...]:
        """What each claim gets on the node, whatever else speaks against it."""
        if self._claims.none:
            return ()
        here = self._topology.named(node)
        against = {key: reason for key, said in self._alone.items() for nodes, reason in reversed(said) if nodes & here}
        alone_served = self._without(against)
        plan = self._plan(alone_served, node, here)
        given = {binding.claim.key: binding.volume.name for binding in plan.static}
        made = {wish.claim.key for wish in plan.provision}
        if any(
            reason is ConflictReason.STORAGE_CAPACITY and nodes & here
            for nodes, reason in self._rejections(alone_served)
        ):
            # SEEN: there is room for each of them, but not for all.
            crowded = {needs.claim.key for needs in self._open_claims if self._rooms.looked_at(needs)} & made
            against |= dict.fromkeys(crowded, ConflictReason.STORAGE_CAPACITY)
            made -= crowded
        bound = [self._bound(claim, against.get(claim.key)) for claim in self._claims.bound]
        open_claims = [self._open(needs, node, against, given, made) for needs in self._open_claims]
        return (*bound, *open_claims)

    def reaching(self, claim: Claim) -> NodeSet:
        """The nodes from which a bound claim's volume can be used."""
        return self._topology.all & ~_all_named(self._alone[claim.key])

    @property
    def bound(self) -> tuple[Claim, ...]:
        return self._claims.bound

    @property
    def _open_claims(self) -> tuple[Needs, ...]:
        return (*self._claims.unbound, *self._claims.selected)

    def _without(self, failing: Collection[str]) -> PodClaims:
        """The open claims that could be served, were it for them alone."""
        return PodClaims(
            unbound=tuple(needs for needs in self._claims.unbound if needs.claim.key not in failing),
            selected=tuple(needs for needs in self._claims.selected if needs.claim.key not in failing),
        )

    def _plan(self, claims: PodClaims, node: str, here: NodeSet) -> BindingPlan:
        """What would be done for these claims on the node; as much of it as possible where not all get something."""
        if not _all_named(self._rejections(claims)) & here:
            return self._state.plan(claims, node)
        matches = self._state.matches(claims, node)
        static = tuple(StaticBinding(claim, volume) for claim, volume in matches if volume is not None)
        plans = [self._state.plan(only, node) for only in _one_by_one(claims)]
        return BindingPlan(node, static, tuple(wish for plan in plans for wish in plan.provision))

    def _rejections(self, claims: PodClaims) -> list[tuple[NodeSet, ConflictReason]]:
        """What is said against nodes for these claims together, asked once for all nodes."""
        which = frozenset(_claim(only).key for only in _one_by_one(claims))
        if which not in self._together:
            self._together[which] = self._state.rejections(claims)
        return self._together[which]

    def _bound(self, claim: Claim, reason: ConflictReason | None) -> ClaimVerdict:
        name = claim.spec.volume_name
        code = CODES[reason].value if reason is not None else ""
        verdict = ClaimVerdict(claim.key, "bound", name, claim.storage_class, reason or "", code)
        volume = self._state.volume(name)
        if not reason or volume is None:
            return verdict
        reaching = sorted(self._topology.names(self.reaching(claim)))
        more = f" and {len(reaching) - NODES_NAMED} more" if len(reaching) > NODES_NAMED else ""
        nodes = f"which {', '.join(reaching[:NODES_NAMED])}{more} can" if reaching else "and there is no such node"
        detail = f"can only be used from {where(affinity(volume))}, {nodes}"
        return msgspec.structs.replace(verdict, detail=detail)

    def _open(
        self, needs: Needs, node: str, against: dict[str, ConflictReason], given: dict[str, str], made: set[str]
    ) -> ClaimVerdict:
        key, storage_class = needs.claim.key, needs.storage_class
        if key in given:
            return ClaimVerdict(key, "bind", volume=given[key], storage_class=storage_class)
        if key in made:
            detail = "" if self._rooms.looked_at(needs) else self._unlooked(storage_class)
            return ClaimVerdict(key, "provision", storage_class=storage_class, detail=detail)
        if key not in self._considered:
            self._considered[key] = Candidates(needs, self._volumes, self._reaching)
        candidates, failed = self._considered[key].on(self._topology.slot(node))
        reason = against.get(key, ConflictReason.NO_VOLUME)
        return ClaimVerdict(
            key,
            "unserved",
            storage_class=storage_class,
            reason=reason,
            code=CODES[reason].value,
            detail=self._why_not_made(needs, node),
            candidates=candidates,
            failed=failed,
            rooms=self._reported(needs, self._topology.labels(node))
            if reason is ConflictReason.STORAGE_CAPACITY
            else (),
        )

    def _unlooked(self, storage_class: str) -> str:
        driver = self._state.provisioners.provisioner(storage_class) or "its provisioner"
        return f"{driver} reports no capacity: whether there is room shows when it is made"

    def _why_not_made(self, needs: Needs, node: str) -> str:
        """Why no volume can be made for the claim on the node, as far as that is not a matter of room."""
        selected = needs.claim.selected_node
        if selected is not None and selected != node:
            return f"its volume is to be made for {selected}"
        provisioners = self._state.provisioners
        if not provisioners.provisioner(needs.storage_class):
            return f"class {needs.storage_class} has no provisioner: its volumes are made by hand"
        if not provisioners.allowed(needs.storage_class) & self._topology.named(node):
            topologies = topologies_from_view(allowed_topologies(provisioners.classes[needs.storage_class]))
            return f"class {needs.storage_class} {ALLOWS_ONLY} {where(NodeSelector(topologies.terms))}"
        return ""

    def _reported(self, needs: Needs, labels: Mapping[str, str]) -> tuple[Room, ...]:
        """The same for all nodes with equal labels, but for those that name one node."""
        if not self._rooms.looked_at(needs):
            return ()
        place = (needs.claim.key, frozenset(labels.items()))
        if place not in self._rooms_at:
            pool = self._state.provisioners.pool
            mine = pool(needs.storage_class)
            together = [each for each in self._open_claims if pool(each.storage_class) == mine]
            self._rooms_at[place] = self._rooms.for_claim(needs, together, labels)
        return self._rooms_at[place]

    def _reaching(self, volume: Volume) -> NodeSet:
        return self._topology.matching(affinity(volume))


def _one_by_one(claims: PodClaims) -> list[PodClaims]:
    return [
        *(PodClaims(bound=(claim,)) for claim in claims.bound),
        *(PodClaims(unbound=(needs,)) for needs in claims.unbound),
        *(PodClaims(selected=(needs,)) for needs in claims.selected),
    ]


def _claim(only: PodClaims) -> Claim:
    return only.bound[0] if only.bound else (*only.unbound, *only.selected)[0].claim


def _all_named(said: Iterable[tuple[NodeSet, str]]) -> NodeSet:
    named = EMPTY
    for nodes, _ in said:
        named |= nodes
    return named
