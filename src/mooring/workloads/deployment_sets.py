"""The ReplicaSets of a Deployment: which one is its template's, what a new one looks like, and how they are numbered.

Pure. Names of annotations are upstream's: `kubectl rollout history` and `undo` read them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mooring.api.kinds import DEPLOYMENT
from mooring.api.views.deployment import Deployment, ReplicaSet
from mooring.workloads import shares
from mooring.workloads.ownership import reference
from mooring.workloads.revisions import digest

HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAXIMUM: Final = "deployment.kubernetes.io/max-replicas"
#: Annotations of a Deployment that its ReplicaSets do not inherit.
_OWN: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration", REVISION, HISTORY, DESIRED, MAXIMUM})

#: Of a number in an annotation, which any user may write.
MAX_DIGITS: Final = 18

Body = dict[str, Any]


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
    wanted = template_of(deployment)
    ordered = sorted(owned, key=lambda one: (one.metadata.creation_timestamp or "", one.name))
    new = next((one for one in ordered if not one.deleting and _plain(one) == wanted), None)
    return Sets(new, [one for one in ordered if one is not new])


def template_of(deployment: Deployment) -> Body:
    template: Body = msgspec.json.decode(deployment.spec.template)
    return template


def _plain(replica_set: ReplicaSet) -> Body:
    """A set's template as the Deployment wrote it: without the label that tells sets apart."""
    template: Body = msgspec.json.decode(replica_set.spec.template)
    labels = (template.get("metadata") or {}).get("labels") or {}
    labels.pop(HASH_LABEL, None)
    return template


def surge(deployment: Deployment) -> int:
    """How many pods there may be beyond those wanted."""
    rolling = deployment.spec.strategy.rolling_update
    if deployment.spec.strategy.type != "RollingUpdate" or rolling is None:
        return 0
    return shares.resolved(rolling.max_surge, deployment.spec.replicas, up=True, default=0)


def unavailable(deployment: Deployment) -> int:
    """How many of the wanted may be missing at a time; where nothing may be anything, one may be missing."""
    rolling = deployment.spec.strategy.rolling_update
    if deployment.spec.strategy.type != "RollingUpdate" or rolling is None or deployment.spec.replicas == 0:
        return 0
    most = shares.resolved(rolling.max_unavailable, deployment.spec.replicas, up=False, default=0)
    if most == 0 and surge(deployment) == 0:
        return 1
    return min(most, deployment.spec.replicas)


def revision(item: ReplicaSet | Deployment) -> int:
    text = item.metadata.annotations.get(REVISION, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else 0


def next_revision(sets: Sets) -> int:
    return max((revision(old) for old in sets.old), default=0) + 1


def sizes(deployment: Deployment) -> dict[str, str]:
    """What the Deployment wanted when a set was last scaled: shares are computed from it when that changes."""
    wanted = deployment.spec.replicas
    return {DESIRED: str(wanted), MAXIMUM: str(wanted + surge(deployment))}


def new_set(deployment: Deployment, *, replicas: int, revision: int) -> Body:
    """The ReplicaSet of the Deployment's template."""
    template = template_of(deployment)
    word = digest(template | {"collisions": deployment.status.collision_count or 0})
    labels = dict((template.get("metadata") or {}).get("labels") or {}) | {HASH_LABEL: word}
    template["metadata"] = dict(template.get("metadata") or {}) | {"labels": labels}
    selector: Body = msgspec.to_builtins(deployment.spec.selector) if deployment.spec.selector is not None else {}
    match = dict(selector.get("matchLabels") or {}) | {HASH_LABEL: word}
    expressions = selector.get("matchExpressions") or []
    return {
        "metadata": {
            "name": f"{deployment.name}-{word}",
            "labels": labels,
            "annotations": inherited(deployment) | sizes(deployment) | {REVISION: str(revision)},
            "ownerReferences": [reference(DEPLOYMENT, deployment)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": {"matchLabels": match, **({"matchExpressions": expressions} if expressions else {})},
            "template": template,
        },
    }


def inherited(deployment: Deployment) -> dict[str, str]:
    return {key: value for key, value in deployment.metadata.annotations.items() if key not in _OWN}


def notes(deployment: Deployment, sets: Sets) -> Mapping[str, str]:
    """The annotations that the Deployment's own set lacks or has wrong."""
    if sets.new is None:
        return {}
    wanted = inherited(deployment)
    number, said = next_revision(sets), sets.new.metadata.annotations
    if revision(sets.new) < number:
        wanted[REVISION] = str(number)
        if before := said.get(REVISION):
            history = [*filter(None, said.get(HISTORY, "").split(",")), before]
            wanted[HISTORY] = ",".join(history)
    return {key: value for key, value in wanted.items() if said.get(key) != value}
