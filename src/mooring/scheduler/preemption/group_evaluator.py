"""Preemption for a group: victims without which the whole group has a plan. Pure.

All pods of lower priority are removed from the snapshot and the group is decided once more. Only if that gives a plan
are pods evicted, and only those that members cannot run beside: eviction frees no volumes and no capacity, so a group
that lacks storage evicts no pod. Pods of a group whose `disruptionMode` is `all` stay or leave together.
"""

import enum
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from mooring.api.views.pods import Pod
from mooring.scheduler.framework.cycle import NO_NOMINATED_PODS, Profile, run_filters_with_nominated_pods
from mooring.scheduler.framework.group_cycle import GroupCycle, GroupInput, run_to_end
from mooring.scheduler.framework.interface import CycleState, Filter, PodIndependentFilter, PreFilter
from mooring.scheduler.preemption.evaluator import Ineligible, is_preempted, start_time
from mooring.scheduler.preemption.nominator import DisruptionBudgets, Nominator
from mooring.scheduler.snapshot.snapshot import RemovedPods, Snapshot, pod_info
from mooring.volumes.group import GroupPlan, GroupRefusal
from mooring.volumes.topology import slots_of

#: kube-scheduler's texts.
PREFIX: Final = "pod group preemption: "
FOUND: Final = "found a placement for podgroup, preempting {} victims"


class NoGroupPreemption(enum.StrEnum):
    """Why a group evicts no pods, in kube-scheduler's words."""

    NEVER = Ineligible.NEVER.value
    #: It keeps its nominated nodes.
    ONGOING = "ongoing preemption on nominated nodes"
    NO_VICTIMS = "No preemption victims found for incoming preemptor"


class VictimUnit(NamedTuple):
    """Pods that are evicted together or not at all."""

    pods: tuple[Pod, ...]
    priority: int


class VictimGroup(NamedTuple):
    """The group of a pod that may be evicted."""

    key: str
    #: Counts instead of the pod's.
    priority: int
    #: Whether its `disruptionMode` is `all`.
    as_one: bool


class GroupPreemption(NamedTuple):
    """The pods to evict, the most important first, and by uid the nodes of members once that is done."""

    victims: tuple[Pod, ...]
    nodes: Mapping[str, str]

    @property
    def message(self) -> str:
        return FOUND.format(len(self.victims))


def victim_units(
    snapshot: Snapshot, priority: int, group_of: Callable[[Pod], VictimGroup | None] = lambda _: None
) -> list[VictimUnit]:
    """All pods on nodes that a group of this priority may evict."""
    units: dict[str, list[Pod]] = {}
    priorities: dict[str, int] = {}
    for slot in slots_of(snapshot.nodes):
        for pod in snapshot.pods_on(snapshot.topology.name(slot)):
            group = group_of(pod)
            counted = pod.spec.priority if group is None else group.priority
            if counted < priority:
                key = f"group {group.key}" if group is not None and group.as_one else f"pod {pod.uid or pod.key}"
                units.setdefault(key, []).append(pod)
                priorities[key] = counted
    return [VictimUnit(tuple(pods), priorities[key]) for key, pods in units.items()]


def ineligible_group(
    snapshot: Snapshot, members: Iterable[Pod], priority: int, nominated: Mapping[str, str]
) -> NoGroupPreemption | None:
    """Why the group may not preempt now. `nominated`: by uid, the nodes that members are nominated to."""
    if any(pod.spec.preemption_policy == "Never" for pod in members):
        return NoGroupPreemption.NEVER
    for node in dict.fromkeys(nominated.values()):
        if any(is_preempted(pod) for pod in snapshot.pods_on(node) if pod.spec.priority < priority):
            return NoGroupPreemption.ONGOING
    return None


