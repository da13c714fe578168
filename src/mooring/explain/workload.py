"""Explains a workload by its pods: how many are ready, the pod that matters, and the claims of its templates. Pure.

Pods belong to a workload by the owner reference of their controller; those of a Deployment through its ReplicaSets. A
Job is known by its pods alone. Pods of one template are alike, so a few of those that are not ready are examined and
the others are counted.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from mooring.api.kinds import CLAIM, DAEMON_SET, DEPLOYMENT, POD, REPLICA_SET, STATEFUL_SET, STORAGE_CLASS, Kind
from mooring.api.views.meta import ApiObject, Condition
from mooring.api.views.pods import Pod
from mooring.api.views.workloads import DaemonSet, Deployment, ReplicaSet, StatefulSet
from mooring.controllers.workloads.deployment import HASH_LABEL
from mooring.explain.cluster_objects import lost_nodes
from mooring.explain.cluster_view import ClusterView
from mooring.explain.inspection import PodInspection
from mooring.explain.pod import explain_in, sentence
from mooring.explain.results import TemplateReport, WorkloadPod, WorkloadReport
from mooring.explain.text import MAX_LISTED_NODES, counted_noun, listed_names

#: What is listed besides EXPLAINED_KINDS for a workload.
WORKLOAD_KINDS: Final[tuple[Kind[ApiObject], ...]] = (STATEFUL_SET, DEPLOYMENT, REPLICA_SET, DAEMON_SET)
JOB: Final = "Job"
#: By the name of the kind; a Job has no row in the table of kinds.
EXPLAINED_WORKLOADS: Final[dict[str, Kind[ApiObject] | None]] = {
    **{kind.kind: kind for kind in WORKLOAD_KINDS},
    JOB: None,
}
#: How many of the pods that are not ready are examined.
MAX_EXAMINED: Final = 10
#: What controllers report when a pod or claim cannot be created.
FAILED_CREATE: Final = "FailedCreate"

_NUMBERS: Final = re.compile(r"\d+")


class _Examined(NamedTuple):
    pod: Pod
    verdict: str
    ok: bool


def explain_workload(view: ClusterView, kind: str, key: str) -> WorkloadReport | None:
    """`kind` is one of EXPLAINED_WORKLOADS. None where neither the workload nor a pod of it exists."""
    row = EXPLAINED_WORKLOADS[kind]
    workload = None if row is None else view.objects.get(row, key)
    pods = sorted(_pods_of(view, kind, key), key=lambda pod: _in_order(pod.name))
    if workload is None and not pods:
        return None
    done = [pod for pod in pods if pod.ready or pod.status.phase == "Succeeded"]
    examined = _examined(view, pods)
    desired = len(pods) if (wanted := desired_pods(workload)) is None else wanted
    said, ok = _verdict(view, f"{kind} {key}", workload, desired, pods, min(len(done), desired), examined)
    matters = next((one for one in examined if not one.ok), next(iter(examined), None))
    told = {one.pod.key: one for one in examined}
    return WorkloadReport(
        f"{kind.lower()}/{key.partition('/')[2]}",
        key.partition("/")[0],
        said,
        ok,
        desired,
        len(done),
        tuple(_row(pod, told.get(pod.key)) for pod in pods),
        tuple(_templates(view, workload)) if isinstance(workload, StatefulSet) else (),
        None if matters is None else explain_in(view, matters.pod),
        tuple(_notes(view, workload, desired, pods, examined)),
    )


def workload_keys(view: ClusterView, kind: str) -> list[str]:
    """The workloads of a kind that exist; those of Jobs by their pods."""
    row = EXPLAINED_WORKLOADS[kind]
    if row is not None:
        return [one.key for one in view.objects.of(row)]
    owners = ((pod, pod.controller) for pod in view.objects.of(POD))
    return list({f"{pod.namespace}/{owner.name}" for pod, owner in owners if owner is not None and owner.kind == kind})


def desired_pods(workload: ApiObject | None) -> int | None:
    """None where no object says it."""
    match workload:
        case StatefulSet() | Deployment() | ReplicaSet():
            return workload.spec.replicas
        case DaemonSet():
            return workload.status.desired_number_scheduled
    return None


def _pods_of(view: ClusterView, kind: str, key: str) -> Iterator[Pod]:
    namespace, _, name = key.partition("/")
    for pod in view.objects.of(POD):
        owner = pod.controller
        if pod.namespace != namespace or owner is None:
            continue
        if owner.kind == kind and owner.name == name:
            yield pod
        elif kind == DEPLOYMENT.kind and owner.kind == REPLICA_SET.kind:
            replica_set = view.objects.get(REPLICA_SET, f"{namespace}/{owner.name}")
            above = None if replica_set is None else replica_set.controller
            # Without the ReplicaSet its name tells: that of its Deployment and the hash of the template.
            named = f"{name}-{pod.metadata.labels.get(HASH_LABEL, '')}"
            if owner.name == named if replica_set is None else above is not None and above.name == name:
                yield pod


def _examined(view: ClusterView, pods: Sequence[Pod]) -> list[_Examined]:
    """Those that are not well, in order: not ready, rejected, or on a lost node."""
    lost = lost_nodes(view.objects)
    found = [pod for pod in pods if pod.status.phase != "Succeeded" and (not pod.ready or pod.spec.node_name in lost)]
    # A pod without a node tells more than one that is only starting.
    found.sort(key=lambda pod: bool(pod.spec.node_name) and pod.spec.node_name not in lost)
    return [_Examined(pod, *sentence(PodInspection(view, pod))) for pod in found[:MAX_EXAMINED]]


def _verdict(
    view: ClusterView,
    name: str,
    workload: ApiObject | None,
    desired: int,
    pods: Sequence[Pod],
    ready: int,
    examined: Sequence[_Examined],
) -> tuple[str, bool]:
    if not desired and not pods:
        return f"{name} is scaled to 0 pods.", True
    state = f"{name} has {ready} of {counted_noun(desired, 'pod')} ready"
    if stuck := next((one for one in examined if not one.ok), None):
        return f"{state}. {stuck.verdict}", False
    missing = desired - len(pods)
    if missing > 0 and (problem := _not_created(view, workload)):
        return f"{state}. {counted_noun(missing, 'pod')} cannot be created: {problem}", False
    if waiting := next(iter(examined), None):
        return f"{state}. {waiting.verdict}", True
    if missing > 0:
        return f"{state}: its controller has not created {counted_noun(missing, 'pod')} yet.", bool(pods)
    return f"{state}.", True


def _not_created(view: ClusterView, workload: ApiObject | None) -> str:
    """What the last attempt to create a pod or claim failed with, if it did."""
    kind = None if workload is None else EXPLAINED_WORKLOADS[type(workload).__name__]
    if workload is None or kind is None:
        return ""
    if isinstance(workload, StatefulSet | DaemonSet):
        event = view.events.last(kind, workload, FAILED_CREATE, "SuccessfulCreate")
        return event.message if event is not None and event.reason == FAILED_CREATE else ""
    conditions: Iterable[Condition] = ()
    if isinstance(workload, Deployment | ReplicaSet):
        conditions = workload.status.conditions
    failures = (one.message for one in conditions if one.type == "ReplicaFailure" and one.status == "True")
    return next(failures, "")


def _row(pod: Pod, examined: _Examined | None) -> WorkloadPod:
    if examined is not None:
        return WorkloadPod(pod.key, "waits" if examined.ok else "stuck", pod.spec.node_name, examined.verdict)
    if pod.status.phase == "Succeeded":
        return WorkloadPod(pod.key, "succeeded", pod.spec.node_name)
    return WorkloadPod(pod.key, "ready" if pod.ready else "waits", pod.spec.node_name)


def _templates(view: ClusterView, stateful_set: StatefulSet) -> Iterator[TemplateReport]:
    spec = stateful_set.spec
    start = 0 if spec.ordinals is None else spec.ordinals.start
    ordinals = range(start, start + spec.replicas)
    classes = {each.name for each in view.objects.of(STORAGE_CLASS)}
    for raw in spec.volume_claim_templates:
        try:
            template = CLAIM.decode(raw)
        except msgspec.DecodeError:
            continue
        prefix = f"{stateful_set.namespace}/{template.name}-{stateful_set.name}-"
        claims = [claim for claim in view.objects.of(CLAIM) if claim.key.startswith(prefix)]
        own = [claim for claim in claims if claim.key.removeprefix(prefix).isdigit()]
        reports = [view.claim_reports.of(claim) for claim in sorted(own, key=lambda claim: _in_order(claim.name))]
        wanted = {f"{prefix}{ordinal}" for ordinal in ordinals}
        name = template.storage_class or ""
        unknown = bool(name) and name not in classes and STORAGE_CLASS not in view.objects.unlisted
        yield TemplateReport(
            template.name,
            name,
            unknown and any(report.state != "Bound" for report in reports),
            sum(report.state == "Bound" and report.claim in wanted for report in reports),
            tuple(report.claim for report in reports if report.state != "Bound" and report.claim in wanted),
            tuple(report.claim for report in reports if report.claim not in wanted),
        )


def _notes(
    view: ClusterView,
    workload: ApiObject | None,
    desired: int,
    pods: Sequence[Pod],
    examined: Sequence[_Examined],
) -> Iterator[str]:
    missing = desired - len(pods)
    ordered = isinstance(workload, StatefulSet) and workload.spec.pod_management_policy == "OrderedReady"
    if ordered and missing > 0 and examined:
        after = f"after {examined[0].pod.name} is ready, since pods are created in order"
        yield f"{counted_noun(missing, 'more pod')} will be created {after} (podManagementPolicy OrderedReady)"
    if isinstance(workload, Deployment) and workload.spec.paused:
        yield "its rollout is paused: kubectl rollout resume continues it"
    if workload is not None and workload.deleting:
        yield f"it is being deleted since {workload.metadata.deletion_timestamp}"
    others = [one.pod.name for one in examined if not one.ok][1:]
    if others:
        yield f"also stuck: {listed_names(others, MAX_LISTED_NODES)}"


def _in_order(name: str) -> tuple[str, tuple[int, ...]]:
    """`db-2` before `db-10`."""
    return _NUMBERS.sub("", name), tuple(int(number) for number in _NUMBERS.findall(name)[-3:])
