"""May this pod run on this node? What a kubelet checks once, before it does anything for a pod.

Pure. A refusal is final: the pod fails, and its owner must make another. The scheduler checked the same before, but
it is not the only one who can put a pod on a node, and facts change. Volumes are looked at afterwards, in `mounting`:
what is wrong with them may still come right.
"""

from collections.abc import Iterable
from typing import NamedTuple

from mooring.api import node_selector, quantity
from mooring.api.node_selector import NODE_NAME_FIELD
from mooring.api.pod_requests import PODS, requests_of, whole
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod


class Refusal(NamedTuple):
    reason: str
    message: str


def refusal(pod: Pod, node: Node, *, others: Iterable[Pod]) -> Refusal | None:
    """Why the node will not have the pod; `others` are the pods that have their place there already."""
    return _misplaced(pod, node) or _lacking(pod, node, others)


def _misplaced(pod: Pod, node: Node) -> Refusal | None:
    labels = node.metadata.labels
    fits = all(labels.get(key) == value for key, value in pod.spec.node_selector.items())
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is not None:
        selector = node_selector.from_view(required.node_selector_terms)
        fits = fits and selector.matches(labels, fields={NODE_NAME_FIELD: node.name})
    if fits:
        return None
    return Refusal("NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector")


def _lacking(pod: Pod, node: Node, others: Iterable[Pod]) -> Refusal | None:
    used: dict[str, int] = {}
    for other in others:
        for name, amount in _needs(other).items():
            used[name] = used.get(name, 0) + amount
    for name, amount in _needs(pod).items():
        offered = whole(name, quantity.to_milli(node.status.allocatable.get(name, 0)))
        taken = used.get(name, 0)
        if amount > offered - taken:
            figures = f"requested: {amount}, used: {taken}, capacity: {offered}"
            return Refusal(f"OutOf{name}", f"Node didn't have enough resource: {name}, {figures}")
    return None


def _needs(pod: Pod) -> dict[str, int]:
    return {PODS: 1, **requests_of(pod).amounts}
