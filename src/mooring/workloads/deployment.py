"""How a Deployment gets from its old ReplicaSets to the new one: which are made, scaled and cleared away next.

Pure. The steps and their arithmetic are upstream's: never more pods than wanted plus the surge, never fewer available
than wanted less what may be unavailable. One step at a time; what follows is decided when its effect is seen.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from mooring.api.views.deployment import Deployment, ReplicaSet
from mooring.workloads import deployment_sets
from mooring.workloads.deployment_sets import DESIRED, MAX_DIGITS, MAXIMUM, REVISION, Sets

#: How many old sets are kept for undoing where the Deployment does not say; the server's default.
HISTORY_LIMIT: Final = 10

Body = dict[str, Any]


class CreateSet(NamedTuple):
    body: Body


class ScaleSet(NamedTuple):
    replica_set: ReplicaSet
    replicas: int


class NoteOnSet(NamedTuple):
    """Bring a set's annotations, and how long its pods must be ready, up to date."""

    replica_set: ReplicaSet
    annotations: dict[str, str]


class NoteRevision(NamedTuple):
    """Write the revision on the Deployment itself."""

    revision: str


class DeleteSet(NamedTuple):
    replica_set: ReplicaSet


Action = CreateSet | ScaleSet | NoteOnSet | NoteRevision | DeleteSet


def plan(deployment: Deployment, sets: Sets, *, old_pods_run: bool) -> list[Action]:
    """The next steps. `old_pods_run` says whether pods of old sets are still there, ready or not."""
    if deployment.deleting:
        return []
    noted = _noted(deployment, sets)
    if any(isinstance(note, NoteOnSet) for note in noted):
        # The next step is decided on the set as it is then.
        return noted
    if deployment.spec.paused or _resized(deployment, sets):
        return noted + _resize(deployment, sets)
    if deployment.spec.strategy.type == "Recreate":
        steps = _recreate(deployment, sets, old_pods_run=old_pods_run)
    else:
        steps = _roll(deployment, sets)
    if not steps and _complete(deployment, sets):
        steps = _cleared(deployment, sets)
    return noted + steps


def _noted(deployment: Deployment, sets: Sets) -> list[Action]:
    if sets.new is None:
        return []
    steps: list[Action] = []
    notes = dict(deployment_sets.notes(deployment, sets))
    if notes or sets.new.spec.min_ready_seconds != deployment.spec.min_ready_seconds:
        steps.append(NoteOnSet(sets.new, notes))
    number = notes.get(REVISION) or sets.new.metadata.annotations.get(REVISION, "")
    if number and deployment.metadata.annotations.get(REVISION) != number:
        steps.append(NoteRevision(number))
    return steps


def _roll(deployment: Deployment, sets: Sets) -> list[Action]:
    if sets.new is None:
        return [_created(deployment, sets, _grown(deployment, sets, now=0))]
    wanted, now = deployment.spec.replicas, sets.new.spec.replicas
    target = wanted if now > wanted else _grown(deployment, sets, now=now)
    if target != now:
        return [ScaleSet(sets.new, target)]
    return _shrink_old(deployment, sets, sets.new)


def _created(deployment: Deployment, sets: Sets, replicas: int) -> CreateSet:
    number = deployment_sets.next_revision(sets)
    return CreateSet(deployment_sets.new_set(deployment, replicas=replicas, revision=number))


def _grown(deployment: Deployment, sets: Sets, *, now: int) -> int:
    """How large the new set may be next to the old ones."""
    wanted = deployment.spec.replicas
    room = wanted + deployment_sets.surge(deployment) - sum(one.spec.replicas for one in sets.all)
    return now + max(min(room, wanted - now), 0)


def _shrink_old(deployment: Deployment, sets: Sets, new: ReplicaSet) -> list[Action]:
    if not sets.active_old:
        return []
    least = deployment.spec.replicas - deployment_sets.unavailable(deployment)
    pods = sum(one.spec.replicas for one in sets.all)
    pending = new.spec.replicas - new.status.available_replicas
    spare = pods - least - pending
    if spare <= 0:
        return []
    targets = {one.name: one.spec.replicas for one in sets.active_old}
    for one in sets.active_old:
        # Those that do not work go first: nobody misses them.
        ill = min(max(one.spec.replicas - one.status.available_replicas, 0), spare)
        targets[one.name] -= ill
        spare -= ill
    available = sum(one.status.available_replicas for one in sets.all)
    rest = available - least
    for one in sets.active_old:
        fewer = max(min(targets[one.name], rest), 0)
        targets[one.name] -= fewer
        rest -= fewer
    return _scaled(sets.active_old, targets)