def preempt_for_group(
    snapshot: Snapshot,
    profile: Profile,
    rng: random.Random,
    given: GroupInput,
    units: Sequence[VictimUnit],
    *,
    nominator: Nominator = NO_NOMINATED_PODS,
    budgets: DisruptionBudgets | None = None,
) -> GroupPreemption | GroupRefusal | NoGroupPreemption:
    """The evictions that let the group run; else the refusal without any of these pods, which eviction does not end,
    or why none was tried. The snapshot is as before when it returns."""
    if not units:
        return NoGroupPreemption.NO_VICTIMS
    with RemovedPods(snapshot, [pod for unit in units for pod in unit.pods]) as removed:
        cycle = GroupCycle(snapshot, profile, rng, given, nominator=nominator)
        try:
            result = run_to_end(cycle)
            if isinstance(result, GroupRefusal):
                return result
            reprieve = _Reprieve(snapshot, profile, result, removed, nominator)
            victims = reprieve.victims(_most_important_first(units, budgets))
            return GroupPreemption(victims, {uid: member.node for uid, member in result.members.items()})
        finally:
            cycle.undo()


def _most_important_first(units: Sequence[VictimUnit], budgets: DisruptionBudgets | None) -> list[VictimUnit]:
    """Those that a disruption budget protects come first: they stay if they can."""
    ordered = sorted(units, key=lambda unit: (-unit.priority, min(start_time(pod) for pod in unit.pods)))
    if budgets is None:
        return ordered
    pods = [pod for unit in ordered for pod in unit.pods]
    overdrawn = {pod.key for pod, over in zip(pods, budgets.overdrawn(pods), strict=True) if over}
    return sorted(ordered, key=lambda unit: not any(pod.key in overdrawn for pod in unit.pods))


class _Reprieve:
    """Puts pods back as long as all members still pass their filters."""

    def __init__(
        self, snapshot: Snapshot, profile: Profile, plan: GroupPlan, removed: RemovedPods, nominator: Nominator
    ) -> None:
        self._snapshot = snapshot
        self._profile = profile
        self._removed = removed
        self._nominator = nominator
        self._members = [(member.pod, member.node) for member in plan.members.values()]
        self._nodes = {node for _, node in self._members}
        self._has_terms = any(_has_terms(pod) for pod, _ in self._members)

    def victims(self, units: Iterable[VictimUnit]) -> tuple[Pod, ...]:
        victims: list[Pod] = []
        for unit in units:
            nodes = {pod.spec.node_name or self._snapshot.node_of(pod) for pod in unit.pods}
            for pod in unit.pods:
                self._removed.put_back(pod)
            if not self._all_pass(unit, nodes):
                for pod in unit.pods:
                    self._removed.take_out(pod)
                victims += unit.pods
        return tuple(victims)

    def _all_pass(self, unit: VictimUnit, nodes: set[str]) -> bool:
        if self._has_terms or any(_has_terms(pod) for pod in unit.pods):
            affected = self._members
        elif nodes.isdisjoint(self._nodes):
            return True
        else:
            affected = [(pod, node) for pod, node in self._members if node in nodes]
        return all(self._passes(pod, node) for pod, node in affected)

    def _passes(self, pod: Pod, node: str) -> bool:
        """Whether a member passes all filters that depend on pods, on the node that it has."""
        snapshot = self._snapshot
        snapshot.forget(pod)
        try:
            state = CycleState(pod, snapshot)
            plugins = self._profile.for_pod(pod)
            # By inheritance: `isinstance` would compare methods, which all filters of pods have.
            filters: list[Filter] = [one for one in plugins.filters if PodIndependentFilter not in type(one).__mro__]
            for plugin in filters:
                if isinstance(plugin, PreFilter) and plugin.prefilter(state) is not None:
                    return False
            there = snapshot.topology.named(node)
            runs = run_filters_with_nominated_pods(state, filters, self._nominator)
            return not any(result.nodes & there for results in runs for result in results)
        finally:
            snapshot.assume(pod, node)


def _has_terms(pod: Pod) -> bool:
    """Whether it matters on other nodes where the pod is."""
    info, _ = pod_info(pod, "", assumed=True)
    return bool(info.terms.affinity or info.terms.anti_affinity or pod.spec.topology_spread_constraints)
