"""May this pod run on this node? What a kubelet checks once, before it does anything for a pod.

Pure. A refusal is final: the pod fails, and its owner must make another. The scheduler checked the same before, but
it is not the only one who can put a pod on a node, and facts change. Volumes are looked at afterwards, in `mounting`:
what is wrong with them may still come right.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mooring.api import node_selector, quantity
from mooring.api.node_selector import NODE_NAME_FIELD
from mooring.api.views.meta import Amount
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod


class Refusal(NamedTuple):
    reason: str
    message: str


#: Amounts by resource: CPU in thousandths, everything else in whole units.
Needs = Mapping[str, int]


def needs_of(pod: Pod) -> Needs:
    """The sum over containers, raised to what any init container needs alone, plus overhead."""
    total: dict[str, int] = {"pods": 1}
    for container in pod.spec.containers:
        for name, amount in container.resources.requests.items():
            total[name] = total.get(name, 0) + _counted(name, amount)
    for container in pod.spec.init_containers:
        for name, amount in container.resources.requests.items():
            total[name] = max(total.get(name, 0), _counted(name, amount))
    for name, amount in pod.spec.overhead.items():
        total[name] = total.get(name, 0) + _counted(name, amount)
    return total


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
        for name, amount in needs_of(other).items():
            used[name] = used.get(name, 0) + amount
    for name, amount in needs_of(pod).items():
        offered = _counted(name, node.status.allocatable.get(name, 0))
        taken = used.get(name, 0)
        # Asking for nothing is always fine, even of what the node does not have.
        if amount and amount > offered - taken:
            figures = f"requested: {amount}, used: {taken}, capacity: {offered}"
            return Refusal(f"OutOf{name}", f"Node didn't have enough resource: {name}, {figures}")
    return None


def _counted(name: str, amount: Amount) -> int:
    return quantity.to_milli(amount) if name == "cpu" else quantity.to_bytes(amount)
