"""One node explained: what it has left, which volumes and how much storage are there, and which waiting pods it does
not take, with why."""

from collections.abc import Iterator

from mooring.api import keys
from mooring.api.kinds import CSI_NODE, NODE, POD, STORAGE_CAPACITY, VOLUME
from mooring.api.pod_requests import CPU, MEMORY, PODS
from mooring.api.views.node import Node
from mooring.explain import data_loss, rooms
from mooring.explain.cluster_changes import taint_words
from mooring.explain.figures import counted
from mooring.explain.lost_nodes import is_health_taint, lost_since
from mooring.explain.node_remedies import recovery
from mooring.explain.pod import against_node
from mooring.explain.situation import Situation
from mooring.explain.verdicts import DriverUse, NodeStanding, Reason, ResourceUse
from mooring.scheduler.failure_domains import losses
from mooring.volumes.affinity import reaches

_FORBIDDING = frozenset({"NoSchedule", "NoExecute"})


def explain_node(situation: Situation, node: Node) -> NodeStanding:
    objects = situation.objects
    pending: dict[str, tuple[Reason, ...]] = {}
    for pod in sorted(objects.of(POD), key=lambda one: one.key):
        if not pod.spec.node_name and not pod.finished:
            pending[pod.key] = against_node(situation, pod, node.name)
    drivers = tuple(_drivers(situation, node))
    against = [*_against(node), *(f"{one.driver} takes no more volumes" for one in drivers if _is_full(one))]
    refused = sum(bool(reasons) for reasons in pending.values())
    waiting = f"; {refused} of {len(pending)} waiting pods do not fit there" if pending else ""
    state = f"takes no pods: {', '.join(against)}" if _against(node) else "takes pods"
    if against and not _against(node):
        state = f"takes pods without volumes: {', '.join(against)}"
    return NodeStanding(
        node.name,
        f"{node.name} {state}{waiting}.",
        not against,
        tuple(_resources(situation, node)),
        drivers,
        tuple(_own_volumes(situation, node)),
        rooms.at_node(objects.of(STORAGE_CAPACITY), node.metadata.labels),
        pending,
        notes=tuple(_lost_with_its_zone(situation, node)),
        helps=tuple(_helps(node, objects.moment)),
    )


def _lost_with_its_zone(situation: Situation, node: Node) -> Iterator[str]:
    """Of the pods here, those that could go nowhere else: what nobody sees before it happens."""
    snapshot, _ = situation.as_listed
    here = [pod for pod in situation.objects.of(POD) if pod.spec.node_name == node.name and not pod.finished]
    here.sort(key=lambda pod: pod.key)
    for loss in losses(here, snapshot):
        if loss.value == node.metadata.labels.get(keys.ZONE):
            yield f"{loss}."


def _is_full(use: DriverUse) -> bool:
    return use.limit is not None and use.used >= use.limit


def _against(node: Node) -> list[str]:
    """What keeps every pod off a node that does not ask for it."""
    said = ["it is cordoned"] if node.spec.unschedulable else []
    said += (f"taint {taint.key}:{taint.effect}" for taint in node.spec.taints if taint.effect in _FORBIDDING)
    ready = next((one for one in node.status.conditions if one.type == "Ready"), None)
    if ready is not None and ready.status != "True":
        said.append(f"it is not ready since {ready.last_transition_time}: {ready.message or ready.reason}")
    return said


def _helps(node: Node, now: float | None) -> Iterator[str]:
    if _is_unwell(node, now):
        yield recovery(node, now)
    if node.spec.unschedulable:
        yield f"kubectl uncordon {node.name}"
    for taint in node.spec.taints:
        if taint.effect in _FORBIDDING and taint.key != keys.UNSCHEDULABLE and not is_health_taint(taint):
            yield (
                f"let pods tolerate {taint_words(taint)}, or kubectl taint node {node.name} {taint.key}:{taint.effect}-"
            )
    if lost_since(node, now) is not None:
        yield data_loss.give_up_node(node.name)


def _is_unwell(node: Node, now: float | None) -> bool:
    return lost_since(node, now) is not None or any(is_health_taint(taint) for taint in node.spec.taints)


def _resources(situation: Situation, node: Node) -> Iterator[ResourceUse]:
    snapshot, _ = situation.as_listed
    slot = snapshot.topology.slot(node.name)
    columns = snapshot.resources
    for name in dict.fromkeys((CPU, MEMORY, PODS, *node.status.allocatable)):
        taken, offered = int(columns.requested(name)[slot]), int(columns.allocatable(name)[slot])
        if offered or taken:
            yield ResourceUse(name, counted(name, taken), counted(name, offered))


def _drivers(situation: Situation, node: Node) -> Iterator[DriverUse]:
    """Those that limit their volumes; how many others have nobody needs to count."""
    snapshot, _ = situation.as_listed
    listed = situation.objects.get(CSI_NODE, node.name)
    limits = snapshot.volumes.usage.limits
    slot = snapshot.topology.slot(node.name)
    for driver in listed.spec.drivers or () if listed is not None else ():
        if driver.allocatable is not None and (limit := driver.allocatable.count) is not None:
            yield DriverUse(driver.name, limit - int(limits.left(driver.name)[slot]), limit)


def _own_volumes(situation: Situation, node: Node) -> Iterator[str]:
    others = {one.name: one.metadata.labels for one in situation.objects.of(NODE) if one.name != node.name}
    for volume in sorted(situation.objects.of(VOLUME), key=lambda one: one.name):
        if volume.required_affinity is None or not reaches(node.name, node.metadata.labels, volume):
            continue
        if not any(reaches(name, labels, volume) for name, labels in others.items()):
            yield volume.name
