"""Members of groups: which pods belong to a PodGroup, and whether the group can be scheduled. Pure.

A group is known by the key of its PodGroup from the first pod that names it, or from the PodGroup itself, whichever is
observed first. Members with scheduling gates do not count, and neither do those that ended or belong to another
scheduler; kube-scheduler keeps the whole group out of its queue for one gated member. Kept by state, so that an event
costs the same in a group of a thousand.
"""

import enum
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mooring.api.views.pod_groups import PodGroup
from mooring.api.views.pods import Pod

#: The preemption policy of pods that name none.
PREEMPT_LOWER_PRIORITY: Final = "PreemptLowerPriority"
#: Pods of other schedulers that a status names.
MAX_NAMED_PODS: Final = 3


class MemberState(enum.Enum):
    """What a pod that names a group counts as."""

    #: To be scheduled here.
    PENDING = "pending"
    #: It has scheduling gates.
    GATED = "gated"
    #: It is to be scheduled by another scheduler.
    FOREIGN = "foreign"
    #: On a node, whichever scheduler bound it.
    PLACED = "placed"
    ENDED = "ended"
    #: Deleted before it was bound.
    TERMINATING = "terminating"


class GroupState(enum.Enum):
    """Whether a group can be scheduled."""

    READY = "Ready"
    #: Pods name a PodGroup that does not exist.
    MISSING = "GroupMissing"
    #: Fewer than minCount members exist.
    WAITING_FOR_MEMBERS = "WaitingForMembers"
    #: No member is to be scheduled.
    IDLE = "Idle"


class GroupStatus(NamedTuple):
    """The state of a group, and the figures behind it."""

    state: GroupState
    #: Members that are pending or on a node.
    members: int = 0
    min_count: int = 0
    gated: int = 0
    ended: int = 0
    #: Keys and schedulerNames of the first pods of other schedulers, and how many there are.
    foreign: tuple[tuple[str, str], ...] = ()
    foreign_count: int = 0

    def __str__(self) -> str:
        if self.state is GroupState.MISSING:
            return "waiting for the PodGroup to be created"
        parts = [f"{self.members} of {self.min_count} members exist"]
        if self.gated:
            parts.append(f"{self.gated} with scheduling gates do not count")
        if self.ended:
            parts.append(f"{self.ended} ended and do not count")
        parts += [f'pod {key} waits for scheduler "{name}"' for key, name in self.foreign]
        if more := self.foreign_count - len(self.foreign):
            parts.append(f"so do {more} more of other schedulers")
        return "; ".join(parts)


@dataclass(eq=False)
class Group:
    """One PodGroup with its pods. Changed by `GroupMembers` only, except the last four fields."""

    key: str
    pod_group: PodGroup | None = None
    by_state: dict[MemberState, dict[str, Pod]] = field(
        default_factory=lambda: {state: dict[str, Pod]() for state in MemberState}
    )
    #: Nodes of pending members that an attempt has assigned and that are not observed there, by pod uid.
    assigned: dict[str, str] = field(default_factory=dict)
    #: Scheduling attempts by pod uid.
    attempts: Counter[str] = field(default_factory=Counter)
    #: By pod uid and node, how often provisioning failed.
    provisioning_failures: dict[str, Counter[str]] = field(default_factory=dict)
    #: The last message that was reported for a member, by pod uid.
    reported: dict[str, str] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        return self.key.partition("/")[2]

    def pods(self, state: MemberState) -> Collection[Pod]:
        return self.by_state[state].values()

    @property
    def status(self) -> GroupStatus:
        pending, placed = self.by_state[MemberState.PENDING], self.by_state[MemberState.PLACED]
        if len(pending) <= len(self.assigned) and all(pod.uid in self.assigned for pod in pending.values()):
            return GroupStatus(GroupState.IDLE)
        if self.pod_group is None:
            return GroupStatus(GroupState.MISSING)
        members, min_count = len(pending) + len(placed), self.pod_group.min_count
        state = GroupState.READY if members >= min_count else GroupState.WAITING_FOR_MEMBERS
        foreign = self.by_state[MemberState.FOREIGN].values()
        named = tuple(
            (pod.key, pod.spec.scheduler_name) for pod, _ in zip(foreign, range(MAX_NAMED_PODS), strict=False)
        )
        gated, ended = (len(self.by_state[state]) for state in (MemberState.GATED, MemberState.ENDED))
        return GroupStatus(state, members, min_count, gated, ended, named, len(foreign))

    def unassigned(self) -> list[Pod]:
        """The members to be scheduled, in kube-scheduler's order: by priority, attempts, age and name."""
        pods = [pod for pod in self.pods(MemberState.PENDING) if pod.uid not in self.assigned]
        return sorted(pods, key=self._order)

    def nodes(self) -> Iterator[tuple[Pod, str]]:
        """Members with a node: bound ones, and those that an attempt has assigned."""
        for pod in self.pods(MemberState.PLACED):
            yield pod, pod.spec.node_name
        for pod in self.pods(MemberState.PENDING):
            if node := self.assigned.get(pod.uid):
                yield pod, node

    def _order(self, pod: Pod) -> tuple[int, int, str, str]:
        created = pod.metadata.creation_timestamp or ""
        return -pod.spec.priority, -self.attempts[pod.uid], created, pod.name


