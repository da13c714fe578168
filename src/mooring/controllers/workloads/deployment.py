"""Rollout decisions of Deployments: which ReplicaSets to create, scale, annotate and delete. Pure.

Steps, arithmetic and annotations are upstream's (`kubectl rollout history` and `undo` read them): at most maxSurge pods
above and maxUnavailable below the desired number. One step at a time, the next after its effect is observed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from mooring.api.documents import Body
from mooring.api.kinds import DEPLOYMENT
from mooring.api.views.workloads import Deployment, ReplicaSet
from mooring.controllers.workloads import pod_rules
from mooring.controllers.workloads.pod_rules import owner_reference, template_hash

HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAXIMUM: Final = "deployment.kubernetes.io/max-replicas"
#: Annotations of a Deployment that its ReplicaSets do not inherit.
_OWN: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration", REVISION, HISTORY, DESIRED, MAXIMUM})

#: Of numbers in annotations, which users may set.
MAX_DIGITS: Final = 18


class Sets(NamedTuple):
    """`new` has the Deployment's template; `old` are the others, oldest first."""

    new: ReplicaSet | None
    old: Sequence[ReplicaSet]

    @property
    def all(self) -> list[ReplicaSet]:
        return [*self.old, *([self.new] if self.new is not None else [])]

    @property
    def active_old(self) -> list[ReplicaSet]:
        return [replica_set for replica_set in self.old if replica_set.spec.replicas > 0]


def sorted_sets(deployment: Deployment, owned: Iterable[ReplicaSet]) -> Sets:
    desired = template_of(deployment)
    ordered = sorted(owned, key=lambda one: (one.metadata.creation_timestamp or "", one.name))
    new = next((one for one in ordered if not one.deleting and _plain(one) == desired), None)
    return Sets(new, [one for one in ordered if one is not new])


def template_of(owner: Deployment | ReplicaSet) -> Body:
    template: Body = msgspec.json.decode(owner.spec.template)
    return template


def _plain(replica_set: ReplicaSet) -> Body:
    """The template without the pod-template-hash label."""
    template = template_of(replica_set)
    labels = (template.get("metadata") or {}).get("labels") or {}
    labels.pop(HASH_LABEL, None)
    return template


def max_surge(deployment: Deployment) -> int:
    rolling = deployment.spec.strategy.rolling_update
    if deployment.spec.strategy.type != "RollingUpdate" or rolling is None:
        return 0
    return pod_rules.resolve_int_or_percent(rolling.max_surge, deployment.spec.replicas, up=True, default=0)


def max_unavailable(deployment: Deployment) -> int:
    """1 if both maxUnavailable and maxSurge are 0, as upstream."""
    rolling = deployment.spec.strategy.rolling_update
    if deployment.spec.strategy.type != "RollingUpdate" or rolling is None or deployment.spec.replicas == 0:
        return 0
    most = pod_rules.resolve_int_or_percent(rolling.max_unavailable, deployment.spec.replicas, up=False, default=0)
    if most == 0 and max_surge(deployment) == 0:
        return 1
    return min(most, deployment.spec.replicas)


def revision_number(item: ReplicaSet | Deployment) -> int:
    return _number(item, REVISION) or 0


