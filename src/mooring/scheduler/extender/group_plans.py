"""Plans of groups for the verb filter: each member passes only on the node that a joint decision has for it. Pure.

kube-scheduler asks for the members of a group one after the other and does not tell where it puts their siblings. So
the whole group is decided at its first member, and the plan is kept: for PLAN_SECONDS, or until pods, PodGroup or
failed provisioning show otherwise. Nothing is reserved between two calls, so plans of two groups may overlap.

A group that certainly lacks storage is rejected on all nodes, since evictions free none. Everything else that the
decision cannot plan is left to kube-scheduler.
"""

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from mooring.api.views.pod_groups import PodGroup
from mooring.api.views.pods import Pod
from mooring.scheduler.extender.evaluator import FailedProvisioning, Filtered
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.framework.group_cycle import GroupCycle, GroupInput
from mooring.scheduler.groups.members import Group, GroupMembers, GroupState, MemberState
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.group.outcome import (
    DomainShortage,
    GroupPlan,
    GroupRefusal,
    ShortageCode,
    certificate_lines,
)

#: How long a plan is believed.
PLAN_SECONDS: Final = 30.0
#: Slices of all decisions of one call: kube-scheduler waits for the answer.
MAX_STEPS: Final = 60
#: Nodes that are tried for a member whose planned node kube-scheduler rejects.
MAX_CANDIDATES: Final = 8

NOT_PLANNED: Final = "node(s) other than the one planned for this pod of the group"
GROUP_SHORT: Final = "node(s) of a cluster that lacks storage for the group"

#: What no eviction frees.
_STORAGE: Final = frozenset(
    {ShortageCode.VOLUMES, ShortageCode.CAPACITY, ShortageCode.SHARED_CLAIM, ShortageCode.CLAIMS}
)


@dataclass
class KeptPlan:
    """By uid, the node of each member."""

    nodes: Mapping[str, str]
    until: float
    #: Why the group gets no node at all.
    shortage: str = ""
    #: Members that kube-scheduler has asked for in the current attempt.
    answered: set[str] = field(default_factory=set)


class GroupPlans:
    """All groups of the calling schedulers. Decides on one snapshot, and leaves it as it was."""

    def __init__(
        self,
        snapshot: Snapshot,
        failures: FailedProvisioning,
        rng: random.Random,
        *,
        scheduler_names: Iterable[str],
        profile: Profile = DEFAULT,
    ) -> None:
        self._snapshot = snapshot
        self._failures = failures
        self._rng = rng
        self._profile = profile
        self._members = GroupMembers(scheduler_names)
        self._kept: dict[str, KeptPlan] = {}

    def observe_pod(self, before: Pod | None, after: Pod | None) -> None:
        changed = self._members.observe_pod(before, after)
        if changed is None:
            return
        kept = self._kept.get(changed.key)
        goes_by_plan = kept is not None and after is not None and kept.nodes.get(after.uid) == after.spec.node_name
        if not goes_by_plan:
            self._kept.pop(changed.key, None)

    def observe_group(self, before: PodGroup | None, after: PodGroup | None) -> None:
        changed = self._members.observe_group(before, after)
        if changed is not None:
            self._kept.pop(changed.key, None)

    def restrict(self, pod: Pod, verdict: Filtered, now: float) -> Filtered:
        """The verdict on a pod by itself, narrowed to the plan of its group."""
        group = self._members.get(pod.group_key) if pod.group_key else None
        if group is None or not verdict.passing or not _needs_plan(group):
            return verdict
        kept = self._current(group, pod, verdict.passing, now)
        kept.answered.add(pod.uid)
        if kept.shortage:
            return _without(verdict, verdict.passing, kept.shortage)
        node = kept.nodes.get(pod.uid)
        if node is None or node not in verdict.passing:
            return verdict
        others = [name for name in verdict.passing if name != node]
        return _without(verdict, others, NOT_PLANNED)

    def _current(self, group: Group, pod: Pod, allowed: tuple[str, ...], now: float) -> KeptPlan:
        """The kept plan, or a new one where that is over or does not suit the pod."""
        kept = self._kept.get(group.key)
        if kept is not None and pod.uid in kept.answered:
            # kube-scheduler begins another attempt, perhaps because there is storage now.
            kept = None if kept.shortage else replace(kept, answered=set())
        answered: Mapping[str, str] = {}
        if kept is not None and now < kept.until:
            node = kept.nodes.get(pod.uid)
            if node is None or node in allowed:
                self._kept[group.key] = kept
                return kept
            answered = {uid: kept.nodes[uid] for uid in kept.answered if uid in kept.nodes}
        planned = self._kept[group.key] = KeptPlan({}, now + PLAN_SECONDS, answered=set(answered))
        steps = iter(range(MAX_STEPS))
        result = self._decide(group, answered, steps)
        if isinstance(result, GroupRefusal) and not answered:
            planned.shortage = _storage_shortage(result)
        if _node_of(pod, result) not in ("", *allowed):
            # What else rejects the node is known to kube-scheduler only.
            tried = (self._decide(group, {**answered, pod.uid: node}, steps) for node in allowed[:MAX_CANDIDATES])
            result = next((one for one in tried if _node_of(pod, one)), None)
        if isinstance(result, GroupPlan):
            planned.nodes = {uid: member.node for uid, member in result.members.items()}
        return planned

    def _decide(self, group: Group, pinned: Mapping[str, str], steps: Iterator[int]) -> GroupPlan | GroupRefusal | None:
        """The joint decision with these nodes for some members; None if it takes more than the steps that are left."""
        assert group.pod_group is not None
        pods = group.unassigned()
        given = GroupInput(
            pods,
            group.pod_group.min_count,
            [node for _, node in group.nodes()],
            group.pod_group.topology_key,
            {one.uid: failures for one in pods if (failures := self._failures.of(one))},
            pinned,
        )
        cycle = GroupCycle(self._snapshot, self._profile, self._rng, given)
        try:
            return cycle.result if any(cycle.step() for _ in steps) else None
        finally:
            cycle.undo()


def _needs_plan(group: Group) -> bool:
    return (
        group.pod_group is not None
        and group.pod_group.is_gang
        and group.status.state is GroupState.READY
        and any(pod.claim_keys for pod in group.pods(MemberState.PENDING))
    )


def _node_of(pod: Pod, result: GroupPlan | GroupRefusal | None) -> str:
    member = result.members.get(pod.uid) if isinstance(result, GroupPlan) else None
    return "" if member is None else member.node


def _storage_shortage(refusal: GroupRefusal) -> str:
    """Why no eviction can help, as a reason for every node; "" where one might."""
    if refusal.certificate and all(map(_lacks_storage, refusal.certificate)):
        return f"{GROUP_SHORT}: {'; '.join(certificate_lines(refusal))}"
    return ""


def _lacks_storage(domain: DomainShortage) -> bool:
    return any(one.code in _STORAGE and one.members < domain.needed for one in domain.shortages)


def _without(verdict: Filtered, names: Iterable[str], reason: str) -> Filtered:
    """Unresolvable, since an eviction on another node does not change the plan."""
    left = frozenset(names)
    passing = tuple(name for name in verdict.passing if name not in left)
    return verdict._replace(passing=passing, unresolvable={**verdict.unresolvable, **dict.fromkeys(left, reason)})
