"""Groups that give up what they hold for a group of higher priority. Pure.

A group that is refused is decided once more as if all groups of lower priority that are being held had nothing: no
members on nodes, no volumes, no capacity. Only if that gives a plan are groups given up, and of those only the ones
that it needs: the most important is tried with what it holds first. What a group was given for good stays its own, and
no pod is evicted: a hold is the one thing that can be taken back without loss.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from mooring.api.views.pods import Pod
from mooring.scheduler.framework.cycle import NO_NOMINATED_PODS, Profile
from mooring.scheduler.framework.group_cycle import GroupCycle, GroupInput, run_to_end
from mooring.scheduler.preemption.nominator import Nominator
from mooring.scheduler.snapshot.snapshot import RemovedPods, Snapshot
from mooring.volumes.binding import BindingPlan
from mooring.volumes.group import GroupPlan

#: Groups that are considered, those that go last first: every one of them costs a decision.
MAX_CONSIDERED: Final = 4


class HeldGroupPlan(NamedTuple):
    """A group whose volumes are being held."""

    uid: str
    #: `namespace/name` of the PodGroup.
    key: str
    priority: int
    #: Creation time of the PodGroup.
    created: str
    #: Its members, which are assumed on their nodes.
    pods: tuple[Pod, ...]
    #: Of its members and of the claims that they share.
    plans: tuple[BindingPlan, ...]

    @property
    def importance(self) -> tuple[int, str, str]:
        """The lowest goes first: higher priority, older, smaller uid; as the coordinator has it."""
        return -self.priority, self.created, self.uid


@contextmanager
def _released(snapshot: Snapshot, groups: Sequence[HeldGroupPlan]) -> Iterator[None]:
    """The snapshot as if these groups had nothing."""
    assumed = [pod for group in groups for pod in group.pods if pod.key in snapshot.pod_keys]
    with RemovedPods(snapshot, assumed):
        put_back = snapshot.volumes.set_aside(plan for group in groups for plan in group.plans)
        try:
            yield
        finally:
            # Before the pods, which count the volumes that their claims have.
            put_back()


def groups_to_supersede(
    snapshot: Snapshot,
    profile: Profile,
    rng: random.Random,
    given: GroupInput,
    holding: Iterable[HeldGroupPlan],
    *,
    nominator: Nominator = NO_NOMINATED_PODS,
) -> tuple[HeldGroupPlan, ...]:
    """Of groups of lower priority that hold, those without which the refused group has a plan; none if it has none
    without any of them. The snapshot is as before when it returns."""
    given_up = sorted(holding, key=lambda group: group.importance)[-MAX_CONSIDERED:]

    def fits_without(groups: Sequence[HeldGroupPlan]) -> bool:
        with _released(snapshot, groups):
            cycle = GroupCycle(snapshot, profile, rng, given, nominator=nominator)
            try:
                return isinstance(run_to_end(cycle), GroupPlan)
            finally:
                cycle.undo()

    if not given_up or not fits_without(given_up):
        return ()
    for group in tuple(given_up):
        others = [one for one in given_up if one is not group]
        if others and fits_without(others):
            given_up = others
    return tuple(given_up)
