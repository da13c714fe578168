"""What a StatefulSet needs next: claims, pods, or fewer pods.

Pure: the set, its pods and its claims in; what to do out. Ordinals are worked through in order; `OrderedReady` stops at
the first one that is not ready, `Parallel` does not wait. Rolling updates replace one pod at a time, highest ordinal
first. Revisions are the hash of the template: there are no ControllerRevision objects, so an older template cannot be
brought back, and a `partition` that would need it is reported as unsupported.
"""

import hashlib
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mooring.api import keys
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.api.views.workload import StatefulSet

#: Hex digits of a revision's hash in names and labels.
HASH_LENGTH: Final = 10


class CreateClaim(NamedTuple):
    body: dict[str, Any]


class CreatePod(NamedTuple):
    body: dict[str, Any]


class DeletePod(NamedTuple):
    pod: Pod
    why: str


Action = CreateClaim | CreatePod | DeletePod


def revision(stateful_set: StatefulSet) -> str:
    digest = hashlib.sha256(_canonical(stateful_set.spec.template)).hexdigest()
    return f"{stateful_set.name}-{digest[:HASH_LENGTH]}"


def _canonical(template: msgspec.Raw) -> bytes:
    """The same template always hashes alike, whatever order its members are stored in."""
    return msgspec.json.encode(msgspec.json.decode(template), order="deterministic")


def unsupported(stateful_set: StatefulSet) -> list[str]:
    """What the set asks for and does not get; said in an event, so that nobody waits for it."""
    spec = stateful_set.spec
    problems: list[str] = []
    retention = spec.persistent_volume_claim_retention_policy
    if retention is not None and "Delete" in (retention.when_deleted, retention.when_scaled):
        problems.append("persistentVolumeClaimRetentionPolicy Delete is not supported yet: claims are retained")
    rolling = spec.update_strategy.rolling_update
    if rolling is not None and rolling.partition > 0:
        problems.append("updateStrategy.rollingUpdate.partition is not supported yet: pods are not updated")
    if spec.min_ready_seconds > 0:
        problems.append("minReadySeconds is not supported yet: pods count as available once they are ready")
    return problems


def ordinals(stateful_set: StatefulSet) -> range:
    start = stateful_set.spec.ordinals.start if stateful_set.spec.ordinals is not None else 0
    return range(start, start + stateful_set.spec.replicas)


def ordinal_of(stateful_set: StatefulSet, pod: Pod) -> int | None:
    """The ordinal in a pod's name, None for a pod that is named otherwise."""
    parent, _, number = pod.name.rpartition("-")
    return int(number) if parent == stateful_set.name and number.isascii() and number.isdigit() else None


def next_actions(stateful_set: StatefulSet, pods: Collection[Pod], claims: Mapping[str, Claim]) -> list[Action]:
    """`pods` are the set's own, `claims` by name. Returns everything that may be done now, in order."""
    if stateful_set.deleting:
        return []
    by_ordinal = {o: pod for pod in pods if (o := ordinal_of(stateful_set, pod)) is not None}
    in_order = stateful_set.spec.pod_management_policy != "Parallel"
    actions: list[Action] = []
    for ordinal in ordinals(stateful_set):
        actions += _missing_claims(stateful_set, ordinal, claims)
        pod = by_ordinal.get(ordinal)
        if pod is None:
            actions.append(CreatePod(_pod(stateful_set, ordinal)))
        elif pod.finished and not pod.deleting:
            actions.append(DeletePod(pod, f"it is {pod.status.phase}"))
        settled = pod is not None and pod.ready and not pod.deleting
        if in_order and not settled:
            return actions
    return actions or _scale_down(stateful_set, by_ordinal, in_order) or _update(stateful_set, by_ordinal)


def _scale_down(stateful_set: StatefulSet, by_ordinal: Mapping[int, Pod], in_order: bool) -> list[Action]:
    wanted = ordinals(stateful_set)
    surplus = sorted((o for o in by_ordinal if o not in wanted), reverse=True)
    if in_order:
        # The next one goes only when the one before is gone.
        surplus = surplus[:1]
    return [DeletePod(by_ordinal[o], "scaled down") for o in surplus if not by_ordinal[o].deleting]


