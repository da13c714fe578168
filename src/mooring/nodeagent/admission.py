"""May this pod run on this node? What a kubelet checks once, before it does anything for a pod.

Pure. A refusal is final: the pod fails, and its owner must make another. The scheduler checked the same before, but
it is not the only one who can put a pod on a node, and facts change. Order and texts are the kubelet's. Volumes are
looked at afterwards, in `mounting`: what is wrong with them may still come right.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from mooring.api import node_selector, quantity
from mooring.api.node_selector import NODE_NAME_FIELD
from mooring.api.pod_requests import whole
from mooring.api.tolerations import tolerated
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.nodeagent.places import Places, host_ports, needs

_NO_EXECUTE: Final = "NoExecute"


class Refusal(NamedTuple):
    reason: str
    message: str


def admitted(pod: Pod, node: Node, places: Places) -> Refusal | None:
    """Give the pod its place, or say why the node will not have it beside those that have theirs."""
    wanted = needs(pod)
    refused = refusal(pod, node, places, wanted)
    if refused is None:
        places.take(pod, wanted)
    return refused


def refusal(pod: Pod, node: Node, places: Places, wanted: Mapping[str, int] | None = None) -> Refusal | None:
    """Why the node will not have the pod beside those that have their places; None if it will."""
    return (
        _lacking(needs(pod) if wanted is None else wanted, node, places.used(node.name))
        or _misplaced(pod, node)
        or _clashing(pod, node, places)
        or _repelled(pod, node)
    )


def _lacking(wanted: Mapping[str, int], node: Node, used: Mapping[str, int]) -> Refusal | None:
    for name, amount in wanted.items():
        if "/" in name and name not in node.status.allocatable:
            # SEEN: a resource of the cluster rather than of nodes; the kubelet leaves those to whoever counts them.
            continue
        offered = whole(name, quantity.to_milli(node.status.allocatable.get(name, 0)))
        taken = used.get(name, 0)
        if amount > offered - taken:
            figures = f"requested: {amount}, used: {taken}, capacity: {offered}"
            return Refusal(f"OutOf{name}", f"Node didn't have enough resource: {name}, {figures}")
    return None


def _misplaced(pod: Pod, node: Node) -> Refusal | None:
    labels = node.metadata.labels
    fits = all(labels.get(key) == value for key, value in pod.spec.node_selector.items())
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is not None:
        selector = node_selector.from_view(required.node_selector_terms)
        fits = fits and selector.matches(labels, fields={NODE_NAME_FIELD: node.name})
    return None if fits else _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")


def _clashing(pod: Pod, node: Node, places: Places) -> Refusal | None:
    for wanted in host_ports(pod):
        if any(wanted.clashes(port) for ports in places.ports(node.name) for port in ports):
            return _failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    return None


def _repelled(pod: Pod, node: Node) -> Refusal | None:
    """Only taints that also end running pods count: the others are for whoever chooses nodes."""
    for taint in node.spec.taints:
        if taint.effect == _NO_EXECUTE and not tolerated(pod.spec.tolerations, taint):
            return _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def _failed(predicate: str, why: str) -> Refusal:
    return Refusal(predicate, f"Predicate {predicate} failed: {why}")
