"""Steps against the reasons that reject one node, except storage. Pure; `search` verifies them.

Never proposed: tolerating or removing a taint of an unhealthy node, and changing topology labels.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mooring.api import well_known
from mooring.api.kinds import NODE, POD
from mooring.api.node_selectors import NODE_NAME_FIELD
from mooring.api.pod_requirements import CPU, PODS
from mooring.api.selectors import Operator, SelectorError
from mooring.api.views.core import Node, Taint
from mooring.explain import node_details
from mooring.explain.cluster_objects import is_health_taint, lost_since, since_text, taint_text
from mooring.explain.inspection import PodDecision
from mooring.explain.remedies import changes, data_loss
from mooring.explain.remedies.search import Choice, Step
from mooring.explain.results import Reason
from mooring.scheduler.framework.interface import RejectionCode
from mooring.scheduler.snapshot.pod_terms import required_of

#: Pods that a step may send away; where more are in the way, another node is nearer.
MAX_PODS: Final = 3

#: Labels of these domains say what and where a node is: changing one makes it a lie.
_FACTS: Final = ("kubernetes.io", "k8s.io")
#: What such labels are called elsewhere.
_PLACES: Final = frozenset({"node", "host", "hostname", "zone", "region", "rack"})


def choices_on(scene: PodDecision, name: str, reason: Reason) -> Iterator[Choice]:
    """The choices about one reason, some of them empty; none where nothing but looking helps."""
    node = scene.objects.get(NODE, name)
    if node is None:
        return
    conflicts = node_details.ConflictingPods(scene.attempt, scene.objects)
    match RejectionCode(reason.code):
        case RejectionCode.UNSCHEDULABLE:
            yield (_uncordon(node),)
        case RejectionCode.TAINT:
            yield from _taints(scene, node)
        case RejectionCode.NODE_AFFINITY:
            yield tuple(_affinity(scene, node, reason))
        case RejectionCode.DECLARED_FEATURES:
            upgrade = changes.DeclareFeatures(name, node_details.missing_features(scene.pod, node))
            yield (Step(f"upgrade the kubelet of {name}: {reason.detail}", (upgrade,)),)
        case RejectionCode.HOST_PORTS:
            other_port = _relax(scene, "hostPorts", f"use another host port: {reason.detail}")
            yield (other_port, *_delete_pods(scene, (pod.key for _, pod in conflicts.port_holders(node))))
        case RejectionCode.POD_COUNT:
            offered, taken = node_details.offered_and_taken(scene.snapshot, name, PODS)
            many = taken + 1 - offered
            text = f"move {'a pod' if many == 1 else f'{many} pods'} off {name}: {reason.detail}"
            yield (Step(text, (changes.FreeResource(name, PODS, many),)),)
        case RejectionCode.RESOURCE:
            yield tuple(_resource(scene, node, reason))
        case RejectionCode.VOLUME_LIMIT:
            yield tuple(_limit(scene, node, reason))
        case RejectionCode.DISK_IN_USE:
            yield tuple(_delete_pods(scene, conflicts.disk_users(node)))
        case RejectionCode.CLAIM_IN_USE:
            yield tuple(_delete_pods(scene, (pod.key for pods in conflicts.claim_users.values() for pod in pods)))
        case RejectionCode.SPREADING | RejectionCode.SPREADING_LABEL:
            text = f"set the pod's topologySpreadConstraints to ScheduleAnyway: {reason.detail}"
            yield (_relax(scene, "topologySpreadConstraints", text),)
        case RejectionCode.POD_AFFINITY:
            text = f"make the pod's podAffinity preferred instead of required: {reason.detail}"
            yield (_relax(scene, "podAffinity", text),)
        case RejectionCode.POD_ANTI_AFFINITY:
            text = f"make the pod's podAntiAffinity preferred instead of required: {reason.detail}"
            others = (key for domain in conflicts.excluded(node) for key in domain.pods)
            yield (_relax(scene, "podAntiAffinity", text), *_delete_pods(scene, others))
        case RejectionCode.EXISTING_POD_ANTI_AFFINITY:
            yield tuple(_delete_pods(scene, (key for domain in conflicts.excluding(node) for key in domain.pods)))
        case RejectionCode.DRIVER_MISSING:
            text = f"have driver {reason.subject} register on {name}: check that its node pod runs there"
            yield (Step(text, (changes.InstallDriver(name, reason.subject),)),)


def _uncordon(node: Node) -> Step:
    return Step(f"kubectl uncordon {node.name}", (changes.Uncordon(node.name),))


def _relax(scene: PodDecision, rule: changes.PodRule, text: str) -> Step:
    return Step(text, (changes.RelaxPod(scene.pod.key, rule),))


def _taints(scene: PodDecision, node: Node) -> Iterator[Choice]:
    untolerated = node_details.untolerated_taints(scene.pod, node)
    if any(is_health_taint(taint) for taint in untolerated):
        yield (Step(recovery(node, scene.objects.moment), (changes.RecoverNode(node.name),)),)
    for taint in untolerated:
        if taint.key == well_known.UNSCHEDULABLE:
            yield (_uncordon(node),)
        elif not is_health_taint(taint):
            toleration = changes.Tolerate(scene.pod.key, taint.key, taint.value, taint.effect)
            yield (
                Step(f"add to the pod a toleration of {taint_text(taint)}", (toleration,)),
                Step(untaint_command(node, taint), (changes.RemoveTaint(node.name, taint.key, taint.effect),)),
            )


def untaint_command(node: Node, taint: Taint) -> str:
    return f"kubectl taint node {node.name} {taint.key}:{taint.effect}-"


def recovery(node: Node, now: float | None) -> str:
    """How a node that is not well comes back."""
    since = lost_since(node, now)
    if since is not None:
        return f"bring {node.name} back, with its disks: it has not been ready {since_text(since)}"
    ailments = ", ".join(dict.fromkeys(one.key.partition("/")[2] for one in node.spec.taints if is_health_taint(one)))
    return f"repair {node.name}: it reports {ailments or 'that it is not ready'}"


def _affinity(scene: PodDecision, node: Node, reason: Reason) -> Iterator[Step]:
    if labels := _missing_labels(scene, node):
        words = " ".join(f"{key}={value}" for key, value in labels.items())
        yield Step(f"kubectl label node {node.name} {words}", (changes.LabelNode(node.name, labels),))
    yield _relax(scene, "nodeAffinity", f"change the pod's node affinity: {reason.detail}")


def _missing_labels(scene: PodDecision, node: Node) -> dict[str, str]:
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


def _resource(scene: PodDecision, node: Node, reason: Reason) -> Iterator[Step]:
    requests, name = scene.attempt.requests, reason.subject
    if isinstance(requests, str):
        return
    offered, taken = node_details.offered_and_taken(scene.snapshot, node.name, name)
    asked, free = requests.amounts.get(name, 0), max(offered - taken, 0)
    if offered >= asked:
        text = f"free {node_details.counted(name, asked - free)} {name} on {node.name}: {reason.detail}"
        yield Step(text, (changes.FreeResource(node.name, name, asked - free),))
    if free and len(scene.pod.spec.containers) == 1:
        amount = f"{free}m" if name == CPU else str(free)
        text = f"request at most {node_details.counted(name, free)} {name}" + (
            "" if offered >= asked else f": {reason.detail}"
        )
        yield Step(text, (changes.LowerRequests(scene.pod.key, name, amount),))


def _limit(scene: PodDecision, node: Node, reason: Reason) -> Iterator[Step]:
    """Pods of the node whose volumes count against the limit, the fewest that leave room enough."""
    limits, slot = scene.snapshot.volumes.limits, scene.snapshot.topology.slot(node.name)
    leaving: list[str] = []
    for driver, count in node_details.drivers_of(scene.attempt, scene.pod).items():
        lacking = count - int(limits.left(driver)[slot])
        for other in scene.snapshot.pods_on(node.name) if lacking > 0 else ():
            brings = node_details.drivers_of(scene.attempt, other)[driver]
            if brings and lacking > 0 and other.key not in leaving:
                leaving.append(other.key)
                lacking -= brings
    if leaving and len(leaving) <= MAX_PODS:
        yield Step(f"move {', '.join(leaving)} off {node.name}: {reason.detail}", (changes.DeletePods(tuple(leaving)),))


def _delete_pods(scene: PodDecision, pods: Iterable[str]) -> Iterator[Step]:
    """Pods that could be deleted for this one: few, and none that a controller would make again at once."""
    names = tuple(dict.fromkeys(pods))
    found = [scene.objects.get(POD, key) for key in names]
    if names and len(names) <= MAX_PODS and all(pod is not None and pod.controller is None for pod in found):
        yield Step(data_loss.delete_pods(names), (changes.DeletePods(names),))
