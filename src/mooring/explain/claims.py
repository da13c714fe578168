"""What the claims of one pod get on each node, and why a claim gets nothing.

Every answer is the volume library's: it is asked about the pod's claims together, as the scheduler asks, and about
each claim alone, to tell the one that fails from those that only suffer with it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from mooring.api.quantity import QuantityError
from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.explain.verdicts import Candidate, ClaimVerdict
from mooring.scheduler.snapshot import Snapshot
from mooring.volumes import nodeset
from mooring.volumes.affinity import affinity
from mooring.volumes.matching import Criterion, Needs
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.plan import BindingPlan, StaticBinding
from mooring.volumes.pod_claims import PodClaims
from mooring.volumes.state import NOTHING_TO_BIND

#: How many volumes are named per claim and node; the others are counted.
NAMED: Final = 10

UNREADABLE: Final = "has a size that cannot be understood"
NEEDED_ELSEWHERE: Final = "is needed for another claim of the pod"

#: How far a volume came, in the order criteria are checked.
_REACHED: Final = {criterion: place for place, criterion in enumerate(Criterion)}


class ClaimsExplained:
    """The claims of one pod in one snapshot; `volumes` are all there are."""

    def __init__(self, snapshot: Snapshot, claims: PodClaims, volumes: Iterable[Volume]) -> None:
        self._topology = snapshot.topology
        self._state = snapshot.volumes
        self._claims = claims
        self._volumes = sorted(volumes, key=lambda volume: volume.name)
        self._alone = {_claim(only).key: self._state.rejections(only) for only in _one_by_one(claims)}
        self._together: dict[frozenset[str], NodeSet] = {}
        self._considered: dict[str, _Considered] = {}

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
        served = {binding.claim.key for binding in static}
        plans = [self._state.plan(only, node) for only in _one_by_one(claims) if _claim(only).key not in served]
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
            self._considered[key] = _Considered(needs, self._volumes, self._reaching)
        candidates, failed = self._considered[key].on(slot)
        reason = against.get(key, NOTHING_TO_BIND)
        return ClaimVerdict(key, "unserved", "", storage_class, reason, candidates, failed)

    def _reaching(self, volume: Volume) -> NodeSet:
        return self._topology.matching(affinity(volume), by_name=False)


class _Judged(NamedTuple):
    """A volume that does not do for a claim, whatever the node, or might where it can be reached."""

    volume: str
    criterion: Criterion | None
    reason: str

    @property
    def candidate(self) -> Candidate:
        return Candidate(self.volume, "" if self.criterion is None else self.criterion.name, self.reason)

    @property
    def nearness(self) -> tuple[int, str]:
        return (-len(_REACHED) if self.criterion is None else -_REACHED[self.criterion], self.volume)


class _Considered:
    """All volumes, judged for one claim once for all nodes."""

    def __init__(self, needs: Needs, volumes: Sequence[Volume], reaching: Callable[[Volume], NodeSet]) -> None:
        self._fixed: list[_Judged] = []
        self._placed: list[_Judged] = []
        self._near: defaultdict[int, list[_Judged]] = defaultdict(list)
        for volume in volumes:
            judged = _judged(needs, volume)
            # Access modes are checked after the place, everything else before it.
            if judged.criterion in (None, Criterion.ACCESS_MODES):
                self._placed.append(judged)
                for slot in nodeset.slots(reaching(volume)):
                    self._near[slot].append(judged)
            else:
                self._fixed.append(judged)
        self._fixed.sort(key=lambda judged: judged.nearness)
        self._counted = Counter(judged.candidate.criterion for judged in self._fixed)

    def on(self, slot: int) -> tuple[tuple[Candidate, ...], dict[str, int]]:
        """The volumes that come nearest on that node, and how many fail which criterion."""
        near = self._near.get(slot, [])
        named = [*sorted(near, key=lambda judged: judged.nearness), *self._fixed][:NAMED]
        if len(named) < NAMED:
            reached = {judged.volume for judged in near}
            afar = (judged.volume for judged in self._placed if judged.volume not in reached)
            unreachable = Criterion.AFFINITY
            named += [_Judged(volume, unreachable, unreachable.value) for volume in afar][: NAMED - len(named)]
        failed = self._counted + Counter(judged.candidate.criterion for judged in near)
        failed[Criterion.AFFINITY.name] = len(self._placed) - len(near)
        return tuple(one.candidate for one in named), {name: count for name, count in failed.items() if name and count}


def _judged(needs: Needs, volume: Volume) -> _Judged:
    try:
        criterion = needs.why_not(volume)
    except QuantityError:
        return _Judged(volume.name, Criterion.SIZE, UNREADABLE)
    return _Judged(volume.name, criterion, NEEDED_ELSEWHERE if criterion is None else criterion.value)


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
