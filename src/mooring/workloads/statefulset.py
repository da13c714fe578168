"""What a StatefulSet needs next: claims, pods, fewer pods, or pods of another revision.

Pure: the set, its revisions, its pods and claims in; what to do out. Ordinals are worked through in order;
`OrderedReady` stops at the first one that is not available, `Parallel` does not wait. Rolling updates go from the
highest ordinal down to the partition; below it pods keep, and get again, the revision they had.
"""

import math
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.api.views.workload import StatefulSet
from mooring.workloads import availability, claim_retention, shares
from mooring.workloads.revisions import Revision, Revisions
from mooring.workloads.stateful_identity import (
    Body,
    claim_bodies,
    claim_names,
    ordinal_of,
    ordinals,
    pod_body,
    pod_name,
    revision_of,
)


class CreatePod(NamedTuple):
    """Make a pod, after those of its claims that are missing."""

    body: Body
    claims: tuple[Body, ...]


class RestoreClaims(NamedTuple):
    """Make claims again that a pod needs and that are gone."""

    pod: str
    claims: tuple[Body, ...]


class OwnClaim(NamedTuple):
    """Have a claim go, or stay, as the retention policy says."""

    claim: Claim
    owners: list[Body]


class ReplacePod(NamedTuple):
    """Remove a pod that has ended, so that its ordinal is free for a new one."""

    pod: Pod


class DeletePod(NamedTuple):
    pod: Pod
    why: str


Action = CreatePod | RestoreClaims | OwnClaim | ReplacePod | DeletePod


class World(NamedTuple):
    """What a decision is made on: the set's revisions and own pods, claims by name, and the time."""

    revisions: Revisions
    pods: Collection[Pod]
    claim: Callable[[str], Claim | None]
    now: float


class Plan(NamedTuple):
    """What to do, in order, and in how many seconds to look again although nothing changes."""

    actions: list[Action]
    again: float | None = None


def plan(stateful_set: StatefulSet, world: World) -> Plan:
    if stateful_set.deleting:
        # SEEN: the garbage collector removes the pods, or they are meant to be orphaned.
        return Plan([])
    by_ordinal = {o: pod for pod in world.pods if (o := ordinal_of(stateful_set, pod)) is not None}
    waits = [_wait(stateful_set, pod, world.now) for pod in world.pods]
    again = min((wait for wait in waits if 0 < wait < math.inf), default=None)
    return Plan(_actions(stateful_set, by_ordinal, world), again)


def _actions(stateful_set: StatefulSet, by_ordinal: Mapping[int, Pod], world: World) -> list[Action]:
    in_order = stateful_set.spec.pod_management_policy != "Parallel"
    actions: list[Action] = []
    for ordinal in ordinals(stateful_set):
        pod = by_ordinal.get(ordinal)
        actions += _keep(stateful_set, ordinal, pod, world)
        if in_order and (pod is None or not _available(stateful_set, pod, world.now)):
            return actions
    actions += _scale_down(stateful_set, by_ordinal, world, in_order=in_order)
    return actions or _update(stateful_set, by_ordinal, world)


def _keep(stateful_set: StatefulSet, ordinal: int, pod: Pod | None, world: World) -> list[Action]:
    """What one ordinal needs to have its pod and its claims."""
    missing = tuple(b for b in claim_bodies(stateful_set, ordinal) if world.claim(b["metadata"]["name"]) is None)
    if pod is None:
        revision = _revision_for(stateful_set, ordinal, world)
        return [CreatePod(pod_body(stateful_set, ordinal, revision), missing)]
    actions: list[Action] = [RestoreClaims(pod_name(stateful_set, ordinal), missing)] if missing else []
    actions += _own_claims(stateful_set, ordinal, pod, world)
    if pod.finished and not pod.deleting:
        actions.append(ReplacePod(pod))
    return actions


def _revision_for(stateful_set: StatefulSet, ordinal: int, world: World) -> Revision:
    """A pod made anew in the middle of a rollout is as old as those the rollout has not reached."""
    current, update = world.revisions
    if stateful_set.spec.update_strategy.type != "RollingUpdate" or current.name == update.name:
        return update
    old = sum(revision_of(pod) == current.name and not pod.deleting for pod in world.pods)
    kept = _partition(stateful_set) or old
    return current if ordinal < ordinals(stateful_set).start + kept else update


def _own_claims(stateful_set: StatefulSet, ordinal: int, pod: Pod, world: World) -> list[Action]:
    actions: list[Action] = []
    for name in claim_names(stateful_set, ordinal):
        claim = world.claim(name)
        owners = claim_retention.owners(stateful_set, pod, claim) if claim is not None else None
        if claim is not None and owners is not None:
            actions.append(OwnClaim(claim, owners))
    return actions


def _wait(stateful_set: StatefulSet, pod: Pod, now: float) -> float:
    return availability.wait(pod, stateful_set.spec.min_ready_seconds, now=now)


def _available(stateful_set: StatefulSet, pod: Pod, now: float) -> bool:
    return not pod.deleting and _wait(stateful_set, pod, now) == 0


def _scale_down(
    stateful_set: StatefulSet, by_ordinal: Mapping[int, Pod], world: World, *, in_order: bool
) -> list[Action]:
    wanted = ordinals(stateful_set)
    surplus = sorted((o for o in by_ordinal if o not in wanted), reverse=True)
    if in_order:
        # The next one goes only when the one before is gone.
        surplus = surplus[:1]
    actions: list[Action] = []
    for ordinal in surplus:
        pod = by_ordinal[ordinal]
        if not pod.deleting:
            # Claims that shall go with the pod must say so before it goes.
            actions += _own_claims(stateful_set, ordinal, pod, world) or [DeletePod(pod, "scaled down")]
    return actions


def _update(stateful_set: StatefulSet, by_ordinal: Mapping[int, Pod], world: World) -> list[Action]:
    """The next pods to replace: the highest of an old revision, as long as enough of the others are available."""
    strategy = stateful_set.spec.update_strategy
    if strategy.type != "RollingUpdate":
        return []
    wanted = ordinals(stateful_set)
    most = strategy.rolling_update.max_unavailable if strategy.rolling_update is not None else None
    room = max(shares.resolved(most, len(wanted), up=True, default=1), 1)
    actions: list[Action] = []
    for ordinal in reversed(wanted):
        if ordinal < wanted.start + _partition(stateful_set) or len(actions) >= room:
            break
        pod = by_ordinal.get(ordinal)
        if pod is not None and not pod.deleting and revision_of(pod) != world.revisions.update.name:
            actions.append(DeletePod(pod, "the template changed"))
        elif pod is None or not _available(stateful_set, pod, world.now):
            room -= 1
    return actions


def _partition(stateful_set: StatefulSet) -> int:
    rolling = stateful_set.spec.update_strategy.rolling_update
    return rolling.partition if rolling is not None else 0