def _number(item: ReplicaSet | Deployment, annotation: str) -> int | None:
    text = item.metadata.annotations.get(annotation, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else None


def next_revision(sets: Sets) -> int:
    return max((revision_number(old) for old in sets.old), default=0) + 1


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """Size of the Deployment when a set was last scaled, for proportional scaling."""
    desired = deployment.spec.replicas
    return {DESIRED: str(desired), MAXIMUM: str(desired + max_surge(deployment))}


def replica_set_body(deployment: Deployment, *, replicas: int, revision: int) -> Body:
    """The ReplicaSet of the Deployment's template."""
    template = template_of(deployment)
    word = template_hash(template | {"collisions": deployment.status.collision_count or 0})
    labels = dict((template.get("metadata") or {}).get("labels") or {}) | {HASH_LABEL: word}
    template["metadata"] = dict(template.get("metadata") or {}) | {"labels": labels}
    selector: Body = msgspec.to_builtins(deployment.spec.selector) if deployment.spec.selector is not None else {}
    match = dict(selector.get("matchLabels") or {}) | {HASH_LABEL: word}
    expressions = selector.get("matchExpressions") or []
    return {
        "metadata": {
            "name": f"{deployment.name}-{word}",
            "labels": labels,
            "annotations": inherited_annotations(deployment) | size_annotations(deployment) | {REVISION: str(revision)},
            "ownerReferences": [owner_reference(DEPLOYMENT, deployment)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": {"matchLabels": match, **({"matchExpressions": expressions} if expressions else {})},
            "template": template,
        },
    }


def inherited_annotations(deployment: Deployment) -> dict[str, str]:
    return {key: value for key, value in deployment.metadata.annotations.items() if key not in _OWN}


def outdated_annotations(deployment: Deployment, sets: Sets) -> Mapping[str, str]:
    """Annotations to set on the Deployment's new ReplicaSet."""
    if sets.new is None:
        return {}
    desired = inherited_annotations(deployment)
    number, current = next_revision(sets), sets.new.metadata.annotations
    if revision_number(sets.new) < number:
        desired[REVISION] = str(number)
        if before := current.get(REVISION):
            history = [*filter(None, current.get(HISTORY, "").split(",")), before]
            desired[HISTORY] = ",".join(history)
    return {key: value for key, value in desired.items() if current.get(key) != value}


class CreateSet(NamedTuple):
    body: Body


class ScaleSet(NamedTuple):
    replica_set: ReplicaSet
    replicas: int


class AnnotateSet(NamedTuple):
    """Update the annotations and minReadySeconds of a set."""

    replica_set: ReplicaSet
    annotations: dict[str, str]


class AnnotateDeployment(NamedTuple):
    """Set the revision annotation of the Deployment."""

    revision: str


class DeleteSet(NamedTuple):
    replica_set: ReplicaSet


Action = CreateSet | ScaleSet | AnnotateSet | AnnotateDeployment | DeleteSet


def plan_deployment(deployment: Deployment, sets: Sets, *, old_pods_run: bool) -> list[Action]:
    """The next steps. `old_pods_run`: whether pods of old sets have not finished."""
    if deployment.deleting:
        return []
    updates = _annotation_updates(deployment, sets)
    if any(isinstance(note, AnnotateSet) for note in updates):
        # The next step is based on the updated set.
        return updates
    if deployment.spec.paused or _resized(deployment, sets):
        return updates + _resize(deployment, sets)
    if deployment.spec.strategy.type == "Recreate":
        steps = _recreate(deployment, sets, old_pods_run=old_pods_run)
    else:
        steps = _roll(deployment, sets)
    if not steps and _complete(deployment, sets):
        steps = _cleared(deployment, sets)
    return updates + steps


def _annotation_updates(deployment: Deployment, sets: Sets) -> list[Action]:
    if sets.new is None:
        return []
    steps: list[Action] = []
    notes = dict(outdated_annotations(deployment, sets))
    if notes or sets.new.spec.min_ready_seconds != deployment.spec.min_ready_seconds:
        steps.append(AnnotateSet(sets.new, notes))
    number = notes.get(REVISION) or sets.new.metadata.annotations.get(REVISION, "")
    if number and deployment.metadata.annotations.get(REVISION) != number:
        steps.append(AnnotateDeployment(number))
    return steps


def _roll(deployment: Deployment, sets: Sets) -> list[Action]:
    if sets.new is None:
        return [_created(deployment, sets, _grown(deployment, sets, now=0))]
    desired, now = deployment.spec.replicas, sets.new.spec.replicas
    target = desired if now > desired else _grown(deployment, sets, now=now)
    if target != now:
        return [ScaleSet(sets.new, target)]
    return _shrink_old(deployment, sets, sets.new)


def _created(deployment: Deployment, sets: Sets, replicas: int) -> CreateSet:
    return CreateSet(replica_set_body(deployment, replicas=replicas, revision=next_revision(sets)))


def _grown(deployment: Deployment, sets: Sets, *, now: int) -> int:
    """Replicas of the new set within maxSurge."""
    desired = deployment.spec.replicas
    allowed = desired + max_surge(deployment) - sum(one.spec.replicas for one in sets.all)
    return now + max(min(allowed, desired - now), 0)


def _shrink_old(deployment: Deployment, sets: Sets, new: ReplicaSet) -> list[Action]:
    if not sets.active_old:
        return []
    least = deployment.spec.replicas - max_unavailable(deployment)
    pending = new.spec.replicas - new.status.available_replicas
    spare = sum(one.spec.replicas for one in sets.all) - least - pending
    if spare <= 0:
        return []
    targets = {one.name: one.spec.replicas for one in sets.active_old}
    for one in sets.active_old:
        # Unavailable pods first.
        unavailable = min(max(one.spec.replicas - one.status.available_replicas, 0), spare)
        targets[one.name] -= unavailable
        spare -= unavailable
    rest = sum(one.status.available_replicas for one in sets.all) - least
    for one in sets.active_old:
        fewer = max(min(targets[one.name], rest), 0)
        targets[one.name] -= fewer
        rest -= fewer
    return [ScaleSet(one, targets[one.name]) for one in sets.active_old if targets[one.name] != one.spec.replicas]


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
    """Whether spec.replicas changed since the sets were last scaled."""
    desired = str(deployment.spec.replicas)
    return any(one.metadata.annotations.get(DESIRED, desired) != desired for one in sets.all if one.spec.replicas > 0)


def _resize(deployment: Deployment, sets: Sets) -> list[Action]:
    desired = deployment.spec.replicas
    active = [one for one in sets.all if one.spec.replicas > 0]
    if len(active) <= 1:
        alone = active[0] if active else sets.new or next(reversed(sets.old), None)
        if alone is None or (alone.spec.replicas == desired and not _resized(deployment, sets)):
            return []
        return [ScaleSet(alone, desired)]
    new = sets.new
    if new is not None and new.spec.replicas == new.status.available_replicas == desired:
        return [ScaleSet(one, 0) for one in sets.active_old]
    if deployment.spec.strategy.type != "RollingUpdate":
        return []
    return _share_out(deployment, active)


def _share_out(deployment: Deployment, active: Sequence[ReplicaSet]) -> list[Action]:
    """Proportional scaling during a rollout; the largest set takes the remainder."""
    limit = deployment.spec.replicas + max_surge(deployment) if deployment.spec.replicas else 0
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
    desired = str(deployment.spec.replicas)
    return [
        ScaleSet(one, targets[one.name])
        for one in by_size
        if targets[one.name] != one.spec.replicas or one.metadata.annotations.get(DESIRED) != desired
    ]


def _share(deployment: Deployment, replica_set: ReplicaSet, limit: int) -> int:
    known = _number(replica_set, MAXIMUM)
    before = deployment.status.replicas if known is None else known
    if limit == 0 or before == 0:
        return -replica_set.spec.replicas if limit == 0 else 0
    return round(replica_set.spec.replicas * limit / before) - replica_set.spec.replicas


def _complete(deployment: Deployment, sets: Sets) -> bool:
    desired, new = deployment.spec.replicas, sets.new
    if new is None or new.spec.replicas != desired:
        return False
    return new.status.replicas == new.status.available_replicas == desired and not any(
        one.status.replicas for one in sets.old
    )


def _cleared(deployment: Deployment, sets: Sets) -> list[Action]:
    """Old sets beyond revisionHistoryLimit."""
    limit = deployment.spec.revision_history_limit
    kept = pod_rules.HISTORY_LIMIT if limit is None else limit
    idle = [
        one
        for one in sorted(sets.old, key=revision_number)
        if not (one.spec.replicas or one.status.replicas or one.deleting)
        and one.status.observed_generation >= one.metadata.generation
    ]
    return [DeleteSet(one) for one in idle[: max(len(idle) - kept, 0)]]
