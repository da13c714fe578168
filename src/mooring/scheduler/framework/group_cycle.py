"""The scheduling cycle of a group: all members and their volumes, one decision. Pure.

Members run through the same filters and scores as single pods, on the snapshot with their siblings assumed; a group
without late claims gets kube-scheduler's result. The decision is taken in slices (`step`). What it has chosen so far
stays assumed between them, so other pods are decided beside it. Queueing and writing are the component's and the
binder's.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from mooring.api import well_known
from mooring.api.pod_requirements import CPU, MEMORY, PODS, Requests, host_ports
from mooring.api.selectors import SelectorError
from mooring.api.views.pods import Pod
from mooring.scheduler.framework.cycle import (
    NO_NOMINATED_PODS,
    NO_PROVISIONING_FAILURES,
    Profile,
    choose_node,
    filter_nodes,
)
from mooring.scheduler.framework.interface import CycleState, Decision, RejectionCode, ResourceFilter
from mooring.scheduler.preemption.nominator import Nominator
from mooring.scheduler.snapshot.pod_terms import terms_of
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.binding import BindingPlan
from mooring.volumes.group.bounds import MemberFit
from mooring.volumes.group.members import GroupMember, MemberKind, group_problem
from mooring.volumes.group.outcome import DOMAINS_DIFFER, GroupPlan, GroupRefusal, MemberPlan, RefusalCode
from mooring.volumes.group.reservations import Examined
from mooring.volumes.group.search import SLICE_LOOKS, GroupDomain, GroupSearch
from mooring.volumes.group.supply import MANY, Counts
from mooring.volumes.topology import EMPTY, NodeSet, mask_of, union

#: Rejections that siblings on nodes can end: they say nothing about how many members fit.
_ENDED_BY_SIBLINGS: Final = frozenset({RejectionCode.POD_AFFINITY, RejectionCode.SPREADING})
#: Rejections that depend on which volume a shared claim gets.
_OF_SHARED_VOLUME: Final = frozenset({RejectionCode.VOLUME_LIMIT})

#: Names of bounds beside those of resources.
PORTS: Final = "host ports"
APART: Final = "pod anti-affinity"

#: By uid of a pod and by node, how often provisioning failed.
ProvisioningFailures = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class GroupInput:
    """A group as the queue has it."""

    #: In kube-scheduler's order, without members that are gated, terminating or assumed.
    members: Sequence[Pod]
    #: 1 for a group with the basic policy.
    min_count: int
    #: The nodes of members that are bound or assumed, one entry for each member.
    placed: Sequence[str] = ()
    #: The label of the topology constraint; "" without constraint.
    topology_key: str = ""
    provisioning_failures: ProvisioningFailures = field(default_factory=dict)
    #: By uid, the only node of members that a record of the group names.
    pinned: Mapping[str, str] = field(default_factory=dict)


class _Filtered(NamedTuple):
    """Where a member was examined: the decision, and the state for scores."""

    decision: Decision
    state: CycleState


class SnapshotPlacements:
    """A profile's plugins on a snapshot, as the search for a group asks them."""

    def __init__(
        self,
        snapshot: Snapshot,
        profile: Profile,
        rng: random.Random,
        *,
        nominator: Nominator = NO_NOMINATED_PODS,
        provisioning_failures: ProvisioningFailures | None = None,
        pinned: Mapping[str, str] | None = None,
    ) -> None:
        self.volumes = snapshot.volumes
        self.topology = snapshot.topology
        self._snapshot = snapshot
        self._profile = profile
        self._rng = rng
        self._nominator = nominator
        self._failures = provisioning_failures or {}
        self._pinned = pinned or {}
        self._requests: dict[MemberKind, Requests | str] = {}
        filters = (one for one in profile.filters if isinstance(one, ResourceFilter))
        self._resource_filter = next(filters, None)
        #: By resource and request, how many such requests nodes have enough for, as of so many changes of resources.
        self._enough_for: dict[tuple[str, int], tuple[int, Counts]] = {}

    def fit_alone(self, member: GroupMember) -> MemberFit:
        """Filters that siblings can satisfy are left out, resources are counted."""
        state = self._state(member)
        filtered = filter_nodes(state, self._profile, self._nominator)
        if filtered.decision.refusals:
            return MemberFit(EMPTY, {}, filtered.decision)
        ignored = _ENDED_BY_SIBLINGS | (_OF_SHARED_VOLUME if member.shared else frozenset())
        rejected = union(
            rejection.nodes
            for result in filtered.decision.filter_results
            for rejection in result.rejections
            if rejection.code not in ignored
        )
        return MemberFit(self._within(member) & ~rejected, self._counts(member.pod, state), filtered.decision)

    def examine(self, member: GroupMember, within: NodeSet) -> Examined:
        state = self._state(member)
        filtered = filter_nodes(state, self._profile, self._nominator)
        return Examined(filtered.nodes & within & self._within(member), _Filtered(filtered.decision, state))

    def choose(self, member: GroupMember, examined: Examined) -> str:
        assert isinstance(examined.detail, _Filtered)
        failures = self._failures.get(member.uid, NO_PROVISIONING_FAILURES)
        node, _ = choose_node(
            examined.detail.state,
            self._profile,
            examined.nodes,
            self._rng,
            nominator=self._nominator,
            provisioning_failures=failures,
        )
        return node

    def binding_plan(self, member: GroupMember, node: str) -> BindingPlan:
        if member.claims.all_bound or self._profile.for_pod(member.pod).reserver is None:
            return BindingPlan(node)
        return self.volumes.plan(member.claims, node)

    def add(self, member: GroupMember, node: str) -> None:
        self._snapshot.assume(member.pod, node)

    def remove(self, member: GroupMember, node: str) -> None:
        self._snapshot.forget(member.pod)

    def _within(self, member: GroupMember) -> NodeSet:
        pinned = self._pinned.get(member.uid)
        return self._snapshot.nodes if pinned is None else self.topology.named(pinned)

    def _state(self, member: GroupMember) -> CycleState:
        state = CycleState(member.pod, self._snapshot)
        if not member.problem:
            # Without claims that it shares: their volume is chosen for all users.
            state.claims = member.claims
        # Members of a kind request the same.
        requests = self._requests.get(member.kind)
        if requests is None:
            requests = self._requests[member.kind] = state.requests
        else:
            state.requests = requests
        return state

    def _counts(self, pod: Pod, state: CycleState) -> dict[str, Counts]:
        """By resource, how many members like this one a node has enough for."""
        counts: dict[str, Counts] = {}
        requests, resources = state.requests, self._resource_filter
        if resources is not None and isinstance(requests, Requests):
            for name in resources.resource_shortfalls(state).resources:
                counts[name] = self._counted(name, max(1 if name == PODS else requests.amounts.get(name, 0), 1))
        once = self._column(1)
        if any(host_ports(pod)):
            counts[PORTS] = once
        if _keeps_apart(pod):
            counts[APART] = once
        return counts

    def _counted(self, resource: str, amount: int) -> Counts:
        """Kinds that request the same have the same array."""
        changes = self._snapshot.resources.changes
        known = self._enough_for.get((resource, amount))
        if known is None or known[0] != changes or len(known[1]) != self.topology.width:
            known = self._enough_for[resource, amount] = changes, self._free(resource) // amount
        return known[1]

    def _free(self, resource: str) -> Counts:
        columns = self._snapshot.resources
        free = np.maximum(columns.allocatable(resource) - columns.requested(resource), 0)
        counts = self._column(0)
        known = min(len(free), len(counts))
        counts[:known] = np.minimum(free[:known], MANY**2)
        return counts

    def _column(self, value: int) -> Counts:
        return np.full(self.topology.width, value, dtype=np.int64)