def _scaled(sets: Iterable[ReplicaSet], targets: dict[str, int]) -> list[Action]:
    return [ScaleSet(one, targets[one.name]) for one in sets if targets[one.name] != one.spec.replicas]


def _recreate(deployment: Deployment, sets: Sets, *, old_pods_run: bool) -> list[Action]:
    if sets.active_old:
        return [ScaleSet(one, 0) for one in sets.active_old]
    if old_pods_run:
        return []
    if sets.new is None:
        return [_created(deployment, sets, deployment.spec.replicas)]
    if sets.new.spec.replicas != deployment.spec.replicas:
        return [ScaleSet(sets.new, deployment.spec.replicas)]
    return []


def _resized(deployment: Deployment, sets: Sets) -> bool:
    """Whether the Deployment wants another number of pods than when its sets were last scaled."""
    wanted = str(deployment.spec.replicas)
    return any(one.metadata.annotations.get(DESIRED, wanted) != wanted for one in sets.all if one.spec.replicas > 0)


def _resize(deployment: Deployment, sets: Sets) -> list[Action]:
    wanted = deployment.spec.replicas
    active = [one for one in sets.all if one.spec.replicas > 0]
    if len(active) <= 1:
        alone = active[0] if active else sets.new or next(reversed(sets.old), None)
        if alone is None or (alone.spec.replicas == wanted and not _resized(deployment, sets)):
            return []
        return [ScaleSet(alone, wanted)]
    new = sets.new
    if new is not None and new.spec.replicas == new.status.available_replicas == wanted:
        return [ScaleSet(one, 0) for one in sets.active_old]
    if deployment.spec.strategy.type != "RollingUpdate":
        return []
    return _share_out(deployment, active)


def _share_out(deployment: Deployment, active: Sequence[ReplicaSet]) -> list[Action]:
    """In the middle of a rollout every set grows or shrinks by its share; the largest takes what is left over."""
    limit = deployment.spec.replicas + deployment_sets.surge(deployment) if deployment.spec.replicas else 0
    total = limit - sum(one.spec.replicas for one in active)
    # Among equals the newer grow first and the older shrink first.
    newer_first = list(reversed(active)) if total > 0 else list(active)
    by_size = sorted(newer_first, key=lambda one: -one.spec.replicas)
    targets: dict[str, int] = {}
    given = 0
    for one in by_size:
        share = _share(deployment, one, limit)
        rest = total - given
        share = max(min(share, rest), 0) if total > 0 else min(max(share, rest), 0)
        targets[one.name] = one.spec.replicas + share
        given += share
    first = by_size[0].name
    targets[first] = max(targets[first] + total - given, 0)
    wanted = str(deployment.spec.replicas)
    stale = [one for one in by_size if one.metadata.annotations.get(DESIRED) != wanted]
    return [
        ScaleSet(one, targets[one.name]) for one in by_size if targets[one.name] != one.spec.replicas or one in stale
    ]


def _share(deployment: Deployment, replica_set: ReplicaSet, limit: int) -> int:
    text = replica_set.metadata.annotations.get(MAXIMUM, "")
    before = int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else deployment.status.replicas
    if limit == 0 or before == 0:
        return -replica_set.spec.replicas if limit == 0 else 0
    return round(replica_set.spec.replicas * limit / before) - replica_set.spec.replicas


def _complete(deployment: Deployment, sets: Sets) -> bool:
    wanted, new = deployment.spec.replicas, sets.new
    if new is None or new.spec.replicas != wanted:
        return False
    return new.status.replicas == new.status.available_replicas == wanted and not any(
        one.status.replicas for one in sets.old
    )


def _cleared(deployment: Deployment, sets: Sets) -> list[Action]:
    """Old sets beyond what is kept for undoing."""
    limit = deployment.spec.revision_history_limit
    kept = HISTORY_LIMIT if limit is None else limit
    idle = [
        one
        for one in sorted(sets.old, key=deployment_sets.revision)
        if not (one.spec.replicas or one.status.replicas or one.deleting)
        and one.status.observed_generation >= one.metadata.generation
    ]
    return [DeleteSet(one) for one in idle[: max(len(idle) - kept, 0)]]
