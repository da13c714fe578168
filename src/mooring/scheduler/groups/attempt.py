"""One scheduling attempt of a group: what it asks, what its neighbours offer, and what a refused one waits for. Pure.

The decision is advanced in slices. The binder holds the volumes of the quorum until they can be committed together,
where that is possible. Of a refused group, a member that no node fits waits for what its own cycle says. The others
would have fit, or were not looked at: they wait for what the certificate is about. So a volume or capacity that the
group lacks requeues it at once, for whichever member it is.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from mooring.api.views.pod_groups import PodGroup
from mooring.api.views.pods import Pod
from mooring.client.recorder import EventRecorder
from mooring.scheduler.binding.group_binder import GroupOutcome, Replan
from mooring.scheduler.cluster_events import CLAIM, CLASS, DRIVER, ClusterEvent, InterestKey, PodInterests
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.framework.group_cycle import GroupInput, rejected_decisions
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.metrics import FailureStage
from mooring.scheduler.plugins.gates import GangScheduling
from mooring.scheduler.queue import QueuedPod, RejectedPod
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.binding import BindingPlan, StaticBinding
from mooring.volumes.group import GroupPlan, GroupRefusal, MemberPlan, ShortageCode


class GroupRequest(NamedTuple):
    """One attempt to schedule the members of a group that have no node."""

    profile: Profile
    #: In kube-scheduler's order.
    members: Sequence[Pod]
    min_count: int
    #: Members with a node.
    placed: Sequence[tuple[Pod, str]]
    topology_key: str
    #: By pod uid and node.
    provisioning_failures: Mapping[str, Mapping[str, int]]
    #: By pod uid, the only node of members that a record of the group names.
    pinned: Mapping[str, str] = MappingProxyType({})

    @property
    def given(self) -> GroupInput:
        """As the group cycle takes it."""
        return GroupInput(
            members=self.members,
            min_count=self.min_count,
            placed=[node for _, node in self.placed],
            topology_key=self.topology_key,
            provisioning_failures=self.provisioning_failures,
            pinned=self.pinned,
        )


class GroupDecision(Protocol):
    """A decision under way. What it has found so far is reserved; of a plan, all of it, of a refusal nothing."""

    @property
    def looks(self) -> int:
        """Nodes and volumes looked at."""

    @property
    def result(self) -> GroupPlan | GroupRefusal | None:
        """None until `step` has returned True."""

    def step(self) -> bool:
        """Decide for one slice; True once it is decided."""

    def undo(self) -> None:
        """Release everything that is reserved. Idempotent."""

    def stale(self) -> Sequence[str]:
        """Of a plan, the uids of members whose reservation does not hold any more."""

    def replan(self, uid: str, *, avoid: Collection[str] = ()) -> MemberPlan | None:
        """Of a plan, another node for one member, with all others where they are; None releases it."""


Decide = Callable[[GroupRequest], GroupDecision]


class GroupHolder(Protocol):
    """Holds the volumes of a group until they are committed together."""

    async def hold(self, pod_group: PodGroup, plan: GroupPlan, *, placed: int, replan: Replan) -> GroupOutcome: ...

    async def resume(self, pod_group: PodGroup) -> Mapping[str, str] | None:
        """By pod uid, the nodes of members that the group's record of an earlier leader names."""

    async def supersede(self, group_uid: str) -> bool:
        """Give up a group that is holding, for one of higher priority; whether it was."""


class SchedulerServices(Protocol):
    """What the scheduler component does for pods, and groups use for their members."""

    def unreserve(self, pod: Pod, plan: BindingPlan) -> None: ...

    def release_unused(self, bindings: Iterable[StaticBinding]) -> None: ...

    def report_failure(self, pod: Pod, reason: str, message: str, *, nominated: str | None = None) -> None: ...

    def record(self, pod: Pod, event_type: str, reason: str, message: str) -> None: ...

    def recorder(self, pod: Pod) -> EventRecorder: ...

    def requeue_for_event(self, event: ClusterEvent | None) -> None: ...

    def internal_error(self, pod: Pod, stage: FailureStage, error: Exception) -> str: ...

    def wake(self) -> None: ...

    def schedule_pods(self) -> Awaitable[list[QueuedPod]]:
        """Schedule single pods for a short while; returns those that no node fits."""


#: The plugins whose hints tell when there is more of what a certificate names.
_PLUGINS: Final[Mapping[ShortageCode, tuple[str, ...]]] = {
    ShortageCode.RESOURCES: ("NodeResourcesFit",),
    ShortageCode.VOLUMES: ("VolumeBinding",),
    ShortageCode.CAPACITY: ("VolumeBinding",),
    ShortageCode.ATTACH_LIMIT: ("NodeVolumeLimits",),
    ShortageCode.SHARED_CLAIM: ("VolumeBinding", "VolumeRestrictions"),
    ShortageCode.CLAIMS: ("VolumeBinding",),
    ShortageCode.NODES: (GangScheduling.name,),
}


def rejected_members(
    request: GroupRequest, refusals: Sequence[GroupRefusal], snapshot: Snapshot
) -> Iterator[RejectedPod]:
    """One entry for each member of the attempt. A second refusal is that of the group without pods of lower priority:
    what ends it makes preemption helpful."""
    decisions = [rejected_decisions(refusal.rejected) for refusal in refusals]
    named = _certificate_plugins(refusals)
    seen = frozenset(plugin for each in decisions for one in each.values() for plugin in one.unschedulable_plugins)
    others = named | seen | {GangScheduling.name}
    subjects = _certificate_keys(refusals)
    if not seen and not named:
        # A search that ended without a certificate: whatever a filter reads may help.
        others |= {plugin.name for plugin in request.profile.filters}
    for pod in request.members:
        interests = CycleState(pod, snapshot).interests
        own = [decision.unschedulable_plugins for each in decisions if (decision := each.get(pod.uid)) is not None]
        plugins = frozenset[str]().union(named, *own) if own else others
        yield RejectedPod(pod, plugins, PodInterests(interests.keys | subjects, interests.unbound))


def _certificate_plugins(refusals: Sequence[GroupRefusal]) -> frozenset[str]:
    shortages = (one for refusal in refusals for domain in refusal.certificate for one in domain.shortages)
    return frozenset(plugin for code in {one.code for one in shortages} for plugin in _PLUGINS[code])


def _certificate_keys(refusals: Sequence[GroupRefusal]) -> frozenset[InterestKey]:
    return frozenset(
        key
        for refusal in refusals
        for key in (
            *(InterestKey(CLASS, name) for name in refusal.classes),
            *(InterestKey(DRIVER, name) for name in refusal.drivers),
            *(InterestKey(CLAIM, key) for key in refusal.claims),
        )
    )