def _keeps_apart(pod: Pod) -> bool:
    """Whether two pods like this one cannot be on one node."""
    try:
        terms = terms_of(pod).anti_affinity
    except SelectorError:
        return False
    return any(
        term.topology_key == well_known.HOSTNAME and not term.pods.reads_namespaces and term.pods.matches(pod, {})
        for term in terms
    )


class GroupCycle:
    """One decision about one group. `step` until it is true, then read `result`.

    Members are assumed in the snapshot while it is undecided and after a plan; after a refusal nothing is. `undo` gives
    all of it back: when the attempt is abandoned, or the plan cannot be written.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        profile: Profile,
        rng: random.Random,
        given: GroupInput,
        *,
        nominator: Nominator = NO_NOMINATED_PODS,
    ) -> None:
        self._search: GroupSearch | None = None
        self._refusal: GroupRefusal | None = None
        domains = _domains(snapshot, given)
        if isinstance(domains, GroupRefusal):
            self._refusal = domains
            return
        problem = group_problem(
            snapshot.volumes,
            given.members,
            min_count=given.min_count,
            placed=len(given.placed),
            pinned=given.pinned,
        )
        placements = SnapshotPlacements(
            snapshot,
            profile,
            rng,
            nominator=nominator,
            provisioning_failures=given.provisioning_failures,
            pinned=given.pinned,
        )
        self._search = GroupSearch(problem, placements, domains)

    def step(self, limit: int = SLICE_LOOKS) -> bool:
        """Go on for about so many looks; True once `result` is there."""
        return self._search is None or self._search.step(limit)

    @property
    def result(self) -> GroupPlan | GroupRefusal | None:
        """None while it is undecided."""
        return self._refusal if self._search is None else self._search.result

    @property
    def looks(self) -> int:
        return 0 if self._search is None else self._search.looks

    def stale(self) -> tuple[str, ...]:
        """The uids of members whose reservation no longer holds, because an object that it relies on has changed."""
        return () if self._search is None else self._search.stale()

    def undo(self) -> None:
        """Give back all that is reserved. Idempotent."""
        if self._search is not None:
            self._search.undo()

    def replan(self, uid: str, *, avoid: Collection[str] = ()) -> MemberPlan | None:
        """Reserve another node for one member of a plan, all others staying where they are. None if there is none: then
        nothing is reserved for it, and the plan is without it."""
        return None if self._search is None else self._search.replan(uid, avoid)


def run_to_end(cycle: GroupCycle) -> GroupPlan | GroupRefusal:
    """Decide in one piece."""
    while not cycle.step():
        pass
    result = cycle.result
    assert result is not None
    return result


def decision_of(detail: object) -> Decision | None:
    """What rejected a member, by the value that a plan or refusal has for it; None where it was not looked at."""
    if isinstance(detail, _Filtered):
        return detail.decision
    return detail if isinstance(detail, Decision) else None


def _domains(snapshot: Snapshot, given: GroupInput) -> list[GroupDomain] | GroupRefusal:
    """The domains of the topology constraint. Members that are placed already leave only theirs."""
    if not given.topology_key:
        return [GroupDomain("", snapshot.nodes)]
    found = snapshot.topology.by_value(given.topology_key)
    placed = union(map(snapshot.topology.named, given.placed))
    occupied = sorted(value for value, nodes in found.items() if nodes & placed)
    if len(occupied) > 1:
        message = DOMAINS_DIFFER.format(", ".join(occupied))
        return GroupRefusal(RefusalCode.DOMAINS_DIFFER, message, len(given.placed), exact=True)
    return [
        GroupDomain(value, nodes, _allocated_share(snapshot, nodes))
        for value, nodes in sorted(found.items())
        if not occupied or value in occupied
    ]


def _allocated_share(snapshot: Snapshot, nodes: NodeSet) -> float:
    """kube-scheduler's preference among domains, MostAllocated: the group adds the same to each."""
    columns = snapshot.resources
    inside = mask_of(nodes, columns.width)
    shares = [
        _share(columns.requested(name)[inside].sum(), columns.allocatable(name)[inside].sum()) for name in _SCORED
    ]
    return sum(shares) / len(shares)


_SCORED: Final = (CPU, MEMORY)


def _share(requested: float, allocatable: float) -> float:
    return min(float(requested) / float(allocatable), 1.0) if allocatable else 0.0


def rejected_decisions(details: Mapping[str, object]) -> dict[str, Decision]:
    """By uid, the decisions of members that were rejected."""
    found = ((uid, decision_of(detail)) for uid, detail in details.items())
    return {uid: decision for uid, decision in found if decision is not None}
