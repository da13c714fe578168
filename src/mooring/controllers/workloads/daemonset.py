"""DaemonSet decisions: eligible nodes, pod bodies, rolling update and status. Pure.

Pods are scheduled by the scheduler, with a node affinity to one node name, so that their volumes are bound as usual.
Tolerations are upstream's.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mooring.api import node_selectors, well_known
from mooring.api.documents import Body
from mooring.api.kinds import DAEMON_SET, POD
from mooring.api.node_selectors import NODE_NAME_FIELD
from mooring.api.pod_requirements import FORBIDDING, NO_EXECUTE, NO_SCHEDULE, tolerated
from mooring.api.views.core import Node
from mooring.api.views.meta import NodeSelectorTermView
from mooring.api.views.pods import Pod
from mooring.api.views.workloads import DaemonSet
from mooring.controllers.workloads import pod_rules
from mooring.controllers.workloads.pod_rules import Revision

_PREFIX: Final = "node.kubernetes.io/"
TOLERATIONS: Final[tuple[Body, ...]] = (
    {"key": well_known.NOT_READY, "operator": "Exists", "effect": NO_EXECUTE},
    {"key": well_known.UNREACHABLE, "operator": "Exists", "effect": NO_EXECUTE},
    {"key": f"{_PREFIX}disk-pressure", "operator": "Exists", "effect": NO_SCHEDULE},
    {"key": f"{_PREFIX}memory-pressure", "operator": "Exists", "effect": NO_SCHEDULE},
    {"key": f"{_PREFIX}pid-pressure", "operator": "Exists", "effect": NO_SCHEDULE},
    {"key": well_known.UNSCHEDULABLE, "operator": "Exists", "effect": NO_SCHEDULE},
)
#: For pods with hostNetwork.
_HOST_NETWORK: Final = {"key": f"{_PREFIX}network-unavailable", "operator": "Exists", "effect": NO_SCHEDULE}


class NodeSuitability(NamedTuple):
    """Whether to create a pod on the node, and whether an existing one may stay."""

    run: bool
    stay: bool


def template_pod(revision: Revision) -> Pod:
    """The template as a Pod view with the default tolerations."""
    return POD.decode(msgspec.json.encode({"metadata": {}, "spec": _with_tolerations(revision.template["spec"])}))


def _required_terms(pod: Pod) -> tuple[NodeSelectorTermView, ...] | None:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required.node_selector_terms if required is not None else None


def node_suitability(pod: Pod, node: Node) -> NodeSuitability:
    """`pod` is the DaemonSet's `template_pod`."""
    labels = node.metadata.labels
    fits = pod.spec.node_name in ("", node.name)
    fits = fits and all(labels.get(key) == value for key, value in pod.spec.node_selector.items())
    required = _required_terms(pod)
    if fits and required is not None:
        selector = node_selectors.node_selector_from_view(required)
        fits = selector.matches(labels, fields={NODE_NAME_FIELD: node.name})
    untolerated = {taint.effect for taint in node.spec.taints if not tolerated(pod.spec.tolerations, taint)}
    barred = untolerated & FORBIDDING
    return NodeSuitability(run=fits and not barred, stay=fits and NO_EXECUTE not in untolerated)


def pod_body(daemon_set: DaemonSet, node: str, name: str, revision: Revision) -> Body:
    spec = _with_tolerations(revision.template["spec"])
    here = {"matchFields": [{"key": NODE_NAME_FIELD, "operator": "In", "values": [node]}]}
    affinity = dict(spec.get("affinity") or {})
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}
    affinity["nodeAffinity"] = dict(affinity.get("nodeAffinity") or {}) | required
    labels = {well_known.CONTROLLER_REVISION_HASH: revision.hash}
    meta = pod_rules.pod_metadata(revision.template, DAEMON_SET, daemon_set, name, labels)
    return {"metadata": meta | {"generateName": f"{daemon_set.name}-"}, "spec": spec | {"affinity": affinity}}


def node_of(pod: Pod) -> str:
    """The node that a pod is bound to or has an affinity to, else ""."""
    if pod.spec.node_name:
        return pod.spec.node_name
    for term in _required_terms(pod) or ():
        for field in term.match_fields:
            if field.key == NODE_NAME_FIELD and field.operator == "In" and len(field.values) == 1:
                return field.values[0]
    return ""


def _with_tolerations(spec: Body) -> Body:
    theirs: list[Body] = list(spec.get("tolerations") or [])
    ours = [*TOLERATIONS, *([_HOST_NETWORK] if spec.get("hostNetwork") else [])]
    return spec | {"tolerations": theirs + [toleration for toleration in ours if toleration not in theirs]}


class DaemonSetState(NamedTuple):
    revision: Revision
    pods: Collection[Pod]
    nodes: Sequence[Node]
    now: float


class DaemonSetPlan(NamedTuple):
    """Nodes to create a pod on, pods to delete, failed pods to replace, seconds until the next sync."""

    create: list[str]
    delete: list[Pod]
    replace: list[Pod]
    again: float | None


class NodeCoverage(NamedTuple):
    """Suitability and pods by node."""

    verdicts: Mapping[str, NodeSuitability]
    pods: Mapping[str, list[Pod]]


def node_coverage(state: DaemonSetState) -> NodeCoverage:
    template = template_pod(state.revision)
    pods: dict[str, list[Pod]] = {}
    for pod in state.pods:
        pods.setdefault(node_of(pod), []).append(pod)
    for here in pods.values():
        here.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.name))
    return NodeCoverage({node.name: node_suitability(template, node) for node in state.nodes}, pods)


