"""What the claims of one pod get on each node, and why a claim gets nothing.

Asks the volume library about the pod's claims together, as the scheduler does, and about each claim alone, to find the
claim that fails.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from mooring.api.kinds import STORAGE_CAPACITY, VOLUME
from mooring.api.node_selectors import NodeSelector, topologies_from_view
from mooring.api.views.storage import Claim
from mooring.explain.capacity import CapacityReports
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.results import CapacityReport, ClaimVerdict
from mooring.explain.text import listed_names
from mooring.explain.volume_candidates import Candidates
from mooring.scheduler.plugins.volume_binding import CODES
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.binding import BindingPlan, PodClaims, StaticBinding
from mooring.volumes.in_tree import allowed_topologies
from mooring.volumes.matching import ClaimRequirements
from mooring.volumes.shortage import topology_text
from mooring.volumes.state import ConflictReason
from mooring.volumes.topology import EMPTY, NodeSet, affinity_of

#: Of a class with allowedTopologies.
ALLOWS_ONLY: Final = "allows volumes only in"

#: How many of the nodes are named that a bound volume can be used from.
MAX_LISTED_NODES: Final = 3


class ClaimsExplained:
    """The claims of one pod in one snapshot of these objects."""

    def __init__(self, snapshot: Snapshot, claims: PodClaims, objects: ClusterObjects) -> None:
        self._topology = snapshot.topology
        self._state = snapshot.volumes
        self._claims = claims
        self._volumes = sorted(objects.of(VOLUME), key=lambda volume: volume.name)
        self._reports = CapacityReports(objects.of(STORAGE_CAPACITY), snapshot.volumes.provisioners, objects.changed)
        self._reports_at: dict[tuple[str, frozenset[tuple[str, str]]], tuple[CapacityReport, ...]] = {}
        self._alone = {_claim(only).key: self._state.rejections(only) for only in _one_by_one(claims)}
        self._together: dict[frozenset[str], list[tuple[NodeSet, ConflictReason]]] = {}
        self._considered: dict[str, Candidates] = {}

    def on(self, node: str) -> tuple[ClaimVerdict, ...]:
        """What each claim gets on the node, whatever else speaks against it."""
        if self._claims.none:
            return ()
        here = self._topology.named(node)
        against = {key: reason for key, said in self._alone.items() for nodes, reason in reversed(said) if nodes & here}
        unbound, provisioning = (
            tuple(needs for needs in some if needs.claim.key not in against)
            for some in (self._claims.unbound, self._claims.provisioning)
        )
        alone_served = PodClaims(unbound=unbound, provisioning=provisioning)
        plan = self._plan(alone_served, node, here)
        given = {binding.claim.key: binding.volume.name for binding in plan.static}
        made = {wish.claim.key for wish in plan.provision}
        crowding = {reason for nodes, reason in self._rejections(alone_served) if nodes & here}
        if ConflictReason.STORAGE_CAPACITY in crowding:
            # there is room for each of them, but not for all.
            crowded = {needs.claim.key for needs in self._open_claims if self._reports.looked_at(needs)} & made
            against |= dict.fromkeys(crowded, ConflictReason.STORAGE_CAPACITY)
            made -= crowded
        bound = [self._bound(claim, against.get(claim.key)) for claim in self._claims.bound]
        open_claims = [self._open(needs, node, against, given, made) for needs in self._open_claims]
        return (*bound, *open_claims)

    @property
    def _open_claims(self) -> tuple[ClaimRequirements, ...]:
        return (*self._claims.unbound, *self._claims.provisioning)

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
        reaching = self._topology.all & ~_all_named(self._alone[claim.key])
        nodes = listed_names(sorted(self._topology.names(reaching)), MAX_LISTED_NODES) or "no node matches"
        return replace(verdict, detail=f"can only be used from {topology_text(affinity_of(volume))}: {nodes}")

    def _open(
        self,
        needs: ClaimRequirements,
        node: str,
        against: dict[str, ConflictReason],
        given: dict[str, str],
        made: set[str],
    ) -> ClaimVerdict:
        key, storage_class = needs.claim.key, needs.storage_class
        if key in given:
            return ClaimVerdict(key, "bind", volume=given[key], storage_class=storage_class)
        if key in made:
            driver = self._state.provisioners.provisioner(storage_class) or "its provisioner"
            unknown = f"{driver} reports no capacity, so provisioning may still fail"
            detail = "" if self._reports.looked_at(needs) else unknown
            return ClaimVerdict(key, "provision", storage_class=storage_class, detail=detail)
        if key not in self._considered:
            self._considered[key] = Candidates(needs, self._volumes, self._topology)
        candidates, failed = self._considered[key].on(self._topology.slot(node))
        reason = against.get(key, ConflictReason.NO_VOLUME)
        short = reason is ConflictReason.STORAGE_CAPACITY
        reports = self._reported(needs, self._topology.labels(node)) if short else ()
        why, code = self._why_not_made(needs, node), CODES[reason].value
        return ClaimVerdict(key, "unserved", "", storage_class, reason, code, why, candidates, failed, reports)

    def _why_not_made(self, needs: ClaimRequirements, node: str) -> str:
        """Why no volume can be made for the claim on the node, as far as that is not a matter of room."""
        selected = needs.claim.selected_node
        if selected is not None and selected != node:
            return f"its selected node is {selected}"
        provisioners = self._state.provisioners
        if not provisioners.provisioner(needs.storage_class):
            return f"class {needs.storage_class} has no provisioner: an administrator creates its volumes"
        if not provisioners.allowed(needs.storage_class) & self._topology.named(node):
            topologies = topologies_from_view(allowed_topologies(provisioners.classes[needs.storage_class]))
            return f"class {needs.storage_class} {ALLOWS_ONLY} {topology_text(NodeSelector(topologies.terms))}"
        return ""

    def _reported(self, needs: ClaimRequirements, labels: Mapping[str, str]) -> tuple[CapacityReport, ...]:
        """The same for all nodes with equal labels, but for those that name one node."""
        if not self._reports.looked_at(needs):
            return ()
        place = (needs.claim.key, frozenset(labels.items()))
        if place not in self._reports_at:
            pool = self._state.provisioners.pool
            mine = pool(needs.storage_class)
            together = [each for each in self._open_claims if pool(each.storage_class) == mine]
            self._reports_at[place] = self._reports.for_claim(needs, together, labels)
        return self._reports_at[place]


def _one_by_one(claims: PodClaims) -> list[PodClaims]:
    return [
        *(PodClaims(bound=(claim,)) for claim in claims.bound),
        *(PodClaims(unbound=(needs,)) for needs in claims.unbound),
        *(PodClaims(provisioning=(needs,)) for needs in claims.provisioning),
    ]


def _claim(only: PodClaims) -> Claim:
    return only.bound[0] if only.bound else (*only.unbound, *only.provisioning)[0].claim


def _all_named(reasons: Iterable[tuple[NodeSet, str]]) -> NodeSet:
    named = EMPTY
    for nodes, _ in reasons:
        named |= nodes
    return named