def _update(stateful_set: StatefulSet, by_ordinal: Mapping[int, Pod]) -> list[Action]:
    if stateful_set.spec.update_strategy.type != "RollingUpdate" or unsupported_partition(stateful_set):
        return []
    wanted = ordinals(stateful_set)
    if any(o not in by_ordinal or not by_ordinal[o].ready or by_ordinal[o].deleting for o in wanted):
        return []
    current = revision(stateful_set)
    for ordinal in reversed(wanted):
        pod = by_ordinal[ordinal]
        if pod.metadata.labels.get(keys.CONTROLLER_REVISION_HASH) != current:
            return [DeletePod(pod, "the template changed")]
    return []


def unsupported_partition(stateful_set: StatefulSet) -> bool:
    rolling = stateful_set.spec.update_strategy.rolling_update
    return rolling is not None and rolling.partition > 0


def _template(raw: msgspec.Raw) -> dict[str, Any]:
    template = msgspec.json.decode(raw)
    assert isinstance(template, dict)
    return template


def claim_name(template_name: str, stateful_set: StatefulSet, ordinal: int) -> str:
    return f"{template_name}-{stateful_set.name}-{ordinal}"


def _missing_claims(stateful_set: StatefulSet, ordinal: int, claims: Mapping[str, Claim]) -> list[Action]:
    selector = stateful_set.spec.selector
    labels = dict(selector.match_labels) if selector is not None else {}
    actions: list[Action] = []
    for raw in stateful_set.spec.volume_claim_templates:
        template = _template(raw)
        meta = template.get("metadata", {})
        name = claim_name(meta["name"], stateful_set, ordinal)
        if name not in claims:
            body = {key: value for key, value in template.items() if key != "status"}
            body["metadata"] = {
                "name": name,
                "labels": meta.get("labels", {}) | labels,
                "annotations": meta.get("annotations", {}),
            }
            actions.append(CreateClaim(body))
    return actions


def _pod(stateful_set: StatefulSet, ordinal: int) -> dict[str, Any]:
    template = _template(stateful_set.spec.template)
    meta, spec = template.get("metadata", {}), dict(template.get("spec", {}))
    name = f"{stateful_set.name}-{ordinal}"
    identity = {
        keys.STATEFUL_POD_NAME: name,
        keys.POD_INDEX: str(ordinal),
        keys.CONTROLLER_REVISION_HASH: revision(stateful_set),
    }
    spec["hostname"] = name
    if stateful_set.spec.service_name:
        spec["subdomain"] = stateful_set.spec.service_name
    spec["volumes"] = _volumes(stateful_set, ordinal, spec.get("volumes", []))
    return {
        "metadata": {
            "name": name,
            "labels": meta.get("labels", {}) | identity,
            "annotations": meta.get("annotations", {}),
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "StatefulSet",
                    "name": stateful_set.name,
                    "uid": stateful_set.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": spec,
    }


def _volumes(stateful_set: StatefulSet, ordinal: int, written: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The template's volumes, with those that claim templates provide put in place of any of the same name."""
    provided = {}
    for raw in stateful_set.spec.volume_claim_templates:
        name = _template(raw)["metadata"]["name"]
        claim = claim_name(name, stateful_set, ordinal)
        provided[name] = {"name": name, "persistentVolumeClaim": {"claimName": claim}}
    return [*provided.values(), *(volume for volume in written if volume.get("name") not in provided)]


def status(stateful_set: StatefulSet, pods: Collection[Pod]) -> dict[str, Any]:
    """What the set's status should say of these pods."""
    update = revision(stateful_set)
    live = [pod for pod in pods if not pod.finished]
    ready = [pod for pod in live if pod.ready]
    updated = [p for p in live if p.metadata.labels.get(keys.CONTROLLER_REVISION_HASH) == update]
    current = stateful_set.status.current_revision or update
    if len(updated) == stateful_set.spec.replicas and len(ready) == len(updated):
        current = update
    at_current = [p for p in live if p.metadata.labels.get(keys.CONTROLLER_REVISION_HASH) == current]
    return {
        "observedGeneration": stateful_set.metadata.generation,
        "replicas": len(live),
        "readyReplicas": len(ready),
        "availableReplicas": len(ready),
        "currentReplicas": len(at_current),
        "updatedReplicas": len(updated),
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": 0,
    }
