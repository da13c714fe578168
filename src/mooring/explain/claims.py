"""What the claims of one pod get on each node, and why a claim gets nothing.

Every answer is the volume library's: it is asked about the pod's claims together, as the scheduler asks, and about
each claim alone, to tell the one that fails from those that only suffer with it.
"""

from collections.abc import Iterable

from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.explain.candidates import Candidates
from mooring.explain.verdicts import ClaimVerdict
from mooring.scheduler.snapshot import Snapshot
from mooring.volumes.affinity import affinity
from mooring.volumes.matching import Needs
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.plan import BindingPlan, StaticBinding
from mooring.volumes.pod_claims import PodClaims
from mooring.volumes.state import NOTHING_TO_BIND


class ClaimsExplained:
    """The claims of one pod in one snapshot; `volumes` are all there are."""

    def __init__(self, snapshot: Snapshot, claims: PodClaims, volumes: Iterable[Volume]) -> None:
        self._topology = snapshot.topology
        self._state = snapshot.volumes
        self._claims = claims
        self._volumes = sorted(volumes, key=lambda volume: volume.name)
        self._alone = {_claim(only).key: self._state.rejections(only) for only in _one_by_one(claims)}
        self._together: dict[frozenset[str], NodeSet] = {}
        self._considered: dict[str, Candidates] = {}

    def on(self, node: str) -> tuple[ClaimVerdict, ...]:
        """What each claim gets on the node, whatever else speaks against it."""
        if self._claims.none:
            return ()
        here = self._topology.named(node)
        against = {key: reason for key, said in self._alone.items() for nodes, reason in reversed(said) if nodes & here}
        plan = self._plan(self._without(against), node, here)
        given = {binding.claim.key: binding.volume.name for binding in plan.static}
        made = {wish.claim.key for wish in plan.provision}
        bound = [_bound(claim, against.get(claim.key, "")) for claim in self._claims.bound]
        open_claims = [
            self._open(needs, self._topology.slot(node), against, given, made)
            for needs in (*self._claims.unbound, *self._claims.selected)
        ]
        return (*bound, *open_claims)

    def _without(self, failing: dict[str, str]) -> PodClaims:
        """The open claims that could be served, were it for them alone."""
        return PodClaims(
            unbound=tuple(needs for needs in self._claims.unbound if needs.claim.key not in failing),
            selected=tuple(needs for needs in self._claims.selected if needs.claim.key not in failing),
        )

    def _plan(self, claims: PodClaims, node: str, here: NodeSet) -> BindingPlan:
        """What would be done for these claims on the node; as much of it as possible where not all get something."""
        which = frozenset(_claim(only).key for only in _one_by_one(claims))
        if which not in self._together:
            self._together[which] = _all_named(self._state.rejections(claims))
        if not self._together[which] & here:
            return self._state.plan(claims, node)
        matches = self._state.matches(claims, node)
        static = tuple(StaticBinding(claim, volume) for claim, volume in matches if volume is not None)
        plans = [self._state.plan(only, node) for only in _one_by_one(claims)]
        return BindingPlan(node, static, tuple(wish for plan in plans for wish in plan.provision))

    def _open(
        self, needs: Needs, slot: int, against: dict[str, str], given: dict[str, str], made: set[str]
    ) -> ClaimVerdict:
        key, storage_class = needs.claim.key, needs.storage_class
        if key in given:
            return ClaimVerdict(key, "bind", volume=given[key], storage_class=storage_class)
        if key in made:
            return ClaimVerdict(key, "provision", storage_class=storage_class)
        if key not in self._considered:
            self._considered[key] = Candidates(needs, self._volumes, self._reaching)
        candidates, failed = self._considered[key].on(slot)
        reason = against.get(key, NOTHING_TO_BIND)
        return ClaimVerdict(key, "unserved", "", storage_class, reason, candidates, failed)

    def _reaching(self, volume: Volume) -> NodeSet:
        return self._topology.matching(affinity(volume))


def _bound(claim: Claim, reason: str) -> ClaimVerdict:
    return ClaimVerdict(claim.key, "bound", claim.spec.volume_name, claim.storage_class, reason)


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
