"""What could be done about the reasons against one node, apart from storage: a choice of steps for each. Pure.

Whether any of it helps is for `remedies` to try. Never proposed: to tolerate or to remove a taint that says that the
node is not well, and to change labels that say where a node is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from mooring.api import keys
from mooring.api.kinds import NODE, POD
from mooring.api.label_selector import Operator, SelectorError
from mooring.api.node_features import needed_by
from mooring.api.node_selector import NODE_NAME_FIELD
from mooring.api.pod_requests import CPU, PODS
from mooring.api.tolerations import tolerated
from mooring.api.views.node import Node, Taint
from mooring.explain import data_loss
from mooring.explain.cluster_changes import (
    HOST_PORTS,
    NODE_AFFINITY,
    POD_AFFINITY,
    POD_ANTI_AFFINITY,
    TOPOLOGY_SPREAD,
    DeclareFeatures,
    DeletePods,
    FreeResource,
    InstallDriver,
    LabelNode,
    LowerRequests,
    RecoverNode,
    RelaxPod,
    RemoveTaint,
    Tolerate,
    Uncordon,
    label_words,
    taint_words,
)
from mooring.explain.figures import FORBIDDING, counted, drivers_of
from mooring.explain.lost_nodes import is_health_taint, lost_since, told_since
from mooring.explain.neighbours import Neighbours
from mooring.explain.remedies import Choice, Step
from mooring.explain.trials import Scene
from mooring.explain.verdicts import Reason
from mooring.scheduler.contract import RejectionCode
from mooring.scheduler.ports import host_ports
from mooring.scheduler.required_nodes import required_of
from mooring.volumes.disks_in_use import conflict

#: Pods that a step may send away; where more are in the way, another node is nearer.
MAX_PODS: Final = 3

#: Labels of these domains say what and where a node is: changing one makes it a lie.
_FACTS: Final = ("kubernetes.io", "k8s.io")
#: What such labels are called elsewhere.
_PLACES: Final = frozenset({"node", "host", "hostname", "zone", "region", "rack"})


def choices_on(scene: Scene, name: str, reason: Reason) -> Iterator[Choice]:
    """The choices about one reason; none where nothing but looking helps."""
    node = scene.objects.get(NODE, name)
    proposer = None if node is None else _PROPOSERS.get(RejectionCode(reason.code))
    if proposer is not None and node is not None:
        yield from (tuple(steps) for steps in proposer(scene, node, reason) if steps)


def _cordon(scene: Scene, node: Node, reason: Reason) -> Iterator[list[Step]]:
    yield [Step(f"kubectl uncordon {node.name}", (Uncordon(node.name),))]


def _taints(scene: Scene, node: Node, reason: Reason) -> Iterator[list[Step]]:
    tolerations = scene.pod.spec.tolerations
    stray = [one for one in node.spec.taints if one.effect in FORBIDDING and not tolerated(tolerations, one)]
    if any(is_health_taint(taint) for taint in stray):
        yield [Step(recovery(node, scene.objects.moment), (RecoverNode(node.name),))]
    for taint in stray:
        if taint.key == keys.UNSCHEDULABLE:
            yield [Step(f"kubectl uncordon {node.name}", (Uncordon(node.name),))]
        elif not is_health_taint(taint):
            yield list(_untainting(scene, node, taint))


def _untainting(scene: Scene, node: Node, taint: Taint) -> Iterator[Step]:
    words = taint_words(taint)
    yield Step(f"let the pod tolerate {words}", (Tolerate(scene.pod.key, taint.key, taint.value, taint.effect),))
    command = f"kubectl taint node {node.name} {taint.key}:{taint.effect}-"
    yield Step(command, (RemoveTaint(node.name, taint.key, taint.effect),))


def recovery(node: Node, now: float | None) -> str:
    """How a node that is not well comes back."""
    since = lost_since(node, now)
    if since is not None:
        return f"bring {node.name} back, with its disks: it has not been ready {told_since(since)}"
    ailments = ", ".join(dict.fromkeys(one.key.partition("/")[2] for one in node.spec.taints if is_health_taint(one)))
    return f"make {node.name} healthy: it reports {ailments or 'that it is not ready'}"


def _affinity(scene: Scene, node: Node, reason: Reason) -> Iterator[list[Step]]:
    steps: list[Step] = []
    labels = _missing_labels(scene, node)
    if labels:
        steps.append(Step(f"kubectl label node {node.name} {label_words(labels)}", (LabelNode(node.name, labels),)))
    steps.append(Step(f"let the pod ask for another node: {reason.detail}", (RelaxPod(scene.pod.key, NODE_AFFINITY),)))
    yield steps


def _missing_labels(scene: Scene, node: Node) -> dict[str, str]:
    """Labels that the node has not, may have, and would be chosen with; none where that takes more."""
    try:
        selectors = required_of(scene.pod).selectors
    except SelectorError:
        return {}
    wanted: dict[str, str] = {}
    for selector in selectors:
        if selector.matches(node.metadata.labels, fields={NODE_NAME_FIELD: node.name}) or len(selector.terms) != 1:
            continue
        for one in selector.terms[0].expressions:
            if one.matches(node.metadata.labels):
                continue
            if one.operator is not Operator.IN or one.key in node.metadata.labels or is_fact(one.key):
                return {}
            wanted[one.key] = one.values[0]
    return wanted


def is_fact(key: str) -> bool:
    """Whether a label says what or where a node is."""
    domain, slash, name = key.rpartition("/")
    facts = slash and (domain.startswith("topology.") or any(f".{domain}".endswith(f".{one}") for one in _FACTS))
    return bool(facts) or name.lower() in _PLACES


def _features(scene: Scene, node: Node, reason: Reason) -> Iterator[list[Step]]:
    lacking = tuple(one for one in needed_by(scene.pod) if one not in node.status.declared_features)
    yield [Step(f"upgrade the kubelet of {node.name}: {reason.detail}", (DeclareFeatures(node.name, lacking),))]


def _ports(scene: Scene, node: Node, reason: Reason) -> Iterator[list[Step]]:
    mine = host_ports(scene.pod)
    holders = [
        other.key
        for other in scene.snapshot.pods_on(node.name)
        if any(port.conflicts(theirs) for port in mine for theirs in host_ports(other))
    ]
    other_port = Step(f"use another host port: {reason.detail}", (RelaxPod(scene.pod.key, HOST_PORTS),))
    yield [other_port, *_sent_away(scene, holders)]


def _pod_count(scene: Scene, node: Node, reason: Reason) -> Iterator[list[Step]]:
    columns, slot = scene.snapshot.resources, scene.snapshot.topology.slot(node.name)
    many = int(columns.requested(PODS)[slot]) + 1 - int(columns.allocatable(PODS)[slot])
    text = f"move {'a pod' if many == 1 else f'{many} pods'} off {node.name}: {reason.detail}"
    yield [Step(text, (FreeResource(node.name, PODS, many),))]


def _resource(scene: Scene, node: Node, reason: Reason) -> Iterator[list[Step]]:
    requests, name = scene.attempt.requests, reason.subject
    if isinstance(requests, str):
        return
    columns, slot = scene.snapshot.resources, scene.snapshot.topology.slot(node.name)
    offered, taken = int(columns.allocatable(name)[slot]), int(columns.requested(name)[slot])
    asked, free = requests.amounts.get(name, 0), max(offered - taken, 0)
    steps: list[Step] = []
    if offered >= asked:
        missing = counted(name, asked - free)
        text = f"free {missing} {name} on {node.name}: {reason.detail}"
        steps.append(Step(text, (FreeResource(node.name, name, asked - free),)))
    if free and len(scene.pod.spec.containers) == 1:
        amount = f"{free}m" if name == CPU else str(free)
        text = f"ask for at most {counted(name, free)} {name}" + (f": {reason.detail}" if not steps else "")
        steps.append(Step(text, (LowerRequests(scene.pod.key, name, amount),)))
    yield steps


def _limit(scene: Scene, node: Node, reason: Reason) -> Iterator[list[Step]]:
    """Pods of the node whose volumes count against the limit, the fewest that leave room enough."""
    needed = drivers_of(scene.attempt)
    limits, slot = scene.snapshot.volumes.usage.limits, scene.snapshot.topology.slot(node.name)
    leaving: list[str] = []
    for driver, count in needed.items():
        lacking = count - int(limits.left(driver)[slot])
        for other in scene.snapshot.pods_on(node.name) if lacking > 0 else ():
            brings = drivers_of(scene.attempt, other).get(driver, 0)
            if brings and lacking > 0 and other.key not in leaving:
                leaving.append(other.key)
                lacking -= brings
    if leaving and len(leaving) <= MAX_PODS:
        yield [Step(f"move {', '.join(leaving)} off {node.name}: {reason.detail}", (DeletePods(tuple(leaving)),))]


def _disks(scene: Scene, node: Node, reason: Reason) -> Iterator[list[Step]]:
    yield list(_sent_away(scene, [pod.key for pod in scene.snapshot.pods_on(node.name) if conflict(scene.pod, pod)]))


def _claim_users(scene: Scene, node: Node, reason: Reason) -> Iterator[list[Step]]:
    neighbours = Neighbours(scene.attempt, scene.objects)
    users = [pod.key for claim in neighbours.single_use_claims for pod in neighbours.users(claim)]
    yield list(_sent_away(scene, users))


def _spreading(scene: Scene, node: Node, reason: Reason) -> Iterator[list[Step]]:
    text = f"let the pod's topologySpreadConstraints be ScheduleAnyway: {reason.detail}"
    yield [Step(text, (RelaxPod(scene.pod.key, TOPOLOGY_SPREAD),))]


def _near(scene: Scene, node: Node, reason: Reason) -> Iterator[list[Step]]:
    text = f"let the pod prefer its podAffinity instead of requiring it: {reason.detail}"
    yield [Step(text, (RelaxPod(scene.pod.key, POD_AFFINITY),))]


def _apart(scene: Scene, node: Node, reason: Reason) -> Iterator[list[Step]]:
    text = f"let the pod prefer its podAntiAffinity instead of requiring it: {reason.detail}"
    others = Neighbours(scene.attempt, scene.objects).avoided_on(node)
    yield [Step(text, (RelaxPod(scene.pod.key, POD_ANTI_AFFINITY),)), *_sent_away(scene, others)]


def _unwelcome(scene: Scene, node: Node, reason: Reason) -> Iterator[list[Step]]:
    yield list(_sent_away(scene, Neighbours(scene.attempt, scene.objects).avoiding_on(node)))


def _driver(scene: Scene, node: Node, reason: Reason) -> Iterator[list[Step]]:
    text = f"have driver {reason.subject} register on {node.name}: see whether its node pod runs there"
    yield [Step(text, (InstallDriver(node.name, reason.subject),))]


def _sent_away(scene: Scene, pods: Iterable[str]) -> Iterator[Step]:
    """Pods that could be deleted for this one: few, and none that a controller would make again at once."""
    names = tuple(dict.fromkeys(pods))
    found = [scene.objects.get(POD, key) for key in names]
    if names and len(names) <= MAX_PODS and all(pod is not None and pod.controller is None for pod in found):
        yield Step(data_loss.delete_pods(names), (DeletePods(names),))


_PROPOSERS: Final[Mapping[RejectionCode, Callable[[Scene, Node, Reason], Iterator[list[Step]]]]] = {
    RejectionCode.UNSCHEDULABLE: _cordon,
    RejectionCode.TAINT: _taints,
    RejectionCode.NODE_AFFINITY: _affinity,
    RejectionCode.DECLARED_FEATURES: _features,
    RejectionCode.HOST_PORTS: _ports,
    RejectionCode.POD_COUNT: _pod_count,
    RejectionCode.RESOURCE: _resource,
    RejectionCode.VOLUME_LIMIT: _limit,
    RejectionCode.DISK_IN_USE: _disks,
    RejectionCode.CLAIM_IN_USE: _claim_users,
    RejectionCode.SPREADING: _spreading,
    RejectionCode.SPREADING_LABEL: _spreading,
    RejectionCode.POD_AFFINITY: _near,
    RejectionCode.POD_ANTI_AFFINITY: _apart,
    RejectionCode.EXISTING_POD_ANTI_AFFINITY: _unwelcome,
    RejectionCode.DRIVER_MISSING: _driver,
}