class GroupMembers:
    """All groups by key, kept by the changes of pods and PodGroups. A group without pods and PodGroup is forgotten."""

    def __init__(self, scheduler_names: Iterable[str]) -> None:
        """Pods of other schedulerNames are not members until they are bound."""
        self._names = frozenset(scheduler_names)
        self._groups: dict[str, Group] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, key: str) -> Group | None:
        return self._groups.get(key)

    def all(self) -> Collection[Group]:
        """A live view."""
        return self._groups.values()

    def observe_pod(self, before: Pod | None, after: Pod | None) -> Group | None:
        """The group of the pod, if its members or what they request changed."""
        pod = after or before
        if pod is None or not pod.group_key:
            return None
        group = self._of(pod.group_key)
        state = None if after is None else self.state_of(after)
        known_state, known = self._known(group, pod.key)
        if known_state is not None:
            del group.by_state[known_state][pod.key]
        if after is not None and state is not None:
            group.by_state[state][pod.key] = after
        if known is not None and (after is None or after.uid != known.uid or state is not MemberState.PENDING):
            self._forget_attempts(group, known.uid)
        self._drop_if_empty(group)
        changed = known is None or after is None or known_state is not state or _is_edited(known, after)
        return group if changed else None

    def observe_group(self, before: PodGroup | None, after: PodGroup | None) -> Group | None:
        """The group, if it is to be decided differently from now on."""
        pod_group = after or before
        if pod_group is None:
            return None
        group = self._of(pod_group.key)
        known, group.pod_group = group.pod_group, after
        self._drop_if_empty(group)
        same = known is not None and after is not None and known.uid == after.uid and known.spec == after.spec
        return None if same else group

    def state_of(self, pod: Pod) -> MemberState:
        if pod.finished:
            return MemberState.ENDED
        if pod.spec.node_name:
            return MemberState.PLACED
        if pod.deleting:
            return MemberState.TERMINATING
        if pod.spec.scheduler_name not in self._names:
            return MemberState.FOREIGN
        return MemberState.GATED if pod.spec.scheduling_gates else MemberState.PENDING

    def _of(self, key: str) -> Group:
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key)
        return group

    @staticmethod
    def _known(group: Group, key: str) -> tuple[MemberState | None, Pod | None]:
        for state, pods in group.by_state.items():
            if key in pods:
                return state, pods[key]
        return None, None

    @staticmethod
    def _forget_attempts(group: Group, uid: str) -> None:
        group.assigned.pop(uid, None)
        group.attempts.pop(uid, None)
        group.provisioning_failures.pop(uid, None)
        group.reported.pop(uid, None)

    def _drop_if_empty(self, group: Group) -> None:
        if group.pod_group is None and not any(group.by_state.values()):
            self._groups.pop(group.key, None)


def invalid_group(pod_group: PodGroup, members: Iterable[Pod]) -> str:
    """Why the members cannot be scheduled together, in the words of kube-scheduler's validatePodGroup; "" if they can.

    `members` are the pending ones in their order, then those on nodes.
    """
    name = policy = ""
    for pod in members:
        name = name or pod.spec.scheduler_name
        if pod.spec.scheduler_name != name:
            got = f"{_quoted(pod.spec.scheduler_name)} and {_quoted(name)}"
            return f"all pods in a single pod group should have the same .spec.schedulerName set, got: {got}"
        if pod.spec.priority != pod_group.spec.priority:
            got = f"{pod.spec.priority} and {pod_group.spec.priority}"
            return (
                f"all pods in a single pod group should have the same priority as the pod group's priority, got {got}"
            )
        own = pod.spec.preemption_policy or PREEMPT_LOWER_PRIORITY
        policy = policy or own
        if own != policy:
            return f"all pods in a single pod group should have the same preemption policy, got {own} and {policy}"
    return ""


def _quoted(name: str) -> str:
    """As Go's %q; names of schedulers have no characters that it escapes."""
    return f'"{name}"'


def _is_edited(known: Pod, after: Pod) -> bool:
    """The scheduler's own writes to the status do not change a decision."""
    return known.uid != after.uid or known.spec != after.spec or known.metadata.labels != after.metadata.labels
