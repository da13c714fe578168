"""One attempt to place a group: kube-scheduler's path, chains of moves for members that are left, every choice of
nodes for small groups.

The path takes members in order, each on its best node. A member that finds none has siblings moved for it: one is
withdrawn, the member takes its place, and the sibling goes elsewhere or has another moved in turn. Where that is not
enough, a second path begins with the members that have the fewest nodes and leaves volumes of wide reach for others.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Final

from mooring.api import quantity
from mooring.volumes.binding import BindingPlan
from mooring.volumes.group.bounds import GroupBounds
from mooring.volumes.group.members import GroupMember, GroupProblem
from mooring.volumes.group.reservations import Examined, Placements, Reservations
from mooring.volumes.topology import mask_of, slots_of

#: What one run of a member's filters over all nodes counts: it takes as long as so many looks at one place.
RUN_LOOKS: Final = 20

#: Members that one chain moves at most, siblings that are tried at each of its steps, and plans for the member that
#: takes the place of one.
MAX_CHAIN: Final = 3
MAX_MOVED_SIBLINGS: Final = 64
MAX_PLANS: Final = 4
#: Members up to which every choice of nodes is tried in the end.
MAX_EXHAUSTIVE_MEMBERS: Final = 12

#: Yields what each step costs in looks.
Steps = Generator[int, None, bool]


class LookBudget:
    """How many more looks are taken beyond kube-scheduler's path."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def spend(self, looks: int) -> int:
        self.left -= looks
        return looks


