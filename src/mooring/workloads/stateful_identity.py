"""Who the pods of a StatefulSet are: ordinals, names, revisions, and the bodies of pods and claims.

Pure. Bodies are made from the raw template, so that fields no view knows reach the pods.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from mooring.api import keys
from mooring.api.kinds import STATEFUL_SET
from mooring.api.views.pod import Pod
from mooring.api.views.workload import StatefulSet
from mooring.workloads import revisions
from mooring.workloads.ownership import reference
from mooring.workloads.revisions import Revision

Body = dict[str, Any]


def revision(stateful_set: StatefulSet) -> Revision:
    """What the set's template is now."""
    return revisions.revision_of(stateful_set.name, stateful_set.spec.template)


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


def claim_names(stateful_set: StatefulSet, ordinal: int) -> list[str]:
    return [claim_name(t["metadata"]["name"], stateful_set, ordinal) for t in _claim_templates(stateful_set)]


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


def pod_body(stateful_set: StatefulSet, ordinal: int, of: Revision) -> Body:
    template = of.template
    meta, spec = template.get("metadata") or {}, dict(template["spec"])
    name = pod_name(stateful_set, ordinal)
    identity = {
        keys.STATEFUL_POD_NAME: name,
        keys.POD_INDEX: str(ordinal),
        keys.CONTROLLER_REVISION_HASH: of.name,
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
            "ownerReferences": [reference(STATEFUL_SET, stateful_set)],
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
