"""Decision about a group in slices: bounds first, then an attempt in each domain that they do not rule out.

Every step reserves what it chooses, so the next member sees siblings' volumes, capacity and limits as used, and so
does every pod that is decided between two slices. A plan is therefore right by construction: each member passed its
own filters beside its siblings. What is looked at beyond kube-scheduler's path is counted, never timed, so that the
result is the same on every machine.
"""

from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeVar

from mooring.volumes.binding import BindingPlan
from mooring.volumes.group.attempt import RUN_LOOKS, LookBudget, PlacementAttempt
from mooring.volumes.group.bounds import GroupBounds, MemberFit
from mooring.volumes.group.members import GroupMember, GroupProblem, refresh_shared_claims
from mooring.volumes.group.outcome import (
    CANNOT_BE_SATISFIED,
    NO_PLACEMENTS,
    DomainShortage,
    GroupPlan,
    GroupRefusal,
    MemberPlan,
    RefusalCode,
    SharedClaimPlan,
    quorum_message,
)
from mooring.volumes.group.reservations import Placements, Reservations
from mooring.volumes.group.shared_claims import SharedPlace, SharedPlaces
from mooring.volumes.topology import NodeSet, union

#: Looks in repairs and in further domains before the search ends without a plan.
GROUP_LOOKS: Final = 200_000
#: Looks of one slice: some 20 ms at 5,000 nodes.
SLICE_LOOKS: Final = 12 * RUN_LOOKS
#: What counting how many members of a kind fit costs.
BOUND_LOOKS: Final = SLICE_LOOKS // 2
#: What it costs to count in a domain how many members of a kind fit, or to say why not more do.
DOMAIN_LOOKS: Final = 4
#: How often a plan that an informer invalidated is searched again in slices, before the search is not interrupted.
MAX_SLICED_ROUNDS: Final = 2


_Counted = TypeVar("_Counted")


class GroupDomain(NamedTuple):
    """Nodes among which all members must be."""

    name: str
    nodes: NodeSet
    #: Of domains for as many members, the one with the highest is tried first.
    preference: float = 0.0


class _Scenario(NamedTuple):
    domain: GroupDomain
    places: tuple[SharedPlace, ...]
    #: How many members fit at most.
    bound: int


class _Found(NamedTuple):
    """A plan that is not reserved now."""

    scenario: _Scenario
    plans: dict[GroupMember, BindingPlan]
    rejected: dict[str, object]


@dataclass(slots=True)
class _Round:
    """What one round of a decision goes by."""

    bounds: GroupBounds
    shared: SharedPlaces
    fits: Sequence[MemberFit]
    #: Of the first attempt, which is kube-scheduler's.
    rejected: dict[str, object] = field(default_factory=dict)
    fitted: frozenset[str] = frozenset()


def _paused(counting: Generator[None, None, _Counted]) -> Generator[int, None, _Counted]:
    """Each pause costs what counting members of a kind in a domain does."""
    while True:
        try:
            next(counting)
        except StopIteration as end:
            counted: _Counted = end.value
            return counted
        yield DOMAIN_LOOKS


