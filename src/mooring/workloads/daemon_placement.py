"""On which nodes a DaemonSet wants a pod, and what such a pod looks like.

Pure. Pods go through the scheduler, bound to their node by an affinity to its name, so that their volumes are bound as
every other pod's are. They put up with what is wrong with nodes by themselves; the tolerations are upstream's.
"""

from typing import Any, Final, NamedTuple

import msgspec

from mooring.api import keys, node_selector
from mooring.api.kinds import DAEMON_SET, POD
from mooring.api.node_selector import NODE_NAME_FIELD
from mooring.api.tolerations import tolerated
from mooring.api.views.daemon_set import DaemonSet
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.workloads.ownership import reference
from mooring.workloads.revisions import Revision

Body = dict[str, Any]

_NO_EXECUTE: Final = "NoExecute"
_NO_SCHEDULE: Final = "NoSchedule"
_PREFIX: Final = "node.kubernetes.io/"
TOLERATIONS: Final[tuple[Body, ...]] = (
    {"key": keys.NOT_READY, "operator": "Exists", "effect": _NO_EXECUTE},
    {"key": keys.UNREACHABLE, "operator": "Exists", "effect": _NO_EXECUTE},
    {"key": f"{_PREFIX}disk-pressure", "operator": "Exists", "effect": _NO_SCHEDULE},
    {"key": f"{_PREFIX}memory-pressure", "operator": "Exists", "effect": _NO_SCHEDULE},
    {"key": f"{_PREFIX}pid-pressure", "operator": "Exists", "effect": _NO_SCHEDULE},
    {"key": keys.UNSCHEDULABLE, "operator": "Exists", "effect": _NO_SCHEDULE},
)
#: For pods in the network of their node: they do not wait for it to get one.
_OWN_NETWORK: Final = {"key": f"{_PREFIX}network-unavailable", "operator": "Exists", "effect": _NO_SCHEDULE}


class Verdict(NamedTuple):
    """Whether a pod should be made on a node, and whether one that is there may stay."""

    run: bool
    stay: bool


def template_pod(revision: Revision) -> Pod:
    """The pod a template describes, as the rules about nodes read it."""
    return POD.decode(msgspec.json.encode({"metadata": {}, "spec": _tolerant(revision.template["spec"])}))


def verdict(pod: Pod, node: Node) -> Verdict:
    """`pod` is what `template_pod` makes of the DaemonSet's template."""
    labels = node.metadata.labels
    fits = pod.spec.node_name in ("", node.name)
    fits = fits and all(labels.get(key) == value for key, value in pod.spec.node_selector.items())
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if fits and required is not None:
        selector = node_selector.from_view(required.node_selector_terms)
        fits = selector.matches(labels, fields={NODE_NAME_FIELD: node.name})
    untolerated = {taint.effect for taint in node.spec.taints if not tolerated(pod.spec.tolerations, taint)}
    barred = untolerated & {_NO_SCHEDULE, _NO_EXECUTE}
    return Verdict(run=fits and not barred, stay=fits and _NO_EXECUTE not in untolerated)


def pod_body(daemon_set: DaemonSet, node: str, name: str, revision: Revision) -> Body:
    meta, spec = revision.template.get("metadata") or {}, _tolerant(revision.template["spec"])
    here = {"matchFields": [{"key": NODE_NAME_FIELD, "operator": "In", "values": [node]}]}
    affinity = dict(spec.get("affinity") or {})
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}
    affinity["nodeAffinity"] = dict(affinity.get("nodeAffinity") or {}) | required
    return {
        "metadata": {
            "name": name,
            "generateName": f"{daemon_set.name}-",
            "labels": (meta.get("labels") or {}) | {keys.CONTROLLER_REVISION_HASH: revision.hash},
            "annotations": meta.get("annotations") or {},
            "finalizers": meta.get("finalizers") or [],
            "ownerReferences": [reference(DAEMON_SET, daemon_set)],
        },
        "spec": spec | {"affinity": affinity},
    }


def node_of(pod: Pod) -> str:
    """The node a pod is on or meant for; "" for one that is meant for none in particular."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    for term in required.node_selector_terms if required is not None else ():
        for field in term.match_fields:
            if field.key == NODE_NAME_FIELD and field.operator == "In" and len(field.values) == 1:
                return field.values[0]
    return ""


def _tolerant(spec: Body) -> Body:
    theirs: list[Body] = list(spec.get("tolerations") or [])
    ours = [*TOLERATIONS, *([_OWN_NETWORK] if spec.get("hostNetwork") else [])]
    return spec | {"tolerations": theirs + [toleration for toleration in ours if toleration not in theirs]}
