"""Explains a node: free resources, volumes, capacity, pending pods that do not fit, and pods lost with its zone.

`zone_loss` runs only filters that do not depend on other pods (node affinity, taints, volumes), so a pod counts as safe
if it could run elsewhere with enough resources; `mooring simulate` also checks resources.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mooring.api import well_known
from mooring.api.kinds import NODE, POD, STORAGE_CAPACITY, VOLUME
from mooring.api.pod_requirements import CPU, FORBIDDING, MEMORY, PODS
from mooring.api.views.core import Node
from mooring.api.views.pods import Pod
from mooring.explain import capacity
from mooring.explain.cluster_objects import is_health_taint, lost_since, taint_text
from mooring.explain.cluster_view import ClusterView
from mooring.explain.node_details import counted, offered_and_taken, volume_limits
from mooring.explain.pod import against_node
from mooring.explain.remedies import data_loss
from mooring.explain.remedies.nodes import recovery, untaint_command
from mooring.explain.results import DriverUse, NodeReport, Reason, ResourceUse
from mooring.scheduler.framework.interface import CycleState, Filter, PreFilter
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.topology import EMPTY, NodeSet, reaches

_OF_VOLUMES: Final = frozenset({"VolumeBinding", "VolumeZone"})
_LASTING: Final = _OF_VOLUMES | {"NodeAffinity", "TaintToleration"}


def zone_loss(pods: Iterable[Pod], zone: str, snapshot: Snapshot) -> str:
    """The pods that could run nowhere without the zone, in a sentence; "" where there are none.

    Pods that can go nowhere even now depend on nothing that could be lost.
    """
    there = snapshot.topology.by_value(well_known.ZONE).get(zone, EMPTY)
    by_volumes: list[str] = []
    others: list[str] = []
    for pod in pods:
        nodes, of_volumes = _reach(pod, snapshot)
        if nodes and not nodes & ~there:
            (others if of_volumes & ~there else by_volumes).append(pod.name)
    parts: list[str] = []
    if by_volumes:
        whose = "its" if len(by_volumes) == 1 else "their"
        parts.append(f"{_listed(by_volumes)} cannot run anywhere else: {whose} volumes are only there")
    if others:
        parts.append(f"{_listed(others)} cannot run anywhere else: no other node is suitable")
    return f"if zone {zone} is lost, {'; '.join(parts)}." if parts else ""


def _reach(pod: Pod, snapshot: Snapshot) -> tuple[NodeSet, NodeSet]:
    """Where the pod could be, were it not for other pods; and as far as volumes alone decide."""
    cycle = CycleState(pod, snapshot)
    nodes = of_volumes = snapshot.nodes
    for plugin in DEFAULT.for_pod(pod).plugins:
        if plugin.name in _LASTING:
            rejected = _rejected(plugin, cycle)
            nodes &= ~rejected
            if plugin.name in _OF_VOLUMES:
                of_volumes &= ~rejected
    return nodes, of_volumes


def _rejected(plugin: object, cycle: CycleState) -> NodeSet:
    if isinstance(plugin, PreFilter) and plugin.prefilter(cycle) is not None:
        return cycle.snapshot.nodes
    rejected = EMPTY
    for rejection in plugin.filter(cycle) if isinstance(plugin, Filter) else ():
        rejected |= rejection.nodes
    return rejected


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def explain_node(view: ClusterView, node: Node) -> NodeReport:
    """What a node can take, and what keeps pending pods from it."""
    objects = view.objects
    pending: dict[str, tuple[Reason, ...]] = {}
    for pod in sorted(objects.of(POD), key=lambda one: one.key):
        if not pod.spec.node_name and not pod.finished:
            pending[pod.key] = against_node(view, pod, node.name)
    snapshot, _ = view.as_listed
    drivers = [
        DriverUse(driver, limit - left, limit) for driver, limit, left in volume_limits(snapshot, objects, node.name)
    ]
    for_all = _against(node)
    against = [*for_all, *(f"{one.driver} has reached its volume limit" for one in drivers if one.used >= one.limit)]
    refused = sum(bool(reasons) for reasons in pending.values())
    waiting = f"; {refused} of {len(pending)} pending pods do not fit there" if pending else ""
    accepted = "no pods" if for_all else "only pods without volumes"
    state = f"accepts {accepted}: {', '.join(against)}" if against else "accepts pods"
    here = [pod for pod in objects.of(POD) if pod.spec.node_name == node.name and not pod.finished]
    here.sort(key=lambda pod: pod.key)
    loss = zone_loss(here, node.metadata.labels.get(well_known.ZONE, ""), snapshot)
    return NodeReport(
        node.name,
        f"{node.name} {state}{waiting}.",
        not against,
        tuple(_resources(snapshot, node)),
        tuple(drivers),
        tuple(_own_volumes(view, node)),
        capacity.capacity_at_node(objects.of(STORAGE_CAPACITY), node.metadata.labels),
        pending,
        notes=(loss,) if loss else (),
        remedy_texts=tuple(_remedy_texts(node, objects.moment)),
    )


def _against(node: Node) -> list[str]:
    """What keeps every pod off a node that does not ask for it."""
    said = ["it is cordoned"] if node.spec.unschedulable else []
    said += (f"taint {taint.key}:{taint.effect}" for taint in node.spec.taints if taint.effect in FORBIDDING)
    ready = next((one for one in node.status.conditions if one.type == "Ready"), None)
    if ready is not None and ready.status != "True":
        said.append(f"it is not ready since {ready.last_transition_time}: {ready.message or ready.reason}")
    return said


def _remedy_texts(node: Node, now: float | None) -> Iterator[str]:
    is_lost = lost_since(node, now) is not None
    if is_lost or any(is_health_taint(taint) for taint in node.spec.taints):
        yield recovery(node, now)
    if node.spec.unschedulable:
        yield f"kubectl uncordon {node.name}"
    for taint in node.spec.taints:
        if taint.effect in FORBIDDING and taint.key != well_known.UNSCHEDULABLE and not is_health_taint(taint):
            yield f"add to pods a toleration of {taint_text(taint)}, or {untaint_command(node, taint)}"
    if is_lost:
        yield data_loss.give_up_node(node.name)


def _resources(snapshot: Snapshot, node: Node) -> Iterator[ResourceUse]:
    for name in dict.fromkeys((CPU, MEMORY, PODS, *node.status.allocatable)):
        offered, taken = offered_and_taken(snapshot, node.name, name)
        if offered or taken:
            yield ResourceUse(name, counted(name, taken), counted(name, offered))


def _own_volumes(view: ClusterView, node: Node) -> Iterator[str]:
    others = {one.name: one.metadata.labels for one in view.objects.of(NODE) if one.name != node.name}
    for volume in sorted(view.objects.of(VOLUME), key=lambda one: one.name):
        if volume.required_affinity is None or not reaches(node.name, node.metadata.labels, volume):
            continue
        if not any(reaches(name, labels, volume) for name, labels in others.items()):
            yield volume.name
