"""Who the pods of a StatefulSet are: ordinals, names, revisions, and the bodies of pods and claims.

Pure. Bodies are made from the raw template, so that fields no view knows reach the pods.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from mooring.api import keys
from mooring.api.kinds import STATEFUL_SET
from mooring.api.views.pod import Pod
from mooring.api.views.workload import StatefulSet

#: Hex digits of a revision's hash in names and labels.
HASH_LENGTH: Final = 10

Body = dict[str, Any]


def revision(stateful_set: StatefulSet) -> str:
    """The name of the set's template: the same template always has the same name, in whatever order it is stored."""
    template = msgspec.json.decode(stateful_set.spec.template)
    digest = hashlib.sha256(msgspec.json.encode(template, order="deterministic")).hexdigest()
    return f"{stateful_set.name}-{digest[:HASH_LENGTH]}"


def revision_of(pod: Pod) -> str:
    return pod.metadata.labels.get(keys.CONTROLLER_REVISION_HASH, "")


def ordinals(stateful_set: StatefulSet) -> range:
    start = stateful_set.spec.ordinals.start if stateful_set.spec.ordinals is not None else 0
    return range(start, start + stateful_set.spec.replicas)


def ordinal_of(stateful_set: StatefulSet, pod: Pod) -> int | None:
    """The ordinal in a pod's name, None for a pod that is named otherwise."""
    number = pod.name.removeprefix(f"{stateful_set.name}-")
    if not (number.isascii() and number.isdigit()):
        return None
    return int(number) if pod_name(stateful_set, int(number)) == pod.name else None


def pod_name(stateful_set: StatefulSet, ordinal: int) -> str:
    return f"{stateful_set.name}-{ordinal}"


def claim_name(template: str, stateful_set: StatefulSet, ordinal: int) -> str:
    return f"{template}-{stateful_set.name}-{ordinal}"


def claim_bodies(stateful_set: StatefulSet, ordinal: int) -> Iterator[Body]:
    selector = stateful_set.spec.selector
    selected = dict(selector.match_labels) if selector is not None else {}
    for template in _claim_templates(stateful_set):
        meta = template["metadata"]
        body = {field: value for field, value in template.items() if field != "status"}
        body["metadata"] = {
            "name": claim_name(meta["name"], stateful_set, ordinal),
            "labels": (meta.get("labels") or {}) | selected,
            "annotations": meta.get("annotations") or {},
        }
        yield body


def pod_body(stateful_set: StatefulSet, ordinal: int) -> Body:
    template: Body = msgspec.json.decode(stateful_set.spec.template)
    meta, spec = template.get("metadata") or {}, dict(template["spec"])
    name = pod_name(stateful_set, ordinal)
    identity = {
        keys.STATEFUL_POD_NAME: name,
        keys.POD_INDEX: str(ordinal),
        keys.CONTROLLER_REVISION_HASH: revision(stateful_set),
    }
    spec["hostname"] = name
    if stateful_set.spec.service_name:
        spec["subdomain"] = stateful_set.spec.service_name
    spec["volumes"] = _volumes(stateful_set, ordinal, spec.get("volumes") or [])
    return {
        "metadata": {
            "name": name,
            "labels": (meta.get("labels") or {}) | identity,
            "annotations": meta.get("annotations") or {},
            "finalizers": meta.get("finalizers") or [],
            "ownerReferences": [
                {
                    "apiVersion": STATEFUL_SET.api_version,
                    "kind": STATEFUL_SET.kind,
                    "name": stateful_set.name,
                    "uid": stateful_set.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": spec,
    }


def _volumes(stateful_set: StatefulSet, ordinal: int, written: list[Body]) -> list[Body]:
    """The template's volumes, with those that claim templates provide put in place of any of the same name."""
    provided: dict[str, Body] = {}
    for template in _claim_templates(stateful_set):
        name = template["metadata"]["name"]
        claim = claim_name(name, stateful_set, ordinal)
        provided[name] = {"name": name, "persistentVolumeClaim": {"claimName": claim}}
    return [*provided.values(), *(volume for volume in written if volume["name"] not in provided)]


def _claim_templates(stateful_set: StatefulSet) -> Iterator[Body]:
    for raw in stateful_set.spec.volume_claim_templates:
        template: Body = msgspec.json.decode(raw)
        yield template
