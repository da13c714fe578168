"""Admission of pods and PriorityClasses: Priority, ServiceAccount, DefaultTolerationSeconds and PodTopologyLabels.

ServiceAccount fills in the name only: no token is mounted, and the account need not exist, because no containers run.
"""

from typing import Final

from mooring.api.documents import Body
from mooring.api.kinds import NODE, PRIORITY_CLASS
from mooring.api.pod_requirements import NO_EXECUTE
from mooring.api.views.core import PriorityClass
from mooring.api.views.meta import Meta
from mooring.api.well_known import NOT_READY, REGION, UNREACHABLE, ZONE
from mooring.server.encoding import meta
from mooring.server.environment import AdmissionRequest
from mooring.server.kinds.policy import SYSTEM_CLASSES
from mooring.server.objects import Objects


async def topology_labels(objects: Objects, node: str) -> dict[str, str]:
    """PodTopologyLabels: zone and region of the node; empty if the node does not exist (yet)."""
    view = await objects.view(NODE, "", node)
    labels = {} if view is None else view.metadata.labels
    return {key: labels[key] for key in (ZONE, REGION) if key in labels}


async def label_with_topology(review: AdmissionRequest) -> None:
    if node := review.new["spec"].get("nodeName"):
        labels = await topology_labels(review.objects, node)
        if labels:
            meta(review.new).setdefault("labels", {}).update(labels)


#: For pods without a class if there is no default.
_NO_CLASS: Final = PriorityClass()


async def resolve_priority(review: AdmissionRequest) -> None:
    """Priority: sets the number of the class, or of the default class. The built-in classes need not exist."""
    spec = review.new["spec"]
    found = await _class_of(review, spec.get("priorityClassName", ""))
    if found.name:
        spec["priorityClassName"] = found.name
    if spec.setdefault("priority", found.value) != found.value:
        raise review.forbidden(
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {found.value} from the given PriorityClass name"
        )
    policy = found.preemption_policy
    if spec.setdefault("preemptionPolicy", policy) != policy:
        raise review.forbidden(
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )


async def resolve_group_priority(review: AdmissionRequest) -> None:
    """Priority, for PodGroups."""
    spec = review.new["spec"]
    found = await _class_of(review, spec.get("priorityClassName", ""))
    if found.name:
        spec["priorityClassName"] = found.name
    if spec.setdefault("priority", found.value) != found.value:
        raise review.forbidden(
            f"priority set in the pod group ({spec['priority']}) must match the priority computed ({found.value}) "
            "based on the priority class set in the spec"
        )


async def keep_priority(review: AdmissionRequest) -> None:
    """An update without priority keeps it."""
    if review.old is not None:
        for field in ("priority", "preemptionPolicy"):
            if field in review.old["spec"]:
                review.new["spec"].setdefault(field, review.old["spec"][field])


async def keep_one_default(review: AdmissionRequest) -> None:
    """For PriorityClasses: at most one can be the default."""
    if not review.new.get("globalDefault"):
        return
    other = await _default_class(review)
    if other.name and (review.old is None or other.name != meta(review.new).get("name")):
        raise review.forbidden(f"PriorityClass {other.name} is already marked as default. Only one default can exist")


async def _class_of(review: AdmissionRequest, name: str) -> PriorityClass:
    if not name:
        return await _default_class(review)
    found = await review.objects.view(PRIORITY_CLASS, "", name)
    if found is None and name in SYSTEM_CLASSES:
        found = PriorityClass(metadata=Meta(name=name), value=SYSTEM_CLASSES[name])
    if found is None:
        raise review.forbidden(f"no PriorityClass with name {name} was found")
    return found


async def _default_class(review: AdmissionRequest) -> PriorityClass:
    """The one with the lowest value, if a race left several."""
    classes = await review.objects.views(PRIORITY_CLASS)
    return min((c for c in classes if c.global_default), key=lambda c: c.value, default=_NO_CLASS)


async def default_service_account(review: AdmissionRequest) -> None:
    spec = review.new["spec"]
    spec["serviceAccount"] = spec.setdefault("serviceAccountName", "default")


async def keep_service_account(review: AdmissionRequest) -> None:
    """An update without account keeps it."""
    if review.old is not None and "serviceAccountName" in review.old["spec"]:
        spec = review.new["spec"]
        spec["serviceAccount"] = spec.setdefault("serviceAccountName", review.old["spec"]["serviceAccountName"])


#: kube-apiserver's default.
_TOLERATION_SECONDS: Final = 300


async def add_default_tolerations(review: AdmissionRequest) -> None:
    """DefaultTolerationSeconds: pods stay five minutes on nodes that are not ready or unreachable."""
    spec = review.new["spec"]
    tolerations: list[Body] = spec.get("tolerations", [])
    missing = [
        {"key": key, "operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": _TOLERATION_SECONDS}
        for key in (NOT_READY, UNREACHABLE)
        if not any(_tolerates_taint(toleration, key) for toleration in tolerations)
    ]
    if missing:
        spec["tolerations"] = tolerations + missing


def _tolerates_taint(toleration: Body, key: str) -> bool:
    """Whether a toleration of the pod matches; an empty key or effect matches any."""
    return bool(toleration.get("key", key) == key and toleration.get("effect", NO_EXECUTE) == NO_EXECUTE)