class GroupSearch:
    """One decision about one group. `step` until it is true, then read `result`; `undo` gives all of it back."""

    def __init__(self, problem: GroupProblem, placements: Placements, domains: Sequence[GroupDomain]) -> None:
        self._problem = problem
        self._at = placements
        self._domains = domains
        self._reserved = Reservations(placements)
        self._budget = LookBudget(GROUP_LOOKS)
        self._rounds = 0
        #: Whether a shared claim or its volume is no longer what this round began with.
        self._changed = False
        self._steps = self._decide()
        #: All looks so far.
        self.looks = 0
        self.result: GroupPlan | GroupRefusal | None = None

    def step(self, limit: int = SLICE_LOOKS) -> bool:
        """Go on for about that number of looks; True once `result` is there."""
        spent = 0
        while self.result is None and (spent < limit or self._rounds > MAX_SLICED_ROUNDS):
            try:
                cost = next(self._steps)
            except StopIteration as end:
                self.result = end.value
                if isinstance(self.result, GroupRefusal):
                    self.undo()
            else:
                spent += cost
                self.looks += cost
        return self.result is not None

    def undo(self) -> None:
        """Give back all that is reserved. Idempotent."""
        self._reserved.undo()

    def stale(self) -> tuple[str, ...]:
        """The uids of members whose reservation no longer holds, because an object that it relies on has changed."""
        return self._reserved.stale()

    def replan(self, uid: str, avoid: Collection[str]) -> MemberPlan | None:
        """Reserve another node for one member of a plan, all others staying where they are; None if there is none."""
        plan, reserved = self.result, self._reserved
        member = next((one for one in self._problem.members if one.uid == uid), None)
        if member is None or not isinstance(plan, GroupPlan):
            return None
        if member in reserved.placed:
            reserved.withdraw(member)
        kept = {other: one for other, one in plan.members.items() if other != uid}
        found: MemberPlan | None = None
        if reserved.refresh(member):
            examined = reserved.examine(member)
            allowed = examined.nodes & ~union(map(self._at.topology.named, avoid))
            if allowed and reserved.reserve_best(member, examined._replace(nodes=allowed)):
                found = MemberPlan(member.pod, reserved.placed[member].promised)
                kept[uid] = found
        self.result = replace(plan, members=kept)
        return found

    def _decide(self) -> Generator[int, None, GroupPlan | GroupRefusal]:
        problem = self._problem
        if problem.placed + len(problem.members) < problem.min_count or not problem.members:
            return self._too_few()
        if not self._domains:
            return GroupRefusal(RefusalCode.NO_DOMAIN, NO_PLACEMENTS, problem.placed, exact=True)
        while True:
            fits: list[MemberFit] = []
            bounds = GroupBounds(problem, self._at.volumes, self._at.topology)
            for kind in problem.kinds:
                fits.append(self._at.fit_alone(kind.example))
                bounds.add(kind, fits[-1])
                yield BOUND_LOOKS
            this = _Round(bounds, SharedPlaces(problem, bounds, self._at.volumes, self._at.topology), fits)
            scenarios = yield from self._scenarios(this)
            if problem.is_late and not any(one.bound >= problem.need for one in scenarios):
                return (yield from self._short(this))
            self._changed = False
            found = yield from self._search(this, scenarios)
            if found and (self._rounds > MAX_SLICED_ROUNDS or not self.stale()):
                # A plan that is stale after a search in one piece is for its caller to reject: no round would end it.
                return self._plan()
            if not found and not (self._changed and self._rounds <= MAX_SLICED_ROUNDS):
                return (yield from self._not_found(this))
            # Something that the plan relies on has changed between slices.
            self.undo()
            self._rounds += 1
            refresh_shared_claims(problem, self._at.volumes)
            for member in problem.members:
                self._reserved.refresh(member)

    def _scenarios(self, this: _Round) -> Generator[int, None, list[_Scenario]]:
        """Domains and places of shared claims, those for the most members first."""
        found: list[_Scenario] = []
        for domain in self._domains:
            counting = this.bounds.count_members(domain.nodes)
            most = yield from _paused(counting)
            for places in this.shared.combinations(domain.nodes):
                bound = min(most, this.shared.most_members(places, domain.nodes)) if self._problem.shared else most
                found.append(_Scenario(domain, places, bound))
                yield 1
        found.sort(key=lambda one: (-one.bound, -one.domain.preference, one.domain.name))
        return found

    def _search(self, this: _Round, scenarios: Sequence[_Scenario]) -> Generator[int, None, bool]:
        """Reserve the plan with the most members, as far as looks allow; False if there is none for the quorum."""
        problem, reserved = self._problem, self._reserved
        best: _Found | None = None
        self._rejected: dict[str, object] = {}
        for number, scenario in enumerate(scenarios):
            enough = problem.need if best is None else len(best.plans) + 1
            if number and (scenario.bound < enough or self._budget.left <= 0):
                break
            if not reserved.begin(scenario.domain.nodes, scenario.places):
                self._changed = True
                continue
            attempt = PlacementAttempt(problem, this.bounds, self._at, reserved, self._budget)
            before = self.looks
            yield from self._attempt(attempt, scenario, problem.need)
            if number:
                self._budget.spend(self.looks - before)
            else:
                this.rejected, this.fitted = attempt.rejected, attempt.fitted
            self._scenario, self._rejected = scenario, attempt.rejected
            if len(reserved.placed) == len(problem.members):
                return True
            if len(reserved.placed) >= enough:
                plans = {member: placed.plan for member, placed in reserved.placed.items()}
                best = _Found(scenario, plans, attempt.rejected)
            for member in [*reserved.placed]:
                reserved.withdraw(member)
                yield 1
            reserved.undo()
        return best is not None and self._reserve_again(best)

    def _attempt(self, attempt: PlacementAttempt, scenario: _Scenario, need: int) -> Generator[int, None, None]:
        whole = yield from attempt.follow_path()
        if whole or not self._problem.is_late:
            return
        # No more than this fit, whatever is moved.
        enough = min(scenario.bound, len(self._problem.members))
        if not (yield from attempt.repair(enough)) and len(self._reserved.placed) < need:
            yield from attempt.retry_scarce_first(need)
            if len(self._reserved.placed) < need:
                yield from attempt.exhaust(need)

    def _reserve_again(self, best: _Found) -> bool:
        self._scenario, self._rejected = best.scenario, best.rejected
        if not self._reserved.begin(best.scenario.domain.nodes, best.scenario.places):
            return False
        for member, plan in best.plans.items():
            self._reserved.reserve(member, plan)
        if len(self._reserved.placed) >= self._problem.need:
            return True
        self._reserved.undo()
        return False

    def _plan(self) -> GroupPlan:
        problem, reserved = self._problem, self._reserved
        for claim in problem.shared:
            reserved.settle_shared(claim)
        in_order = sorted(reserved.placed.items(), key=lambda one: one[0].position)
        members = {member.uid: MemberPlan(member.pod, placed.promised) for member, placed in in_order}
        shared = tuple(
            SharedClaimPlan(
                claim.key,
                tuple(member.uid for member in claim.users if member.uid in members),
                reserved.shared[claim.key].promised,
            )
            for claim in problem.shared
            if claim.key in reserved.shared
        )
        left = [member.uid for member in problem.members if member.uid not in members]
        leftover = {uid: self._rejected.get(uid) for uid in left}
        return GroupPlan(members, shared, self._scenario.domain.name, leftover, tuple(self._notes()), self.looks)

    def _notes(self) -> Iterator[str]:
        """Classes whose reported capacity does not add up: each volume was checked by itself."""
        capacity = self._at.volumes.provisioners.capacity
        told: set[str] = set()
        for plan in (one.plan for one in (*self._reserved.placed.values(), *self._reserved.shared.values())):
            for provisioning in plan.provision:
                name = provisioning.claim.storage_class
                segments = capacity.segments_at(plan.node) if name not in told else ()
                if any(segment.storage_class == name and not segment.additive for segment in segments):
                    told.add(name)
                    yield f"reported capacity of class {name} does not add up: each volume was checked by itself"

    def _too_few(self) -> GroupRefusal:
        problem = self._problem
        remaining = len(problem.members)
        text = CANNOT_BE_SATISFIED.format(problem.min_count, problem.placed, remaining)
        return GroupRefusal(RefusalCode.NOT_ENOUGH_MEMBERS, text, problem.placed, remaining, exact=True)

    def _short(self, this: _Round) -> Generator[int, None, GroupRefusal]:
        """Refused by bounds alone: members that no node takes by themselves are the rejected ones."""
        this.rejected = {
            member.uid: fit.detail
            for kind, fit in zip(self._problem.kinds, this.fits, strict=True)
            if not fit.nodes or kind.example.problem
            for member in kind.members
        }
        certificate = yield from self._certificate(this)
        return self._refusal(this, certificate, max((one.members for one in certificate), default=0))

    def _not_found(self, this: _Round) -> Generator[int, None, GroupRefusal]:
        certificate = yield from self._certificate(this)
        return self._refusal(this, certificate, len(this.fitted))

    def _refusal(self, this: _Round, certificate: tuple[DomainShortage, ...], fits: int) -> GroupRefusal:
        problem = self._problem
        exact = all(one.members < problem.need for one in certificate)
        scheduled = problem.placed + min(fits, problem.need - 1)
        message, remaining = quorum_message(problem.min_count, scheduled)
        return GroupRefusal(
            RefusalCode.SHORT if exact else RefusalCode.NOT_FOUND,
            message,
            scheduled,
            remaining,
            exact=exact,
            looks=self.looks,
            certificate=certificate,
            rejected=this.rejected,
            fitted=this.fitted,
        )

    def _certificate(self, this: _Round) -> Generator[int, None, tuple[DomainShortage, ...]]:
        need, shared = self._problem.need, this.shared
        found: list[DomainShortage] = []
        for domain in self._domains:
            shortage = yield from _paused(this.bounds.shortage(domain.nodes, domain.name, need))
            if self._problem.shared:
                more = tuple(shared.shortages(domain.nodes, need))
                members = min(shortage.members, shared.upper_bound(domain.nodes))
                shortage = shortage._replace(members=members, shortages=(*more, *shortage.shortages))
            found.append(shortage)
        return tuple(found)