def plan_daemon_set(daemon_set: DaemonSet, state: DaemonSetState) -> DaemonSetPlan:
    coverage = node_coverage(state)
    least = daemon_set.spec.min_ready_seconds
    again = pod_rules.seconds_until_next_available(state.pods, least, now=state.now)
    found = DaemonSetPlan([], [], [], again)
    if daemon_set.deleting:
        return found._replace(again=None)
    surge = _surge(daemon_set, coverage)
    for name, (run, stay) in coverage.verdicts.items():
        here = [pod for pod in coverage.pods.get(name, []) if not pod.deleting]
        found.replace.extend(pod for pod in here if pod.status.phase == "Failed" and stay)
        alive = [pod for pod in here if pod.status.phase != "Failed"]
        if not stay:
            found.delete.extend(alive)
        elif run and not coverage.pods.get(name):
            found.create.append(name)
        else:
            found.delete.extend(_surplus(daemon_set, alive, state, surge=surge))
    gone = (pod for name, pods in coverage.pods.items() if name not in coverage.verdicts for pod in pods)
    found.delete.extend(pod for pod in gone if not pod.deleting)
    if not (found.create or found.delete or found.replace):
        _roll(daemon_set, coverage, state, found, surge)
    return found


def _surplus(daemon_set: DaemonSet, pods: list[Pod], state: DaemonSetState, *, surge: int) -> list[Pod]:
    """All but one pod of a node; with maxSurge the old one stays until the new one is available."""
    new = [pod for pod in pods if _is_new(pod, state.revision)]
    old = [pod for pod in pods if pod not in new]
    if not surge or not new:
        return (new + old)[1:] if new else old[1:]
    least = daemon_set.spec.min_ready_seconds
    done = any(pod_rules.is_available(pod, least, now=state.now) for pod in new)
    return new[1:] + (old if done else old[1:])


def _roll(
    daemon_set: DaemonSet, coverage: NodeCoverage, state: DaemonSetState, found: DaemonSetPlan, surge: int
) -> None:
    if daemon_set.spec.update_strategy.type != "RollingUpdate":
        return
    desired = [name for name, suitability in coverage.verdicts.items() if suitability.run]
    alone = {name: here[0] for name in desired if len(here := coverage.pods.get(name, [])) == 1}
    old = {name: pod for name, pod in alone.items() if not _is_new(pod, state.revision) and not pod.deleting}
    least = daemon_set.spec.min_ready_seconds
    unavailable = [name for name, pod in old.items() if not pod_rules.is_available(pod, least, now=state.now)]
    available = [name for name in old if name not in unavailable]
    if surge:
        crowded = sum(len(coverage.pods.get(name, [])) > 1 for name in desired)
        found.create.extend(unavailable + available[: max(surge - crowded, 0)])
        return
    alive = {name: [pod for pod in coverage.pods.get(name, []) if not pod.deleting] for name in desired}
    missing = sum(not any(pod_rules.is_available(pod, least, now=state.now) for pod in alive[name]) for name in desired)
    rolling = daemon_set.spec.update_strategy.rolling_update
    most = rolling.max_unavailable if rolling is not None else None
    allowed = max(pod_rules.resolve_int_or_percent(most, len(desired), up=True, default=1) - missing, 0)
    found.delete.extend(old[name] for name in unavailable + available[:allowed])


def _is_new(pod: Pod, revision: Revision) -> bool:
    return pod.metadata.labels.get(well_known.CONTROLLER_REVISION_HASH) == revision.hash


def _surge(daemon_set: DaemonSet, coverage: NodeCoverage) -> int:
    rolling = daemon_set.spec.update_strategy.rolling_update
    if daemon_set.spec.update_strategy.type != "RollingUpdate" or rolling is None:
        return 0
    nodes = sum(suitability.run for suitability in coverage.verdicts.values())
    return pod_rules.resolve_int_or_percent(rolling.max_surge, nodes, up=True, default=0)


def daemon_set_status(daemon_set: DaemonSet, state: DaemonSetState) -> dict[str, Any]:
    coverage = node_coverage(state)
    desired = [name for name, suitability in coverage.verdicts.items() if suitability.run]
    best = {name: _best(coverage.pods.get(name, []), state.revision) for name in coverage.verdicts}
    serving = [pod for name in desired if (pod := best[name]) is not None]
    least = daemon_set.spec.min_ready_seconds
    available = sum(pod_rules.is_available(pod, least, now=state.now) for pod in serving)
    return {
        "observedGeneration": daemon_set.metadata.generation,
        "desiredNumberScheduled": len(desired),
        "currentNumberScheduled": len(serving),
        "numberMisscheduled": sum(pod is not None and name not in desired for name, pod in best.items()),
        "numberReady": sum(pod.ready for pod in serving),
        "updatedNumberScheduled": sum(_is_new(pod, state.revision) for pod in serving),
        "numberAvailable": available,
        "numberUnavailable": len(desired) - available,
    }


def _best(pods: Sequence[Pod], revision: Revision) -> Pod | None:
    """The pod that counts for a node: the oldest of the newest revision, else the oldest."""
    alive = [pod for pod in pods if not pod.deleting]
    return next((pod for pod in alive if _is_new(pod, revision)), alive[0] if alive else None)