class PlacementAttempt:
    """Places members on reserved volumes of shared claims, in one domain."""

    def __init__(
        self,
        problem: GroupProblem,
        bounds: GroupBounds,
        placements: Placements,
        reservations: Reservations,
        budget: LookBudget,
    ) -> None:
        self._problem = problem
        self._bounds = bounds
        self._at = placements
        self._reserved = reservations
        self._budget = budget
        #: By uid, what rejected members on kube-scheduler's path, and the members that it found nodes for.
        self.rejected: dict[str, object] = {}
        self.fitted: frozenset[str] = frozenset()

    def follow_path(self) -> Steps:
        """kube-scheduler's path. True if all members have a node."""
        problem, placed = self._problem, self._reserved.placed
        failed: dict[int, object] = {}
        for position, member in enumerate(problem.members):
            left = len(problem.members) - position
            if not problem.is_late and problem.placed + len(placed) + left < problem.min_count:
                break
            if member.kind.position in failed and not self._has_terms(member):
                # Siblings only take: what rejected the first of a kind rejects the others.
                self.rejected[member.uid] = failed[member.kind.position]
                continue
            examined = self._reserved.examine(member)
            if not (examined.nodes and self._reserved.reserve_best(member, examined)):
                self.rejected[member.uid] = failed[member.kind.position] = examined.detail
            yield RUN_LOOKS
        self.fitted = frozenset(member.uid for member in placed)
        return len(placed) == len(problem.members)

    def repair(self, enough: int) -> Steps:
        """Move siblings for members that are left, until so many are placed."""
        placed = self._reserved.placed
        hopeless: set[int] = set()
        for member in self._problem.members:
            if len(placed) >= enough or self._budget.left <= 0:
                break
            if member in placed or member.problem or member.kind.position in hopeless:
                continue
            found = yield from self._place_by_moves(member)
            if not found and not self._has_terms(member):
                hopeless.add(member.kind.position)
        return len(placed) >= enough

    def retry_scarce_first(self, enough: int) -> Steps:
        """Members with the fewest nodes first, each on the node and with the volumes that others want least."""
        for member in [*self._reserved.placed]:
            self._reserved.withdraw(member)
        for member in self._scarce_first():
            if self._budget.left <= 0:
                return False
            examined = self._reserved.examine(member)
            yield self._budget.spend(RUN_LOOKS)
            if examined.nodes:
                plans = list(self._plans(member, self._least_contested(member, examined)))
                if not any(self._reserved.reserve(member, plan) for plan in [*plans[1:2], *plans]):
                    continue
        return (yield from self.repair(enough))

    def exhaust(self, need: int) -> Steps:
        """Try every choice of nodes for a small group."""
        if len(self._problem.members) > MAX_EXHAUSTIVE_MEMBERS:
            return False
        for member in [*self._reserved.placed]:
            self._reserved.withdraw(member)
        return (yield from self._choose_nodes(self._scarce_first(), 0, need))

    def _place_by_moves(self, member: GroupMember) -> Steps:
        examined = self._reserved.examine(member)
        yield self._budget.spend(RUN_LOOKS)
        if examined.nodes and self._reserved.reserve_best(member, examined):
            return True
        for depth in range(1, MAX_CHAIN + 1):
            if (yield from self._move_siblings(member, depth, frozenset({member}))):
                return True
        return False

    def _move_siblings(self, member: GroupMember, depth: int, barred: frozenset[GroupMember]) -> Steps:
        """Place a member by withdrawing a sibling, which then finds a node itself or by `depth` - 1 further moves."""
        reserved = self._reserved
        for sibling in self._movable(member, barred):
            if self._budget.left <= 0:
                return False
            before = reserved.withdraw(sibling)
            examined = reserved.examine(member)
            yield self._budget.spend(RUN_LOOKS)
            for plan in self._few_plans(member, examined):
                if not reserved.reserve(member, plan):
                    continue
                elsewhere = reserved.examine(sibling)
                yield self._budget.spend(RUN_LOOKS)
                if elsewhere.nodes and reserved.reserve_best(sibling, elsewhere):
                    return True
                if depth > 1 and (yield from self._move_siblings(sibling, depth - 1, barred | {sibling})):
                    return True
                reserved.withdraw(member)
            if not reserved.reserve(sibling, before):
                # Its objects have changed meanwhile: it is left over, unless it finds another node.
                examined = reserved.examine(sibling)
                if examined.nodes:
                    reserved.reserve_best(sibling, examined)
        return False

    def _movable(self, member: GroupMember, barred: frozenset[GroupMember]) -> list[GroupMember]:
        """Siblings that may be in the way: on a node that the member could have, or with volumes like its own."""
        nodes = self._bounds.nodes(member.kind)
        classes = {needs.storage_class for needs in member.claims.unbound}
        found: dict[object, GroupMember] = {}
        for sibling, reserved in self._reserved.placed.items():
            if sibling in barred:
                continue
            near = nodes & self._at.topology.named(reserved.plan.node)
            rival = any(needs.storage_class in classes for needs in sibling.claims.unbound)
            if near or rival:
                # Of one kind on one node, one is enough, unless volumes tell them apart.
                volumes = tuple(binding.volume.name for binding in reserved.plan.static)
                found.setdefault((sibling.kind.position, reserved.plan.node, volumes), sibling)
        ordered = sorted(found.values(), key=lambda one: (one.kind is member.kind, one.position))
        return ordered[:MAX_MOVED_SIBLINGS]

    def _few_plans(self, member: GroupMember, examined: Examined) -> Iterator[BindingPlan]:
        """Plans on the best node and on the one that others want least."""
        if not examined.nodes:
            return
        nodes = dict.fromkeys((self._at.choose(member, examined), self._least_contested(member, examined)))
        plans: list[BindingPlan] = []
        for node in nodes:
            for plan in self._plans(member, node):
                if plan not in plans and len(plans) < MAX_PLANS:
                    plans.append(plan)
        yield from plans

    def _plans(self, member: GroupMember, node: str) -> Iterator[BindingPlan]:
        yield self._at.binding_plan(member, node)
        if member.claims.unbound:
            yield from self._at.volumes.plans(member.claims, node)

    def _least_contested(self, member: GroupMember, examined: Examined) -> str:
        """The node that the fewest other members could have."""
        others = {
            slot: sum(
                min(int(self._bounds.caps(kind)[slot]), len(kind.members))
                for kind in self._problem.kinds
                if kind is not member.kind
            )
            for slot in slots_of(examined.nodes)
        }
        own = self._bounds.caps(member.kind)
        return self._at.topology.name(min(others, key=lambda slot: (others[slot], int(own[slot]), slot)))

    def _scarce_first(self) -> list[GroupMember]:
        width = self._at.topology.width

        def scarcity(member: GroupMember) -> tuple[int, int, int, int]:
            caps = self._bounds.caps(member.kind)[mask_of(self._bounds.nodes(member.kind), width)]
            size = sum(quantity.to_bytes(needs.claim.request) for needs in member.claims.unbound)
            return int((caps > 0).sum()), -size, member.kind.position, member.position

        return sorted((one for one in self._problem.members if not one.problem), key=scarcity)

    def _choose_nodes(self, members: Sequence[GroupMember], position: int, need: int) -> Steps:
        reserved = self._reserved
        if len(reserved.placed) >= need:
            return True
        if len(reserved.placed) + len(members) - position < need or self._budget.left <= 0:
            return False
        member = members[position]
        before = members[position - 1] if position else None
        alike = before is not None and before.kind is member.kind and not self._has_terms(member)
        lowest = 0
        if alike and before is not None:
            # Members of one kind are told apart by nothing: they go up in nodes, and after one without, all are.
            if before not in reserved.placed:
                return (yield from self._choose_nodes(members, position + 1, need))
            lowest = self._at.topology.slot(reserved.placed[before].plan.node)
        examined = reserved.examine(member)
        yield self._budget.spend(RUN_LOOKS)
        for slot in slots_of(examined.nodes >> lowest << lowest):
            tried: list[BindingPlan] = []
            for plan in self._plans(member, self._at.topology.name(slot)):
                if plan in tried:
                    continue
                tried.append(plan)
                yield self._budget.spend(1)
                if reserved.reserve(member, plan):
                    if (yield from self._choose_nodes(members, position + 1, need)):
                        return True
                    reserved.withdraw(member)
                if self._budget.left <= 0:
                    return False
        return (yield from self._choose_nodes(members, position + 1, need))

    def _has_terms(self, member: GroupMember) -> bool:
        """Whether siblings may help a member, by affinity or by spreading, or matter by more than what they take."""
        affinity = member.pod.spec.affinity
        if affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None):
            return True
        return bool(member.pod.spec.topology_spread_constraints)
